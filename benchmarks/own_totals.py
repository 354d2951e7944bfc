"""Are totals as near to the truth as their own answers make them?

In the redistricting product of 2020 the total of a county, tract or block group is fitted before
everything else, so that its error is that of its own answer. Fitted together with the other
queries it is pulled by hundreds of noisy cells that cannot be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from benchmarks.figures import Reading
from headcount.arrays import Flags, Floats, Ints
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.topdown.mechanism import TopDown
from headcount.topdown.settings import planned_noise

LEVELS = ("county", "tract", "block_group")
TOTAL = "total"
NEAR, STANDARD_ERRORS = 0.10, 2.5
"""How far an error may be from that of the answer: a part of it, or so many standard errors."""


@dataclass(frozen=True, eq=False)
class OwnTotals:
    """Units of a level of the measured tree that have one share, and their answers' error.

    where
        unit    for each leaf of the published tree its unit of the level
        ours    which of the level's units have that share, no more and no less
        sd      standard deviation of the answer to their total
    """

    level: str
    unit: Ints
    ours: Flags
    sd: float

    def added_up(self, leaves: Ints) -> Ints:
        """Counts, or errors, of leaves added up to these units."""
        return np.bincount(self.unit, leaves, minlength=len(self.ours))[self.ours].astype(np.int64)


def own_totals(
    mechanism: TopDown, schema: Schema, geography: Geography, *, levels: Sequence[str] = LEVELS
) -> list[OwnTotals]:
    """Units of the measured tree with their level's share: those whose share was not moved."""
    tree, found = mechanism.tree(geography), []
    planned = planned_noise(mechanism, schema, tree)
    shares = mechanism.unit_shares(tree)
    order = geography.along_spine if mechanism.spine else np.arange(tree.size(tree.leaf))
    for level in levels:
        unit = np.empty(len(order), dtype=np.int64)
        unit[order] = tree.ancestors(level)
        noise, ours = planned[level, TOTAL], np.ones(tree.size(level), dtype=bool)
        if shares is not None:
            ours = shares.classes(level)[1] == 1
            own = noise.classes[1]
            assert own is not None
            noise = own
        assert noise.law is not None
        found.append(OwnTotals(level, unit, ours, sqrt(noise.law.variance)))
    return found


@dataclass(frozen=True)
class TotalsError:
    """The root mean square error of totals of a level, over units and runs, beside the answer's."""

    level: str
    error: float
    own: float
    units: int
    runs: int

    @property
    def away(self) -> float:
        """How far it is from that of the answer, as a part of it."""
        return abs(self.error / self.own - 1)

    @property
    def allowed(self) -> float:
        """A tenth, or what chance explains: the standard error of an error is own / sqrt(2 n)."""
        return max(NEAR, STANDARD_ERRORS / sqrt(2 * self.units * self.runs))

    @property
    def kept(self) -> bool:
        """Whether it is as near as it must be."""
        return self.away <= self.allowed

    def reading(self) -> Reading:
        """As a figure with its limit."""
        return Reading(
            f"{self.level} totals beside their own answers: root mean square error",
            100 * self.away,
            "% away",
            f"{self.error:.2f} against {self.own:.2f}; {self.units:,} units, {self.runs} runs",
            at_most=100 * self.allowed,
        )


def totals_errors(owned: Iterable[OwnTotals], runs: Sequence[Ints]) -> list[TotalsError]:
    """What runs, each with the errors of all leaves, come to at each level with such units."""
    return [
        TotalsError(
            one.level,
            root_mean_square(np.concatenate([one.added_up(error) for error in runs])),
            one.sd,
            int(one.ours.sum()),
            len(runs),
        )
        for one in owned
        if one.ours.any()
    ]


def one_pass_must_fail(found: Sequence[TotalsError]) -> Reading:
    """The same program without passes, which must not keep the check at all levels."""
    said = ", ".join(f"{one.level} {one.error:.2f} against {one.own:.2f}" for one in found)
    return Reading(
        "with one pass: levels whose totals are as near",
        sum(one.kept for one in found),
        f"of {len(found)}",
        f"must be fewer than all: {said}",
        at_most=len(found) - 1,
    )


def root_mean_square(error: Ints | Floats) -> float:
    """sqrt(mean of squares)."""
    return float(np.sqrt(np.mean(np.square(error, dtype=np.float64))))
