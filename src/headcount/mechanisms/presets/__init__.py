"""Settings that others have used, as TOML data."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from importlib import resources
from typing import Any

from headcount.errors import ConfigError
from headcount.schema.attribute import one_of


def presets() -> tuple[str, ...]:
    """Names of the shipped presets."""
    folder = resources.files(__name__)
    names = [file.name for file in folder.iterdir() if file.name.endswith(".toml")]
    return tuple(sorted(name.removesuffix(".toml") for name in names))


def load_preset(name: str) -> dict[str, Any]:
    """The settings of a shipped preset; decimals stay exact."""
    if name not in presets():
        raise ConfigError("preset", found=repr(name), expected=one_of(presets()))
    text = (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text, parse_float=Decimal)
