"""The noise that is planned for each measured query: laws and weights, before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from headcount.errors import ConfigError, PrivacyError
from headcount.geography import Geography
from headcount.mechanisms import refuse_housemates
from headcount.noise import Law
from headcount.privacy import Allocation, Loss, law_for, marginal_sensitivity
from headcount.privacy.loss import scaled
from headcount.schema import Schema
from headcount.schema.schema import ALONE, Steps
from headcount.tabulate import CELLS
from headcount.topdown.settings import TopDownSettings

SMALLEST_VARIANCE = 1e-9
"""Smaller variances say no more about counts, and are too much for a least-squares solver."""


@dataclass(frozen=True)
class PlannedNoise:
    """The noise of one measured query and the weight of its answers.

    where
        law       of the noise; None where the loss has no limit: no noise
        weight    1 / variance of the noise, as in the 2018 code
        entries   how many answers the query has at its level
        loss      what the law costs; None where there is no limit
        classes   where units have shares of their own: the noise of each share, in the order of
                  ``UnitShares.classes``; None for a share of 0, which is not measured
    """

    law: Law | None
    weight: float
    entries: int
    loss: Loss | None = None
    classes: tuple[PlannedNoise | None, ...] = ()


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
    weight = 1 / max(law.variance, SMALLEST_VARIANCE)
    return PlannedNoise(law, weight=weight, entries=entries, loss=loss)


def planned_noise(
    settings: TopDownSettings, schema: Schema, geography: Geography
) -> dict[tuple[str, str], PlannedNoise]:
    """The noise of each measured (level, query)."""
    shares = settings.unit_shares(geography)
    units = {level: geography.size(level) for level in geography.levels}
    classes = {}
    if shares is not None:
        for level in geography.levels:
            classes[level], own = shares.classes(level)
            if not own.any():  # only children: nothing is drawn, so that no count stands alone
                units[level] = max(units[level], 2)
    return planned_at(
        settings, schema, settings.allocation(geography), units=units, classes=classes
    )


def planned_at(
    settings: TopDownSettings,
    schema: Schema,
    allocation: Allocation,
    *,
    units: Mapping[str, int],
    classes: Mapping[str, tuple[Fraction, ...]],
) -> dict[tuple[str, str], PlannedNoise]:
    """The noise of each measured (level, query) at some levels.

    where
        units     how many units each of these levels has
        classes   the shares that units of a level can have, where these differ
    """
    if settings.loss is not None:
        refuse_housemates(schema, settings.neighbours, name="topdown")
    losses = allocation.losses(settings.loss) if settings.loss is not None else {}
    planned = {}
    for level, query in allocation.measured:
        if level not in units:
            continue
        cells = int(schema.possible.sum())
        if query != CELLS:
            cells = settings.query(query).size(schema)
        try:
            noise = noise_of(
                losses.get((level, query)),
                entries=units[level] * cells,
                steps=settings.steps_of(query, schema),
                largest_household=settings.largest_household,
            )
            own = _classes(settings, allocation, classes.get(level), schema, level, query, noise)
        except (PrivacyError, ConfigError) as error:  # nothing moves it, or no sampler draws it
            raise PrivacyError(f"topdown: {query!r} at {level!r}: {error}") from None
        planned[level, query] = replace(noise, classes=own)
    return planned


def _classes(
    settings: TopDownSettings,
    allocation: Allocation,
    shares: tuple[Fraction, ...] | None,
    schema: Schema,
    level: str,
    query: str,
    own: PlannedNoise,
) -> tuple[PlannedNoise | None, ...]:
    """The noise of a query for every share that a unit of the level can have."""
    if shares is None:
        return ()
    part = allocation.share(level=level, query=query) / allocation.level_share(level)
    return tuple(
        None
        if share == 0
        else noise_of(
            None if settings.loss is None else scaled(settings.loss, share * part),
            entries=own.entries,
            steps=settings.steps_of(query, schema),
            largest_household=settings.largest_household,
        )
        for share in shares
    )
