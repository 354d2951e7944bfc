"""Dwellings in their new places, and the counts that come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.errors import InputError
from headcount.geography import Geography
from headcount.mechanisms._base import Context, CountsOutcome
from headcount.mechanisms.sampling import generator
from headcount.mechanisms.swapping.report import (
    Swapped,
    log_nobody,
    log_shortfall,
    write_provenance,
)
from headcount.noise import Noise, Stream
from headcount.population import Population
from headcount.population.households import Households
from headcount.privacy import Guarantee
from headcount.tabulate import Counts, tabulate

_SEED_DRAWS = 256


def some_households(counts: Counts, mechanism: str) -> Households:
    """The households of some counts; an error if they are not known."""
    if counts.households is None or counts.person_cell is None:
        raise InputError(
            mechanism,
            found="a population without households",
            expected="persons in dwellings: who lives with whom must be known",
        )
    if not counts.households.is_household.any():
        raise InputError(
            mechanism,
            found="no occupied household",
            expected="at least one: vacant dwellings and group quarters never move",
        )
    return counts.households


def no_guarantee(geography: Geography, *exact: str) -> Guarantee:
    """What every swap of households leaves open to see, and what else this one releases exactly."""
    return Guarantee.none(
        "a household that is not swapped is published where it lives, one that is swapped is "
        "published whole in another place, and neither is hidden by noise"
    ).also_exact(
        f"the number of households in each {geography.leaf}",
        "everyone in group quarters, where they live",
        *exact,
    )


def move(
    households: Households, partner: NDArray[np.int64], *, carry: Sequence[str] = ()
) -> Households:
    """Each dwelling where its partner stood; ``carry`` are attributes that stay with the place."""
    moved = partner >= 0
    block = np.where(moved, households.block[partner], households.block).astype(np.int32)
    codes = dict(households.dwellings)
    for name in carry:
        codes[name] = np.where(moved, codes[name][partner], codes[name])
    return replace(households, block=block, dwellings=codes)


def carried(counts: Counts, households: Households, carry: Sequence[str]) -> tuple[str, ...]:
    """Those of ``carry`` that the counts tell; an error if their levels are not the dwellings'."""
    known = [attribute.name for attribute in households.dwelling_attributes]
    for name in carry:
        if name not in known:
            raise InputError(
                households.name,
                place="carry_along",
                found=f"{name!r}, which dwellings do not have",
                expected=f"one of {known}",
            )
        told = name in counts.schema.names
        if told and counts.schema.attribute(name) != households.attribute(name):
            raise InputError(
                households.name,
                place="carry_along",
                found=f"{name!r} recoded in the counts",
                expected="counts with the levels of the dwellings",
            )
    return tuple(name for name in carry if name in counts.schema.names)


def run_swaps(
    name: str,
    swap: Callable[[Households, np.random.Generator], Swapped],
    counts: Counts,
    noise: Noise,
    *,
    rate: Fraction,
    runs: range,
    context: Context | None,
) -> CountsOutcome:
    """Swap once for each run, count again, and leave a trace on the curator's side."""
    households = some_households(counts, name)
    stream = Stream(level=counts.geography.leaf, query="swap", size=_SEED_DRAWS)
    made, swaps = [], {}
    for run in runs:
        swaps[run] = swap(households, generator(noise, stream, run))
        made.append(counted_again(counts, swaps[run].households).matrix)
    if any(made.report.short for made in swaps.values()):
        log_shortfall(name)
    elif rate and any(not made.report.swapped for made in swaps.values()):
        log_nobody(name)
    if context is not None and context.provenance is not None:
        write_provenance(context.provenance, households, swaps)
    return CountsOutcome({counts.geography.leaf: made})


def counted_again(counts: Counts, moved: Households) -> Counts:
    """The counts of people whose dwellings have moved, some with what is known of the place."""
    assert counts.person_cell is not None  # some_households has seen to it
    assert counts.households is not None
    before, cell = counts.households.dwellings, counts.person_cell
    stride = counts.schema.size
    for attribute in counts.schema.attributes:
        stride //= attribute.size
        name = attribute.name
        if name in before and moved.dwellings[name] is not before[name]:
            change = moved.dwellings[name].astype(np.int32) - before[name].astype(np.int32)
            cell = cell + change[moved.dwelling] * np.int32(stride)
    unit = moved.block[moved.dwelling]
    return tabulate(Population(moved.name, counts.schema, counts.geography, unit, cell))
