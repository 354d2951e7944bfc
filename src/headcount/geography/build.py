"""Building a geography from a table: a code column per level, or one code with nested prefixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints32
from headcount.errors import InputError, Problems, Where, by_row
from headcount.fields import Named, Pairs
from headcount.geography.geography import Geography

LONGEST_CODE = 255
"""Characters of a unit's code, where one code holds all levels."""


@dataclass(frozen=True, kw_only=True)
class CodeColumns:
    """One column of codes per level, named from the top to the leaf.

    Codes are unique over the whole unless ``local_codes`` says that they repeat from parent to
    parent (district "1" in every county); a unit is then known by its path, "state/county/1".
    """

    columns: tuple[str, ...]
    root: str = "whole"
    local_codes: bool = False

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError(
                "geography", place="columns", found="none", expected="a column for each level"
            )
        _refuse_levels(self.levels)

    @property
    def levels(self) -> tuple[str, ...]:
        """Level names, the whole first."""
        return (self.root, *self.columns)

    def codes(self, table: pl.DataFrame) -> list[pl.Series]:
        """Unit codes per level below the whole, row by row."""
        codes = [table[column].cast(pl.String) for column in self.columns]
        if not self.local_codes:
            return codes
        paths = [codes[0]]
        for code in codes[1:]:
            paths.append(paths[-1] + "/" + code)
        return paths


