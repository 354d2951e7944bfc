"""Methods that are offered to somebody who writes no TOML, and edits of those in a config."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import tomlkit

from headcount.errors import ConfigError, did_you_mean
from headcount.geography import Geography
from headcount.mechanisms import PostTabular, PreTabular
from headcount.privacy.loss import decimal
from headcount.typed import given

MethodTable = dict[str, Any]

_CELL_KEY: MethodTable = {"name": "cell-key", "maximum": 2, "variance": 1}
OFFERED: dict[str, tuple[MethodTable, ...]] = {
    "TopDown": ({"name": "topdown", "epsilon": 1},),
    "Geometric noise": ({"name": "geometric", "epsilon": 1},),
    "Cell keys": (_CELL_KEY,),
    "Swapping of households, then cell keys": ({"name": "swapping", "rate": "0.1"}, _CELL_KEY),
    "Swapping of people, then cell keys": (
        {"name": "person-swapping", "rate": "0.1", "kind": "random", "level": ""},
        _CELL_KEY,
    ),
    "Rounding to multiples of 5": ({"name": "rounding", "base": 5},),
    "Suppression": ({"name": "suppression", "tables": "auto"},),
}
"""What can be added with a click; every other method can be written in the text."""


def parts_of(name: str, geography: Geography) -> list[MethodTable]:
    """The tables of a method that is offered, on these places."""
    if name not in OFFERED:
        raise ConfigError("method", found=repr(name), expected=did_you_mean(name, OFFERED))
    return [
        {**part, "level": geography.leaf} if part.get("level") == "" else dict(part)
        for part in OFFERED[name]
    ]


def parts_of_chain(parts: Iterable[PreTabular | PostTabular]) -> list[MethodTable]:
    """The tables of steps as they are, without what is as by default."""
    return [{"name": one.name, **_values(given(one))} for one in parts]


def _values(value: Any) -> Any:
    """Settings that TOML can hold: what is not there has no key."""
    if isinstance(value, dict):
        return {key: _values(one) for key, one in value.items() if one is not None}
    return [_values(one) for one in value] if isinstance(value, list) else value


def as_tables(parts: Sequence[MethodTable]) -> Any:
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


def put_loss(document: tomlkit.TOMLDocument, currency: str, amount: Fraction) -> None:
    """Another loss of the config's method: of its last step."""
    tables: Any = document["mechanism"]
    last = tables[-1] if isinstance(tables, list) else tables
    said = decimal(amount, digits=12)
    last[currency] = int(said) if said.isdigit() else said


def add_case(document: tomlkit.TOMLDocument, name: str, parts: Sequence[MethodTable]) -> None:
    """One more way to protect; its name gets a number where it is taken."""
    cases: Any = document.setdefault("case", tomlkit.aot())
    taken = {str(one["name"]) for one in cases}
    names = (name, *(f"{name} {number}" for number in range(2, 100)))
    case = _toml({"name": next(one for one in names if one not in taken)})
    case["mechanism"] = as_tables(parts)
    cases.append(case)


def take_case(document: tomlkit.TOMLDocument, name: str, reason: str) -> None:
    """A case becomes the config's method, with the reason beside it; the old one becomes a case."""
    before, chosen = _plain(document["mechanism"]), drop_case(document, name)
    put_method(document, name, chosen, reason)
    add_case(document, f"before: {name}", before)


def put_method(
    document: tomlkit.TOMLDocument, name: str, parts: Sequence[MethodTable], reason: str
) -> None:
    """Another method, or the same where there are no parts; and in ``[choice]`` which and why."""
    if parts:
        document["mechanism"] = as_tables(parts)
    document["choice"] = {"case": name, "reason": " ".join(reason.split())}


def drop_case(document: tomlkit.TOMLDocument, name: str) -> list[MethodTable]:
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
