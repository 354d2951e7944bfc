"""The descent: the root alone, then level by level every parent's children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headcount.engines import Engine
from headcount.geography import Geography
from headcount.mechanisms.topdown.estimate import (
    Rows,
    Step,
    build_batch,
    children_of,
    chunks,
    solve_batch,
)
from headcount.mechanisms.topdown.level import Level, prepare_level
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.restrict import Restrictions
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.progress import Progress, silent
from headcount.schema import Schema

Integers = NDArray[np.int64]
_LARGEST = {"largest violation"}


@dataclass(frozen=True, eq=False)
class Descent:
    """Integer counts of every level, from the top, and what happened at each."""

    rows: Mapping[str, Rows]
    notes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def descend(
    *,
    schema: Schema,
    geography: Geography,
    settings: TopDownSettings,
    measurements: Measurements,
    restrictions: Restrictions,
    engine: Engine,
    progress: Progress = silent,
) -> Descent:
    """Estimate every level from the top down."""
    rows: dict[str, Rows] = {}
    notes: dict[str, dict[str, float]] = {}
    for depth, name in enumerate(geography.levels):
        level = prepare_level(
            name,
            schema=schema,
            geography=geography,
            settings=settings,
            measurements=measurements,
            restrictions=restrictions[name],
        )
        if depth == 0:
            steps = [_root(schema, level, measurements)]
        else:
            above = rows[geography.levels[depth - 1]]
            steps = list(_children(geography, level, above, measurements, engine, progress))
        rows[name] = _join([step.rows for step in steps])
        notes[name] = _add_notes([step.notes for step in steps])
    return Descent(rows, notes)


def _root(schema: Schema, level: Level, measurements: Measurements) -> Step:
    """The whole has no parent: every possible cell may be non-zero, and no sum is given."""
    cell = np.flatnonzero(schema.possible).astype(np.int32)
    everything = Rows(np.array([0, len(cell)]), cell, np.zeros(len(cell), dtype=np.int64))
    batch, _, cells = build_batch(
        everything, np.zeros(1, dtype=np.int64), np.array([0, 1]), level, measurements
    )
    counts, notes = solve_batch(replace(batch, is_root=True))
    kept = counts > 0
    start = np.array([0, int(kept.sum())])
    return Step(Rows(start, cells[kept].astype(np.int32), counts[kept]), notes)


def _children(
    geography: Geography,
    level: Level,
    above: Rows,
    measurements: Measurements,
    engine: Engine,
    progress: Progress,
) -> list[Step]:
    depth = geography.depth(level.name)
    first = geography.children_start(geography.levels[depth - 1])
    child_first = np.append(first, geography.size(level.name)).astype(np.int64)
    pieces = chunks(geography, level.name)
    steps = engine.map(
        lambda chunk: children_of(
            chunk, above=above, child_first=child_first, level=level, measurements=measurements
        ),
        pieces,
    )
    return list(progress(steps, what=level.name, total=len(pieces)))


def _join(parts: list[Rows]) -> Rows:
    """Rows of consecutive chunks as one."""
    ends = np.cumsum([part.start[-1] for part in parts])
    offset = np.concatenate([[0], ends[:-1]])
    start = [part.start[:-1] + o for part, o in zip(parts, offset, strict=True)]
    return Rows(
        np.concatenate([*start, ends[-1:]]),
        np.concatenate([part.cell for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def _add_notes(parts: list[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            old = total.get(name, 0)
            total[name] = max(old, value) if name in _LARGEST else old + value
    return total
