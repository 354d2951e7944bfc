"""Tables of the census of 2020: persons, living quarters and blocks, with the recodes of its
redistricting product.

    persons   block, gqtype, age, cenhisp, cenrace     one row per person
    units     block, gqtype, occupied                  one row per housing unit or facility
    blocks    block, state, county, tract, area, place, subdivision   one row per block

where
    gqtype     three digits: 000 for housing units, else the type of group quarters, of which the
               first digit counts (8 and 9 are 7)
    age        years: voting age is 18 and more
    cenhisp    1 not Hispanic, 2 Hispanic
    cenrace    01 to 63
    occupied   1 or 0: whether anybody lives in the housing unit
    count      in persons or units, if it is there: for how many a row stands
    area, place, subdivision   see geography/spine.py
    block_group   of the blocks, if it is there; else the tract and one character more of the block

Published tables follow the blocks' own codes; TopDown measures on the optimised spine, which the
geography has with it. Where living quarters are given, the blocks are those with any: nobody can
live in the others. Rows that stand for 0 say nothing. Puerto Rico is protected by itself, as a
state that is the whole (``whole = "state"``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints, Ints32
from headcount.domain import CountsOf, Domain
from headcount.errors import InputError, Problems
from headcount.fields import APART, FilePath
from headcount.geography import Geography
from headcount.geography.geography import CodeColumns, build_geography, place_rows
from headcount.geography.spine import COLUMNS, LEVELS, optimised_spine
from headcount.population._base import Source
from headcount.population.columns import whole_numbers
from headcount.population.pieces import table_digest
from headcount.population.population import MOST_PEOPLE, Population, Quarters, ReadSummary
from headcount.population.tables import Rows, read_rows, table_of
from headcount.population.text_files import PLAIN, Format
from headcount.processes import Progress, silent
from headcount.schema import load_schema

HHGQ, TYPES = "hhgq", 8
NO_QUARTERS = "0000000"
BLOCK_COLUMNS = tuple(name for name in COLUMNS if name != "quarters")
ADULT = 18
TopLevel = Literal["us", "state"]
"""The level of the one unit that all others are in: the nation, or one state by itself."""
WITH_QUARTERS = ("which blocks have living quarters",)
"""What the list of blocks gives away, where blocks without any are left out."""
KINDS = "which kinds of group quarters stand in each block"
"""What the spine of persons gives away: it is cut by them."""
FOR_NOBODY = "rows that stand for 0"
FACILITIES = "how many facilities of each type of group quarters stand in each block"
PERSONS_READ_OFF, HOMES_READ_OFF = (*WITH_QUARTERS, KINDS), (*WITH_QUARTERS, FACILITIES)
"""What is published without noise with persons, and with housing units."""


@dataclass(frozen=True, kw_only=True)
class Redistricting2020(Source):
    """Persons of the redistricting product, with the columns above.

    where
        persons   one row per person
        blocks    one row per block, with the codes of all places that it is in
        units     one row per housing unit or facility; without it nothing bounds the counts
        whole     the level of the one unit that all others are in: "us", or "state" for Puerto Rico
        format    how the files are written, where headcount must be told
        public    whether the data are public: no "do not publish" banner
    """

    kind = "redistricting-2020"
    persons: FilePath
    blocks: FilePath
    units: FilePath | None = None
    whole: TopLevel = "us"
    format: Annotated[Format, APART] = PLAIN
    public: bool = False

    @property
    def data_file(self) -> Path:
        """The table of people."""
        return self.persons

    def read(self, progress: Progress = silent) -> Population:
        """Read the people, their blocks and living quarters."""
        return read_persons_2020(
            self.persons,
            blocks=self.blocks,
            units=self.units,
            whole=self.whole,
            public=self.public,
            form=self.format,
        )

    def domain(self) -> Domain:
        """The cells of the product, and the blocks that have living quarters."""
        places = read_places_2020(
            blocks=self.blocks, units=self.units, homes=False, whole=self.whole, form=self.format
        )
        read_off = () if self.units is None else PERSONS_READ_OFF
        return Domain(load_schema("redistricting-2020"), places, read_off=read_off)

    @property
    def places_from(self) -> Path | None:
        """The table of living quarters, where there is one."""
        return self.units

    def source_digest(self) -> str:
        """The digest of the rows of people in any order, over all columns."""
        return table_digest(self.persons, self.format)


@dataclass(frozen=True, eq=False)
class _Units:
    """Living quarters row by row: block, type, whether occupied, and for how many a row stands.

    Where only their places are asked for, ``occupied`` is not read, and -1.
    """

    rows: Rows
    block: pl.Series
    type: Ints
    occupied: Ints
    count: Ints

    def only(self, wanted: Flags, *, without: str) -> _Units:
        """Some of the rows; ``without`` names the others."""
        return _Units(
            self.rows.only(pl.Series(wanted), without=without),
            self.block.filter(pl.Series(wanted)),
            self.type[wanted],
            self.occupied[wanted],
            self.count[wanted],
        )


def read_persons_2020(
    persons: object,
    *,
    blocks: object,
    units: object | None = None,
    whole: TopLevel = "us",
    public: bool = False,
    form: Format = PLAIN,
) -> Population:
    """People by block and cell of the schema ``redistricting-2020``, with their living quarters."""
    given = None if units is None else _units(units, form)
    geography, places = _geography(blocks, form, given, whole, by_type=True)
    schema = load_schema("redistricting-2020")
    rows = read_rows(
        table_of(persons),
        ["block", "gqtype", "age", "cenhisp", "cenrace", "count"],
        optional={"count"},
        form=form,
    )
    problems = rows.problems()
    codes: tuple[Ints, ...] = (
        _types(rows, problems),
        (_within(rows, "age", problems, 0, 150) >= ADULT).astype(np.int64),
        _within(rows, "cenhisp", problems, 1, 2) - 1,
        _within(rows, "cenrace", problems, 1, 63) - 1,
    )
    count = whole_numbers(rows, "count", problems) if "count" in rows.frame.columns else None
    problems.refuse()
    if count is not None and not count.all():
        rows, some = rows.only(pl.Series(count > 0), without=FOR_NOBODY), count > 0
        codes, count = tuple(one[some] for one in codes), count[some]
    unit = place_rows(_block(rows), geography, name=rows.name, where=rows.where)
    people = Population(
        name=rows.name,
        domain=Domain(schema, geography, read_off=() if given is None else PERSONS_READ_OFF),
        unit=unit,
        cell=np.ravel_multi_index(codes, [one.size for one in schema.attributes]).astype(np.int32),
        count=count,
        public=public,
        reading=_reading(rows, *(() if given is None else (given.rows,)), places),
    )
    if given is None:
        return people
    quarters = _quarters(given, geography)
    _refuse_homeless(rows, unit, codes[0], quarters)
    return replace(people, quarters=quarters)


def read_units_2020(
    units: object,
    *,
    blocks: object,
    whole: TopLevel = "us",
    public: bool = False,
    form: Format = PLAIN,
) -> Population:
    """Housing units by block, vacant or occupied: the schema ``h1-2020``.

    What is counted, and protected, are housing units. Facilities are exact, and the only living
    quarters that the population has: which housing units are occupied is what is protected.
    """
    given = _units(units, form)
    homes = given.type == 0
    geography, places = _geography(blocks, form, given, whole, by_type=False)
    unit = place_rows(given.block, geography, name=given.rows.name, where=given.rows.where)
    return Population(
        name=given.rows.name,
        domain=Domain(
            load_schema("h1-2020"),
            geography,
            read_off=HOMES_READ_OFF,
            counted=CountsOf.HOUSING_UNITS,
        ),
        unit=unit[homes],
        cell=given.occupied[homes].astype(np.int32),
        count=given.count[homes],
        public=public,
        reading=_reading(given.rows, places),
        quarters=_quarters(given.only(~homes, without=""), geography),
    )


def read_places_2020(
    *,
    blocks: object,
    units: object | None,
    homes: bool,
    whole: TopLevel = "us",
    form: Format = PLAIN,
) -> Geography:
    """The blocks of persons, or of housing units (``homes``), without looking at who is there.

    Of the living quarters no more is read than where they stand and of which kind they are.
    """
    given = None if units is None else _units(units, form, places_only=True)
    geography, _ = _geography(blocks, form, given, whole, by_type=not homes)
    return geography


def _units(units: object, form: Format, *, places_only: bool = False) -> _Units:
    columns = ["block", "gqtype", *([] if places_only else ["occupied"]), "count"]
    rows = read_rows(table_of(units), columns, optional={"count"}, form=form)
    problems = rows.problems()
    kind = _types(rows, problems)
    occupied = np.full(rows.frame.height, -1, dtype=np.int64)
    if not places_only:
        occupied = _within(rows, "occupied", problems, 0, 1)
    count = np.ones(rows.frame.height, dtype=np.int64)
    if "count" in rows.frame.columns:
        count = whole_numbers(rows, "count", problems)
    problems.refuse()
    if count.sum(dtype=np.float64) > MOST_PEOPLE:
        raise InputError(
            rows.name, place="column 'count'", found="too many units", expected="at most 2^62"
        )
    return _Units(rows, _block(rows), kind, occupied, count).only(count > 0, without=FOR_NOBODY)


def _geography(
    blocks: object, form: Format, units: _Units | None, whole: TopLevel, *, by_type: bool
) -> tuple[Geography, Rows]:
    """Blocks under their own codes, with the spine; ``by_type`` if kinds of quarters split it."""
    rows = read_rows(
        table_of(blocks), [*BLOCK_COLUMNS, "block_group"], optional={"block_group"}, form=form
    )
    if units is not None:
        rows = rows.only(
            _block(rows).is_in(units.block.unique().implode()),
            without="blocks without living quarters",
        )
    table = rows.frame.with_columns(pl.col(BLOCK_COLUMNS).cast(pl.String))
    pattern = pl.Series([NO_QUARTERS]).new_from_index(0, table.height)
    if units is not None and by_type:
        pattern = _patterns(table["block"], units)
    table = table.with_columns(pattern.alias("quarters"))
    spine = optimised_spine(table.select(COLUMNS), name=rows.name, where=rows.where)
    if "block_group" not in table.columns:
        _refuse_other_tracts(table, rows)
        length = pl.col("tract").str.len_chars() + 1
        table = table.with_columns(pl.col("block").str.slice(0, length).alias("block_group"))
    columns = CodeColumns(columns=LEVELS[1:], root=LEVELS[0])
    geography, _ = build_geography(table, columns, name=rows.name, where=rows.where, distinct=True)
    if whole == LEVELS[0]:
        return replace(geography, spine=spine), rows
    if spine.size(LEVELS[1]) != 1:
        raise InputError(
            rows.name,
            place="column 'state'",
            found="several states, or blocks inside and outside of areas",
            expected='one state, all of it outside or inside (whole = "us" takes any)',
        )
    return replace(_without_top(geography), spine=_without_top(spine)), rows


def _reading(*files: Rows) -> ReadSummary:
    """How many rows each file has, and which were left out."""
    read = [(one.name, one.number + sum(n for _, n in one.left_out)) for one in files]
    left_out = [entry for one in files for entry in one.left_out]
    return ReadSummary(rows=tuple(read), left_out=tuple(left_out))


def _without_top(geography: Geography) -> Geography:
    """The same from the second level on, whose one unit has the level's name, as any whole has."""
    whole, none = np.array([geography.levels[1]]), np.empty(0, dtype=np.int32)
    return Geography(
        geography.levels[1:], (whole, *geography.units[2:]), (none, *geography.parents[2:])
    )


