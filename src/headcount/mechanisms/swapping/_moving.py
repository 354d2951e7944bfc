"""Dwellings in their new places, and the counts that come of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.mechanisms._base import Context, PreTabular
from headcount.mechanisms._preserved import GROUP_QUARTERS, HOUSEHOLDS, Preserved
from headcount.mechanisms._seeded import SEED_DRAWS, generator
from headcount.mechanisms.swapping.report import (
    Swapped,
    log_nobody,
    log_shortfall,
    write_provenance,
)
from headcount.noise import Noise, Stream
from headcount.population import Population
from headcount.population.dwellings import Households
from headcount.privacy import Guarantee
from headcount.schema import Schema

PROVENANCE = "provenance.parquet"
"""Who changed places with whom: in the curator's folder, never part of a release."""

NO_BOUND = "who changes places with whom depends on the records of everybody"
"""Why no swap has a proved stability."""


class HouseholdStep(PreTabular):
    """A step that moves whole households."""

    needs_households = True
    keeps_households = True
    rate: Fraction

    @abstractmethod
    def swap(self, households: Households, rng: np.random.Generator) -> Swapped:
        """Swap the households once."""

    def apply(
        self, population: Population, noise: Noise, *, run: int, context: Context
    ) -> Population:
        """The population after the swap of a run."""
        return swapped_population(
            self.name, self.swap, population, noise, rate=self.rate, run=run, context=context
        )

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """None, and it says so; what no swap changes is released exactly."""
        return Guarantee.none(
            "a household that is not swapped is published where it lives, one that is swapped is "
            "published whole in another place, and neither is hidden by noise"
        ).also_exact(*map(str, self.preserves(schema, geography)))

    def preserves(self, schema: Schema, geography: Geography) -> tuple[Preserved, ...]:
        """What every swap of households leaves as it is."""
        return (Preserved(HOUSEHOLDS, geography.leaf), Preserved(GROUP_QUARTERS, geography.leaf))

    @property
    def no_bound(self) -> str:
        """Why no bound is proved."""
        return NO_BOUND


def some_households(population: Population, mechanism: str) -> Households:
    """The households of some people; an error if they are not known."""
    if population.households is None:
        raise InputError(
            mechanism,
            found="a population without households",
            expected="persons in dwellings: who lives with whom must be known",
        )
    if not population.households.is_household.any():
        raise InputError(
            mechanism,
            found="no occupied household",
            expected="at least one: vacant dwellings and group quarters never move",
        )
    return population.households


def move(households: Households, partner: Ints, *, carry: Sequence[str] = ()) -> Households:
    """Each dwelling where its partner stood; ``carry`` are attributes that stay with the place."""
    moved = partner >= 0
    block = np.where(moved, households.block[partner], households.block).astype(np.int32)
    codes = dict(households.dwellings)
    for name in carry:
        codes[name] = np.where(moved, codes[name][partner], codes[name])
    return replace(households, block=block, dwellings=codes)


def carried(
    population: Population, households: Households, carry: Sequence[str]
) -> tuple[str, ...]:
    """Those of ``carry`` that are in the schema; their levels must be those of the dwellings."""
    known = [attribute.name for attribute in households.dwelling_attributes]
    for name in carry:
        if name not in known:
            raise InputError(
                households.name,
                place="carry_along",
                found=f"{name!r}, which dwellings do not have",
                expected=f"one of {known}",
            )
        counted = name in population.schema.names
        if counted and population.schema.attribute(name) != households.attribute(name):
            raise InputError(
                households.name,
                place="carry_along",
                found=f"{name!r} recoded in the counts",
                expected="counts with the levels of the dwellings",
            )
    return tuple(name for name in carry if name in population.schema.names)


def swapped_population(
    name: str,
    swap: Callable[[Households, np.random.Generator], Swapped],
    population: Population,
    noise: Noise,
    *,
    rate: Fraction,
    run: int,
    context: Context,
) -> Population:
    """The population after the swap of a run, with a trace of it on the curator's side."""
    households = some_households(population, name)
    stream = Stream(level=population.geography.leaf, query="swap", size=SEED_DRAWS)
    made = swap(households, generator(noise, stream, run))
    if made.report.short:
        log_shortfall(name)
    elif rate and not made.report.swapped:
        log_nobody(name)
    if context.curator is not None:
        write_provenance(context.curator / PROVENANCE, households, {run: made})
    return moved_population(population, made.households)


def moved_population(population: Population, moved: Households) -> Population:
    """The people whose dwellings have moved, some with what is known of the place."""
    assert population.households is not None
    before, cell = population.households.dwellings, population.cell
    stride = population.schema.size
    for attribute in population.schema.attributes:
        stride //= attribute.size
        name = attribute.name
        if name in before and moved.dwellings[name] is not before[name]:
            change = moved.dwellings[name].astype(np.int32) - before[name].astype(np.int32)
            cell = cell + change[moved.dwelling] * np.int32(stride)
    unit = moved.block[moved.dwelling]
    return replace(population, unit=unit, cell=cell, households=moved)