@dataclass(frozen=True, kw_only=True)
class Prefixes:
    """One column of leaf codes whose first characters name the units above: 44, 44007, ...

    Codes that go on after the last prefix are refused. With ``longer="cut"`` they are cut, if all
    have one length: a file of blocks is then read as one of tracts. ``fill_zeros`` gives codes of
    digits the zeros back that they lost at the front when they were taken for numbers: fewer than
    the first prefix has characters.
    """

    column: str
    prefixes: Annotated[tuple[tuple[str, int], ...], Named(int)]
    root: str = "whole"
    longer: Literal["refuse", "cut"] = "refuse"
    fill_zeros: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", Pairs.of(self.prefixes))
        cuts = [length for _, length in self.prefixes]
        if not cuts or cuts != sorted(set(cuts)) or cuts[0] < 1 or cuts[-1] > LONGEST_CODE:
            raise InputError(
                "geography",
                place="prefixes",
                found=f"lengths {cuts}",
                expected=f"lengths that grow from the top to the leaf, from 1 to {LONGEST_CODE}",
            )
        _refuse_levels(self.levels)

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that is read."""
        return (self.column,)

    @property
    def levels(self) -> tuple[str, ...]:
        """Level names, the whole first."""
        return (self.root, *(level for level, _ in self.prefixes))

    def codes(self, table: pl.DataFrame) -> list[pl.Series]:
        """Unit codes per level below the whole, row by row."""
        code = self.full(table)
        return [code.str.slice(0, length) for _, length in self.prefixes]

    def cut(self, length: int) -> tuple[str, ...]:
        """What to tell of codes of that length that go on after the last prefix."""
        last = self.prefixes[-1][1]
        if length <= last:
            return ()
        return (f"codes in {self.column!r} are cut to the first {last} of {length} characters",)

    def full(self, table: pl.DataFrame) -> pl.Series:
        """The codes of the leaves, with the zeros that were lost."""
        code = table[self.column].cast(pl.String)
        if not self.fill_zeros:
            return code
        last, may_lack = self.prefixes[-1][1], self.prefixes[0][1] - 1
        short = code.str.contains(rf"^\d{{{max(last - may_lack, 1)},{last}}}$")
        filled = pl.when(short.fill_null(False)).then(code.str.zfill(last)).otherwise(code)
        return pl.select(filled.alias(self.column)).to_series()


GeographySource = CodeColumns | Prefixes

GeographyLike = GeographySource | str | Sequence[str] | Mapping[str, Mapping[str, int]]
"""A geography in one of the ways that a person may write it: see ``geography_source``."""

HOW = (
    'the columns of places from the top down, ["county", "tract"], or one column of codes with '
    'where its levels end, {"geoid": {"state": 2, "county": 5}}'
)


def geography_source(given: object) -> GeographySource:
    """Columns of places from the top down, one column, or a column of codes with its prefixes."""
    if isinstance(given, CodeColumns | Prefixes):
        return given
    if isinstance(given, str):
        return CodeColumns(columns=(given,))
    if isinstance(given, Mapping) and len(given) == 1:
        ((column, ends),) = given.items()
        if isinstance(ends, Mapping) and all(type(end) is int for end in ends.values()):
            return Prefixes(column=str(column), prefixes=tuple(ends.items()))
    elif isinstance(given, Sequence) and given and all(isinstance(one, str) for one in given):
        return CodeColumns(columns=tuple(given))
    raise InputError("geography", found=repr(given), expected=HOW)


def _refuse_levels(levels: tuple[str, ...]) -> None:
    """Refuse a level without a name, and two of one name."""
    if "" in levels:
        raise InputError(
            "geography", found="a level without a name", expected="names that are not empty"
        )
    for level in levels:
        if levels.count(level) > 1:
            raise InputError(
                "geography",
                found=f"level {level!r} twice",
                expected="distinct names, root included",
            )


def build_geography(
    table: pl.DataFrame,
    source: GeographySource,
    *,
    name: str,
    where: Where = by_row,
    distinct: bool = False,
) -> tuple[Geography, Ints32]:
    """Build the geography of a table and say for each row which leaf it is in.

    ``name`` is the file, for errors, and ``where`` names its rows. With ``distinct`` a leaf that
    stands in two rows is an error.
    """
    problems = Problems(name, where)
    check_codes(table, source, problems)
    problems.refuse()
    # First: "two parents" says more than "a second row".
    geography = geography_of(places_of(table, source), source, name=name)
    leaf = source.codes(table)[-1]
    if distinct:
        _refuse_repeated_leaf(leaf, source, problems)
    return geography, place_rows(leaf, geography, name=name)


def places_of(table: pl.DataFrame, source: GeographySource) -> pl.DataFrame:
    """The codes of each place that stands in a table, one column for each level, in order."""
    codes = pl.DataFrame(dict(zip(_keys(source), source.codes(table), strict=True)))
    return codes.unique().sort(codes.columns)


def geography_of(places: pl.DataFrame, source: GeographySource, *, name: str) -> Geography:
    """The geography of places, each once and in order; ``name`` is their file."""
    _refuse_two_parents(places, source, name)
    _refuse_nul(places, source, name)
    units: list[NDArray[np.str_]] = [np.array([source.root])]
    parents: list[Ints32] = [np.empty(0, dtype=np.int32)]
    above: pl.DataFrame | None = None
    for key in places.columns:
        level = places.select(places.columns[: places.columns.index(key) + 1]).unique(
            maintain_order=True
        )
        units.append(level[key].to_numpy().astype(np.str_))
        parents.append(_parent_numbers(level, above))
        above = level
    return Geography(source.levels, tuple(units), tuple(parents))


def place_rows(
    leaf: pl.Series, geography: Geography, *, name: str, where: Where = by_row
) -> Ints32:
    """For each row the position of its leaf unit; a code outside the geography is an error."""
    problems = Problems(name, where)
    unit = note_places(leaf, geography, problems)
    problems.refuse()
    return unit


def note_places(leaf: pl.Series, geography: Geography, problems: Problems) -> Ints32:
    """For each row the position of its leaf unit; codes outside the geography are noted."""
    unit = find_units(leaf, geography, geography.leaf)
    problems.add(
        np.flatnonzero(unit < 0),
        found=lambda row: f"unit {leaf[row]!r}",
        expected=f"one of the {geography.size(geography.leaf):,} units of level {geography.leaf!r}",
    )
    return unit


def find_units(codes: pl.Series, geography: Geography, level: str) -> Ints32:
    """For each code the position of its unit at a level, or -1; each code is looked up once."""
    known = codes.drop_nulls().unique()
    at = geography.find(level, np.array(known.to_list(), dtype=np.str_))
    numbered = pl.DataFrame({"code": known, "unit": at})
    found = codes.to_frame("code").join(numbered, on="code", how="left", maintain_order="left")
    unit: Ints32 = found["unit"].fill_null(-1).to_numpy()
    return unit


def check_codes(table: pl.DataFrame, source: GeographySource, problems: Problems) -> None:
    """Refuse an empty table and missing columns; note missing codes, and codes that do not fit."""
    name = problems.source
    for column in source.columns:
        if column not in table.columns:
            raise InputError(
                name,
                place=f"column {column!r}",
                found=f"columns {table.columns[:12]}",
                expected="the column named in the geography",
            )
    if table.is_empty():
        raise InputError(name, found="no rows", expected="at least one")
    note_short(table, source, problems)
    if isinstance(source, Prefixes):
        note_longer(code_lengths(table, source), source, problems)


def note_short(table: pl.DataFrame, source: GeographySource, problems: Problems) -> pl.Series:
    """Note codes that are missing or too short to cut; returns which rows have one."""
    if isinstance(source, Prefixes):
        return _note_too_short(source.full(table), source, problems)
    any_short = pl.Series(np.zeros(table.height, dtype=bool))
    for column in source.columns:
        code = table[column].cast(pl.String)
        short = (code.str.len_chars() < 1).fill_null(True)
        problems.add(
            short.arg_true(),
            place=f"column {column!r}",
            found=lambda row, code=code: _said(code[row]),  # type: ignore[misc]
            expected="a code of at least 1 character",
        )
        any_short |= short
    return any_short


def _note_too_short(code: pl.Series, source: Prefixes, problems: Problems) -> pl.Series:
    last = source.prefixes[-1][1]
    length = code.str.len_chars()
    short = (length < last).fill_null(True)
    lost = (length >= last - source.prefixes[0][1] + 1).fill_null(False)
    lost &= code.str.contains(r"^\d+$").fill_null(False)
    hint = " (fill_zeros = true under [population.geography] gives lost zeros back)"
    for rows, more in ((short & ~lost, ""), (short & lost, "" if source.fill_zeros else hint)):
        problems.add(
            rows.arg_true(),
            place=f"column {source.column!r}",
            found=lambda row: _said(code[row]),
            expected=f"a code of at least {last} character{'s' * (last > 1)}{more}",
        )
    return short


def code_lengths(
    table: pl.DataFrame, source: Prefixes, positions: pl.Series | None = None
) -> dict[int, int]:
    """Lengths of codes, each with the first row of it, or the first of the rows' positions."""
    length = source.full(table).str.len_chars().to_frame("length")
    row = pl.int_range(table.height, eager=True) if positions is None else positions
    length = length.with_columns(row.alias("row"))
    first = length.drop_nulls().group_by("length").agg(pl.col("row").min()).sort("row")
    return dict(zip(first["length"].to_list(), first["row"].to_list(), strict=True))


