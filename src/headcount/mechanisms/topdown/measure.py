"""The measuring step: the only place where TopDown's noise meets true counts.

Every query at every level is measured once. Marginals are drawn whole. Detailed answers are drawn
where they are asked for: noise is a pure function of its address, so an answer that the estimate
never looks at (a cell that is empty in the parent's estimate) need not be drawn, and the release
has the same distribution. What is drawn is truth plus integer noise; floats come after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Ints
from headcount.errors import ConfigError, PrivacyError
from headcount.geography import Geography
from headcount.mechanisms._units import refuse_housemates
from headcount.mechanisms.topdown import _kernels as kernels
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.noise import Law, Noise, Stream
from headcount.privacy import Loss, law_for, marginal_sensitivity
from headcount.schema import Schema
from headcount.schema.follows import ALONE, Steps
from headcount.tabulate import CELLS, Counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array


REPORT = "report"
"""The purpose of the noise on the distance to the truth."""
SMALLEST_VARIANCE = 1e-9
"""Smaller variances say no more about counts, and are too much for a least-squares solver."""
LARGEST_COUNT = 1 << 40
"""Answers and estimates are exact in floats up to 2^53: no count, and no law's scale, is larger."""


@dataclass(frozen=True)
class PlannedNoise:
    """The noise of one measured query and the weight of its answers.

    where
        law       of the noise; None where the loss has no limit: no noise
        weight    1 / variance of the noise, as in the 2018 code
        entries   how many answers the query has at its level
    """

    law: Law | None
    weight: float
    entries: int


def noise_of(
    loss: Loss | None, *, entries: int, steps: Steps = ALONE, largest_household: int | None = None
) -> PlannedNoise:
    """The noise that a loss buys for a vector of so many answers; no loss at all, no noise."""
    if loss is None:
        return PlannedNoise(law=None, weight=1.0, entries=entries)
    moved = marginal_sensitivity(
        unit=loss.unit, units=entries, cells=1, steps=steps, largest_household=largest_household
    )
    law = law_for(loss, moved)
    return PlannedNoise(law, weight=1 / max(law.variance, SMALLEST_VARIANCE), entries=entries)


def planned_noise(
    settings: TopDownSettings, schema: Schema, geography: Geography
) -> dict[tuple[str, str], PlannedNoise]:
    """The noise of each measured (level, query)."""
    if settings.loss is not None:
        refuse_housemates(schema, settings.neighbours, name="topdown")
    allocation = settings.allocation(geography)
    losses = allocation.losses(settings.loss) if settings.loss is not None else {}
    planned = {}
    for level, query in allocation.measured:
        cells = int(schema.possible.sum())
        if query != CELLS:
            cells = settings.query(query).size(schema)
        try:
            noise = noise_of(
                losses.get((level, query)),
                entries=geography.size(level) * cells,
                steps=settings.steps_of(query, schema),
                largest_household=settings.largest_household,
            )
        except (PrivacyError, ConfigError) as error:  # nothing moves it, or no sampler draws it
            raise PrivacyError(f"topdown: {query!r} at {level!r}: {error}") from None
        planned[level, query] = noise
    return planned


class Measurements:
    """Noisy answers of one run, by level and query; holds the truth, and never gives it out."""

    def __init__(
        self, counts: Mapping[str, Counts], settings: TopDownSettings, noise: Noise, *, run: int
    ) -> None:
        leaf = next(iter(counts.values()))
        self._counts = counts
        self._settings = settings
        self._noise = noise
        self._run = run
        self._planned = planned_noise(settings, leaf.schema, leaf.geography)
        for level in counts.values():
            level.matrix.sum_duplicates()  # detail looks counts up by bisection

    def noise_of(self, level: str, query: str) -> PlannedNoise | None:
        """The noise of a query at a level; None where it is not measured."""
        return self._planned.get((level, query))

    def margin(self, level: str, query: str) -> Ints:
        """Noisy answers of a marginal at a level: units x groups, always summed over the truth."""
        counts = self._counts[level]
        truth = (counts.matrix @ self._settings.query(query).matrix(counts.schema)).toarray()
        law = self._law(level, query)
        stream = Stream(level=level, query=query, size=truth.size)
        drawn = self._draw(law, stream, np.arange(truth.size, dtype=np.int64))
        return np.asarray(truth, dtype=np.int64) + drawn.reshape(truth.shape)

    def detail(self, level: str, unit: Ints, cell: Ints) -> Ints:
        """Noisy detailed answers of some (unit, cell) pairs of a level."""
        counts = self._counts[level]
        law = self._law(level, CELLS)
        cells = counts.schema.size
        stream = Stream(level=level, query=CELLS, size=counts.geography.size(level) * cells)
        answers = self._draw(law, stream, unit * cells + cell)
        matrix = counts.matrix
        kernels.add_truth(matrix.indptr, matrix.indices, matrix.data, unit, cell, answers)
        return answers

    def _law(self, level: str, query: str) -> Law | None:
        if (planned := self.noise_of(level, query)) is None:
            raise PrivacyError(f"topdown: {query!r} at {level!r} has no share and is not measured")
        return planned.law

    def _draw(self, law: Law | None, stream: Stream, index: Ints) -> Ints:
        if law is None:
            return np.zeros(len(index), dtype=np.int64)
        return self._noise.draw_at(stream, law, draw=self._run, index=index)


def distance_to_truth(
    counts: Counts,
    released: csr_array[Any, tuple[int, int]],
    *,
    law: Law,
    noise: Noise,
    run: int,
) -> int:
    """The protected L1 distance between release and truth over all leaf cells.

    A neighbour moves the distance by at most as much as the cells themselves, which is 2 for a
    changed record: noise of rate epsilon / 2 then costs epsilon (the report of the 2018 test).
    Its noise has a purpose of its own, because a query of the user's may have any name.
    """
    distance = int(abs(counts.matrix - released).sum())
    stream = Stream(level=counts.level, query="distance to the truth", size=1, purpose=REPORT)
    drawn = noise.draw_at(stream, law, draw=run, index=np.zeros(1, dtype=np.int64))
    return distance + int(drawn[0])
