"""The synthetic 1940 one row per person, for tools that read microdata."""

from __future__ import annotations

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.population.population import Population
from headcount.population.quarters import Quarters

MOST_PERSONS = 20_000_000
"""Beyond it a frame of persons takes gigabytes; counts say the same."""


def to_microdata(population: Population, quarters: Quarters) -> pl.DataFrame:
    """Persons with the codes of their places, their living quarters and their attributes.

    where
        quarters    number of the household or facility within the district, from 1; households
                    come first, then the facilities type by type

    People of one type in a district are dealt to its quarters in turn, so that none stays empty
    and their sizes differ by one at most.
    """
    count = population.count if population.count is not None else np.ones(len(population.unit))
    total = int(count.sum())
    if total > MOST_PERSONS:
        raise InputError(
            population.name,
            found=f"{total:,} persons",
            expected=f"at most {MOST_PERSONS:,} for microdata; use a smaller scale or fewer states",
        )
    schema, geography = population.schema, population.geography
    order = np.lexsort((population.cell, population.unit))
    rows = np.repeat(order, count[order].astype(np.int64))
    unit = population.unit[rows].astype(np.int64)
    levels = np.unravel_index(population.cell[rows], schema.shape)
    frame = {
        level: pl.Series(level, geography.units[depth]).gather(geography.ancestors(level)[unit])
        for depth, level in enumerate(geography.levels)
        if depth > 0
    }
    frame["quarters"] = pl.Series(
        _deal(unit, levels[schema.names.index(quarters.attribute)], quarters)
    )
    for attribute, level in zip(schema.attributes, levels, strict=True):
        frame[attribute.name] = pl.Series(list(attribute.levels)).gather(level)
    return pl.DataFrame(frame)


def _deal(unit: Ints, kind: Ints, quarters: Quarters) -> Ints:
    """Number of the living quarters of each person; persons stand in order of unit and type."""
    types = quarters.occupied.shape[1]
    place = unit * types + kind
    first = np.flatnonzero(np.diff(place, prepend=-1))
    within = np.arange(len(place)) - np.repeat(first, np.diff(first, append=len(place)))
    before = np.cumsum(quarters.occupied, axis=1) - quarters.occupied
    here = quarters.occupied.reshape(-1)[place]
    if not here.all():
        raise InputError(
            "living quarters", found="people without quarters of their type", expected="at least 1"
        )
    number: Ints = 1 + before.reshape(-1)[place] + within % here
    return number
