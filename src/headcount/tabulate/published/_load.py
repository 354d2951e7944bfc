"""Published tables from TOML: the shipped products by name, a user's own from a file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from headcount.errors import ConfigError, one_of
from headcount.schema import Schema
from headcount.schema.attribute import first_repeated
from headcount.tabulate.published._table import HOUSING, PERSONS, PublishedTable, TableCells
from headcount.tabulate.published.codings import codings
from headcount.toml_files import read_toml

Alternatives = tuple[tuple[str, tuple[str, ...]], ...]
KEYS = ("name", "title", "lowest", "axes", "within", "universe", "counts", "iterations")
PRODUCTS = ("pl94-171", "sf1")


def tables(product: str | Path) -> Mapping[str, PublishedTable]:
    """The tables of a shipped product ("pl94-171", "sf1") or of a TOML file, by name."""
    return _shipped(product) if product in PRODUCTS else _read(Path(product))


def supported(
    known: Iterable[PublishedTable], schema: Schema
) -> tuple[tuple[TableCells, ...], Mapping[str, str]]:
    """The tables that a schema can make, and for each of the others the reason."""
    cells, reasons = [], {}
    for table in known:
        if support := table.supports(schema):
            cells.append(table.on(schema))
        else:
            reasons[table.name] = support.reason
    return tuple(cells), reasons


@cache
def _shipped(product: str | Path) -> Mapping[str, PublishedTable]:
    file = resources.files("headcount.tabulate.published") / f"{product}.toml"
    return tables_from(tomllib.loads(file.read_text(encoding="utf-8")), source=str(product))


def _read(path: Path) -> Mapping[str, PublishedTable]:
    data = read_toml(path, expected=f"tables: a TOML file, or {one_of(PRODUCTS)}")
    return tables_from(data, source=str(path))


def tables_from(data: Mapping[str, Any], *, source: str) -> Mapping[str, PublishedTable]:
    """Build tables from parsed TOML: ``[[table]]`` entries and ``[iteration]`` universes."""
    iterations = data.get("iteration", {})
    made = [one for entry in data.get("table", ()) for one in _tables(entry, iterations, source)]
    if not made:
        raise ConfigError(source, found="no [[table]]", expected="at least one")
    if repeated := first_repeated(table.name for table in made):
        raise ConfigError(source, found=f"table {repeated!r} twice", expected="each name once")
    return {table.name: table for table in made}


def _tables(
    entry: Mapping[str, Any], iterations: Mapping[str, Any], source: str
) -> Iterator[PublishedTable]:
    for key in ("name", "title", "lowest"):
        if not isinstance(entry.get(key), str):
            raise ConfigError(
                source,
                place=f"table {entry.get('name', '?')}, {key}",
                found="no text",
                expected="a text",
            )
    name = entry["name"]
    if unknown := sorted(set(entry) - set(KEYS)):
        raise ConfigError(
            source, place=f"table {name}", found=f"key {unknown[0]!r}", expected=one_of(KEYS)
        )
    counts = entry.get("counts", PERSONS)
    if counts not in (PERSONS, HOUSING):
        raise ConfigError(
            source,
            place=f"table {name}, counts",
            found=repr(counts),
            expected=one_of((PERSONS, HOUSING)),
        )
    axes = _alternatives(entry.get("axes", {}), source, name)
    within = _within(entry, axes, source)
    universe = entry.get("universe", {})
    for letter in ("", *entry.get("iterations", "")):
        if letter and letter not in iterations:
            raise ConfigError(
                source,
                place=f"table {name}",
                found=f"iteration {letter!r}",
                expected=one_of(iterations),
            )
        who = universe | (iterations[letter] if letter else {})
        yield PublishedTable(
            product=source,
            name=name + letter,
            title=entry["title"] + (f", iteration {letter}" if letter else ""),
            lowest=entry["lowest"],
            axes=axes,
            universe=_alternatives(who, source, name),
            counts=counts,
            within=within,
        )


def _within(entry: Mapping[str, Any], axes: Alternatives, source: str) -> Alternatives:
    """Checked: a later axis, or one coding of it, and groups of the axis before."""
    found = []
    for name, labels in entry.get("within", {}).items():
        role = name.partition("/")[0]
        place = f"table {entry['name']}, within"
        roles = [one for one, _ in axes]
        if role not in roles[1:]:
            raise ConfigError(source, place=place, found=repr(name), expected=one_of(roles[1:]))
        before, alternatives = axes[roles.index(role) - 1]
        known = {label for one in alternatives for label, _ in codings()[before, one].groups}
        if strange := sorted(set(labels) - known):
            raise ConfigError(
                source, place=place, found=repr(strange[0]), expected=one_of(sorted(known))
            )
        found.append((name, tuple(labels)))
    return tuple(found)


def _alternatives(entry: Mapping[str, list[str]], source: str, table: str) -> Alternatives:
    for role, names in entry.items():
        for name in names:
            coding, _, label = name.partition("/")
            known = [n for r, n in codings() if r == role]
            if coding not in known:
                raise ConfigError(
                    source,
                    place=f"table {table}, {role}",
                    found=f"coding {coding!r}",
                    expected=one_of(known),
                )
            groups = [group for group, _ in codings()[role, coding].groups]
            if label and label not in groups:
                raise ConfigError(
                    source,
                    place=f"table {table}, {role}",
                    found=f"group {label!r}",
                    expected=one_of(groups),
                )
    return tuple((role, tuple(names)) for role, names in entry.items())
