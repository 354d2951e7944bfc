"""How each parent's problem ended: data for the receipt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints, Ints32


class Status(IntEnum):
    """How a problem ended."""

    SOLVED = 0
    FAILED = 1
    INFEASIBLE = 2


class Solver(IntEnum):
    """Which solver gave the answer."""

    NEWTON = 0
    PIQP = 1
    CLARABEL = 2
    NONE = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class SolverOutcome:
    """One line for each parent of a batch.

    status      as in Status; without SOLVED the parent's part of the answer means nothing
    solver      as in Solver
    attempts    starts of the Newton method (0: nothing was left to choose)
    steps       Newton steps of all attempts together
    conjugate   conjugate gradient steps of all attempts together
    violation   the largest violation of any constraint, in persons
    """

    status: NDArray[np.int8]
    solver: NDArray[np.int8]
    attempts: Ints32
    steps: Ints32
    conjugate: Ints32
    violation: Floats

    @property
    def unsolved(self) -> Ints:
        """The parents (by position in the batch) that have no answer."""
        return np.flatnonzero(self.status != Status.SOLVED)

    def summary(self) -> dict[str, int | float]:
        """The counts that a receipt records for a level."""
        solved = self.status == Status.SOLVED
        return {
            "parents": len(self.status),
            "solved": int(solved.sum()),
            "infeasible": int((self.status == Status.INFEASIBLE).sum()),
            "failed": int((self.status == Status.FAILED).sum()),
            "nothing to choose": int((solved & (self.attempts == 0)).sum()),
            "retried": int((self.attempts > 1).sum()),
            "by PIQP": int((solved & (self.solver == Solver.PIQP)).sum()),
            "by Clarabel": int((solved & (self.solver == Solver.CLARABEL)).sum()),
            "Newton steps": int(self.steps.sum()),
            "largest violation": float(self.violation[solved].max(initial=0.0)),
        }
