"""Methods that the studio offers, and chains of them as tables of a config."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tomlkit

from headcount.errors import ConfigError, did_you_mean
from headcount.geography import Geography
from headcount.mechanisms import PostTabular, PreTabular
from headcount.typed import shaping

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
    for key, value in part.items():
        table[key] = value
    return table


def parts_of_chain(parts: Iterable[PreTabular | PostTabular]) -> list[MethodTable]:
    """The tables of steps as they are, without what is as by default."""
    return [{"name": one.name, **_values(shaping(one))} for one in parts]


def _values(value: Any) -> Any:
    """Settings that TOML can hold: what is not there has no key."""
    if isinstance(value, dict):
        return {key: _values(one) for key, one in value.items() if one is not None}
    return [_values(one) for one in value] if isinstance(value, list) else value


def record_choice(document: tomlkit.TOMLDocument, name: str, reason: str) -> None:
    """Note which way was chosen and why; without a reason an older note goes: it is of another."""
    document.pop("choice", None)
    if said := " ".join(reason.split()):
        document["choice"] = {"case": name, "reason": said}
