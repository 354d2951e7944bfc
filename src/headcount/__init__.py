"""headcount protects census-like counts and measures what the protection costs.

The names below load on first use, so that ``import headcount`` stays light.

    population -> tabulate -> mechanism -> release -> evaluate, attack -> report

Imports point one way, from the command line down to the schema; see docs/architecture.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headcount._version import __version__

if TYPE_CHECKING:
    from headcount.mechanisms import Averaged, Geometric, Identity, Raked, Sampling, protect
    from headcount.mechanisms.histogram import Histogram
    from headcount.mechanisms.person_swapping import PersonSwapping
    from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
    from headcount.mechanisms.targeted_swapping import TargetedSwapping
    from headcount.mechanisms.topdown.mechanism import TopDown
    from headcount.noise import KeyedNoise, OpenDPNoise, RunKey
    from headcount.population import Households, Population, uniform
    from headcount.population.from_households import to_population
    from headcount.population.household_readers import read_households
    from headcount.population.household_writer import write_households
    from headcount.population.readers import read_counts, read_microdata
    from headcount.population.towns import towns
    from headcount.privacy import Guarantee, Ledger
    from headcount.release import Release
    from headcount.run.protect import protect_run
    from headcount.schema import Attribute, Follows, Recode, Schema, load_schema
    from headcount.tabulate import Counts, Query

_HOME = {
    "Attribute": "schema",
    "Averaged": "mechanisms",
    "Counts": "tabulate",
    "Follows": "schema",
    "Geometric": "mechanisms",
    "Guarantee": "privacy",
    "Histogram": "mechanisms.histogram",
    "HouseholdSwapping": "mechanisms.swapping.mechanism",
    "Households": "population",
    "Identity": "mechanisms",
    "KeyedNoise": "noise",
    "Ledger": "privacy",
    "OpenDPNoise": "noise",
    "PersonSwapping": "mechanisms.person_swapping",
    "Population": "population",
    "Query": "tabulate",
    "Raked": "mechanisms",
    "Recode": "schema",
    "Release": "release",
    "RunKey": "noise",
    "Sampling": "mechanisms",
    "Schema": "schema",
    "TargetedSwapping": "mechanisms.targeted_swapping",
    "TopDown": "mechanisms.topdown.mechanism",
    "load_schema": "schema",
    "protect": "mechanisms",
    "protect_run": "run.protect",
    "read_counts": "population.readers",
    "read_households": "population.household_readers",
    "read_microdata": "population.readers",
    "to_population": "population.from_households",
    "towns": "population.towns",
    "uniform": "population",
    "write_households": "population.household_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'headcount' has no attribute {name!r}")
    return getattr(import_module(f"headcount.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])


__all__ = [
    "Attribute",
    "Averaged",
    "Counts",
    "Follows",
    "Geometric",
    "Guarantee",
    "Histogram",
    "HouseholdSwapping",
    "Households",
    "Identity",
    "KeyedNoise",
    "Ledger",
    "OpenDPNoise",
    "PersonSwapping",
    "Population",
    "Query",
    "Raked",
    "Recode",
    "Release",
    "RunKey",
    "Sampling",
    "Schema",
    "TargetedSwapping",
    "TopDown",
    "__version__",
    "load_schema",
    "protect",
    "protect_run",
    "read_counts",
    "read_households",
    "read_microdata",
    "to_population",
    "towns",
    "uniform",
    "write_households",
]
