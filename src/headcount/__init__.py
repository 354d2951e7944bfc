"""headcount protects census-like counts and measures what the protection costs.

The names below load on first use, so that ``import headcount`` stays light.

    population -> tabulate -> mechanism -> release -> evaluate, attack -> report

Imports point one way, from the command line down to the schema; see docs/architecture.md.
"""

# No import, not even of __future__ or pathlib, before the first lines have run.
# ruff: noqa: E402, PTH117, PTH119, PTH120

import os  # which Python itself has loaded before
import sys


def _started_by_name() -> bool:
    """Whether this is ``python -m headcount``, of which nothing but this package is loaded yet."""
    asked = sys.orig_argv[-len(sys.argv)].partition(".")[0] if sys.argv[:1] == ["-m"] else ""
    return asked == "headcount" or (asked.startswith("-") and asked.endswith("mheadcount"))


def _started_as_command() -> bool:
    return os.path.basename("".join(sys.argv[:1])) in ("headcount", "headcount.exe")


def _strange_places() -> set[str]:
    """The folder this is started in, and those below it that ``PYTHONPATH`` names; not our own."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        here = {os.path.realpath(place) for place in (".", *named) if not os.path.isabs(place)}
    except FileNotFoundError:  # the folder is gone, and all in it
        here = set()
    return here - {os.path.dirname(os.path.dirname(os.path.realpath(__file__)))}


# Python imports from the folder it is started in, with -m and where PYTHONPATH has an empty name:
# that of the data, and a file json.py that came with them would be run. Before the first import
# that could.
if _started_by_name() and not sys.flags.safe_path:
    del sys.path[0]
if _started_by_name() or _started_as_command():
    _strange = _strange_places()
    sys.path[:] = [place for place in sys.path if os.path.realpath(place) not in _strange]

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount._version import __version__ as __version__

if TYPE_CHECKING:
    from headcount.api import attack as attack
    from headcount.api import errors_of as errors_of
    from headcount.api import estimate as estimate
    from headcount.api import evaluate as evaluate
    from headcount.api import protect as protect
    from headcount.attacks import Attack as Attack
    from headcount.domain import Domain as Domain
    from headcount.evaluation import Metric as Metric
    from headcount.evaluation.evaluate import Choice as Choice
    from headcount.evaluation.evaluate import Evaluation as Evaluation
    from headcount.geography import Geography as Geography
    from headcount.init.read import bins as bins
    from headcount.init.read import levels as levels
    from headcount.init.read import read as read
    from headcount.mechanisms import Chain as Chain
    from headcount.mechanisms import Geometric as Geometric
    from headcount.mechanisms import Identity as Identity
    from headcount.mechanisms import PostTabular as PostTabular
    from headcount.mechanisms import PreTabular as PreTabular
    from headcount.mechanisms import Sampling as Sampling
    from headcount.mechanisms.cell_key.mechanism import CellKey as CellKey
    from headcount.mechanisms.coarsening.mechanism import Coarsening as Coarsening
    from headcount.mechanisms.rounding.mechanism import Rounding as Rounding
    from headcount.mechanisms.suppression.mechanism import Suppression as Suppression
    from headcount.mechanisms.swapping.mechanism import HouseholdSwapping as HouseholdSwapping
    from headcount.mechanisms.targeted_swapping import TargetedSwapping as TargetedSwapping
    from headcount.population import Population as Population
    from headcount.population import uniform as uniform
    from headcount.population.from_households import to_population as to_population
    from headcount.population.towns import towns as towns
    from headcount.privacy import Guarantee as Guarantee
    from headcount.privacy import Ledger as Ledger
    from headcount.privacy import UnitOfPrivacy as UnitOfPrivacy
    from headcount.release import CountsRelease as CountsRelease
    from headcount.release import Release as Release
    from headcount.release import TablesRelease as TablesRelease
    from headcount.release.store import read_release as read_release
    from headcount.report.finding import Finding as Finding
    from headcount.run.coarsen import coarsenings as coarsenings
    from headcount.run.compare import Comparison as Comparison
    from headcount.run.compare import compare as compare
    from headcount.run.plan import plan as plan
    from headcount.schema import Attribute as Attribute
    from headcount.schema import Schema as Schema
    from headcount.tabulate import Counts as Counts
    from headcount.topdown.mechanism import TopDown as TopDown

_MOVED = {
    "PersonSwapping": "headcount_papers.person_swapping.PersonSwapping",
    "Link": "headcount.attacks.linkage.Link",
    "Reconstruct": "headcount.attacks.reconstruction.Reconstruct",
    "Reidentify": "headcount.attacks.reidentification.Reidentify",
    "load_config": "headcount.config.load.load_config",
    "Truth": "headcount.evaluation.Truth",
    "off_spine_distance": "headcount.geography.off_spine_distance",
    "CodeColumns": "headcount.geography.geography.CodeColumns",
    "Prefixes": "headcount.geography.geography.Prefixes",
    "Tabulated": "headcount.tabulate.Tabulated",
    "PerturbationFile": "headcount.mechanisms.cell_key.tables.PerturbationFile",
    "Thresholds": "headcount.mechanisms.suppression.rules.Thresholds",
    "PseudoUnits": "headcount.mechanisms.swapping.keys.PseudoUnits",
    "SizeNoise": "headcount.mechanisms.swapping.keys.SizeNoise",
    "Risk": "headcount.mechanisms.swapping.risk.Risk",
    "KeyedNoise": "headcount.noise.KeyedNoise",
    "RunKey": "headcount.noise.RunKey",
    "Households": "headcount.population.Households",
    "AttributeColumn": "headcount.population.columns.AttributeColumn",
    "read_counts": "headcount.population.counts.read_counts",
    "write_households": "headcount.population.households.write_households",
    "read_households": "headcount.population.households.read_households",
    "read_microdata": "headcount.population.microdata.read_microdata",
    "read_quarters": "headcount.population.counts.read_quarters",
    "read_persons_2020": "headcount.population.redistricting_2020.read_persons_2020",
    "read_units_2020": "headcount.population.redistricting_2020.read_units_2020",
    "error_report": "headcount.errors_of",
    "estimate_run": "headcount.estimate",
    "evaluate_run": "headcount.evaluate",
    "intervals": "headcount.run.intervals.intervals",
    "protect_run": "headcount.protect",
    "Follows": "headcount.schema.Follows",
    "Recode": "headcount.schema.Recode",
    "load_schema": "headcount.schema.load_schema",
    "Query": "headcount.tabulate.Query",
    "Grouped": "headcount.topdown.choices.Grouped",
    "Invariant": "headcount.topdown.choices.Invariant",
    "Marginal": "headcount.topdown.choices.Marginal",
    "QuartersBounds": "headcount.topdown.choices.QuartersBounds",
    "TableBounds": "headcount.topdown.choices.TableBounds",
    "NoisyMeasurements": "headcount.topdown.measurements.NoisyMeasurements",
    "read_measurements": "headcount.topdown.measurements.read_measurements",
}
"""Names that were here, and where each is now; they work for one version, with a warning."""


def _homes() -> dict[str, str]:
    """The module of each name above: read from the imports, so that they are listed once."""
    source = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    return {
        alias.name: str(node.module)
        for block in source.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


_HOMES = _homes()
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MOVED:
        from warnings import warn

        warn(f"headcount.{name} is now {_MOVED[name]}", DeprecationWarning, stacklevel=2)
        module, _, now = _MOVED[name].rpartition(".")
        return getattr(import_module(module), now)
    if name[:1].isupper():  # a mechanism that is listed nowhere
        from headcount.registry import MECHANISMS

        for kind in map(MECHANISMS.get, MECHANISMS.ours):
            if kind.__name__ == name:
                return kind
    from difflib import get_close_matches

    close = "".join(f"; did you mean {one!r}?" for one in get_close_matches(name, __all__, n=1))
    raise AttributeError(f"module 'headcount' has no attribute {name!r}{close}")


def __dir__() -> list[str]:
    return __all__
