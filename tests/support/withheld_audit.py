"""An attack on withheld cells of any sums, beside the truth: as audits of releases are made."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from headcount.attacks.intervals import intervals
from headcount.errors import InputError
from headcount.evaluation.suppressed import _draw, _judge, _least_known, _WithheldAudit
from headcount.tabulate.additive import Additive

Attacker = Literal["rules", "naive"]
"""Who attacks: "rules" knows that zeros are never withheld, so that a withheld cell holds 1 at
least; "naive" thinks that it may be 0."""


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
) -> _WithheldAudit:
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
    cells = np.flatnonzero(hidden) if sample is None else _draw(hidden, first, sample, seed)
    shown = np.where(hidden, -1, truth)
    low = _least_known(truth) if attacker == "rules" else None
    found = intervals(additive, shown, hidden, low=low, cells=cells)
    return _judge(found, truth, primary=first, width=width)
