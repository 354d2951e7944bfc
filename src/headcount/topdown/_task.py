"""A piece of work, wherever it runs: measure, then estimate, then write one part.

What is sent to other processes is a range of parents, and where the files are. Whoever works on it
opens the truth and the key, in ``Measurements`` alone; the estimate is a pure function of what
that gives out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headcount.arrays import Flags, Ints, Ints32
from headcount.storage.numbers import StoredNumbers
from headcount.topdown._estimate import (
    BrokenConstraint,
    NodeWork,
    Triples,
    broken_bound,
    broken_rounding,
    estimate,
    rescue,
)
from headcount.topdown._level import LevelPlan
from headcount.topdown._parents import ParentChunk, piece, reopened
from headcount.topdown.answers import Answers
from headcount.topdown.parts import Estimates, LevelPart, LevelParts


@dataclass(frozen=True)
class PieceOutcome:
    """What comes back of a piece of work: what happened, and parents without an answer.

    ``broken`` is a constraint that was not kept. It is found before anything is written.
    """

    notes: dict[str, float]
    stuck: tuple[int, ...]
    broken: BrokenConstraint | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelTask:
    """The children of one level: where to read all that is needed, and where to write them.

    where
        above          name of the level above, whose estimates are finished
        child_first    first child of every parent, and the end
        measurements   noisy answers, which may open files where they are asked
        keep           the margin each cell belongs to in the failsafe; None for no failsafe
        possible       the cells that are no structural zeros: only these may reopen
    """

    level: LevelPlan
    above: str
    child_first: Ints | StoredNumbers
    estimates: Estimates
    parts: LevelParts
    measurements: Answers
    possible: Flags
    keep: Ints32 | None = None

    def estimate(self, chunk: ParentChunk) -> PieceOutcome:
        """Estimate, round, check and write the children of some parents, unless that is done."""
        part = self.parts.load(self.level.name, chunk.children)
        if part is None:
            step = estimate(self._measured(chunk))
            broken = broken_rounding(step.broken)
            if broken is None and not len(step.stuck):
                broken = broken_bound(step.rows, chunk.children, self.level)
            if broken is not None:
                return PieceOutcome(step.notes, (), broken)
            part = LevelPart(step.rows, step.notes, step.stuck)
            self.parts.save(self.level.name, chunk.children, part)
        return PieceOutcome(part.notes, tuple(part.stuck.tolist()))

    def rescue(self, parent: int) -> tuple[Triples, bool] | None:
        """The children of a parent without an answer, by the failsafe."""
        if self.keep is None:
            raise AssertionError("no failsafe is set")
        above = self.estimates.rows(self.above, range(parent, parent + 1))
        kids = self.child_first[parent : parent + 2]
        work = reopened(above, kids, self.level, keep=self.keep, possible=self.possible)
        # Drawn only now: nobody could know before which empty cells would reopen.
        answered = self.measurements.answered(self.level, work.problem)
        return rescue(replace(work, problem=answered))

    def _measured(self, chunk: ParentChunk) -> NodeWork:
        """The problems of a piece with their noisy answers."""
        above = self.estimates.rows(self.above, chunk.parents)
        own = self.child_first[chunk.parents.start : chunk.parents.stop + 1]
        work = piece(above, chunk, own, self.level)
        if work.problem is None:
            return work
        answered = self.measurements.answered(self.level, work.problem)
        return replace(work, problem=answered)
