"""What the gaps of published margins say of the changes (Bach, arXiv 2012.09775, section 3).

A total less the sum of its k published parts is a sum of k + 1 changes. The smallest D under which
all of them can be true is ``headcount.attacks.changed_cells.least_changes``; their spread gives the
variance V of a change, since a gap of k + 1 changes has variance (k + 1) V.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.attacks.changed_cells import ChangedCells, least_changes
from headcount.tabulate.additive import Additive


@dataclass(frozen=True, eq=False, kw_only=True)
class _MarginGaps:
    """What the gaps of published margins say.

    where
        gap        of each relation: its total less the sum of its parts
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


def published_gaps(cells: Sequence[ChangedCells]) -> list[_MarginGaps]:
    """For each set of cells the gaps of the relations all of whose cells are published."""
    found = []
    for some in cells:
        additive, value, exact, zeros_stay = some.published_sums()
        found.append(margin_gaps(additive, value, zeros_stay=zeros_stay, exact=exact))
    return found


def margin_gaps(
    additive: Additive,
    published: Ints,
    *,
    zeros_stay: bool = True,
    exact: Flags | None = None,
) -> _MarginGaps:
    """Gaps of all relations, and the largest change that each of them proves.

    Its arguments are those of ``least_changes``.
    """
    least = least_changes(additive, published, zeros_stay=zeros_stay, exact=exact)
    lengths = np.diff(additive.start)
    own = np.repeat(np.arange(len(lengths)), lengths)
    smallest = published[additive.total].copy()
    np.minimum.at(smallest, own, published[additive.part])
    changed = np.ones(additive.size, dtype=bool) if exact is None else ~exact
    terms = np.bincount(own, weights=changed[additive.part], minlength=len(lengths))
    return _MarginGaps(
        gap=np.rint(-(additive.matrix @ published)).astype(np.int64),
        terms=(terms + changed[additive.total]).astype(np.int64),
        least=least,
        smallest=smallest,
    )
