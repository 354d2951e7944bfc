"""The attack on secret parameters: margins that do not add up give the largest change away.

A total less the sum of its k published parts is a sum of k + 1 changes, so that

    D >= |gap| / (k + 1),

and zeros say more: a part published as 0 hides D at most and never less than 0, a part published
as more holds 1 at least. The smallest D under which every relation can hold is a lower bound that
no published table refutes; with many margins some gap is extreme, and the bound is D itself. Its
spread gives the variance: a gap of k + 1 changes has variance (k + 1) V.

where
    gap   published total less the sum of its published parts
    D     largest change
    V     variance of a change

Bach, arXiv 2012.09775, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.attacks._base import Attack, Claims, People, changed_tables
from headcount.attacks.changed_cells import ChangedCells, changed_cells
from headcount.attacks.intervals import Contradiction, among
from headcount.engines.protocol import Engine
from headcount.errors import InputError
from headcount.release import Release
from headcount.report.finding import Support
from headcount.tabulate.additive import Additive

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RevealedChange(Claims):
    """What the gaps of margins prove of the changes.

    where
        margins          totals all of whose parts are published
        broken           those that are not the sum of their parts
        proofs           those that prove the largest change found, each alone
        largest_change   the largest change that is proved: no smaller one explains every gap
        variance         of a change, as the gaps show it; NaN where no counts are large enough
    """

    margins: int
    broken: int
    proofs: int
    largest_change: int
    variance: float


@dataclass(frozen=True, kw_only=True)
class ReadGaps(Attack):
    """Find the largest change under which published totals and parts can all be true."""

    name = "margin-gaps"
    whole = True

    def supports(self, release: Release) -> Support:
        """Tables whose counts were changed."""
        return changed_tables(release)

    def run(
        self, release: Release, people: People, *, engine: Engine | None = None
    ) -> RevealedChange:
        """Claim the largest change that is proved, and a variance."""
        gaps = published_gaps(changed_cells(release.as_tables()))
        least = np.concatenate([one.least for one in gaps])
        largest = int(least.max(initial=0))
        broken = sum(int(np.count_nonzero(one.gap)) for one in gaps)
        spread = [one.variance for one in gaps if not np.isnan(one.variance)]
        return RevealedChange(
            attack=self.name,
            title="Do margins that do not add up give the largest change away?",
            schema=release.schema,
            geography=release.geography,
            margins=len(least),
            broken=broken,
            proofs=int((least == largest).sum()) if largest else 0,
            largest_change=largest,
            variance=float(np.mean(spread)) if spread else float("nan"),
            facts={"kind": self.name, "largest_change": largest},
            words=(
                "A published total less the sum of its k published parts is a sum of k + 1 "
                "changes, and a part that is published holds one person at least. The attacker "
                "takes the smallest change under which every total can be true."
            ),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginGaps:
    """What the gaps of published margins say.

    where
        gap        of each relation
        terms      number of changed counts in it, of its parts and the total
        least      for each relation the smallest D under which it can hold
        smallest   for each relation the smallest published count in it
    """

    gap: Ints
    terms: Ints
    least: Ints
    smallest: Ints

    @property
    def largest_change(self) -> int:
        """The smallest D that no relation refutes; 0 if all adds up."""
        return int(self.least.max(initial=0))

    @property
    def variance(self) -> float:
        """The variance of one change as the spread of the gaps shows it.

        From relations whose counts are all so large that none was kept from falling below 0;
        NaN where there is none.
        """
        large = (self.smallest > 2 * self.largest_change) & (self.terms > 0)
        if not large.any():
            return float("nan")
        # A square over its number of terms spreads alike for few terms and for many.
        return float((self.gap[large].astype(np.float64) ** 2 / self.terms[large]).mean())


def published_gaps(cells: Sequence[ChangedCells]) -> list[MarginGaps]:
    """For each set of cells the gaps of the relations all of whose cells are published."""
    found = []
    for some in cells:
        value, known = some.values()
        shown = among(some.linked.additive, known)
        raised = any(
            one.off is not None and one.off.raises_zeros for one in some.published.values()
        )
        found.append(
            margin_gaps(
                shown.additive,
                value[shown.cell],
                zeros_stay=not raised,
                exact=some.exact()[shown.cell],
            )
        )
    return found


def margin_gaps(
    additive: Additive,
    published: Ints,
    *,
    zeros_stay: bool = True,
    exact: Flags | None = None,
) -> MarginGaps:
    """Gaps of all relations, and the largest change that each of them proves.

    where
        published    the value of every cell
        zeros_stay   whether the attacker takes it as known that no positive value is made of 0
        exact        cells that are published as they are; by default none
    """
    if published.shape != (additive.size,) or np.any(published < 0):
        raise InputError(
            "margins",
            found="a value below 0 or a cell without one",
            expected=f"a published count for each of {additive.size} cells",
        )
    gap = np.rint(-(additive.matrix @ published)).astype(np.int64)
    lengths = np.diff(additive.start)
    smallest = published[additive.total].copy()
    np.minimum.at(smallest, np.repeat(np.arange(len(lengths)), lengths), published[additive.part])
    changed = np.ones(additive.size, dtype=bool) if exact is None else ~exact
    least = _least_changes(additive, published, int(zeros_stay), changed)
    own = np.repeat(np.arange(len(lengths)), lengths)
    terms = np.bincount(own, weights=changed[additive.part], minlength=len(lengths))
    return MarginGaps(
        gap=gap,
        terms=(terms + changed[additive.total]).astype(np.int64),
        least=least,
        smallest=smallest,
    )


def _least_changes(additive: Additive, published: Ints, floor: int, changed: Flags) -> Ints:
    """For each relation the smallest D for which the ranges of its total and of its parts meet.

    With a larger D ranges only widen, so that it is found by halving, for all relations at once.
    """
    lengths = np.diff(additive.start)
    own = np.repeat(np.arange(len(lengths)), lengths)
    total, parts = published[additive.total], published[additive.part]

    def added(values: Ints) -> Ints:
        return np.bincount(own, weights=values, minlength=len(lengths)).astype(np.int64)

    def smallest(values: Ints, change: Ints) -> Ints:
        return np.where((values > 0) & (change > 0), np.maximum(values - change, floor), values)

    sums, of_total, of_part = added(parts), changed[additive.total], changed[additive.part]
    many = added(of_part.astype(np.int64))
    low, high = np.full(len(lengths), -1), np.maximum(total, sums) + floor
    while np.any(high - low > 1):
        middle = (low + high) // 2
        # No change at all is a change of 0, whatever D is.
        meet = (added(smallest(parts, middle[own] * of_part)) <= total + middle * of_total) & (
            smallest(total, middle * of_total) <= sums + middle * many
        )
        low, high = np.where(meet, low, middle), np.where(meet, middle, high)
    return high


def by_smallest_change(cells: Sequence[ChangedCells], attack: Callable[[int], T]) -> tuple[int, T]:
    """What an attacker takes for the largest change who does not know it, and what he finds by it.

    It is the smallest one under which no sum of published counts is impossible: each relation
    proves one, and all of them together, as far as the attack looks, may prove more.
    """
    first = guess = max(gaps.largest_change for gaps in published_gaps(cells))
    while True:
        try:
            return guess, attack(guess)
        except Contradiction:
            if guess == first:
                # Counts that are published as they are may contradict each other: no change
                # explains that, and the search would never end.
                attack(_explains_all(cells))
            guess += 1


def _explains_all(cells: Sequence[ChangedCells]) -> int:
    """A largest change under which any tables can be true: each leaf cell may hold one person."""
    most = (one.value.max(initial=0) for some in cells for one in some.published.values())
    return sum(some.linked.additive.size for some in cells) + int(sum(most))
