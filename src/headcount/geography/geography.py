"""The geography: levels from the whole to the leaf, their units, and each unit's parent.

It is built from a table: a column of codes for each level, or one code with nested prefixes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints, Ints32
from headcount.errors import InputError, Problems, Where, by_row, did_you_mean
from headcount.fields import Named, Pairs

AT_ONCE = 1 << 20
"""Codes that are hashed together: they bound the memory."""


@dataclass(frozen=True, eq=False, repr=False)
class Geography:
    """A tree of places as arrays.

    where
        levels      level names from the whole (one unit) to the leaf
        units       for each level the unit codes; children of one parent stand together, in the
                    order of their parents
        parents     for each level the position of each unit's parent in the level above;
                    empty for the whole
        spine       another tree over the same leaves, made for measuring (spine.py); None without
    """

    levels: tuple[str, ...]
    units: tuple[NDArray[np.str_], ...]
    parents: tuple[Ints32, ...]
    spine: Geography | None = None

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels) or not self.levels or "" in self.levels:
            raise InputError(
                "geography",
                found=f"levels {list(self.levels)}",
                expected="distinct level names, none of them empty",
            )
        if not len(self.levels) == len(self.units) == len(self.parents):
            raise InputError(
                "geography",
                found=f"{len(self.units)} unit arrays and {len(self.parents)} parent arrays",
                expected=f"one of each for the {len(self.levels)} levels",
            )
        if len(self.units[0]) != 1:
            raise InputError(
                "geography",
                place=f"level {self.levels[0]!r}",
                found=f"{len(self.units[0])} units",
                expected="one: the whole",
            )
        for depth in range(1, len(self.levels)):
            self._check_level(depth)
        if self.spine is not None and not np.array_equal(
            np.sort(self.spine.units[-1]), np.sort(self.units[-1])
        ):
            raise InputError(
                "geography",
                place="spine",
                found=f"other leaves ({len(self.spine.units[-1]):,})",
                expected=f"the same {len(self.units[-1]):,} units of {self.leaf!r}",
            )

    def _check_level(self, depth: int) -> None:
        level, codes, parent = self.levels[depth], self.units[depth], self.parents[depth]
        place = f"level {level!r}"
        in_order = bool((codes[1:] > codes[:-1]).all())  # quicker to see than to sort
        if not in_order and len(np.unique(codes)) != len(codes):
            values, times = np.unique(codes, return_counts=True)
            raise InputError(
                "geography",
                place=f"{place}, unit {str(values[times > 1][0])!r}",
                found="the unit twice",
                expected="each unit once",
            )
        whole = np.arange(len(self.units[depth - 1]))
        if len(parent) != len(codes) or not np.array_equal(np.unique(parent), whole):
            raise InputError(
                "geography",
                place=place,
                found="a parent array that does not fit the level above",
                expected=f"one parent for each of {len(codes)} units, and a child for each parent",
            )
        if np.any(np.diff(parent) < 0):
            raise InputError(
                "geography",
                place=place,
                found="children of one parent that are not next to each other",
                expected="units in the order of their parents",
            )

    def __repr__(self) -> str:
        sized = zip(self.levels, self.units, strict=True)
        sizes = ", ".join(f"{level} {len(units):,}" for level, units in sized)
        return f"<Geography {sizes}>"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of levels, codes and parents, in their order; a spine has its own."""
        hasher = sha256(b"headcount places 1")
        for level, codes, parents in zip(self.levels, self.units, self.parents, strict=True):
            hasher.update(f"\0\0{level}:{len(codes)}".encode())
            for start in range(0, len(codes), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                hasher.update("\0".join(["", *codes[some].tolist()]).encode())
                hasher.update(parents[some].astype("<i4").tobytes())
        return hasher.hexdigest()

    def description(self) -> dict[str, Any]:
        """Levels with their numbers of units, and the digest: for a receipt."""
        sizes = {level: len(codes) for level, codes in zip(self.levels, self.units, strict=True)}
        return {"units": sizes, "sha256": self.digest}

    @property
    def leaf(self) -> str:
        """Name of the finest level."""
        return self.levels[-1]

    def depth(self, level: str) -> int:
        """Position of a level, 0 for the whole."""
        try:
            return self.levels.index(level)
        except ValueError:
            raise InputError(
                "geography", found=f"level {level!r}", expected=did_you_mean(level, self.levels)
            ) from None

    def size(self, level: str) -> int:
        """Number of units at a level."""
        return len(self.units[self.depth(level)])

    def ancestors(self, level: str, *, of: str | None = None, units: range | None = None) -> Ints32:
        """For each unit of a finer level (by default every leaf), its ancestor at ``level``."""
        top, depth = self.depth(level), self.depth(of or self.leaf)
        if depth < top:
            raise InputError(
                "geography", found=f"level {level!r}", expected=f"a level at or above {of!r}"
            )
        units = range(len(self.units[depth])) if units is None else units
        index: Ints32 = np.arange(units.start, units.stop, dtype=np.int32)
        for finer in range(depth, top, -1):
            index = self.parents[finer][index]
        return index

    def down_to(self, level: str) -> Geography:
        """The same places without those below a level."""
        end = self.depth(level) + 1
        if end == len(self.levels):
            return self
        if self.spine is not None:
            raise InputError(
                "geography",
                found=f"{level!r} and a spine",
                expected="all levels: a spine has the leaves",
            )
        return Geography(self.levels[:end], self.units[:end], self.parents[:end])

    def children_start(self, level: str) -> Ints:
        """For each unit of ``level`` the position of its first child in the level below."""
        below = self.parents[self.depth(level) + 1]
        return np.searchsorted(below, np.arange(self.size(level)))

    def of_leaves(self, leaves: Ints) -> Geography:
        """The tree above some leaves alone, which stay in their order."""
        units, parents, index = [], [], np.unique(leaves)
        for depth in range(len(self.levels) - 1, 0, -1):
            above, parent = np.unique(self.parents[depth][index], return_inverse=True)
            units.append(self.units[depth][index])
            parents.append(parent.astype(np.int32))
            index = above.astype(np.int64)
        spine = self.spine
        if spine is not None:
            codes = units[0] if units else self.units[0]
            spine = spine.of_leaves(np.flatnonzero(np.isin(spine.units[-1], codes)))
        return Geography(
            self.levels,
            (self.units[0], *reversed(units)),
            (np.empty(0, dtype=np.int32), *reversed(parents)),
            spine,
        )

    def path(self, level: str, unit: int) -> tuple[str, ...]:
        """Codes from the level below the whole down to one unit: its full address."""
        codes = []
        for depth in range(self.depth(level), 0, -1):
            codes.append(str(self.units[depth][unit]))
            unit = int(self.parents[depth][unit])
        return tuple(reversed(codes))

    def find(self, level: str, codes: NDArray[np.str_]) -> Ints32:
        """The position of the unit of each code at a level; -1 where there is none."""
        depth = self.depth(level)
        units, order = self.units[depth], self._orders[depth]
        # As wide as the units, so that these are not copied; what is cut off is not found.
        at = np.searchsorted(units, codes.astype(units.dtype), sorter=order)
        at = np.minimum(at, len(units) - 1)
        number = at if order is None else order[at]
        found: Ints32 = np.where(units[number] == codes, number, -1).astype(np.int32)
        return found

    @cached_property
    def _orders(self) -> tuple[Ints | None, ...]:
        """For each level what sorts its codes; None where they are in order."""
        in_order = [bool((codes[1:] > codes[:-1]).all()) for codes in self.units]
        return tuple(
            None if sorted_already else np.argsort(codes)
            for codes, sorted_already in zip(self.units, in_order, strict=True)
        )

    @cached_property
    def along_spine(self) -> Ints:
        """The leaves in the order of the spine: for each of its leaves the position here."""
        if self.spine is None:
            raise InputError("geography", found="no spine", expected="a geography with a spine")
        own = np.argsort(self.units[-1])
        return np.asarray(own[np.searchsorted(self.units[-1][own], self.spine.units[-1])])

    @cached_property
    def unit_numbers(self) -> dict[str, int]:
        """Position of each leaf unit by its code."""
        return {str(code): number for number, code in enumerate(self.units[-1])}


def regular(*, children: int, depth: int, root: str = "whole") -> Geography:
    """A tree in which every unit above the leaf has the same number of children."""
    levels = (root, *(f"level_{j}" for j in range(1, depth + 1)))
    codes: Sequence[str] = [root]
    units, parents = [np.array(codes)], [np.empty(0, dtype=np.int32)]
    for level in range(1, depth + 1):
        above = [""] if level == 1 else [f"{code}." for code in units[-1]]
        units.append(np.array([f"{prefix}{c}" for prefix in above for c in range(children)]))
        parents.append(np.repeat(np.arange(len(above), dtype=np.int32), children))
    return Geography(levels, tuple(units), tuple(parents))


LONGEST_CODE = 255
"""Characters of a unit's code, where one code holds all levels."""


@dataclass(frozen=True, kw_only=True)
class CodeColumns:
    """One column of codes per level, from the top to the leaf; with none, all are in one place.

    Codes are unique over the whole unless ``local_codes`` says that they repeat from parent to
    parent (district "1" in every county); a unit is then known by its path, "state/county/1".
    """

    columns: tuple[str, ...]
    root: str = "whole"
    local_codes: bool = False

    def __post_init__(self) -> None:
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

    def leaf(self, table: pl.DataFrame) -> pl.Series:
        """The code of the leaf that each row is in."""
        if not self.columns:
            return pl.repeat(self.root, table.height, dtype=pl.String, eager=True)
        return self.codes(table)[-1]


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

    def leaf(self, table: pl.DataFrame) -> pl.Series:
        """The code of the leaf that each row is in."""
        return self.full(table).str.slice(0, self.prefixes[-1][1])

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
    'where its levels end, {"geoid": {"state": 2, "county": 5}}; [] if there are none'
)


def geography_source(given: object) -> GeographySource:
    """Columns of places from the top down, one column, or a column of codes with its prefixes."""
    if isinstance(given, CodeColumns | Prefixes):
        return given
    if isinstance(given, str):
        return CodeColumns(columns=(given,))
    if isinstance(given, Sequence) and not given:
        return CodeColumns(columns=())
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
    leaf = source.leaf(table)
    if distinct:
        _refuse_repeated_leaf(leaf, source, problems)
    return geography, place_rows(leaf, geography, name=name)


ONE_PLACE = pl.DataFrame()
"""The codes of places of a source without columns: below the whole there is none."""


def places_of(table: pl.DataFrame, source: GeographySource) -> pl.DataFrame:
    """The codes of each place that stands in a table, one column for each level, in order."""
    if not source.columns:
        return ONE_PLACE
    each = table.select(source.columns).unique()
    codes = pl.DataFrame(dict(zip(_keys(source), source.codes(each), strict=True)))
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
                expected="one parent (or local_codes = true if codes repeat between parents; "
                "of places that do not nest only one kind can be a level)",
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
