"""Columns of a table: an attribute's levels, exact whole numbers, keys of persons.

Whole numbers are read exactly as they are written. Of a column of ids or record keys nothing is
shown: what cannot be used is refused unseen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Any, Literal, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import ConfigError, InputError, Problems, one_of
from headcount.fields import Named, Pairs
from headcount.population.population import MOST_PEOPLE, RecordKeys
from headcount.population.suspicious import NO_VALUE, refuse_missing_levels, refuse_total_levels
from headcount.population.tables import Rows
from headcount.population.text_files import Format
from headcount.schema import Attribute, Follows
from headcount.schema.schema import BinsField, bin_labels, bin_of, looks_like_size, starts_of

_NOTHING = "\0nothing"  # a value that no file can hold


@dataclass(frozen=True, kw_only=True)
class AttributeColumn:
    """Where an attribute stands in a file, and how its values become levels.

    where
        column             its column; by default the name
        levels             the public list of levels; without it they are read from the data
        levels_from_data   that the list was itself read from the data, or that there is a level
                           for rows without a value only because some are: the guarantee says so
        real_levels        levels that look like missing values but are real
        values             the level of a value where it is not the value itself; without levels
                           these are all the levels there are, and a value must be listed
        bins               years gathered into levels: where bins begin, or the name of a list
        missing            what to do with rows without a value: refuse them, give them a level of
                           their own, or leave them out
        missing_values     values that mean that there is none, beside blanks and words like NA
        missing_level      the level of rows without a value
        follows            whose doing it is; left out, it is the person's, unless a name like that
                           of a household size or a table of dwellings leaves it open
    """

    name: str
    column: str = ""
    levels: tuple[str, ...] | None = None
    levels_from_data: bool = False
    real_levels: tuple[str, ...] = ()
    values: Annotated[tuple[tuple[str, str], ...], Named(str)] = field(default_factory=Pairs)
    bins: Annotated[Any, BinsField()] = None
    missing: Literal["refuse", "level", "drop"] = "refuse"
    missing_values: tuple[str, ...] = ()
    missing_level: str = "unknown"
    follows: Follows | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.column or self.name)
        object.__setattr__(self, "values", Pairs.of(self.values))
        if self.bins is not None:
            try:
                object.__setattr__(self, "bins", BinsField().read(self.bins))
            except ValueError as error:
                self._refuse("bins", repr(self.bins), str(error))
        if self.levels is not None and self.real_levels:
            self._refuse(
                "",
                "levels and real_levels",
                "real_levels only where levels are read from the data",
            )
        if self.levels is not None and self.bins is not None:
            self._refuse("", "levels and bins", "one or the other: bins make levels")
        if self.levels_from_data and self.known_levels is None:
            self._refuse("levels_from_data", "true without levels", "a list that it is about")
        if self.levels is not None and self.bins is None:
            for value, level in self.values:
                if level not in self.levels:
                    self._refuse(f"values, {value!r}", repr(level), one_of(self.levels))

    def _refuse(self, place: str, found: str, expected: str) -> None:
        where = f"attribute {self.name!r}"
        raise InputError(where, place=place, found=found, expected=expected)

    def refuse_follows(self, *known: Follows) -> None:
        """Refuse what an attribute of this table cannot follow."""
        if self.follows is not None and self.follows not in known:
            expected = " or ".join(f"'{one}'" for one in known)
            raise InputError(
                "population",
                found=f"attribute {self.name!r} with follows = '{self.follows}'",
                expected=f"{expected} for an attribute of this table",
            )

    def refuse_size(self, *, size_column: str) -> None:
        """Refuse the number of people in the household under another flag."""
        if self.follows not in (Follows.PERSON, Follows.DWELLING):
            return
        if self.column == size_column or looks_like_size(self.name, self.column):
            raise InputError(
                "population",
                found=f"attribute {self.name!r}, judging by its name the number of people in the "
                f"household, with follows = '{self.follows}'",
                expected="a [[population.dwelling_attribute]] with follows = 'size' or 'members'",
            )

    @property
    def read_off(self) -> tuple[str, ...]:
        """What a guarantee says of levels that were read from the data; nothing of others."""
        known = self.known_levels is not None and not self.levels_from_data
        return () if known else (f"which levels of {self.name!r} exist",)

    @property
    def known_levels(self) -> tuple[str, ...] | None:
        """All levels, where they are known before the data is."""
        if self.bins is not None:
            return self.with_missing(bin_labels(self.bins))
        if self.levels is not None:
            return self.with_missing(self.levels)
        if self.values:
            return self.with_missing(tuple(dict.fromkeys(level for _, level in self.values)))
        return None

    def with_missing(self, levels: tuple[str, ...]) -> tuple[str, ...]:
        """These levels, and that of rows without a value if they have one."""
        if self.missing != "level" or self.missing_level in levels:
            return levels
        return (*levels, self.missing_level)

    def attribute(self, levels: tuple[str, ...]) -> Attribute:
        """The attribute with these levels."""
        unsaid = looks_like_size(self.name, self.column)
        return Attribute(
            self.name,
            levels,
            self.follows or (Follows.UNSTATED if unsaid else Follows.PERSON),
        )

    @property
    def reason(self) -> str:
        """Why rows are left out that have no value."""
        return f"rows without {self.name!r}"

    def is_missing(self, value: str | None) -> bool:
        """Whether a value stands for nothing; a fixed rule, which no other row changes."""
        if value is None or value in self.missing_values:
            return True
        if self.missing == "refuse" or value in self._real:
            return False
        return value.strip().casefold() in NO_VALUE

    @cached_property
    def _real(self) -> frozenset[str]:
        """Values that are levels, however they look."""
        mapped = (value for value, _ in self.values)
        return frozenset((*(self.levels or ()), *self.real_levels, *mapped))


def without_missing(rows: Rows, columns: Iterable[AttributeColumn]) -> Rows:
    """The rows without those that lack an attribute which says that they are to be left out.

    None at all is an error.
    """
    kept = with_values(rows, columns)
    if kept.frame.is_empty():
        refuse_no_values(rows.name)
    return kept


def with_values(rows: Rows, columns: Iterable[AttributeColumn]) -> Rows:
    """The same, among some rows of a file."""
    for column in columns:
        if column.missing == "drop":
            values = rows.frame[column.column].cast(pl.String).fill_null(_NOTHING)
            gone = [
                value
                for value in values.unique().to_list()
                if column.is_missing(None if value == _NOTHING else value)
            ]
            rows = rows.only(~values.is_in(gone), without=column.reason)
    return rows


def refuse_no_values(name: str) -> NoReturn:
    """Refuse a file all of whose rows are left out."""
    raise InputError(name, found="no rows that remain", expected="at least one")


def with_levels(
    rows: Rows, column: AttributeColumn, *, counted: bool = False
) -> tuple[AttributeColumn, tuple[str, ...]]:
    """The column with all its levels, read from the rows if need be, and whether they were.

    With ``counted`` a row stands for several people, and a level such as "Total" is refused.
    """
    if column.known_levels is not None:
        return column, column.read_off
    values = rows.frame[column.column].cast(pl.String).unique().fill_null(_NOTHING)
    levels, _, _ = _translated(column, values.to_list(), rows.form)
    found = levels_of(levels.values())
    refuse_missing_levels(found, column, rows)
    if counted:
        refuse_total_levels(found, column, rows)
    known = found if column.with_missing(found) else ("nothing",)
    return replace(column, levels=known, real_levels=()), column.read_off


def coded(
    rows: Rows, column: AttributeColumn, problems: Problems, *, counted: bool = False
) -> tuple[Attribute, Ints32, tuple[str, ...]]:
    """An attribute, each row's level by its number, and what of it was read from the data.

    Values that are no level are noted as problems.
    """
    column, said = with_levels(rows, column, counted=counted)
    attribute = column.attribute(column.known_levels or ())
    return attribute, level_numbers(rows, column, problems), said


def level_numbers(rows: Rows, column: AttributeColumn, problems: Problems) -> Ints32:
    """Each row's level by its number; values that are no level are noted as problems."""
    known = column.known_levels or ()
    values = rows.frame[column.column].cast(pl.String).fill_null(_NOTHING)
    levels, missing, faults = _translated(column, values.unique().to_list(), rows.form)
    numbers = {level: number for number, level in enumerate(known)}
    codes = {value: numbers[level] for value, level in levels.items() if level in numbers}
    if column.missing == "level":
        codes |= dict.fromkeys(missing, numbers[column.missing_level])
    code = values.replace_strict(codes, default=None, return_dtype=pl.Int32)
    if code.null_count():
        _note(column, values, code.is_null(), known, faults, problems, missing)
    found: Ints32 = code.fill_null(0).to_numpy()
    return found


