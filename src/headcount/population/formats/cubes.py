"""PC-Axis and JSON-stat: cubes with a name for each dimension and a code for each of its values.

Both are read by hand: pyaxis and pyjstat bring pandas and requests for what is a list of values and
the sizes of its dimensions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from headcount.errors import InputError, one_of
from headcount.population.formats.content import Content, Dimension, Stated, cube, whole_text
from headcount.population.formats.kinds import Stored, damaged, refuse_too_many
from headcount.population.text_files import likely_encoding_of

_STATEMENT = re.compile(
    r"\s*(?P<key>[A-Z][A-Z0-9-]*)(?:\[(?P<language>[^\]]*)\])?"
    r'(?:\((?P<about>(?:"[^"]*"|[^")])*)\))?\s*=',
)
_UNTIL = re.compile(r'((?:"[^"]*"|[^";])*);')
_TEXT = re.compile(r'"([^"]*)"')
_JOINED = re.compile(r'"\s*"')
_VALUES = re.compile(r'"[^"]*"|[^\s;,"]+')

Keywords = dict[tuple[str, str], str]
"""What is said under a keyword, of something or in general."""


def read_px(stored: Stored) -> Content:
    """A PC-Axis file in its main language."""
    name = stored.name
    text = _decoded(stored)
    said, data = _keywords(text, name)
    if any(key == "KEYS" for key, _ in said):
        raise InputError(
            name, place="KEYS", found="a cube without its empty cells", expected="one with them"
        )
    own = [*_texts(said.get(("STUB", ""), "")), *_texts(said.get(("HEADING", ""), ""))]
    dimensions = [_dimension(said, one, name) for one in own]
    refuse_too_many(name, len(data) // 2, len(own) + 1, row=0)
    values = pl.Series([one.strip('"') for one in _VALUES.findall(data)], dtype=pl.String)
    title = " ".join(_texts(said.get(("TITLE", ""), "")))
    stated = Stated(
        times=tuple(one for one in own if ("TIMEVAL", one) in said),
        places=tuple(one for one in own if ("MAP", one) in said),
        units="".join(_texts(said.get(("UNITS", ""), ""))),
        title=title,
    )
    labels = {"value": "".join(_texts(said.get(("CONTENTS", ""), "")))}
    return cube(name, dimensions, values, stated=stated, column_labels=labels)


def _decoded(stored: Stored) -> str:
    """The text: as it says itself, unless it is UTF-8 all the same."""
    raw = stored.content(larger=8)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        said = re.search(rb'CODEPAGE\s*=\s*"([^"]*)"', raw)
        named = said[1].decode("ascii", errors="replace") if said else ""
    for encoding in (named, likely_encoding_of(raw, whole=True), "cp1252"):
        try:
            return raw.decode(encoding)
        except (LookupError, UnicodeError, ValueError):
            continue
    return raw.decode("latin-1")


def _keywords(text: str, name: str) -> tuple[Keywords, str]:
    """What the file says in its main language, and its data."""
    said: Keywords = {}
    at = 0
    while (found := _STATEMENT.match(text, at)) is not None:
        key, about = found["key"], "".join(_texts(found["about"] or "")[:1])
        if key == "DATA":
            return said, text[found.end() :]
        value = _UNTIL.match(text, found.end())
        if value is None:
            break
        if not found["language"]:
            said.setdefault((key, about), value[1])
        at = value.end()
    at = len(text) - len(text[at:].lstrip())
    line = text.count("\n", 0, at) + 1
    raise InputError(
        name,
        place=f"line {line}",
        found="text that is no KEYWORD=value; of PC-Axis",
        expected='keywords, then "DATA=" with the values',
    )


def _texts(value: str) -> list[str]:
    """The texts of a list; one that goes on in the next line is one."""
    return [one.strip() for one in _TEXT.findall(_JOINED.sub("", value))]


def _dimension(said: Keywords, name: str, file: str) -> Dimension:
    values = _texts(said.get(("VALUES", name), ""))
    if not values:
        raise InputError(
            file,
            place=f"VALUES({name!r})",
            found="none",
            expected="the values of what STUB and HEADING name",
        )
    codes = _texts(said.get(("CODES", name), ""))
    if len(codes) != len(values) or len(set(codes)) < len(codes):
        return Dimension(name=name, codes=values)
    return Dimension(name=name, codes=codes, labels=dict(zip(codes, values, strict=True)))


# --- JSON-stat -------------------------------------------------------------------------------


def datasets(stored: Stored) -> dict[str, Mapping[str, Any]]:
    """The cubes of a JSON-stat file by their names."""
    try:
        whole = json.loads(stored.content(larger=16))
    except (ValueError, RecursionError) as error:
        raise damaged(stored.name, error, "JSON-stat") from None
    found = list(_cubes(whole))
    if not found:
        raise InputError(
            stored.name,
            found="JSON without a data set",
            expected='JSON-stat: "dimension", "size" and "value"',
        )
    named: dict[str, Mapping[str, Any]] = {}
    for number, (key, one) in enumerate(found):
        label = key or str(one.get("label") or number + 1)
        named[label if label not in named else f"{label} {number + 1}"] = one
    return named


def _cubes(whole: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(whole, dict):
        return
    if "dimension" in whole and "value" in whole:
        yield "", whole
        return
    for key, one in whole.items():
        if isinstance(one, dict) and "dimension" in one and "value" in one:
            yield key, one
    link = whole.get("link")
    items = link.get("item") if isinstance(link, dict) else None
    for one in items if isinstance(items, list) else ():
        yield from _cubes(one)


def read_json_stat(stored: Stored, sheet: str) -> Content:
    """A data set of a JSON-stat file: the one that is named, or the first."""
    named = datasets(stored)
    if sheet and sheet not in named:
        raise InputError(stored.name, place="sheet", found=repr(sheet), expected=one_of(named))
    data = named[sheet or next(iter(named))]
    try:
        return _json_stat(stored.name, data)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise damaged(stored.name, why, "JSON-stat: dimensions, sizes and values") from None


def _json_stat(name: str, data: Mapping[str, Any]) -> Content:
    held = data["dimension"]
    ids, sizes = data.get("id") or held["id"], data.get("size") or held["size"]  # version 2, or 1
    roles = data.get("role") or held.get("role") or {}
    cells = 1
    for size in sizes:
        cells *= int(size)
    refuse_too_many(name, cells, len(ids) + 1)
    dimensions = [_category(str(one), held[one], int(n)) for one, n in zip(ids, sizes, strict=True)]
    status = data.get("status")
    return cube(
        name,
        dimensions,
        _spread(data["value"], cells),
        flags=None if status is None else _spread(status, cells),
        stated=Stated(
            times=tuple(map(str, roles.get("time") or ())),
            places=tuple(map(str, roles.get("geo") or ())),
            title=str(data.get("label") or ""),
        ),
        column_labels={str(one): str(held[one].get("label") or one) for one in ids},
    )


def _category(name: str, held: Mapping[str, Any], size: int) -> Dimension:
    known = held["category"]
    labels = {str(code): str(label) for code, label in (known.get("label") or {}).items()}
    index = known.get("index", list(labels))
    codes = sorted(index, key=index.__getitem__) if isinstance(index, dict) else index
    if len(codes) != size:
        raise ValueError(f"{len(codes)} codes of {name!r}, and size {size}")
    return Dimension(name=name, codes=[str(one) for one in codes], labels=labels)


def _spread(values: Any, cells: int) -> pl.Series:
    """Values of all cells: a list of them, those that there are, or one for all."""
    found: Sequence[Any]
    if isinstance(values, dict):
        made: list[Any] = [None] * cells
        for at, value in values.items():
            made[int(at)] = value
        found = made
    else:
        found = values if isinstance(values, list) else [values] * cells
    return pl.Series([None if one is None else whole_text(one) for one in found], dtype=pl.String)