def note_longer(first: Mapping[int, int], source: Prefixes, problems: Problems) -> None:
    """Note codes that go on, by the rows with the first of each length: cut, units would merge."""
    level, last = source.prefixes[-1]
    longer = [row for length, row in first.items() if length > last]
    if not longer:
        return
    if len(first) > 1:
        found, expected = "codes of different lengths", f"codes of {last} characters, all of them"
    elif source.longer == "refuse":
        found = f"codes of {next(iter(first))} characters"
        expected = f'{last}, where the prefix of {level!r} ends (longer = "cut" under '
        expected += "[population.geography] says that the rest is to be cut off)"
    else:
        return
    place = f"column {source.column!r}"
    problems.add([min(longer)], place=place, found=lambda row: found, expected=expected)


def _keys(source: GeographySource) -> Sequence[str]:
    return [f"{number}" for number in range(len(source.levels) - 1)]


def _parent_numbers(level: pl.DataFrame, above: pl.DataFrame | None) -> Ints32:
    if above is None:
        return np.zeros(level.height, dtype=np.int32)
    numbered = above.with_row_index("parent")
    joined = level.join(numbered, on=above.columns, how="left", maintain_order="left")
    return joined["parent"].to_numpy().astype(np.int32)


def _refuse_nul(places: pl.DataFrame, source: GeographySource, name: str) -> None:
    """Refuse codes with the character 0: at the end of a code it would be lost."""
    for level, column in zip(source.levels[1:], places, strict=True):
        odd = column.filter(column.str.contains("\0", literal=True))
        if len(odd):
            raise InputError(
                name,
                place=f"level {level!r}, unit {odd[0]!r}",
                found="the character 0 in a code",
                expected="codes without it",
            )


def _refuse_two_parents(places: pl.DataFrame, source: GeographySource, name: str) -> None:
    for (upper, lower), level in zip(pairwise(places.columns), source.levels[2:], strict=True):
        pairs = places.select(upper, lower).unique()
        twice = pairs.filter(pairs[lower].is_duplicated()).sort(lower, upper)
        if twice.height:
            unit = twice[lower][0]
            two = twice.filter(pl.col(lower) == unit)[upper].to_list()
            raise InputError(
                name,
                place=f"level {level!r}, unit {unit!r}",
                found=f"two parents, {two[0]!r} and {two[1]!r}",
                expected="one parent (or local_codes = true if codes repeat between parents)",
            )


def _refuse_repeated_leaf(leaf: pl.Series, source: GeographySource, problems: Problems) -> None:
    problems.add(
        (~leaf.is_first_distinct()).arg_true(),
        place="",
        found=lambda row: f"a second row for {source.levels[-1]} {leaf[row]!r}",
        expected="one row for each unit",
    )
    problems.refuse()


def _said(code: str | None) -> str:
    return "nothing" if code is None else repr(code)
