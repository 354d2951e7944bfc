"""How closely counts can be worked out from published ones that were changed.

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
relations at once; then, where asked, whole numbers by CP-SAT, which can be narrower still.
The example is that of the European guidelines for census data; for rounding see arXiv 2307.13859.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ends, Ints
from headcount.attacks._near import Near, near
from headcount.attacks._solvers import EndsQuestion, whole_ends
from headcount.attacks._tighten import tighten
from headcount.attacks.intervals import UNBOUNDED, Intervals, connected, intervals
from headcount.attacks.knowledge import UNKNOWN
from headcount.tabulate.additive import Additive

Narrowing: TypeAlias = Literal["relations", "programs", "whole"]
"""How hard an attacker tries: one relation at a time, linear programs, or whole numbers."""


def changed_intervals(
    additive: Additive,
    low: ArrayLike,
    high: ArrayLike,
    *,
    cells: ArrayLike | None = None,
    effort: Narrowing = "programs",
    steps: int = 10_000,
) -> Intervals:
    """The tightest interval of cells that the effort finds.

    where
        low, high   of every cell, UNKNOWN where nothing is said; cells that are not published too
        cells       which to attack; by default all
        steps       of the solver for each end of a cell by whole numbers; a search that does not
                    end by then gives the end that it has proved, which is never too narrow
    """
    least, most = tighten(additive, np.asarray(low), np.asarray(high))
    wanted = np.arange(additive.size) if cells is None else np.asarray(cells, dtype=np.int64)
    everywhere = Near(additive=additive, cell=np.arange(additive.size))
    return intervals_around([(everywhere, wanted)], least, most, wanted, effort, steps)


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
    unit, its parent, siblings and children. Ends are those of ``changed_intervals`` or wider.
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
    questions = []
    for some, asked in around if effort != "relations" else ():
        place = np.searchsorted(some.cell, asked)
        least, most = _by_programs(some.additive, low[some.cell], high[some.cell], place)
        if effort == "whole":
            # What one cell has learnt narrows its neighbours before the search begins.
            least, most = tighten(some.additive, least, most)
            found = _questions(some.additive, least, most, place)
            questions += [(some.cell[part[one.asked]], one) for part, one in found]
        found_low[asked], found_high[asked] = least[place], most[place]
    answers = whole_ends([one for _, one in questions], steps=steps)
    for (cells, _), ends in zip(questions, answers, strict=True):
        if ends is not None:
            found_low[cells] = np.maximum(found_low[cells], ends[0])
            found_high[cells] = np.minimum(found_high[cells], ends[1])
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


def _questions(
    additive: Additive, low: Ints, high: Ints, wanted: Ints
) -> list[tuple[Ints, EndsQuestion]]:
    """What CP-SAT is asked of the wanted cells that are open, in sets that hang together."""
    hidden, ask = low < high, np.zeros(additive.size, dtype=bool)
    ask[wanted] = True
    return [
        (
            part,
            EndsQuestion(
                matrix=matrix,
                right=np.rint(right).astype(np.int64),
                low=low[part],
                high=high[part],
                asked=np.flatnonzero(ask[part]),
            ),
        )
        for part, matrix, right in connected(additive, hidden, np.where(hidden, 0, low))
        if ask[part].any()
    ]