def _translated(
    column: AttributeColumn, values: Sequence[str], form: Format
) -> tuple[dict[str, str], set[str], dict[str, str]]:
    """The level of each value, values that are missing, and what was expected of the others."""
    levels, missing, faults = {}, set(), {}
    mapped = dict(column.values)
    only_mapped = bool(mapped) and column.levels is None and column.bins is None
    for value in values:
        if column.is_missing(None if value == _NOTHING else value):
            missing.add(value)
            continue
        level = mapped.get(value, value)
        if only_mapped and value not in mapped:
            faults[value] = one_of(mapped)
        elif column.bins is None:
            levels[value] = level
        elif (binned := _binned(level, column, form)) is not None:
            levels[value] = binned
        else:
            first = starts_of(column.bins)[0]
            faults[value] = f"a whole number, {first} or more, for the bins"
    return levels, missing, faults


def _binned(text: str, column: AttributeColumn, form: Format) -> str | None:
    """The bin of years written as "34", "34.0", or, in the last bin, "90+"."""
    number = form.plain(pl.Series([text]))[0]
    found = re.fullmatch(r"(\d{1,9})(?:\.0*)?(\+)?", number)
    if found is None:
        return None
    label = bin_of(int(found[1]), column.bins)
    return None if found[2] and label != bin_labels(column.bins)[-1] else label


