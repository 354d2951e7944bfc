"""How fast are person swapping and the linkage attack on workload S, and who is found?"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from benchmarks.figures import Reading, timed
from headcount.arrays import Codes, Flags, Ints, Ints32
from headcount.attacks.linkage import EXACT, link
from headcount.evaluation.linkage_risk import IDENTITY_RULES, linkage_risk
from headcount.evaluation.representation import minority_rows
from headcount.mechanisms.swapping.persons import (
    Pool,
    exchange_everywhere,
    swap_area,
    swap_everywhere,
)
from headcount.mechanisms.swapping.similar import Kind, PartnerRule
from headcount.population.workload_s import workload_s

NAMES = ("age", "sex", "race", "hispanic", "household_size", "tenure")
KINDS: tuple[tuple[Kind, int], ...] = (
    ("random", 0),
    ("pseudo-random", 0),
    ("similar", 0),
    ("similar", 1),
    ("similar", 3),
)
WIDTH = 2

QUICK = {"households": 20_000}


def measure(households: int = 1_000_000) -> list[Reading]:
    """Swap one block group, then every block group; attack all released rows at once."""
    people = workload_s(households=households)
    rows: Codes = {name: np.asarray(people.of_person(name)) for name in NAMES}
    area = people.geography.ancestors("block_group")[people.block][people.dwelling]
    rng = np.random.default_rng(1)
    warm = {name: column[:3000] for name, column in rows.items()}
    swap_everywhere(warm, np.arange(3000) % 3, PartnerRule(), rate=1, rng=rng)  # compiles
    readings = _one_area(rows, area, rng)
    few = minority_rows(2 * rows["race"] + rows["hispanic"], area)
    for kind, k in KINDS:
        label = f"{k}-similar" if kind == "similar" else kind
        for rate in (Fraction(1, 20), Fraction(1)):
            likeness = PartnerRule(kind=kind, k=k)
            swap, _, cpu = timed(partial(swap_everywhere, rows, area, likeness, rate=rate, rng=rng))
            done = swap.report
            readings.append(
                Reading(
                    f"{label}, {float(100 * rate):.0f} % of every block group: swap",
                    cpu,
                    "CPU s",
                    f"{done.people:,} people, {done.swapped / done.people:.4%} swapped, "
                    f"{done.unswappable:,} unswappable",
                )
            )
        released = exchange_everywhere(rows, swap)
        readings += _attack(label, rows, released, area, few, swap.origin(len(area)))
    return readings


def _one_area(rows: Codes, area: Ints32, rng: np.random.Generator) -> list[Reading]:
    """The swap that a study repeats: one block group against an index of everyone else."""
    inside = area == np.bincount(area).argmax()
    here = {name: column[inside] for name, column in rows.items()}
    others = {name: column[~inside] for name, column in rows.items()}
    pool, _, indexed = timed(lambda: Pool.of(others, PartnerRule(kind="similar", k=3), area=here))
    swap_area(here, pool, rate=1, rng=rng)  # compiles
    _, _, cpu = timed(lambda: swap_area(here, pool, rate=1, rng=rng))
    note = f"{int(inside.sum()):,} people against {pool.size:,}"
    return [
        Reading("3-similar, index of the pool", indexed, "CPU s"),
        Reading("3-similar, 100 % of one block group", cpu, "CPU s", note),
    ]


def _attack(
    label: str,
    rows: Codes,
    released: Codes,
    area: Ints32,
    few: Flags,
    origin: Ints,
) -> list[Reading]:
    place = {"block_group": area}
    links, _, cpu = timed(
        lambda: link(
            {**rows, **place}, {**released, **place}, age_width=WIDTH, exact=(*EXACT, *place)
        )
    )
    found = []
    for rule in IDENTITY_RULES:
        everyone, minority = linkage_risk(
            links,
            rule=rule,
            secret=rows["hispanic"],
            released_secret=released["hispanic"],
            minority=few,
            origin=origin,
        )
        found.append(f"{rule} {everyone.percent:.2f} % ({minority.percent:.2f} % of minorities)")
    return [
        Reading(
            f"{label}, 100 %: linkage attack, {WIDTH} years",
            cpu,
            "CPU s",
            f"{len(area):,} rows; confirmed by " + ", ".join(found),
        )
    ]
