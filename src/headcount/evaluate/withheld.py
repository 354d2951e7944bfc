"""Audit of a suppression pattern: which withheld cells an attacker can tell, or nearly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.attacks.intervals import Intervals, intervals
from headcount.errors import InputError
from headcount.tabulate.additive import Additive

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class WithheldAudit:
    """Intervals of the audited cells, and the cells that fail.

    where
        exact_primary     primary cells that the attacker knows
        narrow_primary    primary cells known to less than the width asked, exact ones included
        exact_secondary   secondary cells that the attacker knows
        missed            cells whose truth lies outside the interval: never, unless the published
                          counts are not those of the truth
    """

    intervals: Intervals
    width: int
    primaries: int
    exact_primary: Ints
    narrow_primary: Ints
    exact_secondary: Ints
    missed: Ints

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        found = self.narrow_primary, self.exact_secondary, self.missed
        return not any(len(cells) for cells in found)

    def __str__(self) -> str:
        audited = len(self.intervals.cell)
        return (
            f"{audited:,} withheld cells audited, {self.primaries:,} primary: "
            f"{len(self.exact_primary):,} primary exact, {len(self.narrow_primary):,} narrower "
            f"than {self.width}, {len(self.exact_secondary):,} secondary exact"
        )


def audit_withheld(
    additive: Additive,
    values: ArrayLike,
    *,
    withheld: ArrayLike,
    primary: ArrayLike,
    width: int = 3,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> WithheldAudit:
    """Attack a pattern and compare with the truth.

    where
        values      true counts; the attack sees those that are published
        low, high   what the attacker knows of withheld cells besides (see ``intervals``)
        sample      audit this many withheld cells, half of them primary, drawn with ``seed``
    """
    hidden, first = np.asarray(withheld, dtype=bool), np.asarray(primary, dtype=bool)
    if np.any(first & ~hidden):
        raise InputError(
            "audit",
            place=f"cell {int(np.argmax(first & ~hidden))}",
            found="a primary cell that is published",
            expected="every primary cell withheld",
        )
    truth = np.asarray(values, dtype=np.int64)
    cells = np.flatnonzero(hidden) if sample is None else _draw(hidden, first, sample, seed)
    shown = np.where(hidden, -1, truth)
    found = intervals(additive, shown, hidden, low=low, high=high, cells=cells)
    is_primary, exact = first[cells], found.width == 0
    outside = (truth[cells] < found.low) | (truth[cells] > found.high)
    return WithheldAudit(
        intervals=found,
        width=width,
        primaries=int(is_primary.sum()),
        exact_primary=cells[exact & is_primary],
        narrow_primary=cells[(found.width < width) & is_primary],
        exact_secondary=cells[exact & ~is_primary],
        missed=cells[outside],
    )


def _draw(hidden: NDArray[np.bool_], primary: NDArray[np.bool_], sample: int, seed: int) -> Ints:
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(kind, size=min(len(kind), sample // 2), replace=False)
        for kind in (np.flatnonzero(primary), np.flatnonzero(hidden & ~primary))
    ]
    return np.sort(np.concatenate(drawn))
