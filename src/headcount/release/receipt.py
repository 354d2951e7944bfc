"""The receipt: how a release was made, in exact figures, with nothing of the truth in it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from importlib import metadata
from typing import Any

from headcount._version import __version__
from headcount.privacy import ApproximateLoss, Guarantee, Loss, PureLoss, UnitOfPrivacy, ZCDPLoss

_LOSSES: dict[str, type[PureLoss] | type[ZCDPLoss] | type[ApproximateLoss]] = {
    "pure": PureLoss,
    "zcdp": ZCDPLoss,
    "approximate": ApproximateLoss,
}
_PACKAGES = ("numpy", "scipy", "numba", "polars", "cryptography", "opendp")


def guarantee_to_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON: exact fractions as strings, and the sentences for people."""
    data = asdict(guarantee)
    data["losses"] = [loss_to_json(loss) for loss in guarantee.losses]
    return {"sentences": list(guarantee.sentences()), **data}


def guarantee_from_json(data: dict[str, Any]) -> Guarantee:
    """The guarantee that ``guarantee_to_json`` wrote."""
    fields = {name: value for name, value in data.items() if name != "sentences"}
    fields["losses"] = tuple(loss_from_json(loss) for loss in data["losses"])
    for name in ("released_exactly", "not_covered"):
        fields[name] = tuple(data[name])
    return Guarantee(**fields)


def loss_to_json(loss: Loss) -> dict[str, str]:
    """A loss as strings: its kind, its unit of privacy and its exact numbers."""
    kind = next(name for name, of in _LOSSES.items() if isinstance(loss, of))
    return {"kind": kind, **{name: str(value) for name, value in asdict(loss).items()}}


def loss_from_json(data: dict[str, str]) -> Loss:
    """The loss that ``loss_to_json`` wrote."""
    numbers = {name: Fraction(text) for name, text in data.items() if name not in ("kind", "unit")}
    return _LOSSES[data["kind"]](unit=UnitOfPrivacy(data["unit"]), **numbers)


def versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Versions of what made the release."""
    own = {"headcount": __version__, "python": platform.python_version()}
    return own | {package: metadata.version(package) for package in packages}