def _refuse_other_tracts(table: pl.DataFrame, rows: Rows) -> None:
    """Without block groups a block's code must begin with its tract's."""
    inside = table.select(pl.col("block").str.starts_with(pl.col("tract"))).to_series()
    problems = rows.problems()
    problems.add(
        (~inside).arg_true(),
        place="column 'block'",
        found=lambda row: f"{table['block'][row]!r} in tract {table['tract'][row]!r}",
        expected="a code that begins with that of its tract, or a column 'block_group'",
    )
    problems.refuse()


def _patterns(block: pl.Series, units: _Units) -> pl.Series:
    """For each block seven digits, 1 for each kind of group quarters that stands there."""
    there = pl.DataFrame({"block": units.block, "type": units.type})
    digits = [
        (pl.col("type") == kind).any().cast(pl.Int8).cast(pl.String) for kind in range(1, TYPES)
    ]
    found = there.group_by("block").agg(pl.concat_str(digits).alias("quarters"))
    return (
        block.to_frame("block")
        .join(found, on="block", how="left", maintain_order="left")["quarters"]
        .fill_null(NO_QUARTERS)
    )


def _quarters(units: _Units, geography: Geography) -> Quarters:
    """Occupied housing units and facilities by type, and vacant housing units, of each block."""
    at = place_rows(units.block, geography, name=units.rows.name, where=units.rows.where)
    leaves = geography.size(geography.leaf)
    vacant = (units.type == 0) & (units.occupied == 0)
    occupied = np.zeros((leaves, TYPES), dtype=np.int64)
    np.add.at(occupied, (at[~vacant], units.type[~vacant]), units.count[~vacant])
    empty = np.zeros(leaves, dtype=np.int64)
    np.add.at(empty, at[vacant], units.count[vacant])
    return Quarters(geography, HHGQ, occupied, empty)


