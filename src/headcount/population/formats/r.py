"""Files of R: tables in what ``saveRDS`` and ``save`` write.

Read by hand: pyreadr has a licence that would bind headcount's users (AGPL), and rdata brings
pandas and xarray. Nothing in a file is run: what is no vector, list or attribute is passed over.

    file     "X\\n", version, versions of R, then one value; ``save`` has a line before it
    value    flags (type, whether it has attributes, whether a name), then what the type has
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import polars as pl

from headcount.errors import InputError, one_of
from headcount.population.formats.content import Content, Dimension, as_text, cube, whole_text
from headcount.population.formats.kinds import Stored, damaged, refuse_too_many
from headcount.population.text_files import distinct

MISSING_WHOLE = -(1 << 31)
DEEPEST = 100
"""Values within values; data frames have two or three."""

SYMBOL, PAIRS, CLOSURE, ENVIRONMENT, PROMISE, LANGUAGE = 1, 2, 3, 4, 5, 6
CHARS, LOGICAL, WHOLE, REAL, COMPLEX, TEXTS, DOTS, LIST = 9, 10, 13, 14, 15, 16, 17, 19
EXPRESSION, RAW, S4 = 20, 24, 25
ALTERNATIVE, ATTRIBUTE_PAIRS, ATTRIBUTE_LANGUAGE = 238, 239, 240
PERSISTENT, PACKAGE, NAMESPACE, REFERENCE = 247, 250, 249, 255
EMPTY = (0, 241, 242, 243, 244, 245, 246, 251, 252, 253, 254)
"""Nothing, and environments and functions that every R has."""


@dataclass(frozen=True, eq=False)
class _Value:
    """A vector or a list with its attributes."""

    held: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def attribute(self, name: str) -> list[str]:
        """An attribute that is a list of texts."""
        found = self.attributes.get(name)
        held = found.held if isinstance(found, _Value) else None
        return [one or "" for one in held] if isinstance(held, list) else []


class _Bytes:
    """A value after the other."""

    def __init__(self, content: bytes, name: str) -> None:
        self._content, self._at, self._name = content, 0, name
        self._known: list[Any] = []

    def damaged(self, found: str) -> NoReturn:
        """Refuse what stands here."""
        raise InputError(
            self._name,
            place=f"byte {self._at:,} of the unpacked content",
            found=found,
            expected="a data frame of R",
        )

    def take(self, size: int) -> bytes:
        """The next bytes."""
        some = self._content[self._at : self._at + size]
        if size < 0 or len(some) < size:
            self.damaged("the end of the file, or a size that cannot be")
        self._at += size
        return some

    def whole(self) -> int:
        """The next whole number."""
        number: int = struct.unpack(">i", self.take(4))[0]
        return number

    def length(self) -> int:
        """How long a vector is."""
        size = self.whole()
        return (self.whole() << 32) + self.whole() if size == -1 else size

    def head(self) -> None:
        """What stands before the value."""
        if self.take(2) != b"X\n":
            self.damaged("no binary file of R")
        version = self.whole()
        self.take(8)
        if version == 3:
            self.take(self.whole())
        elif version != 2:
            self.damaged(f"version {version}")

    def value(self, depth: int = 0) -> Any:
        """The next value."""
        if depth > DEEPEST:
            self.damaged("values within values without an end")
        flags = self.whole()
        kind, has_attributes, has_tag = flags & 0xFF, bool(flags & 0x200), bool(flags & 0x400)
        if kind in EMPTY:
            return None
        if kind == REFERENCE:
            return self._again((flags >> 8) or self.whole())
        if kind == SYMBOL:
            return self._know(self.value(depth + 1))
        if kind in (PERSISTENT, PACKAGE, NAMESPACE):
            self.whole()
            return self._know([self.value(depth + 1) for _ in range(self.whole())])
        if kind == ENVIRONMENT:
            self.whole()
            at = len(self._known)
            self._know(None)
            for _ in range(4):
                self.value(depth + 1)
            return self._known[at]
        if kind in (PAIRS, LANGUAGE, CLOSURE, PROMISE, DOTS, ATTRIBUTE_PAIRS, ATTRIBUTE_LANGUAGE):
            marked = has_attributes or kind in (ATTRIBUTE_PAIRS, ATTRIBUTE_LANGUAGE)
            return self._pairs(marked, has_tag, depth)
        if kind == CHARS:
            return self._chars(flags >> 12)
        if kind == ALTERNATIVE:
            return self._alternative(depth)
        held = self._vector(kind, depth)
        attributes = self.value(depth + 1) if has_attributes else {}
        return _Value(held, attributes if isinstance(attributes, dict) else {})

    def _know(self, value: Any) -> Any:
        self._known.append(value)
        return value

    def _again(self, number: int) -> Any:
        if not 0 < number <= len(self._known):
            self.damaged("a reference to nothing")
        return self._known[number - 1]

    def _pairs(self, marked: bool, tagged: bool, depth: int) -> dict[str, Any]:
        """A list of pairs; one that has no names is numbered."""
        found: dict[str, Any] = {}
        while True:
            if marked:
                self.value(depth + 1)
            tag = self.value(depth + 1) if tagged else None
            found[tag if isinstance(tag, str) else str(len(found))] = self.value(depth + 1)
            flags = self.whole()
            kind = flags & 0xFF
            if kind != PAIRS:
                self._at -= 4
                self.value(depth + 1)
                return found
            marked, tagged = bool(flags & 0x200), bool(flags & 0x400)

    def _chars(self, levels: int) -> str | None:
        size = self.whole()
        if size == -1:
            return None
        raw = self.take(size)
        try:
            return raw.decode("latin-1" if levels & 4 else "utf-8")
        except UnicodeDecodeError:
            return raw.decode("cp1252", errors="replace")

    def _vector(self, kind: int, depth: int) -> Any:
        if kind in (LOGICAL, WHOLE):
            return np.frombuffer(self.take(4 * self.length()), dtype=">i4")
        if kind == REAL:
            return np.frombuffer(self.take(8 * self.length()), dtype=">f8")
        if kind == COMPLEX:
            return np.frombuffer(self.take(16 * self.length()), dtype=">c16")
        if kind == RAW:
            return np.frombuffer(self.take(self.length()), dtype=np.uint8)
        if kind in (TEXTS, LIST, EXPRESSION):
            size = self.length()
            if size > len(self._content) // 4:  # each has 4 bytes at least
                self.damaged("a size that cannot be")
            return [self.value(depth + 1) for _ in range(size)]
        if kind != S4:
            self.damaged(f"a value of type {kind}")
        return None

    def _alternative(self, depth: int) -> Any:
        """A vector that R wrote shorter than it is."""
        told, state, attributes = (self.value(depth + 1) for _ in range(3))
        name = next(iter(told.values()), "") if isinstance(told, dict) else ""
        held: Any = None
        if name in ("compact_intseq", "compact_realseq") and isinstance(state, _Value):
            size, first, step = (float(one) for one in state.held[:3])
            refuse_too_many(self._name, int(size), 1)
            held = first + step * np.arange(int(size))
            held = held.astype(np.int32) if name == "compact_intseq" else held
        elif name == "deferred_string" and isinstance(state, dict):
            held = [_number(one) for one in next(iter(state.values())).held]
        elif str(name).startswith("wrap_") and isinstance(state, _Value):
            return state.held[0]
        else:
            self.damaged(f"a vector of the kind {name!r}")
        return _Value(held, attributes if isinstance(attributes, dict) else {})


def _number(value: Any) -> str | None:
    if value == MISSING_WHOLE or value != value:
        return None
    return whole_text(float(value))


def tables(stored: Stored) -> dict[str, Content]:
    """The data frames and tables of a file by their names; one without a name is ""."""
    raw = stored.content(larger=8)
    source = _Bytes(raw, stored.name)
    saved = raw[:5] in (b"RDX2\n", b"RDX3\n")
    if saved:
        source.take(5)
    source.head()
    try:
        value = source.value()
        found = dict(_tables(value if saved else {"": value}, stored.name))
    except (struct.error, AttributeError, TypeError, ValueError, IndexError, RecursionError) as no:
        raise damaged(stored.name, no, "a data frame of R") from None
    if not found:
        source.damaged("values, and no data frame or table among them")
    return found


def read_r(stored: Stored, sheet: str) -> Content:
    """A data frame of a file: the one that is named, or the first."""
    found = tables(stored)
    if sheet and sheet not in found:
        raise InputError(stored.name, place="sheet", found=repr(sheet), expected=one_of(found))
    return found[sheet or next(iter(found))]


def _tables(values: Mapping[str, Any], name: str) -> Iterator[tuple[str, Content]]:
    for key, value in values.items():
        if not isinstance(value, _Value):
            continue
        names = value.attribute("names")
        if "data.frame" in value.attribute("class") and len(names) == len(value.held):
            yield key, _frame(names, value.held, name)
        elif "dimnames" in value.attributes and isinstance(value.held, np.ndarray):
            yield key, _array(value, name)


def _frame(names: list[str], columns: list[Any], name: str) -> Content:
    series, labels, said = [], {}, {}
    for one, held in zip(distinct(names), columns, strict=True):
        if not isinstance(held, _Value) or not isinstance(held.held, np.ndarray | list):
            continue  # a column of lists or of tables
        series.append(_column(one, held, name))
        if known := held.attributes.get("labels"):
            pairs = zip(known.held, known.attribute("names"), strict=False)
            labels[one] = {whole_text(_plain(code)): label for code, label in pairs}
        if text := "".join(held.attribute("label")):
            said[one] = text
    sizes = {len(one) for one in series}
    if len(sizes) > 1:
        raise ValueError("columns of different lengths")
    frame = pl.DataFrame(series)
    return Content(frame=frame, header=frame.columns, column_labels=said, value_labels=labels)


def _plain(value: Any) -> object:
    return float(value) if isinstance(value, np.number) else value


def _column(name: str, value: _Value, file: str) -> pl.Series:
    if isinstance(value.held, list):
        texts = [one if isinstance(one, str) else None for one in value.held]
        return as_text(pl.Series(name, texts, dtype=pl.String), file)
    if value.held.dtype.kind == "f":
        return as_text(pl.Series(name, value.held.astype(np.float64)), file)
    if value.held.dtype.kind == "c":
        raise ValueError(f"complex numbers in column {name!r}")
    whole = pl.Series(name, value.held.astype(np.int32)).cast(pl.Int64)
    whole = whole.replace(MISSING_WHOLE, None)
    if levels := value.attribute("levels"):
        if whole.min() is not None and not 1 <= int(whole.min()) <= int(whole.max()) <= len(levels):  # type: ignore[arg-type]
            raise ValueError(f"a value of column {name!r} that is none of its levels")
        return pl.Series(levels, dtype=pl.String).gather(whole - 1).alias(name)
    return whole.cast(pl.String)


def _array(value: _Value, name: str) -> Content:
    """A table of counts, as ``table`` and ``xtabs`` make them."""
    held = value.attributes["dimnames"]
    names = held.attribute("names")
    known = [[str(code) for code in one.held] for one in held.held]
    own = [
        names[n] if n < len(names) and names[n] else f"column {n + 1}" for n in range(len(known))
    ]
    dimensions = [Dimension(name=o, codes=c) for o, c in zip(own, known, strict=True)]
    # The first dimension runs fastest in R.
    shaped = value.held.reshape([len(one) for one in known], order="F").ravel()
    return cube(name, dimensions, _column("value", _Value(shaped), name))
