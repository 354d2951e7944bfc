"""A piece of work, wherever it runs: measure, then estimate, then write one part.

What is sent about is a range of parents. Whoever works on it holds the truth and the key, in
``Measurements`` alone; the estimate is a pure function of what that gives out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints, Ints32
from headcount.engines import Engine
from headcount.mechanisms.topdown._estimate import (
    NodeWork,
    Reopened,
    Step,
    Triples,
    estimate,
    refuse_broken,
    refuse_broken_rounding,
    rescue,
)
from headcount.mechanisms.topdown._level import LevelPlan
from headcount.mechanisms.topdown._parents import ParentChunk, piece, reopened
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.parts import Estimates, LevelPart, LevelParts


@dataclass(frozen=True)
class PieceOutcome:
    """What comes back of a piece of work: what happened, and parents without an answer."""

    notes: dict[str, float]
    stuck: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelTask:
    """The children of one level.

    where
        above         name of the level above, whose estimates are finished
        child_first   first child of every parent, and the end
        codes         the codes of both levels, the parents' first, for errors
        keep          the margin each cell belongs to in the failsafe; None for no failsafe
        possible      the cells that are no structural zeros: only these may reopen
    """

    level: LevelPlan
    above: str
    child_first: Ints
    codes: tuple[NDArray[np.str_], NDArray[np.str_]]
    estimates: Estimates
    parts: LevelParts
    measurements: Measurements
    possible: Flags
    keep: Ints32 | None = None

    def outcomes(self, engine: Engine, chunks: Sequence[ParentChunk]) -> Iterator[PieceOutcome]:
        """All pieces of the level, each done where the engine has it done."""
        if not engine.elsewhere:
            yield from engine.map(self.estimate, chunks)
            return
        # Truth and key stay here: what is sent is measured, and its results are written here.
        todo = [one for one in chunks if self.parts.load(self.level.name, one.children) is None]
        steps = engine.map(estimate, map(self._measured, todo))
        for chunk, step in zip(todo, steps, strict=True):
            self._keep(chunk, step)
        yield from map(self.estimate, chunks)

    def rescued(
        self, engine: Engine, stuck: Sequence[int]
    ) -> Iterator[tuple[Triples, bool] | None]:
        """The children of parents without an answer, by the failsafe."""
        if engine.elsewhere:
            return engine.map(rescue, map(self._reopened, stuck))
        return engine.map(self._rescue, stuck)

    def estimate(self, chunk: ParentChunk) -> PieceOutcome:
        """Estimate, round, check and write the children of some parents, unless that is done."""
        part = self.parts.load(self.level.name, chunk.children)
        if part is None:
            part = self._keep(chunk, estimate(self._measured(chunk)))
        return PieceOutcome(part.notes, tuple(part.stuck.tolist()))

    def _measured(self, chunk: ParentChunk) -> NodeWork:
        """The problems of a piece with their noisy answers."""
        above = self.estimates.rows(self.above, chunk.parents)
        own = self.child_first[chunk.parents.start : chunk.parents.stop + 1]
        work = piece(above, chunk, own, self.level)
        if work.problem is None:
            return work
        return replace(work, problem=self.measurements.answered(self.level, work.problem))

    def _keep(self, chunk: ParentChunk, step: Step) -> LevelPart:
        """Check a piece's result, and write it."""
        refuse_broken_rounding(step.broken, self.codes[0])
        if not len(step.stuck):
            refuse_broken(step.rows, chunk.children, self.level, self.codes[1])
        part = LevelPart(step.rows, step.notes, step.stuck)
        self.parts.save(self.level.name, chunk.children, part)
        return part

    def _rescue(self, parent: int) -> tuple[Triples, bool] | None:
        return rescue(self._reopened(parent))

    def _reopened(self, parent: int) -> Reopened:
        """The problem of a parent without an answer, with its empty cells reopened."""
        if self.keep is None:
            raise AssertionError("no failsafe is set")
        above = self.estimates.rows(self.above, range(parent, parent + 1))
        kids = self.child_first[parent : parent + 2]
        work = reopened(above, kids, self.level, keep=self.keep, possible=self.possible)
        # Drawn only now: nobody could know before which empty cells would reopen.
        return replace(work, problem=self.measurements.answered(self.level, work.problem))