def _note(
    column: AttributeColumn,
    values: pl.Series,
    wrong: pl.Series,
    levels: tuple[str, ...],
    faults: dict[str, str],
    problems: Problems,
    missing: set[str],
) -> None:
    """Note rows without a level: nothing there, no level, no number."""
    place = f"column {column.column!r}"
    absent = values.is_in(sorted(missing)) & wrong
    problems.add(
        absent.arg_true(),
        place=place,
        found=lambda row: "nothing" if values[row] == _NOTHING else f"{values[row]!r}, no value",
        expected='a value (missing = "drop" or "level" of the attribute says what to do without)',
    )
    special = values.is_in(list(faults)) & wrong
    for expected in dict.fromkeys(faults.values()):
        these = values.is_in([value for value, said in faults.items() if said == expected])
        problems.add(
            (these & wrong).arg_true(),
            place=place,
            found=lambda row: repr(values[row]),
            expected=expected,
        )
    problems.add(
        (wrong & ~absent & ~special).arg_true(),
        place=place,
        found=lambda row: f"level {values[row]!r}",
        expected=one_of(levels),
    )


def levels_of(values: Iterable[str]) -> tuple[str, ...]:
    """The levels that occur, by number where each begins with one (9, 10-14, 85+), else by text."""
    found = sorted(set(values))
    numbers = [re.match(r"\d+", level) for level in found]
    if all(numbers):
        order = np.argsort([int(number[0]) for number in numbers if number], kind="stable")
        found = [found[place] for place in order]
    return tuple(found)


