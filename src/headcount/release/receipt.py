"""The receipt: how a release was made, in exact figures, with nothing of the truth in it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib import metadata
from typing import Any

from headcount._version import __version__
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.privacy.loss import from_record, to_record

_MAKERS = ("numpy", "scipy", "numba", "polars", "cryptography")
_SOLVERS = ("piqp", "clarabel", "highspy")
_PACKAGES = (*_MAKERS, *_SOLVERS)


def guarantee_to_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON: exact fractions as strings, and the sentences for people."""
    data = asdict(guarantee)
    data["losses"] = [to_record(loss) for loss in guarantee.losses]
    for name in ("stated_by", "made_from", "method"):  # headcount's own word, from data
        if not data[name]:
            del data[name]
    return {"sentences": list(guarantee.sentences()), **data}


def guarantee_from_json(data: dict[str, Any]) -> Guarantee:
    """The guarantee that ``guarantee_to_json`` wrote."""
    fields = {name: value for name, value in data.items() if name != "sentences"}
    fields["losses"] = tuple(from_record(loss) for loss in data["losses"])
    for name in ("released_exactly", "not_covered"):
        fields[name] = tuple(data[name])
    for name in ("unit_means", "stated_by"):
        fields[name] = tuple(data.get(name, ()))  # not in every receipt
    return Guarantee(**fields)


def geographies_to_json(published: Geography, measured: Geography) -> dict[str, Any]:
    """The places of the tables and, where they are others, those that were measured."""
    along = {} if measured is published else {"measured": measured.description()}
    return {"published": published.description(), **along}


def versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Versions of what made the release."""
    own = {"headcount": __version__, "python": platform.python_version()}
    return own | {package: _version(package) for package in packages}


@cache
def _version(package: str) -> str:
    return metadata.version(package)
