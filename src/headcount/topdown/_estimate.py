"""The node function: parents' estimates and their children's answers become the children's counts.

It is pure, and is given all that it needs: noisy answers, bounds and estimates, as plain arrays.
Neither the truth nor a key is among them, and this module cannot import what measures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import RunError
from headcount.tabulate.counts import sparse_counts
from headcount.topdown import _kernels as kernels
from headcount.topdown._level import LevelPlan
from headcount.topdown._passes import PassPlan
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.check import Violation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from headcount.topdown.solve.leastsquares import Solved

Triples = tuple[Ints, Ints, Ints]
"""Unit, cell and count of some entries."""


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Integer counts of some units, sparse: row u holds cells ``cell[start[u]:start[u+1]]``."""

    start: Ints
    cell: Ints32
    value: Ints

    @property
    def units(self) -> int:
        """Number of rows."""
        return len(self.start) - 1

    def some(self, first: int, last: int) -> SparseRows:
        """Rows ``first`` to ``last``, as far as there are such."""
        first, last = max(first, 0), min(last, self.units)
        if (first, last) == (0, self.units):
            return self
        start = self.start[first : last + 1]
        own = slice(start[0], start[-1])
        return SparseRows(start - start[0], self.cell[own], self.value[own])

    def matrix(self, cells: int) -> csr_array[Any, tuple[int, int]]:
        """The counts as a sparse matrix, units x cells."""
        return sparse_counts(self.start, self.cell, self.value, cells=cells)

    def totals(self) -> Ints:
        """People per row."""
        ends = np.concatenate([[0], np.cumsum(self.value)])
        return np.asarray(ends[self.start[1:]] - ends[self.start[:-1]], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """Problems of some parents, with or without their answers.

    where
        child        positions of the batch's children in their level
        unit, cell   of each variable
        passes       what is fitted and rounded first
    """

    batch: Batch
    child: Ints
    unit: Ints
    cell: Ints
    passes: PassPlan


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeWork:
    """A chunk of parents.

    where
        children   their children, by position in the level
        copies     counts of only children, which are their parents'
        problem    the parents with several children; None if there are none
        stuck      positions of parents that no copy fits
        notes      what happened so far
    """

    children: range
    copies: Triples
    problem: NodeProblem | None
    stuck: Ints
    notes: dict[str, float]


@dataclass(frozen=True, eq=False)
class Step:
    """One chunk's result: its children's counts, and what happened on the way.

    Children of ``stuck`` parents have no counts; ``broken`` should be empty.
    """

    rows: SparseRows
    notes: dict[str, float]
    stuck: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    broken: tuple[Violation, ...] = ()


def estimate(work: NodeWork) -> Step:
    """Estimate, round and check the children of a chunk of parents."""
    pieces, stuck, notes = [work.copies], work.stuck, dict(work.notes)
    broken: tuple[Violation, ...] = ()
    if (problem := work.problem) is not None:
        counts, left, happened, broken = solve_batch(problem.batch, problem.passes)
        pieces.append((problem.unit, problem.cell, counts))
        stuck = np.concatenate([stuck, problem.batch.parent[left]])
        notes |= happened
    rows = gather(pieces, work.children)
    notes |= {"failsafe": 0, "failsafe rounded wider": 0}
    notes |= {"room made": 0, "moved to make room": 0}
    return Step(rows, notes, stuck, broken)


def gather(pieces: list[Triples], children: range) -> SparseRows:
    """Entries of some children, in the order of their cells within each child, as rows."""
    unit, cell, value = (np.concatenate(part) for part in zip(*pieces, strict=True))
    child = (unit - children.start).astype(np.int32)
    return SparseRows(*kernels.rows_by_child(len(children), child, cell, value))


@dataclass(frozen=True, eq=False)
class Reopened:
    """A parent that could not be met, with its empty cells reopened where ``keep`` is not empty."""

    problem: NodeProblem
    keep: Ints32


def rescue(work: Reopened) -> tuple[Triples, bool] | None:
    """A parent through the failsafe, and whether rounding went beyond floor and ceiling.

    None if even the failsafe cannot meet it.
    """
    from headcount.solve.mip import SolverError
    from headcount.topdown.solve import failsafe

    passes = work.problem.passes
    try:
        rescued = failsafe.rescue(
            work.problem.batch, keep=work.keep, fit=passes.fit, rounds=passes.round
        )
    except SolverError:
        return None
    if rescued.broken:
        return None
    return (work.problem.unit, work.problem.cell, rescued.counts), bool(rescued.widened[0])


def solve_batch(
    batch: Batch, passes: PassPlan
) -> tuple[Ints, Ints, dict[str, float], tuple[Violation, ...]]:
    """Least squares, then rounding: the counts, the parents left without any, and what happened.

    One thread, because engines run chunks side by side. Parents without an answer have counts 0.
    """
    return round_solved(batch, passes.fitted(batch), passes)


def round_solved(
    batch: Batch, solved: Solved, passes: PassPlan
) -> tuple[Ints, Ints, dict[str, float], tuple[Violation, ...]]:
    """See ``solve_batch``."""
    from headcount.topdown.solve.rounding import RoundingMethod

    rounded = passes.rounded(batch, solved.x)
    stuck = np.union1d(
        solved.outcome.unsolved, np.flatnonzero(rounded.method == RoundingMethod.NONE)
    )
    counts = rounded.counts.copy()
    for p in stuck:
        counts[slice(*batch.var_start[batch.cell_start[p : p + 2]])] = 0
    notes = dict(solved.outcome.summary())
    notes |= rounded.summary() | {"violations": len(rounded.broken)}
    return counts, stuck, notes, tuple(rounded.broken)


@dataclass(frozen=True)
class BrokenConstraint:
    """A constraint that counts do not keep: of the children of a parent, or of one unit."""

    unit: int
    of_children: bool
    what: str

    def error(self, level: str, above: NDArray[np.str_], codes: NDArray[np.str_]) -> RunError:
        """What stops the run; the codes of a level and of the one above it name the unit."""
        if self.of_children:
            return RunError(
                f"topdown: children of {str(above[self.unit])!r}: found a constraint broken by "
                f"rounding ({self.what}), expected every one kept"
            )
        return RunError(
            f"topdown: level {level!r}, unit {str(codes[self.unit])!r}: found the bound on "
            f"{self.what} broken, expected it kept"
        )


def broken_rounding(broken: tuple[Violation, ...]) -> BrokenConstraint | None:
    """The first constraint that rounding broke."""
    return BrokenConstraint(broken[0].parent, True, str(broken[0])) if broken else None


def broken_bound(rows: SparseRows, units: range, level: LevelPlan) -> BrokenConstraint | None:
    """Check every bound of some units of a level again, in integers, whoever solved it."""
    low, high = level.bounds_of(np.arange(units.start, units.stop))
    bad = kernels.first_broken(rows.start, rows.cell, rows.value, level.column, low, high)
    if bad < 0:
        return None
    unit, column = divmod(int(bad), low.shape[1])
    return BrokenConstraint(units[unit], False, repr(level.family_of(column)))
