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

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Ends, Ints
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
    seconds: float = 10.0,
) -> Intervals:
    """The tightest interval of cells that the effort finds.

    where
        low, high   of every cell, UNKNOWN where nothing is said; cells that are not published too
        cells       which to attack; by default all
        seconds     for each end of a cell by whole numbers; a search that does not end in time
                    gives the end that it has proved, which is never too narrow
    """
    least, most = tighten(additive, np.asarray(low), np.asarray(high))
    wanted = np.arange(additive.size) if cells is None else np.asarray(cells, dtype=np.int64)
    if effort != "relations":
        least, most = _by_programs(additive, least, most, wanted)
    if effort == "whole":
        # What one cell has learnt narrows its neighbours before the search begins.
        least, most = tighten(additive, least, most)
        least, most = _by_whole_numbers(additive, least, most, wanted, seconds)
    ends = most[wanted]
    return Intervals(
        cell=wanted, low=least[wanted], high=np.where(ends >= UNKNOWN, UNBOUNDED, ends)
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


def _by_whole_numbers(
    additive: Additive, low: Ints, high: Ints, wanted: Ints, seconds: float
) -> Ends:
    """CP-SAT for the wanted cells that are still open, in sets that hang together."""
    hidden, ask = low < high, np.zeros(additive.size, dtype=bool)
    ask[wanted] = True
    sets = [
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
    low, high = low.copy(), high.copy()
    answers = whole_ends([question for _, question in sets], seconds=seconds)
    for (part, question), ends in zip(sets, answers, strict=True):
        if ends is not None:
            cells = part[question.asked]
            low[cells] = np.maximum(low[cells], ends[0])
            high[cells] = np.minimum(high[cells], ends[1])
    return low, high
