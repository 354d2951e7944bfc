"""Schemas as TOML data: the shipped ones by name, a user's own from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from headcount.errors import ConfigError, InputError, one_of
from headcount.fields import File
from headcount.files import parse_toml, read_toml
from headcount.schema.schema import (
    Attribute,
    Combination,
    Follows,
    Schema,
    impossible,
    looks_like_size,
)


def shipped() -> tuple[str, ...]:
    """Names of the schemas that come with headcount."""
    folder = resources.files("headcount.schema") / "catalog"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir()))


@dataclass(frozen=True, kw_only=True)
class SchemaFile(File):
    """The name of a shipped schema, or the path of a file."""

    makes: bool = False

    def locate(self, value: Any, folder: Path) -> Any:
        """A shipped schema has no place."""
        return value if value in shipped() else str(folder / value)


def load_schema(name_or_file: str | Path) -> Schema:
    """The shipped schema of that name, or the one in a TOML file."""
    if isinstance(name_or_file, str) and name_or_file in shipped():
        entry = resources.files("headcount.schema") / "catalog" / f"{name_or_file}.toml"
        source = f"schema {name_or_file!r}"
        return _schema_from(
            parse_toml(entry.read_text(encoding="utf-8"), source=source), source=source
        )
    data = read_toml(Path(name_or_file), expected=f"a schema: a TOML file, or {one_of(shipped())}")
    return _schema_from(data, source=str(name_or_file))


def _schema_from(data: Mapping[str, Any], *, source: str) -> Schema:
    """Build a schema from parsed TOML: ``[[attribute]]`` and ``[[structural_zero]]`` tables."""
    if unknown := set(data) - {"attribute", "structural_zero", "description"}:
        raise ConfigError(
            source,
            place=sorted(unknown)[0],
            found="an unknown key",
            expected=one_of(["attribute", "structural_zero", "description"]),
        )
    try:
        return Schema(_attributes(data, source), _structural_zeros(data, source))
    except ConfigError:
        raise
    except InputError as error:  # the schema's own checks do not know the file
        raise ConfigError(
            source, place=error.place, found=error.found, expected=error.expected
        ) from None


def _attributes(data: Mapping[str, Any], source: str) -> tuple[Attribute, ...]:
    attributes = []
    for place, entry in _tables(data, "attribute", source):
        if set(entry) - {"follows"} != {"name", "levels"}:
            raise ConfigError(
                source,
                place=place,
                found=f"keys {sorted(entry)}",
                expected="name and levels, and follows if need be",
            )
        if not isinstance(entry["name"], str):
            raise ConfigError(
                source, place=f"{place}, name", found=repr(entry["name"]), expected="a string"
            )
        levels = _strings(entry["levels"], source, place)
        attributes.append(Attribute(entry["name"], levels, _follows(entry, source, place)))
    return tuple(attributes)


def _follows(entry: Mapping[str, Any], source: str, place: str) -> Follows:
    """In a schema an attribute is the person's; one named like a household size must say so."""
    said = entry.get("follows")
    if said is None:
        return Follows.UNSTATED if looks_like_size(entry["name"]) else Follows.PERSON
    if said != Follows.PERSON:
        raise ConfigError(
            source,
            place=f"{place}, follows",
            found=repr(said),
            expected="'person': a table of counts does not tell who lives together",
        )
    return Follows.PERSON


def _structural_zeros(data: Mapping[str, Any], source: str) -> tuple[Combination, ...]:
    return tuple(
        impossible({name: _strings(levels, source, place) for name, levels in entry.items()})
        for place, entry in _tables(data, "structural_zero", source)
    )


def _tables(
    data: Mapping[str, Any], key: str, source: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each ``[[key]]`` table with its place for errors."""
    entries = data.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(source, place=key, found=repr(entries), expected=f"[[{key}]] tables")
    for number, entry in enumerate(entries, start=1):
        yield f"{key} {number}", entry


def _strings(value: object, source: str, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(source, place=place, found=repr(value), expected="a list of strings")
    return tuple(value)
