"""The measuring step: the only place where TopDown's noise meets true counts.

Every query at every level is measured once. Marginals are drawn whole. Detailed answers are drawn
where they are asked for: noise is a pure function of its address, so an answer that the estimate
never looks at (a cell that is empty in the parent's estimate) need not be drawn, and the release
has the same distribution. What is drawn is truth plus integer noise; floats come after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.errors import PrivacyError
from headcount.geography import Geography
from headcount.mechanisms._units import refuse_housemates
from headcount.mechanisms.topdown import kernels
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.noise import (
    Noise,
    Stream,
    discrete_gaussian_variance,
    geometric_variance,
)
from headcount.privacy import (
    Loss,
    PureLoss,
    ZCDPLoss,
    gaussian_variance,
    geometric_rate,
    marginal_sensitivity,
)
from headcount.schema import Schema
from headcount.schema.follows import ALONE, Steps
from headcount.tabulate import CELLS, Counts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Integers = NDArray[np.int64]

REPORT = "report"
"""The purpose of the noise on the distance to the truth."""
HARDLY_ANY = 1e-9
"""Smaller variances say no more about counts, and are too much for a least-squares solver."""
WIDEST = 2.0**40
"""Answers and estimates are exact in floats up to 2^53: wider noise could leave them."""


@dataclass(frozen=True)
class NoiseOf:
    """The noise of one measured query: its parameter and the weight of its answers.

    where
        parameter   rate of the two-sided geometric, or variance of the discrete Gaussian
        weight      1 / variance of the noise, as in the 2018 code
    """

    gaussian: bool
    parameter: Fraction
    weight: float


def noise_of(
    loss: Loss | None, *, entries: int, steps: Steps = ALONE, largest_household: int | None = None
) -> NoiseOf:
    """The noise that a loss buys for a vector of so many answers; no loss at all, no noise."""
    if loss is None:
        return NoiseOf(gaussian=False, parameter=Fraction(0), weight=1.0)
    moved = marginal_sensitivity(
        unit=loss.unit, units=entries, cells=1, steps=steps, largest_household=largest_household
    )
    if isinstance(loss, ZCDPLoss):
        variance = gaussian_variance(loss, sensitivity=moved)
        weight = 1 / max(discrete_gaussian_variance(variance), HARDLY_ANY)
        return NoiseOf(gaussian=True, parameter=variance, weight=weight)
    if isinstance(loss, PureLoss):
        rate = geometric_rate(loss, sensitivity=moved)
        weight = 1 / max(geometric_variance(rate), HARDLY_ANY)
        return NoiseOf(gaussian=False, parameter=rate, weight=weight)
    raise PrivacyError(f"topdown: found {loss}, expected a pure or a zCDP loss")


def planned_noise(
    settings: TopDownSettings, schema: Schema, geography: Geography
) -> dict[tuple[str, str], tuple[NoiseOf, int]]:
    """For each measured (level, query) its noise and the number of its answers."""
    if settings.loss is not None:
        refuse_housemates(schema, settings.neighbours, name="topdown")
    allocation = settings.allocation(geography)
    losses = allocation.losses(settings.loss) if settings.loss is not None else {}
    planned = {}
    for level, query in allocation.measured:
        cells = int(schema.possible.sum())
        if query != CELLS:
            cells = settings.query(query).size(schema)
        entries = geography.size(level) * cells
        try:
            noise = noise_of(
                losses.get((level, query)),
                entries=entries,
                steps=settings.steps_of(query, schema),
                largest_household=settings.largest_household,
            )
        except PrivacyError as error:
            raise PrivacyError(f"topdown: {query!r} at {level!r}: {error}") from None
        if noise.weight * WIDEST**2 < 1:
            raise PrivacyError(
                f"topdown: {query!r} at {level!r}: found noise of a standard deviation above 2^40, "
                f"expected a share of the loss that leaves something to estimate from"
            )
        planned[level, query] = (noise, entries)
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

    def noise_of(self, level: str, query: str) -> NoiseOf | None:
        """The noise of a query at a level; None where it is not measured."""
        planned = self._planned.get((level, query))
        return planned[0] if planned is not None else None

    def margin(self, level: str, query: str) -> Integers:
        """Noisy answers of a marginal at a level: units x groups, always summed over the truth."""
        counts = self._counts[level]
        truth = (counts.matrix @ self._settings.query(query).matrix(counts.schema)).toarray()
        law = self._require(level, query)
        stream = Stream(level=level, query=query, size=truth.size)
        drawn = self._draw(law, stream, np.arange(truth.size, dtype=np.int64))
        return np.asarray(truth, dtype=np.int64) + drawn.reshape(truth.shape)

    def detail(self, level: str, unit: Integers, cell: Integers) -> Integers:
        """Noisy detailed answers of some (unit, cell) pairs of a level."""
        counts = self._counts[level]
        law = self._require(level, CELLS)
        cells = counts.schema.size
        stream = Stream(level=level, query=CELLS, size=counts.geography.size(level) * cells)
        answers = self._draw(law, stream, unit * cells + cell)
        matrix = counts.matrix
        kernels.add_truth(matrix.indptr, matrix.indices, matrix.data, unit, cell, answers)
        return answers

    def _require(self, level: str, query: str) -> NoiseOf:
        if (law := self.noise_of(level, query)) is None:
            raise PrivacyError(f"topdown: {query!r} at {level!r} has no share and is not measured")
        return law

    def _draw(self, law: NoiseOf, stream: Stream, index: Integers) -> Integers:
        if law.parameter == 0:
            return np.zeros(len(index), dtype=np.int64)
        if law.gaussian:
            return self._noise.gaussian_at(
                stream, variance=law.parameter, draw=self._run, index=index
            )
        return self._noise.geometric_at(stream, epsilon=law.parameter, draw=self._run, index=index)


def distance_to_truth(
    counts: Counts,
    released: csr_array[Any, tuple[int, int]],
    *,
    rate: Fraction,
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
    drawn = noise.geometric_at(stream, epsilon=rate, draw=run, index=np.zeros(1, dtype=np.int64))
    return distance + int(drawn[0])
