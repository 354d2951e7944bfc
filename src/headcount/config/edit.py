"""Edits of a config's text that keep its comments and the order of its keys.

A change works on the document of tomlkit, whose tables are used like dictionaries. Beside them the
methods that are offered to somebody who writes no TOML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Item, Table

from headcount.domain import Domain
from headcount.errors import ConfigError, did_you_mean
from headcount.files import parse_toml
from headcount.init.attributes import attribute_name, chosen
from headcount.init.look import look
from headcount.mechanisms import PostTabular, PreTabular
from headcount.privacy.loss import decimal
from headcount.registry import MECHANISMS
from headcount.typed import given

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


def _set_at(document: TOMLDocument, path: str, value: Any, *, default: Any) -> None:
    """Set the value at a dotted path, such as "population.attribute.0.levels"."""
    *tables, key = path.split(".")
    within: Any = document
    for name in tables:
        within = within[int(name)] if name.isdigit() else table_of(within, name)
    if path.startswith("population.attribute.") and key == "name":
        # With another name an attribute is still of the same column.
        column = within.get("column", within.get("name"))
        _set_value(within, key, value, default=default)
        _set_value(within, "column", column, default=value)
    else:
        _set_value(within, key, value, default=default)


def set_said(document: TOMLDocument, path: str, said: str) -> None:
    """Set the value at a dotted path by words that were typed; other paths are left alone."""
    read, default = _READ.get(re.sub(r"\.\d+\.", ".", path), (None, None))
    if read is not None:
        _set_at(document, path, read(said.strip()), default=default)


def _set_value(table: Any, key: str, value: Any, *, default: Any) -> None:
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
        _set_value(table, "columns", [*places, column] if new == "place" else places, default=[])
    if new == "attribute":
        _add_attribute(people, column, file=file)
    elif new in KEYED_ROLES:
        people[new] = column


def _add_attribute(people: Any, column: str, *, file: Path) -> None:
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


MethodTable = dict[str, Any]

_CELL_KEY: MethodTable = {"name": "cell-key", "maximum": 2, "variance": 1}
OFFERED: dict[str, tuple[MethodTable, ...]] = {
    "TopDown": ({"name": "topdown", "epsilon": 1},),
    "Geometric noise": ({"name": "geometric", "epsilon": 1},),
    "Cell keys": (_CELL_KEY,),
    "Swapping of households, then cell keys": ({"name": "swapping", "rate": "0.1"}, _CELL_KEY),
    "Rounding to multiples of 5": ({"name": "rounding", "base": 5},),
    "Suppression": ({"name": "suppression", "tables": "auto"},),
    "Coarsening to areas of 200 people": ({"name": "coarsening", "ladder": [200]},),
}
"""What can be added with a click; every other method can be written in the text."""


def parts_of(name: str, domain: Domain) -> list[MethodTable]:
    """The tables of a method that is offered; those that it publishes are of the domain."""
    if name not in OFFERED:
        raise ConfigError("method", found=repr(name), expected=did_you_mean(name, OFFERED))
    parts = [dict(part) for part in OFFERED[name]]
    for part in parts:
        if make := getattr(MECHANISMS.get(part["name"]), "of_areas", None):
            part.update(make(part["ladder"][0], domain))
    return parts


def parts_of_chain(parts: Iterable[PreTabular | PostTabular]) -> list[MethodTable]:
    """The tables of steps as they are, without what is as by default."""
    return [{"name": one.name, **_values(given(one))} for one in parts]


def _values(value: Any) -> Any:
    """Settings that TOML can hold: what is not there has no key."""
    if isinstance(value, dict):
        return {key: _values(one) for key, one in value.items() if one is not None}
    return [_values(one) for one in value] if isinstance(value, list) else value


def _as_tables(parts: Sequence[MethodTable]) -> Any:
    """Parts as a config has them: one table, or several."""
    if len(parts) == 1:
        return _toml(parts[0])
    tables = tomlkit.aot()
    for part in parts:
        tables.append(_toml(part))
    return tables


def _toml(part: MethodTable) -> Any:
    table = tomlkit.table()
    table.update(part)
    return table


def _plain(tables: Any) -> list[MethodTable]:
    """Tables of a document as plain data, one or several."""
    found = tables.unwrap() if hasattr(tables, "unwrap") else tables
    return list(found) if isinstance(found, list) else [found]


def put_loss(document: TOMLDocument, currency: str, amount: Fraction) -> None:
    """Another loss of the config's method: of its last step."""
    tables: Any = document["mechanism"]
    last = tables[-1] if isinstance(tables, list) else tables
    said = decimal(amount, digits=12)
    last[currency] = int(said) if said.isdigit() else said


def add_case(document: TOMLDocument, name: str, parts: Sequence[MethodTable]) -> None:
    """One more way to protect; its name gets a number where it is taken."""
    cases: Any = document.setdefault("case", tomlkit.aot())
    taken = {str(one["name"]) for one in cases}
    names = (name, *(f"{name} {number}" for number in range(2, 100)))
    case = _toml({"name": next(one for one in names if one not in taken)})
    case["mechanism"] = _as_tables(parts)
    cases.append(case)


def take_case(document: TOMLDocument, name: str, reason: str) -> None:
    """A case becomes the config's method, with the reason beside it; the old one becomes a case."""
    before, chosen = _plain(document["mechanism"]), drop_case(document, name)
    put_method(document, name, chosen, reason)
    add_case(document, f"before: {name}", before)


def put_method(
    document: TOMLDocument, name: str, parts: Sequence[MethodTable], reason: str
) -> None:
    """Another method, or the same where there are no parts; and in ``[choice]`` which and why."""
    if parts:
        document["mechanism"] = _as_tables(parts)
    document["choice"] = {"case": name, "reason": " ".join(reason.split())}


def drop_case(document: TOMLDocument, name: str) -> list[MethodTable]:
    """Take a case out of a config; its tables."""
    cases: Any = document.get("case", [])
    case = next((one for one in cases if one["name"] == name), None)
    if case is None:
        known = [str(one["name"]) for one in cases]
        raise ConfigError("case", found=repr(name), expected=did_you_mean(name, known))
    cases.remove(case)
    if not cases:
        document.remove("case")
    return _plain(case["mechanism"])