NO_COUNT = r"^(|\.{1,2}|[-–]|NA)$"
"""What stands in a table for a count of nobody, beside nothing at all."""

WITHHELD = (
    r"(?i)^(|[.…:*#•†‡§¶]+|[-–—]+|\(?[a-z]{1,2}\)?|n\.?/?a\.?|nan|null|[<≤] ?\d+"
    r"|\([.…:*#<>\d -]*\))$"
)
"""The same, and what stands for a count that somebody withholds: x, (D), c, :, *, <5."""

BlankCounts = Literal["refuse", "zero", "withheld"]
"""What to do with counts that are not there: nobody, or some that are withheld; both read as 0."""

MARKS: dict[BlankCounts, str] = {"zero": NO_COUNT, "withheld": WITHHELD}


def whole_numbers(
    rows: Rows, column: str, problems: Problems, *, blank: BlankCounts = "refuse"
) -> Ints:
    """The counts of one column; anything but whole numbers from 0 is noted as a problem."""
    values = rows.frame[column]
    if not (values.dtype.is_numeric() or values.dtype in (pl.String, pl.Null)):
        raise InputError(
            rows.name,
            place=f"column {column!r}",
            found=f"values of type {values.dtype}",
            expected="whole numbers, 0 or more",
        )
    given = values
    if values.dtype == pl.String:
        values = rows.form.plain(values)
    if blank in MARKS:
        values = values.fill_null("0" if values.dtype == pl.String else 0)
        if values.dtype == pl.String:
            marks = given.str.strip_chars().str.contains(MARKS[blank]).fill_null(False)
            values = values.set(marks, "0")
    numbers = _exact_numbers(values)
    good = (numbers >= 0).fill_null(False)
    if not good.all():
        key = ' (blank_counts = "%s" under [population] reads %s as 0)'
        nothing, withheld = key % ("zero", "nothing"), key % ("withheld", "what is withheld")
        text = given.cast(pl.String).str.strip_chars().fill_null("")
        empty, sign = text.str.contains(NO_COUNT), text.str.contains(WITHHELD)
        for these, more in (
            (~good & empty, nothing),
            (~good & sign & ~empty, withheld),
            (~good & ~sign, ""),
        ):
            problems.add(
                these.arg_true(),
                place=f"column {column!r}",
                found=lambda row: "nothing" if given[row] is None else repr(given[row]),
                expected=f"a whole number, 0 or more{more}",
            )
        numbers = numbers.set(~good, 0)
    return numbers.to_numpy()


def _exact_numbers(values: pl.Series) -> pl.Series:
    """Whole numbers as they are written, null where there is none.

    A float tells neighbouring whole numbers apart only below 2^53 (2^24 if it is short), so a
    larger one may have been another number before it was stored.
    """
    if values.dtype.is_integer():
        return values.cast(pl.Int64, strict=False)
    if values.dtype.is_float():
        limit = 1 << (24 if values.dtype == pl.Float32 else 53)
        near = values.cast(pl.Float64)
        whole = (near == near.round()) & (near.abs() < limit)
        return near.set(~whole.fill_null(False), None).cast(pl.Int64, strict=False)
    text = values.cast(pl.String)  # also decimals: "3.0" and "3." are 3 in text as well
    plain = text.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
    others = (plain.is_null() & text.is_not_null()).arg_true()
    return plain.scatter(others, [_whole(one) for one in text.gather(others)])


def _whole(text: str) -> int | None:
    """A whole number in any other spelling, such as "1e3", or None."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    # How many digits first: 1e999999999 is a short text of a long number.
    if not number.is_finite() or number.adjusted() > 18 or number != number.to_integral_value():
        return None
    return int(number) if abs(number) <= MOST_PEOPLE else None


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
        numbers = _exact_numbers(values)
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
