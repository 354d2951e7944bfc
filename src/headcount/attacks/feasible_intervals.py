"""The adversary's problem: feasibility intervals of counts behind published ones that were changed.

A count that was changed by at most D, or rounded to base b, lies within D, or b - 1, of its
published value, and true counts add up even where published ones do not:

    min and max of x_i  subject to  A x = 0,  low <= x <= high

where
    A           relations of the cells: each total less its parts
    low, high   what each published value may stand for

A cell whose two ends are one is known for certain. With D = 2, positive counts that are never
made of 0, and the published table 1, 1 | 0, both people behind the total are found: the parts hold
one each at least, and a total published as 0 hides two at most.

First relations are taken one at a time, which is fast and finds most; then linear programs, all
relations at once; then, where asked, integer programs, which can be narrower still.
The example is that of the European guidelines for census data; for rounding see arXiv 2307.13859.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ends, Flags, Ints
from headcount.attacks._base import (
    Attack,
    ClaimedCounts,
    CountRanges,
    People,
    changed_tables,
)
from headcount.attacks._problem import NO_END, solve_program
from headcount.attacks.changed_cells import (
    INFORMED,
    UNINFORMED,
    ChangedCells,
    by_smallest_change,
    changed_cells,
    hides_its_change,
)
from headcount.attacks.intervals import (
    UNBOUNDED,
    UNKNOWN,
    Contradiction,
    Intervals,
    Near,
    connected,
    intervals,
    near,
    tighten,
)
from headcount.engines import Engine
from headcount.release import Release
from headcount.solve.mip import Program
from headcount.tabulate.additive import Additive

Narrowing: TypeAlias = Literal["relations", "programs", "whole"]
"""How hard an adversary tries: one relation at a time, linear programs, or whole numbers."""
EFFORTS = {"effort": get_args(Narrowing)}


@dataclass(frozen=True, kw_only=True)
class WorkOut(Attack):
    """Feasibility intervals of counts, from ranges around published ones and all sums.

    where
        largest_change   what the attacker knows of the largest change where neither the release
                         says it nor an evaluation gives him the settings; 0 if nothing
        effort           "relations": one sum at a time; "programs": linear programs; "whole":
                         integer programs besides
        steps            of the solver for each end of a count, with whole numbers; 1,000 take
                         about a second
        sample           counts that are attacked by programs or whole numbers, drawn at random from
                         all that are published; 0 for all. By one sum at a time all are attacked
        seed             of the sample

    Beside the informed adversary stands one who has the release alone: he takes the smallest change
    under which the published tables can all be true. It is never too large, and where it is too
    small what he claims can be wrong.
    """

    name = "feasible-intervals"
    whole = True
    at_least_0 = ("largest_change", "sample", "seed")
    at_least_1 = ("steps",)
    choices = EFFORTS
    supports = staticmethod(changed_tables)
    largest_change: int = 0
    effort: Narrowing = "relations"
    steps: int = 10_000
    sample: int = 200
    seed: int = 0

    def run(
        self, release: Release, people: People, *, engine: Engine | None = None
    ) -> ClaimedCounts:
        """Claim what each count is at least and at most."""
        cells = changed_cells(release.as_tables())
        unread = [some.unread() for some in cells]
        ranges, guess = [], None
        if self.largest_change or not hides_its_change(cells):
            ranges.append(self._ranges(INFORMED, cells, self.largest_change or None))
        if hides_its_change(unread):
            guess, own = by_smallest_change(
                unread, lambda largest: self._ranges(UNINFORMED, unread, largest)
            )
            ranges.append(own)
        every = sum(int(some.linked.published.sum()) for some in cells)
        attacked = sum(len(some) for some in self._sample(cells))
        return ClaimedCounts(
            attack=self.name,
            title="Which counts do the published ones leave no choice about?",
            schema=release.schema,
            geography=release.geography,
            ranges=tuple(ranges),
            facts={
                "kind": self.name,
                "effort": self.effort,
                "counts": every,
                "attacked": attacked,
                "proved_change": guess,
            },
            words=(
                "Each published count stands for a range of counts, and true counts add up to "
                "their totals, in the table, over units and between tables, even where published "
                "ones do not. The attacker narrows the ranges by these sums; a count whose range "
                "is one number is known for certain. "
                + _sample_words(attacked, every)
                + _guess_words(guess)
            ),
        )

    def _ranges(
        self, attacker: str, cells: Sequence[ChangedCells], largest: int | None
    ) -> CountRanges:
        low: dict[tuple[str, str], Ints] = {}
        high: dict[tuple[str, str], Ints] = {}
        attacked: dict[tuple[str, str], Flags] = {}
        for some, chosen in zip(cells, self._sample(cells), strict=True):
            found = sampled_intervals(
                some.linked.additive,
                *some.ranges(largest),
                cells=chosen,
                effort=self.effort,
                steps=self.steps,
            )
            inside = np.zeros(some.linked.additive.size, dtype=bool)
            least, most = np.zeros_like(inside, dtype=np.int64), np.full(len(inside), UNBOUNDED)
            inside[chosen], least[chosen], most[chosen] = True, found.low, found.high
            low |= some.spread(least)
            high |= some.spread(most)
            attacked |= some.spread(inside)
        return CountRanges(attacker=attacker, low=low, high=high, attacked=attacked)

    def _sample(self, cells: Sequence[ChangedCells]) -> list[Ints]:
        """The cells of each set that are attacked."""
        shown = [np.flatnonzero(some.linked.published) for some in cells]
        every = sum(len(some) for some in shown)
        if self.effort == "relations" or not 0 < self.sample < every:
            return shown
        drawn = np.zeros(every, dtype=bool)
        drawn[np.random.default_rng(self.seed).permutation(every)[: self.sample]] = True
        ends = np.cumsum([len(some) for some in shown])[:-1]
        return [some[own] for some, own in zip(shown, np.split(drawn, ends), strict=True)]


def _sample_words(attacked: int, every: int) -> str:
    if attacked == every:
        return ""
    return (
        f"To end soon, {attacked:,} of {every:,} different counts were attacked, drawn at random, "
        "each by all sums of its unit and those above, beside and below it. "
    )


def _guess_words(guess: int | None) -> str:
    if guess is None:
        return "The release says how far its counts may be off."
    return (
        "The release does not say how far its counts may be off. An attacker who does not know "
        f"finds that {guess} is the smallest change under which all tables can be true, and takes "
        "it for the largest; if it is larger, some of what he claims is wrong."
    )


def sampled_intervals(
    additive: Additive,
    low: ArrayLike,
    high: ArrayLike,
    *,
    cells: ArrayLike,
    effort: Narrowing,
    steps: int = 10_000,
) -> Intervals:
    """Intervals of some cells, each searched for near its unit: for tables of many units.

    One relation at a time is taken everywhere, then programs with the relations among a cell's
    unit, its parent, siblings and children. Ends are those of all relations at once, or wider.
    """
    least, most = tighten(additive, np.asarray(low), np.asarray(high))
    wanted = np.asarray(cells, dtype=np.int64)
    of = additive.unit[wanted]
    units = [] if effort == "relations" else np.unique(of).tolist()
    around = [(near(additive, unit), wanted[of == unit]) for unit in units]
    return intervals_around(around, least, most, wanted, effort, steps)


def intervals_around(
    around: Sequence[tuple[Near, Ints]],
    low: Ints,
    high: Ints,
    wanted: Ints,
    effort: Narrowing,
    steps: int,
) -> Intervals:
    """Ends of the wanted cells by programs, each with the relations around it.

    where
        around      sets of cells with relations, each with the wanted cells that it is for
        low, high   of every cell, as one relation at a time leaves them
    """
    found_low, found_high = low.copy(), high.copy()
    for some, asked in around if effort != "relations" else ():
        place = np.searchsorted(some.cell, asked)
        least, most = _by_programs(some.additive, low[some.cell], high[some.cell], place)
        if effort == "whole":
            # What one cell has learnt narrows its neighbours before the search begins.
            least, most = tighten(some.additive, least, most)
            least, most = _by_integers(some.additive, least, most, place, steps)
        found_low[asked], found_high[asked] = least[place], most[place]
    ends_above = found_high[wanted]
    return Intervals(
        cell=wanted,
        low=found_low[wanted],
        high=np.where(ends_above >= UNKNOWN, UNBOUNDED, ends_above),
    )


def _by_programs(additive: Additive, low: Ints, high: Ints, wanted: Ints) -> Ends:
    """Linear programs for the wanted cells that are still open; known cells are constants."""
    hidden = low < high
    found = intervals(
        additive,
        low,
        hidden,
        low=low,
        high=np.where(high >= UNKNOWN, np.inf, high.astype(np.float64)),
        cells=wanted[hidden[wanted]],
    )
    low, high = low.copy(), high.copy()
    low[found.cell] = np.maximum(low[found.cell], found.low)
    high[found.cell] = np.minimum(high[found.cell], np.minimum(found.high, UNKNOWN))
    return low, high


def _by_integers(additive: Additive, low: Ints, high: Ints, wanted: Ints, steps: int) -> Ends:
    """Integer programs for the wanted cells that are still open, in sets that hang together.

    An end that is not proved within its steps stays where it was: never too narrow.
    """
    hidden, ask = low < high, np.zeros(additive.size, dtype=bool)
    ask[wanted] = True
    low, high = low.copy(), high.copy()
    for part, matrix, right in connected(additive, hidden, np.where(hidden, 0, low)):
        least, most = low[part], high[part]
        seen = most.copy(), least.copy()  # the smallest and the largest in any solution
        for cell in np.flatnonzero(ask[part]).tolist():
            for side, ends in enumerate((least, most)):
                # Where nothing bounds a cell, or a solution is at its end, nothing is to be found.
                if ends[cell] > NO_END or seen[side][cell] == ends[cell]:
                    continue
                cost = np.zeros(len(part))
                cost[cell] = -1.0 if side else 1.0
                program = Program(
                    cost=cost,
                    low=low[part].astype(np.float64),
                    high=np.where(high[part] > NO_END, np.inf, high[part]),
                    matrix=matrix,
                    row_low=right,
                    row_high=right,
                    integer=True,
                )
                found = solve_program(program, len(part), steps)
                if found.x is not None:
                    np.minimum(seen[0], found.x, out=seen[0])
                    np.maximum(seen[1], found.x, out=seen[1])
                    ends[cell] = found.x[cell] if found.proven else ends[cell]
                elif found.proven:
                    raise Contradiction(
                        "published cells",
                        found="ranges that no table of whole counts keeps",
                        expected="ranges that some table keeps; is what is known of the largest "
                        "change right?",
                    )
        low[part], high[part] = least, most
    return low, high
