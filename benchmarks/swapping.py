"""How fast is household swapping on workload S; does it keep rate and invariants?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.figures import Reading, peak_gib, timed
from headcount.mechanisms import protect
from headcount.mechanisms.swapping.households import Swapped, SwapReport
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.risk import Risk
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount.noise import KeyedNoise, RunKey
from headcount.population.from_households import to_population
from headcount.tabulate import Counts, Tabulated
from headcount_papers.workload_s import workload_s

FULL = 1_000_000
RISK = Risk(
    attributes=("race", "hispanic"), levels=("county", "tract", "block_group", "block"), k=3
)

PEERS: Mapping[str, str] = {
    "LO": "sdcMicro 5.8.1 at 1,000,000 households, 5 %: 31.2 CPU s, 1.06 GB",
    "HI": "sdcMicro 5.8.1 at 50 %, without noise: stopped unfinished after 856 CPU s",
    "k = 3": "sdcMicro 5.8.1: 134.6 CPU s, and 10.9 % swapped where 5 % were asked for",
    "k = 3, floor": "all at risk are swapped, whatever the rate",
    "targeted, k = 3": "the rules of sdcMicro: 134.6 CPU s, 10.9 % swapped, 95 % left the county",
}

Swapper = HouseholdSwapping | TargetedSwapping


def mechanisms() -> dict[str, Swapper]:
    """The two presets; 5 % with those at risk first, by our rules and by sdcMicro's."""
    targeted = HouseholdSwapping(rate=Fraction(1, 20), risk=RISK)
    return {
        "LO": HouseholdSwapping.from_preset("lo"),
        "HI": HouseholdSwapping.from_preset("hi"),
        "k = 3": targeted,
        "k = 3, floor": replace(targeted, rate_is_floor=True),
        "targeted, k = 3": TargetedSwapping(
            rate=Fraction(1, 20), risk_variables=RISK.attributes, hierarchy=RISK.levels, k=RISK.k
        ),
    }


QUICK = {"households": 20_000}


def measure(*, households: int = FULL) -> list[Reading]:
    """Readings for each mechanism; loops are compiled before the clock starts."""
    small = counted(1_000)
    for mechanism in mechanisms().values():
        protect(small, mechanism, _noise())
    data = counted(households)
    readings = []
    for label, mechanism in mechanisms().items():
        readings += _readings(label, mechanism, data)
    note = "the workload itself included"
    return [
        *readings,
        Reading("peak memory of the process", peak_gib(), "GiB", note),
    ]


def counted(households: int) -> Tabulated:
    """Workload S as race x Hispanic counts, with its households."""
    return Tabulated.of(
        to_population(workload_s(households=households), attributes=("race", "hispanic"))
    )


def _noise() -> KeyedNoise:
    return KeyedNoise(RunKey.from_seed(1), "swapping", bytes(32), bytes(32))


def _readings(label: str, mechanism: Swapper, data: Tabulated) -> list[Reading]:
    run = partial(protect, data, mechanism, _noise())
    made, wall, cpu = timed(run)
    again, counts = run(), data.counts
    assert data.population.households is not None
    swapped: Swapped = mechanism.swap(data.population.households, np.random.default_rng(1))
    report = swapped.report
    leaf = counts.geography.leaf
    one, other = made.table(leaf), again.table(leaf)
    same = all(
        getattr(one, part).tobytes() == getattr(other, part).tobytes()
        for part in ("data", "indices", "indptr")
    )
    return [
        Reading(
            f"{label}: swap and count again",
            cpu,
            "CPU s",
            f"{wall:.1f} s wall; a peer on another machine: {PEERS[label]}",
        ),
        Reading(f"{label}: same seed, same bytes", float(same), "(1 = yes)"),
        *_rate(label, report),
        *_where(label, report, counts),
    ]


def _rate(label: str, report: SwapReport) -> list[Reading]:
    off = abs(report.swapped - Fraction(report.asked_rate) * report.households)
    asked = f"{100 * float(Fraction(report.asked_rate)):g} % asked, {report.unpaired} unpaired"
    readings = [
        Reading(f"{label}: households swapped", 100 * report.rate, "%", asked),
        Reading(f"{label}: off the rate by", float(off), "households"),
    ]
    if (risk := report.at_risk) is not None:
        total = risk.swapped + risk.left
        readings += [
            Reading(
                f"{label}: at risk and swapped",
                100 * risk.swapped / max(total, 1),
                "%",
                f"of {total:,} at risk; {risk.left:,} left",
            ),
            Reading(
                f"{label}: uniques swapped",
                100 * risk.uniques_swapped / max(risk.uniques, 1),
                "%",
                f"of {risk.uniques:,}",
            ),
        ]
    return readings


def _where(label: str, report: SwapReport, counts: Counts) -> list[Reading]:
    levels = counts.geography.levels
    readings = [
        Reading(
            f"{label}: partners within the same {level}",
            100 * report.share_within(level, levels=levels),
            "%",
        )
        for level in ("tract", "county", "state")
    ]
    for kept in report.kept:
        if kept.level in ("block", "tract"):
            share = 100 * kept.changed / kept.units
            what = f"{label}: {kept.level}s with other {kept.count}"
            readings.append(Reading(what, share, "%"))
    return readings
