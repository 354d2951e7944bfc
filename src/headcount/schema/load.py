"""Schemas as TOML data: the shipped ones by name, a user's own from a file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from headcount.errors import ConfigError
from headcount.schema.attribute import Attribute, one_of
from headcount.schema.schema import Schema, impossible


def shipped() -> tuple[str, ...]:
    """Names of the schemas that come with headcount."""
    folder = resources.files("headcount.schema") / "catalog"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir()))


def load_schema(name_or_file: str | Path) -> Schema:
    """The shipped schema of that name, or the one in a TOML file."""
    text, source = _read(name_or_file)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(source, found=f"text that is not TOML ({error})", expected="TOML") from None
    return schema_from(data, source=source)


def schema_from(data: Mapping[str, Any], *, source: str) -> Schema:
    """Build a schema from parsed TOML: ``[[attribute]]`` and ``[[structural_zero]]`` tables."""
    if unknown := set(data) - {"attribute", "structural_zero", "description"}:
        raise ConfigError(
            source,
            place=sorted(unknown)[0],
            found="an unknown key",
            expected=one_of(["attribute", "structural_zero", "description"]),
        )
    attributes = []
    for number, entry in enumerate(data.get("attribute", []), start=1):
        place = f"attribute {number}"
        if set(entry) != {"name", "levels"}:
            raise ConfigError(
                source, place=place, found=f"keys {sorted(entry)}", expected="name and levels"
            )
        attributes.append(Attribute(entry["name"], _strings(entry["levels"], source, place)))
    zeros = []
    for number, entry in enumerate(data.get("structural_zero", []), start=1):
        place = f"structural_zero {number}"
        zeros.append(
            impossible({name: _strings(levels, source, place) for name, levels in entry.items()})
        )
    return Schema(tuple(attributes), tuple(zeros))


def _strings(value: object, source: str, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(source, place=place, found=repr(value), expected="a list of strings")
    return tuple(value)


def _read(name_or_file: str | Path) -> tuple[str, str]:
    if isinstance(name_or_file, str) and name_or_file in shipped():
        entry = resources.files("headcount.schema") / "catalog" / f"{name_or_file}.toml"
        return entry.read_text(encoding="utf-8"), f"schema {name_or_file!r}"
    path = Path(name_or_file)
    if not path.is_file():
        raise ConfigError(
            str(name_or_file),
            found="no such schema",
            expected=f"a TOML file, or {one_of(shipped())}",
        )
    return path.read_text(encoding="utf-8"), str(path)
