"""The noise that is planned for each measured query: laws and weights, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from headcount.errors import ConfigError, PrivacyError
from headcount.geography import Geography
from headcount.mechanisms._units import refuse_housemates
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.noise import Law
from headcount.privacy import Loss, law_for, marginal_sensitivity
from headcount.schema import Schema
from headcount.schema.follows import ALONE, Steps
from headcount.tabulate import CELLS

SMALLEST_VARIANCE = 1e-9
"""Smaller variances say no more about counts, and are too much for a least-squares solver."""


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
