"""Does TopDown err on real tracts as the Bureau's run of its 2020 system did?

Its preset of 2020 runs on tracts of which both the tabulated people and the Bureau's protected ones
are at hand (``tracts_2020``). Errors of single blocks and of totals must be those of the
Bureau; the same program with one pass must fail the check of totals (``own_totals``).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Reading
from benchmarks.own_totals import (
    one_pass_must_fail,
    own_totals,
    root_mean_square,
    totals_errors,
)
from benchmarks.product_2020 import one_pass, preset_2020
from benchmarks.tracts_2020 import CELLS, TractPair, read_pairs
from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError
from headcount.mechanisms import protect
from headcount.topdown.mechanism import TopDown

RUNS = 20
HIGHEST = "tract"
"""No bypass above it: made-up counties and states are not to lend the tracts their shares."""
BANDS = {"1-9 people": (1, 9), "10-99 people": (10, 99), "100 people and more": (100, 10**9)}
LIMITS = {
    "block totals: mean absolute error": 5.0,
    "block totals: root mean square error": 5.0,
    "blocks of 1-9 people: mean absolute error": 7.0,
    "blocks of 10-99 people: mean absolute error": 7.0,
    "block cells: L1 error of a block": 4.0,
}
"""How far, in per cent, a figure may be from the Bureau's."""
TRACTS = "tract totals: mean absolute error"
DEVIATIONS = 2.0
"""How far, in standard deviations of a run, that of tracts may be: there are few of them."""
CHECKED = ("tract", "block_group")
"""Levels whose totals are checked, made-up units too; of two counties one is the other's rest."""


def measure(*, directory: Path, replicates: int = RUNS) -> list[Reading]:
    """Errors of the mean run beside the Bureau's, for each pair of files; then with one pass."""
    if replicates < 2:
        raise ConfigError(
            "benchmarks redistricting-2020",
            place="--replicates",
            found=str(replicates),
            expected="2 or more",
        )
    return [one for pair in read_pairs(directory) for one in compare(pair, replicates)]


def compare(pair: TractPair, runs: int) -> list[Reading]:
    """All figures of one pair of files."""
    mechanism, truth = preset_2020(bypass=HIGHEST), pair.data.counts
    owned = own_totals(mechanism, truth.schema, truth.geography, levels=CHECKED)
    ours, errors = _runs(pair, mechanism, runs)
    at_once, errors_at_once = _runs(pair, one_pass(mechanism), runs)
    return [
        *_described(pair, runs),
        *_beside(ours, figures(pair, pair.block, pair.tract)),
        *(found.reading() for found in totals_errors(owned, errors)),
        one_pass_must_fail(totals_errors(owned, errors_at_once)),
        *_shown(at_once, "with one pass, "),
    ]


def figures(pair: TractPair, block: Ints, tract: Ints) -> dict[str, float]:
    """Errors of released counts (real blocks x cells) and totals of tracts."""
    truth = pair.truth
    size, error = truth.sum(axis=1), (block - truth).sum(axis=1)
    of_tract = tract - np.bincount(pair.of_tract, size, minlength=len(tract))
    found = {
        "block totals: mean absolute error": _mean(np.abs(error)),
        "block totals: root mean square error": root_mean_square(error),
    }
    for band, (low, high) in BANDS.items():
        inside = error[(size >= low) & (size <= high)]
        if len(inside):
            found[f"blocks of {band}: mean absolute error"] = _mean(np.abs(inside))
            found[f"blocks of {band}: bias"] = _mean(inside)
    return found | {
        "block cells: L1 error of a block": _mean(np.abs(block - truth).sum(axis=1)),
        "blocks released empty": 100 * _mean(block.sum(axis=1) == 0),
        TRACTS: _mean(np.abs(of_tract)),
        "tract totals: root mean square error": root_mean_square(of_tract),
    }


def _runs(pair: TractPair, mechanism: TopDown, runs: int) -> tuple[dict[str, Floats], list[Ints]]:
    """Of each figure those of all runs; and the errors of all blocks, made-up ones too."""
    found, errors = [], []
    for seed in range(runs):
        table: Any = protect(pair.data, mechanism, seed=seed).as_counts().tables["block"]
        errors.append(np.asarray(table.sum(axis=1), dtype=np.int64) - pair.data.counts.totals())
        block = np.asarray(table[pair.real, :CELLS].toarray(), dtype=np.int64)
        tract = np.bincount(pair.of_tract, block.sum(axis=1)).astype(np.int64)
        found.append(figures(pair, block, tract))
    return {name: np.array([one[name] for one in found]) for name in found[0]}, errors


def _described(pair: TractPair, runs: int) -> list[Reading]:
    blocks, tracts = len(pair.truth), len(pair.tract)
    note = f"{tracts} tracts, {blocks:,} blocks; {runs} runs with two passes, and with one"
    return [Reading(pair.name, int(pair.truth.sum()), "people", note)]


def _beside(ours: Mapping[str, Floats], theirs: Mapping[str, float]) -> list[Reading]:
    """Each figure with its distance from the Bureau's, where there is a limit."""
    readings = []
    for name, runs in ours.items():
        mean, sd, bureau = runs.mean(), runs.std(ddof=1), theirs[name]
        said = f"ours {mean:.3g} (sd of a run {sd:.2g}), Bureau {bureau:.3g}"
        if name in LIMITS:
            away = 100 * abs(mean - bureau) / bureau if bureau else inf
            unit, limit = "% from the Bureau's", LIMITS[name]
        elif name == TRACTS:
            away, limit = _deviations(mean - bureau, sd), DEVIATIONS
            unit = "sd of a run from the Bureau's"
        else:
            readings.append(Reading(name, mean, _unit(name), said))
            continue
        readings.append(Reading(name, away, unit, said, at_most=limit))
    return readings


def _deviations(apart: float, sd: float) -> float:
    """How many standard deviations two numbers are apart: no end of them where all runs agree."""
    if sd:
        return abs(apart) / sd
    return inf if apart else 0.0


def _shown(ours: Mapping[str, Floats], prefix: str) -> list[Reading]:
    """The figures that have limits, without them."""
    return [
        Reading(prefix + name, runs.mean(), _unit(name), f"sd of a run {runs.std(ddof=1):.2g}")
        for name, runs in ours.items()
        if name in (*LIMITS, TRACTS)
    ]


def _unit(name: str) -> str:
    return "% of blocks" if name == "blocks released empty" else "people"


def _mean(values: Ints | Floats) -> float:
    return float(np.mean(values))