def _refuse_homeless(rows: Rows, unit: Ints32, kind: Ints, quarters: Quarters) -> None:
    """Refuse people of a type of which nothing stands in their block; vacant homes will do."""
    stand = quarters.occupied.copy()
    stand[:, 0] += quarters.vacant
    problems = rows.problems()
    levels = load_schema("redistricting-2020").attribute(HHGQ).levels
    problems.add(
        np.flatnonzero(stand[unit, kind] == 0),
        place="columns 'block' and 'gqtype'",
        found=lambda row: f"someone in {levels[kind[row]]!r} in block {_block(rows)[row]!r}",
        expected="living quarters of that type among the units of the block",
    )
    problems.refuse()


def _block(rows: Rows) -> pl.Series:
    return rows.frame["block"].cast(pl.String)


def _types(rows: Rows, problems: Problems) -> Ints:
    """The type of living quarters from three digits of which the first counts."""
    text = rows.frame["gqtype"].cast(pl.String).str.zfill(3)
    fine = text.str.contains(r"^(000|[1-9]\d\d)$").fill_null(False)
    problems.add(
        (~fine).arg_true(),
        place="column 'gqtype'",
        found=lambda row: repr(rows.frame["gqtype"][row]),
        expected="000, or three digits of which the first is 1 to 9",
    )
    first = text.str.slice(0, 1).cast(pl.Int64, strict=False).fill_null(0)
    return np.asarray(np.minimum(first.to_numpy(), TYPES - 1), dtype=np.int64)


def _within(rows: Rows, column: str, problems: Problems, low: int, high: int) -> Ints:
    """Whole numbers from ``low`` to ``high``."""
    values = rows.frame[column].cast(pl.String).str.strip_chars()
    number = values.cast(pl.Int64, strict=False)
    fine = number.is_between(low, high).fill_null(False)
    problems.add(
        (~fine).arg_true(),
        place=f"column {column!r}",
        found=lambda row: repr(rows.frame[column][row]),
        expected=f"a whole number from {low} to {high}",
    )
    return np.asarray(number.fill_null(low).to_numpy(), dtype=np.int64)
