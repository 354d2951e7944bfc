"""What is measured of each release: bets of every attacker, what is certain, errors by level."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.attacks import People
from headcount.attacks.feasible_intervals import WorkOut
from headcount.comparison.cases import Released
from headcount.evaluation.answers import break_down
from headcount.release import Release, TablesRelease
from headcount_papers.averaging import Average
from headcount_papers.swapping_and_cell_keys.bets import CLAIMS, bet, is_small, joined
from headcount_papers.swapping_and_cell_keys.targets import BetTargets, TableAt

TOTALS, READS, RANGES, AVERAGES, TOGETHER = (
    *("sees only totals above", "reads the count", "adds up ranges", "averages its sums"),
    "all together",
)
"""Attackers: one who does not see the count, and what the others do with it."""
ODDS = (1, 9)
"""What a wrong bet costs: as much as a right one wins, or nine times that."""
MOST = 12
"""Values and ends of ranges above this are one clue."""
NOBODY = People(name="nobody", unit=np.empty(0, dtype=np.int64), codes={})


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShownCounts:
    """What an attacker works out about every target.

    where
        value      published
        expected   class of what totals above let him expect
        low, high  the range that sums leave; None where counts are not changed
        mean       the count that averaging claims, the published one where it claims none
    """

    value: Ints
    expected: Ints
    low: Ints | None = None
    high: Ints | None = None
    mean: Ints | None = None

    def clues(self) -> Mapping[str, Sequence[Ints]]:
        """The clues of each attacker, from coarse to fine."""
        value, expected = self.value, self.expected
        reads = (joined(value, most=MOST), joined(value, expected, most=MOST))
        found: dict[str, Sequence[Ints]] = {TOTALS: (expected,), READS: reads}
        if self.low is None or self.high is None or self.mean is None:
            # Counts that add up: every sum says the same.
            return {**found, TOGETHER: reads}
        ends, mean = (self.low, self.high), self.mean
        return {
            **found,
            RANGES: (joined(*ends, most=MOST), joined(*ends, expected, most=MOST)),
            AVERAGES: (joined(mean, most=MOST), joined(mean, expected, most=MOST)),
            TOGETHER: (
                joined(*ends, most=MOST),
                joined(*ends, value, most=MOST),
                joined(*ends, value, expected, most=MOST),
                joined(*ends, value, expected, mean, most=MOST),
            ),
        }


def seen_by(release: Release, targets: BetTargets) -> ShownCounts:
    """Everything that the attacks find out about the targets."""
    tables = targets.published(release)
    value, expected = targets.at(tables, targets.lowest), targets.expected(tables)
    if not (isinstance(release, TablesRelease) and WorkOut().supports(release)):
        return ShownCounts(value=value, expected=expected)
    (found,) = WorkOut().run(release, NOBODY).ranges
    means = Average().run(release, NOBODY)
    (claimed,) = means.count.values()
    mean = targets.at(claimed, targets.lowest)
    return ShownCounts(
        value=value,
        expected=expected,
        low=targets.at(found.low, targets.lowest),
        high=targets.at(found.high, targets.lowest),
        mean=np.where(mean < 0, value, mean),
    )


def measures(targets: BetTargets) -> dict[str, Callable[[Released], pl.DataFrame]]:
    """The measures of the study, by name of the table."""
    latest: dict[int, tuple[Release, ShownCounts]] = {}

    def seen(one: Released) -> ShownCounts:
        """The attacks are made once for each release."""
        if id(one.release) not in latest or latest[id(one.release)][0] is not one.release:
            latest.clear()
            latest[id(one.release)] = (one.release, seen_by(one.release, targets))
        return latest[id(one.release)][1]

    return {
        "bets": lambda one: bets_frame(seen(one), targets),
        "certain": lambda one: certain_frame(seen(one), targets.truth),
        "cost": lambda one: cost_frame(one.release, targets),
        "errors": lambda one: errors_frame(one.release, targets),
    }


def bets_frame(seen: ShownCounts, targets: BetTargets) -> pl.DataFrame:
    """How the bets of every attacker end."""
    truth, half = targets.truth.ravel(), targets.half.ravel()
    rows = []
    for attacker, clues in seen.clues().items():
        steps = [clue.ravel() for clue in clues]
        for claim in CLAIMS:
            for odds in ODDS:
                ended = bet(steps, truth, half, claim=claim, odds=odds)
                rows.append(
                    {
                        "attacker": attacker,
                        "claim": claim,
                        "odds": odds,
                        "small": ended.small,
                        "right": ended.right,
                        "wrong": ended.wrong,
                        "percent": ended.percent,
                    }
                )
    return pl.DataFrame(rows)


CERTAIN = {
    "small": pl.Int64,
    "claimed": pl.Int64,
    "right": pl.Int64,
    "wrong": pl.Int64,
    "right_percent": pl.Float64,
}


def certain_frame(seen: ShownCounts, truth: Ints) -> pl.DataFrame:
    """Small counts that the attacker states for certain: the ranges leave one number.

    Where counts are not changed every published one is stated.
    """
    low = seen.value if seen.low is None else seen.low
    high = seen.value if seen.high is None else seen.high
    claimed = (low == high) & is_small(low)
    right, small = claimed & (low == truth), int(is_small(truth).sum())
    row = {
        "small": small,
        "claimed": int(claimed.sum()),
        "right": int(right.sum()),
        "wrong": int((claimed & ~right).sum()),
        "right_percent": 100 * int(right.sum()) / small if small else None,
    }
    return pl.DataFrame([row], schema=CERTAIN)


def cost_frame(release: Release, targets: BetTargets) -> pl.DataFrame:
    """Errors of all published kinds of people by level, each once, against the truth."""
    tables = targets.published(release)
    return pl.DataFrame(_cost_rows(tables, targets))


def _cost_rows(tables: Mapping[TableAt, Ints], targets: BetTargets) -> Iterator[dict[str, Any]]:
    for level in targets.levels:
        true, shown = targets.at(targets.true_tables, level), targets.at(tables, level)
        off = np.abs(shown - true)
        yield {
            "level": level,
            "counts": true.size,
            "counted": int(true.sum()),
            "absolute": int(off.sum()),
            "mean_error": float(off.mean()),
            "percent": 100 * float(off.sum() / true.sum()),
            "largest": int(off.max()),
            "false_zeros": int(((true > 0) & (shown <= 0)).sum()),
            "false_nonzeros": int(((true == 0) & (shown != 0)).sum()),
        }


def errors_frame(release: Release, targets: BetTargets) -> pl.DataFrame:
    """Errors by level, attribute and group, in units of all sizes."""
    found = break_down(targets.counts, release).by_place
    by = ["level", "attribute", "group"]
    sums = ("counts", "people", "absolute", "signed", "lost_people")
    return found.group_by(by, maintain_order=True).agg(pl.col(sums).sum())
