"""The column with ids of persons, or with record keys; what cannot be used is refused unseen."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.errors import ConfigError, InputError
from headcount.population.record_keys import RecordKeys
from headcount.population.tables import Rows
from headcount.population.whole_numbers import exact_numbers

LARGEST_KEYS = (255, 4095)
"""The largest record key that offices give: of the census of 2021, and of administrative data."""

AT_ONCE = 1 << 16
"""Ids whose digests are made at once."""


@dataclass(frozen=True, kw_only=True)
class KeyColumn:
    """The column of ids or of record keys.

    where
        column    its name
        largest   the largest record key, 255 or 4095; None if the column holds ids of persons
    """

    column: str
    largest: int | None = None

    def __post_init__(self) -> None:
        if self.largest is not None and self.largest not in LARGEST_KEYS:
            expected = " or ".join(map(str, LARGEST_KEYS))
            raise ConfigError(
                "population",
                place="largest_record_key",
                found=str(self.largest),
                expected=expected,
            )

    @classmethod
    def of(cls, *, person_id: str, record_keys: str, largest: int) -> KeyColumn | None:
        """From the keys of a config: at most one of the columns is named."""
        if person_id and record_keys:
            raise ConfigError(
                "population",
                place="record_keys",
                found="it beside person_id",
                expected="one or the other: both say what the words of persons are",
            )
        if largest != LARGEST_KEYS[0] and not record_keys:
            raise ConfigError(
                "population",
                place="largest_record_key",
                found="it without record_keys",
                expected="the column that it is about",
            )
        if not person_id and not record_keys:
            return None
        return cls(column=person_id or record_keys, largest=None if person_id else largest)

    @property
    def setting(self) -> str:
        """The key of a config that names the column."""
        return "person_id" if self.largest is None else "record_keys"

    def refuse_shared(self, *used: str) -> None:
        """Refuse a column that is also something else, and so might be published."""
        if self.column in used:
            raise ConfigError(
                "population",
                place=self.setting,
                found=f"the column {self.column!r}, which is also an attribute or a place",
                expected="a column of its own: ids and record keys are never published",
            )

    def refuse_counted(self, found: str) -> None:
        """Refuse people who are counts."""
        raise ConfigError(
            "population",
            place=self.setting,
            found=found,
            expected="one row for each person: people who are counted together have no ids",
        )

    def read(self, rows: Rows) -> RecordKeys:
        """What the rows have; one that has nothing, or what is no id or key, is an error."""
        if self.largest is None:
            return RecordKeys(_digests(self._ids(rows)))
        possible = self.largest + 1
        words = self._keys(rows, self.largest) * np.uint64(2**64 // possible)
        return RecordKeys(words, possible)

    def _ids(self, rows: Rows) -> pl.Series:
        values = rows.frame[self.column]
        if not (values.dtype.is_integer() or values.dtype == pl.String):
            found = f"values of type {values.dtype}"
            raise self._bad(rows, found, "ids of persons, as text or whole numbers")
        ids = values.cast(pl.String).str.strip_chars()
        if empty := int((ids.is_null() | (ids == "")).sum()):
            raise self._bad(rows, f"no id in {empty:,} rows", "the id of a person in each row")
        if repeated := len(ids) - ids.n_unique():
            found = f"{repeated:,} rows with an id that an earlier row has"
            raise self._bad(rows, found, "each person once")
        return ids

    def _keys(self, rows: Rows, largest: int) -> NDArray[np.uint64]:
        values = rows.frame[self.column]
        expected = f"a record key in each row, a whole number from 0 to {largest}"
        if not (values.dtype.is_numeric() or values.dtype == pl.String):
            raise self._bad(rows, f"values of type {values.dtype}", expected)
        if values.dtype == pl.String:
            values = values.str.strip_chars().replace("", None)
        if empty := values.null_count():
            raise self._bad(rows, f"no record key in {empty:,} rows", expected)
        numbers = exact_numbers(values)
        if odd := numbers.null_count():
            raise self._bad(rows, f"{odd:,} rows with what is no whole number", expected)
        if out := int(((numbers < 0) | (numbers > largest)).sum()):
            raise self._bad(rows, f"{out:,} rows with a number out of this range", expected)
        return numbers.to_numpy().astype(np.uint64)

    def _bad(self, rows: Rows, found: str, expected: str) -> InputError:
        # What stands in the column may not be shown, so neither is it said in which row.
        place = f"column {self.column!r}"
        return InputError(rows.name, place=place, found=found, expected=expected)


def _digests(ids: pl.Series) -> NDArray[np.uint64]:
    """BLAKE2b of the bytes of each text; two ids of a nation share 64 bits once in 300 nations."""
    from pyarrow import large_string

    found = np.empty(len(ids), dtype=np.uint64)
    for start in range(0, len(ids), AT_ONCE):
        some = ids.slice(start, AT_ONCE).rechunk().to_arrow().cast(large_string())
        _, ends, text = some.buffers()
        at = np.frombuffer(ends, dtype=np.int64, count=len(some) + 1, offset=8 * some.offset)
        view = memoryview(text)
        made = (
            blake2b(view[a:b], digest_size=8, person=b"person id").digest()
            for a, b in pairwise(at.tolist())
        )
        found[start : start + len(some)] = np.frombuffer(b"".join(made), dtype="<u8")
    return found
