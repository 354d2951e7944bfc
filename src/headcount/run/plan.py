"""``headcount plan``: how exact a release will be, before anything is spent and without the data.

Reads the config, the list of units and the levels of attributes. Who is there is not looked at: a
plan that did could tell of it. Where a kind of population has no list of units apart, the places
alone are read from its file (``places_from`` of the population says which): a release shows them
without noise in any case. Of measurements that are published the plan is what they tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.geography.spine import NamedArea
from headcount.mechanisms import Chain, ChainDesign, ExpectedError, Mechanism
from headcount.population import Population
from headcount.run.intervals import published_start
from headcount.topdown.accuracy import ExpectedErrors
from headcount.topdown.from_measurements import PublishedStart
from headcount.topdown.place_estimates import groups_of, noise_of


@dataclass(frozen=True, eq=False)
class Plan:
    """What settings promise, on places and cells.

    where
        levels     expected errors by level and query
        areas      and of each area that was asked for
        counted    what the counts are of
    """

    levels: tuple[ExpectedError, ...]
    areas: tuple[ExpectedError, ...]
    counted: str


def plan(
    mechanism: Mechanism, domain: Domain | Population, *, areas: Sequence[NamedArea] = ()
) -> Plan:
    """How exact a mechanism's answers will be for cells and places that are public.

    where
        domain   of a population, or the population itself, of which nobody is looked at
        areas    unions of units, each with a name: ``("north", "county", ("001", "003"))``
    """
    public = domain.domain if isinstance(domain, Population) else domain
    return plan_of(Chain.of(mechanism).on(public), areas=areas)


def plan_of(design: ChainDesign, *, areas: Sequence[NamedArea] = ()) -> Plan:
    """The same of a mechanism on its domain."""
    if design.steps:
        raise ConfigError(
            "plan",
            place="mechanism",
            found=f"{design.chain.steps[0].name!r} before {design.chain.last.name!r}",
            expected="one method that adds noise: what earlier steps change depends on the data",
        )
    levels, named = design.last.expected_errors(), design.last.expected_in(areas)
    if not levels:
        raise ConfigError(
            "plan",
            place="mechanism",
            found=f"{design.chain.name!r}, which adds no noise",
            expected="a method with noise: how far off others are depends on the counts "
            "(`headcount compare` measures it)",
        )
    return Plan(levels, named, str(design.domain.counted))


def plan_of_measurements(
    source: PublishedStart | Path | str, *, areas: Sequence[NamedArea] = ()
) -> Plan:
    """How exact published measurements are, and what is made from them: no truth is needed.

    where
        source   a run, the folder of a release or of measurements, the config of an estimate, or
                 what ``start_from`` read
    """
    start = source if isinstance(source, PublishedStart) else published_start(Path(source))[0]
    errors = ExpectedErrors.from_noise(
        start.mechanism,
        start.measurements.schema,
        start.measurements.tree,
        noise_of(start),
        groups_of(start),
    )
    named = errors.of_areas(areas, start.measurements.geography)
    return Plan(errors.by_level(), named, str(start.mechanism.unit.counted))
