"""Edits of a config's text that keep its comments and the order of its keys.

A change works on the document of tomlkit, whose tables are used like dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Item, Table

from headcount.errors import ConfigError
from headcount.init.attributes import attribute_name, chosen
from headcount.init.look import look
from headcount.toml_files import parse_toml

KEYED_ROLES = ("count", "key", "person_id")
"""Roles of a column that are keys of [population]."""


def edited(text: str, change: Callable[[TOMLDocument], None], *, source: str) -> str:
    """The text of a config after a change of its values."""
    parse_toml(text, source=source)  # refuses what would take tomlkit long
    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigError(source, found=f"no TOML ({error})", expected="TOML") from None
    change(document)
    return tomlkit.dumps(document)


def set_at(document: TOMLDocument, path: str, value: Any, *, default: Any) -> None:
    """Set the value at a dotted path, such as "population.attribute.0.levels"."""
    *tables, key = path.split(".")
    within: Any = document
    for name in tables:
        within = within[int(name)] if name.isdigit() else table_of(within, name)
    if path.startswith("population.attribute.") and key == "name":
        # With another name an attribute is still of the same column.
        column = within.get("column", within.get("name"))
        set_value(within, key, value, default=default)
        set_value(within, "column", column, default=value)
    else:
        set_value(within, key, value, default=default)


def set_said(document: TOMLDocument, path: str, said: str) -> None:
    """Set the value at a dotted path by words that were typed; other paths are left alone."""
    read, default = _READ.get(re.sub(r"\.\d+\.", ".", path), (None, None))
    if read is not None:
        set_at(document, path, read(said.strip()), default=default)


def set_value(table: Any, key: str, value: Any, *, default: Any) -> None:
    """A value of a table where it differs; one that is as by default goes."""
    if table.get(key, default) == value:
        return
    if value == default:
        table.pop(key, None)
    elif key in table:
        old, new = table.value.item(key), tomlkit.item(value)
        if isinstance(old, Item):
            new.trivia.comment_ws, new.trivia.comment = old.trivia.comment_ws, old.trivia.comment
        table[key] = new
    else:
        table[key] = value


def table_of(within: Any, key: str) -> Any:
    """A table, or a list of tables, that must be there; [run] is made where there is none."""
    if key == "run" and key not in within:
        within[key] = tomlkit.table()
    found = within.get(key)
    if not isinstance(found, Table | AoT):
        raise ConfigError("config", place=key, found="no table", expected=f"[{key}]")
    return found


def roles_of(people: Mapping[str, Any], header: Sequence[str]) -> dict[str, str]:
    """What each column of a table of people is, by [population]."""
    places = people.get("geography", {})
    used = {one.get("column", one.get("name")): "attribute" for one in people.get("attribute", [])}
    used |= dict.fromkeys([*places.get("columns", []), places.get("column")], "place")
    used |= {people[key]: key for key in KEYED_ROLES if people.get(key)}
    return {column: used.get(column, "") for column in header}


def change_role(people: Any, column: str, *, old: str, new: str, file: Path) -> None:
    """A column of the table of people becomes something else; a new place is the lowest."""
    own = people.get("attribute", [])
    if old == "attribute":
        own.remove(next(one for one in own if one.get("column", one.get("name")) == column))
    elif old in KEYED_ROLES:
        people.pop(old)
    if "place" in (old, new):
        table = table_of(people, "geography")
        if "columns" not in table:
            raise ConfigError(
                "config",
                place="population.geography",
                found="a code that is cut into prefixes",
                expected="places as they are, or changed in the text",
            )
        places = [one for one in table["columns"] if one != column]
        set_value(table, "columns", [*places, column] if new == "place" else places, default=[])
    if new == "attribute":
        add_attribute(people, column, file=file)
    elif new in KEYED_ROLES:
        people[new] = column


def add_attribute(people: Any, column: str, *, file: Path) -> None:
    """A column of a file as an attribute, with the levels that a look at the file finds."""
    own = people.setdefault("attribute", tomlkit.aot())
    if not isinstance(own, AoT):
        raise ConfigError("config", place="population.attribute", found="a list", expected="tables")
    taken = {str(one.get("name")) for one in own}
    name = attribute_name(column, taken)
    table = tomlkit.table()
    table.update(chosen(look(file).column(column), name, totals="count" in people).table())
    own.append(table)


def _commas(said: str) -> list[str]:
    return [one.strip() for one in said.split(",") if one.strip()]


def _lines(said: str) -> list[str]:
    return [one.strip() for one in said.splitlines() if one.strip()]


def _number(said: str) -> int | str | None:
    """A whole number; what is none is refused where the config is read."""
    short = said.isascii() and said.isdigit() and len(said) < 20
    return int(said) if short else said or None


def _bins(said: str) -> str | list[int]:
    """The name of a list of bins, or where they begin."""
    parts = said.replace(",", " ").split()
    whole = parts and all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts)
    return [int(part) for part in parts] if whole else said


_READ: dict[str, tuple[Callable[[str], Any], Any]] = {
    "population.public": (bool, False),
    "population.units": (str, ""),
    "population.units_from_data": (bool, False),
    "population.geography.columns": (_commas, []),
    "population.attribute.name": (str, ""),
    "population.attribute.levels": (_lines, []),
    "population.attribute.bins": (_bins, []),
    "population.attribute.levels_from_data": (bool, False),
    "population.attribute.missing": (str, "refuse"),
    "population.attribute.missing_values": (_commas, []),
    "run.out": (str, ""),
    "run.ledger": (str, ""),
    "run.dataset": (str, ""),
    "run.seed": (_number, None),
}
"""Keys that can be set by words, how these are read, and what a key is that is not there."""
