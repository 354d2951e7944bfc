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
    from headcount.attacks.kinds.linkage import Link
    from headcount.attacks.kinds.reconstruction import Reconstruct
    from headcount.attacks.kinds.reidentification import Reidentify
    from headcount.config.load import load_config
    from headcount.evaluate.attacked import attack_release
    from headcount.evaluate.choice import Choice
    from headcount.evaluate.evaluation import Evaluation, evaluate_release
    from headcount.evaluate.truth import Truth
    from headcount.geography import Geography
    from headcount.geography.build import CodeColumns, Prefixes
    from headcount.mechanisms import (
        Averaged,
        Chain,
        Geometric,
        Identity,
        PostTabular,
        PreTabular,
        Raked,
        Sampling,
        Tabulated,
        protect,
    )
    from headcount.mechanisms.histogram import Histogram
    from headcount.mechanisms.person_swapping import PersonSwapping
    from headcount.mechanisms.suppression.mechanism import Suppression
    from headcount.mechanisms.suppression.rules import Thresholds
    from headcount.mechanisms.swapping.keys import PseudoUnits, SizeNoise
    from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
    from headcount.mechanisms.swapping.risk import Risk
    from headcount.mechanisms.targeted_swapping import TargetedSwapping
    from headcount.mechanisms.topdown.choices import (
        Grouped,
        Invariant,
        Marginal,
        QuartersBounds,
        TableBounds,
    )
    from headcount.mechanisms.topdown.mechanism import TopDown
    from headcount.noise import KeyedNoise, OpenDPNoise, RunKey
    from headcount.population import Households, Population, uniform
    from headcount.population.from_households import to_population
    from headcount.population.household_readers import read_households
    from headcount.population.household_writer import write_households
    from headcount.population.ipums1940 import read_ipums1940
    from headcount.population.readers import (
        AttributeColumn,
        read_counts,
        read_microdata,
        read_quarters,
    )
    from headcount.population.towns import towns
    from headcount.population.us1940 import us1940
    from headcount.privacy import Guarantee, Ledger, UnitOfPrivacy
    from headcount.release import CountsRelease, Release, TablesRelease
    from headcount.release.store import read_release
    from headcount.run.evaluate import evaluate_run
    from headcount.run.protect import protect_run
    from headcount.schema import Attribute, Follows, Recode, Schema, load_schema
    from headcount.tabulate import Counts, Query

_ROOMS = {
    "attacks.kinds.linkage": "Link",
    "attacks.kinds.reconstruction": "Reconstruct",
    "attacks.kinds.reidentification": "Reidentify",
    "config.load": "load_config",
    "evaluate.attacked": "attack_release",
    "evaluate.choice": "Choice",
    "evaluate.evaluation": "Evaluation evaluate_release",
    "evaluate.truth": "Truth",
    "geography": "Geography",
    "geography.build": "CodeColumns Prefixes",
    "mechanisms": "Averaged Chain Geometric Identity PostTabular PreTabular Raked Sampling "
    "Tabulated protect",
    "mechanisms.histogram": "Histogram",
    "mechanisms.person_swapping": "PersonSwapping",
    "mechanisms.suppression.mechanism": "Suppression",
    "mechanisms.suppression.rules": "Thresholds",
    "mechanisms.swapping.keys": "PseudoUnits SizeNoise",
    "mechanisms.swapping.mechanism": "HouseholdSwapping",
    "mechanisms.swapping.risk": "Risk",
    "mechanisms.targeted_swapping": "TargetedSwapping",
    "mechanisms.topdown.choices": "Grouped Invariant Marginal QuartersBounds TableBounds",
    "mechanisms.topdown.mechanism": "TopDown",
    "noise": "KeyedNoise OpenDPNoise RunKey",
    "population": "Households Population uniform",
    "population.from_households": "to_population",
    "population.household_readers": "read_households",
    "population.household_writer": "write_households",
    "population.ipums1940": "read_ipums1940",
    "population.readers": "AttributeColumn read_counts read_microdata read_quarters",
    "population.towns": "towns",
    "population.us1940": "us1940",
    "privacy": "Guarantee Ledger UnitOfPrivacy",
    "release": "CountsRelease Release TablesRelease",
    "release.store": "read_release",
    "run.evaluate": "evaluate_run",
    "run.protect": "protect_run",
    "schema": "Attribute Follows Recode Schema load_schema",
    "tabulate": "Counts Query",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"headcount.{_HOME[name]}"), name)
    if name[:1].isupper():  # a mechanism that is listed nowhere
        from headcount.registry import MECHANISMS

        for kind in map(MECHANISMS.get, MECHANISMS.ours):
            if kind.__name__ == name:
                return kind
    raise AttributeError(f"module 'headcount' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])


__all__ = [
    "Attribute",
    "AttributeColumn",
    "Averaged",
    "Chain",
    "Choice",
    "CodeColumns",
    "Counts",
    "CountsRelease",
    "Evaluation",
    "Follows",
    "Geography",
    "Geometric",
    "Grouped",
    "Guarantee",
    "Histogram",
    "HouseholdSwapping",
    "Households",
    "Identity",
    "Invariant",
    "KeyedNoise",
    "Ledger",
    "Link",
    "Marginal",
    "OpenDPNoise",
    "PersonSwapping",
    "Population",
    "PostTabular",
    "PreTabular",
    "Prefixes",
    "PseudoUnits",
    "QuartersBounds",
    "Query",
    "Raked",
    "Recode",
    "Reconstruct",
    "Reidentify",
    "Release",
    "Risk",
    "RunKey",
    "Sampling",
    "Schema",
    "SizeNoise",
    "Suppression",
    "TableBounds",
    "TablesRelease",
    "Tabulated",
    "TargetedSwapping",
    "Thresholds",
    "TopDown",
    "Truth",
    "UnitOfPrivacy",
    "__version__",
    "attack_release",
    "evaluate_release",
    "evaluate_run",
    "load_config",
    "load_schema",
    "protect",
    "protect_run",
    "read_counts",
    "read_households",
    "read_ipums1940",
    "read_microdata",
    "read_quarters",
    "read_release",
    "to_population",
    "towns",
    "uniform",
    "us1940",
    "write_households",
]
