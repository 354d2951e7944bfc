"""Attack on a suppression pattern by linear programs: which withheld cells it works out, or nearly.

What it finds leaks for certain. What it does not find may still leak, since whole tables allow
less than the programs do: that a pattern is sound is shown by witnesses (see ``witnessed``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Ints
from headcount.attacks.intervals import Intervals, intervals
from headcount.errors import InputError
from headcount.tabulate.additive import Additive

Attacker = Literal["rules", "naive"]
"""Who attacks: "rules" knows that zeros are never withheld, so that a withheld cell holds 1 at
least; "naive" thinks that it may be 0."""


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
    attacker: Attacker = "rules",
    sample: int | None = None,
    seed: int = 0,
) -> WithheldAudit:
    """Attack a pattern and compare with the truth.

    where
        values      true counts; the attack sees those that are published
        attacker    what the attacker takes for the least that a withheld cell holds
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
    cells = np.flatnonzero(hidden) if sample is None else draw(hidden, first, sample, seed)
    shown = np.where(hidden, -1, truth)
    low = least_known(truth) if attacker == "rules" else None
    found = intervals(additive, shown, hidden, low=low, cells=cells)
    return judge(found, truth, primary=first, width=width)


def least_known(truth: Ints) -> Ints:
    """What is known to be in a withheld cell at least, if zeros are never withheld."""
    return np.minimum(truth, 1)


def judge(found: Intervals, truth: Ints, *, primary: Flags, width: int) -> WithheldAudit:
    """Compare intervals with the truth."""
    cells = found.cell
    first, exact = primary[cells], found.width == 0
    return WithheldAudit(
        intervals=found,
        width=width,
        primaries=int(first.sum()),
        exact_primary=cells[exact & first],
        narrow_primary=cells[(found.width < width) & first],
        exact_secondary=cells[exact & ~first],
        missed=cells[(truth[cells] < found.low) | (truth[cells] > found.high)],
    )


def draw(hidden: Flags, primary: Flags, sample: int, seed: int) -> Ints:
    """Some withheld cells, half of them primary."""
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(kind, size=min(len(kind), sample // 2), replace=False)
        for kind in (np.flatnonzero(primary), np.flatnonzero(hidden & ~primary))
    ]
    return np.sort(np.concatenate(drawn))
