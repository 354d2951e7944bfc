"""Slow attacks on some chains of one draw: all sums at once, whole numbers, and people rebuilt.

Small counts of the smallest places are drawn at random. The attacker cannot tell them from others
and would have to attack all; what he would find of these does not depend on that. People of as many
places are rebuilt from the tables, and set beside those who lived there before any swap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks.changed_cells import changed_cells
from headcount.attacks.feasible_intervals import Narrowing, sampled_intervals
from headcount.attacks.reconstruction import Reconstruct
from headcount.comparison.cases import Case, Released
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import attack
from headcount.release import Release, TablesRelease
from headcount.release.changed import ChangeRules
from headcount_papers.swapping_and_cell_keys.bets import is_small
from headcount_papers.swapping_and_cell_keys.chains import AS_COUNTED
from headcount_papers.swapping_and_cell_keys.targets import BetTargets

SLOW_RATES = (0.0, 0.1)
SLOW_METHODS = ("keys ±1, variance 0.5", "keys ±2, variance 1", "rounded to 3")
EFFORTS: dict[Narrowing, int] = {"relations": 1, "programs": 1, "whole": 10}
"""How hard the attacker tries, and of how many counts one is attacked so."""
STEPS = 1_000
"""Of the solver, for one end of a count by whole numbers."""
FOUND = {
    "effort": pl.String,
    "attacked": pl.Int64,
    "claimed": pl.Int64,
    "right": pl.Int64,
    "wrong": pl.Int64,
    "width": pl.Float64,
}


REBUILT = {
    "people": pl.Int64,
    "records": pl.Int64,
    "exact_percent": pl.Float64,
}


def is_slow(case: Case) -> bool:
    """Whether the slow attacks are made on this chain."""
    return (
        case.columns["rate"] in SLOW_RATES
        and case.columns["method"] in (AS_COUNTED, *SLOW_METHODS)
        and case.runs[0] == 0
    )


def as_tables(release: Release, targets: BetTargets) -> TablesRelease:
    """A release as tables; counts as they are become tables that are exact."""
    if isinstance(release, TablesRelease):
        return release
    published = tuple(targets.shown(release))
    names = tuple(dict.fromkeys(one.name for one in published))
    return TablesRelease(
        domain=release.domain,
        mechanism=release.mechanism,
        guarantee=release.guarantee,
        key_kind=release.key_kind,
        backend=release.backend,
        published=published,
        rules=ChangeRules(method="identity", tables=names, words=()),
    )


def rebuilt_frame(one: Released, targets: BetTargets, *, units: int) -> pl.DataFrame:
    """How many of the people of some places are rebuilt from the tables with all that they show."""
    release = as_tables(one.release, targets)
    kind = Reconstruct(most_units=units, steps=STEPS)
    found = attack(release, Truth.of(targets.counts), kind).table.filter(blocks="all")
    return found.select(list(REBUILT)).cast(REBUILT)  # type: ignore[arg-type]


def slow_frame(one: Released, targets: BetTargets, *, counts: int) -> pl.DataFrame:
    """What each effort finds for certain of the same small counts."""
    release = as_tables(one.release, targets)
    return pl.DataFrame(_rows(release, targets, counts), schema=FOUND)


def _rows(release: TablesRelease, targets: BetTargets, counts: int) -> Iterator[dict[str, Any]]:
    for effort, one_of in EFFORTS.items():
        unit, kind = drawn_small(targets, max(1, counts // one_of))
        truth = targets.truth[unit, kind]
        where = [targets.columns[number] for number in kind.tolist()]
        low, high = np.zeros_like(truth), np.full_like(truth, -1)
        for some in changed_cells(release):
            own = [
                n
                for n, (name, _) in enumerate(where)
                if (name, targets.lowest) in some.linked.number
            ]
            cells = np.array(
                [some.linked.number[where[n][0], targets.lowest][unit[n], where[n][1]] for n in own]
            )
            if not len(cells):
                continue
            asked, back = np.unique(cells, return_inverse=True)
            found = sampled_intervals(
                some.linked.additive,
                *some.ranges(None),
                cells=asked,
                effort=effort,
                steps=STEPS,
            )
            low[own], high[own] = found.low[back], found.high[back]
        claimed = low == high
        yield {
            "effort": effort,
            "attacked": len(truth),
            "claimed": int(claimed.sum()),
            "right": int((claimed & (low == truth)).sum()),
            "wrong": int((claimed & (low != truth)).sum()),
            "width": float((high - low).mean()),
        }


def drawn_small(targets: BetTargets, counts: int) -> tuple[Ints, Ints]:
    """Some small counts, drawn at random: place and kind of each."""
    unit, kind = np.nonzero(is_small(targets.truth))
    order = np.random.default_rng(targets.seed).permutation(len(unit))[:counts]
    return unit[order], kind[order]
