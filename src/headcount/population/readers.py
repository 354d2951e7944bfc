"""Reading a population from files: one row per person or for several, or a wide table of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import polars as pl

from headcount.arrays import Ints32
from headcount.errors import InputError
from headcount.geography.build import (
    GeographyLike,
    GeographySource,
    Prefixes,
    build_geography,
    check_codes,
    geography_source,
    place_rows,
)
from headcount.geography.geography import Geography
from headcount.population._placed import (
    UNITS_READ_OFF,
    listed_geography,
    note_impossible,
    note_other_parents,
)
from headcount.population.attribute_column import AttributeColumn
from headcount.population.format import PLAIN, Format
from headcount.population.frames import AnyTable, table_of
from headcount.population.key_column import KeyColumn
from headcount.population.people import read_people
from headcount.population.people_table import (
    TableOfPeople,
    left_out_by,
    nobodys,
    several_times,
    withheld,
)
from headcount.population.population import Population
from headcount.population.quarters import Quarters
from headcount.population.reading import ReadSummary
from headcount.population.row_choice import EVERY_ROW, RowChoice
from headcount.population.suspicious import (
    Totals,
    refuse_columns_that_overlap,
    refuse_sums,
    sums_of_others,
    without_totals,
)
from headcount.population.tables import Rows, read_rows
from headcount.population.whole_numbers import BlankCounts, whole_numbers
from headcount.schema import Schema, load_schema


def read_microdata(
    path: AnyTable | str,
    *,
    attributes: Sequence[AttributeColumn],
    geography: GeographyLike,
    structural_zeros: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (),
    units: AnyTable | str | None = None,
    units_from_data: bool = False,
    public: bool = False,
    totals: Totals = "refuse",
    not_counts: Sequence[str] = (),
    count: str = "",
    blank_counts: BlankCounts = "refuse",
    overlap: int = 1,
    keys: KeyColumn | None = None,
    choice: RowChoice = EVERY_ROW,
    form: Format = PLAIN,
) -> Population:
    """Read one row per person: geography columns and one column per attribute.

    The other keys are those of ``TableOfPeople``.
    """
    return read_people(
        TableOfPeople(
            path=table_of(path),
            attributes=tuple(attributes),
            geography=geography_source(geography),
            structural_zeros=structural_zeros,
            units=None if units is None else table_of(units),
            units_from_data=units_from_data,
            public=public,
            totals=totals,
            not_counts=tuple(not_counts),
            count=count,
            blank_counts=blank_counts,
            overlap=overlap,
            keys=keys,
            choice=choice,
            form=form,
        )
    )


def read_counts(
    path: AnyTable | str,
    *,
    schema: Schema | str,
    geography: GeographyLike,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    units: AnyTable | str | None = None,
    units_from_data: bool = False,
    public: bool = False,
    totals: Totals = "refuse",
    sums: Literal["refuse", "keep"] = "refuse",
    blank_counts: BlankCounts = "refuse",
    overlap: int | None = None,
    choice: RowChoice = EVERY_ROW,
    form: Format = PLAIN,
) -> Population:
    """Read a wide table of counts: geography columns, then one column per cell.

    ``columns`` maps a column to the levels of its cell; without it a cell's column is the cell's
    levels joined by '_' (see ``Schema.cell_names``). Columns of one cell are added up. Structural
    zeros may have no column. ``totals`` says what to do with rows that look like totals by their
    code, ``sums`` with those that equal the sum of others; columns of which some are parts of
    others are refused unless ``overlap`` says in how many a person may be counted; the rest is as
    for ``TableOfPeople``.
    """
    schema = load_schema(schema) if isinstance(schema, str) else schema
    geography = geography_source(geography)
    cells = _cell_columns(schema, columns)
    optional = {column for column, cell in cells.items() if not schema.possible[cell]}
    asked = [*geography.columns, *choice.columns]
    rows = read_rows(table_of(path), [*asked, *cells], optional=optional - {*asked}, form=form)
    present = {column: cell for column, cell in cells.items() if column in rows.frame.columns}
    rows = without_totals(choice.of(rows), geography, totals)
    problems = rows.problems()
    check_codes(rows.frame, geography, problems)
    counts = np.column_stack(
        [whole_numbers(rows, column, problems, blank=blank_counts) for column in present]
    )
    problems.refuse()
    if overlap is None or overlap == 1:
        held = {column: _levels(schema, cell) for column, cell in present.items()}
        refuse_columns_that_overlap(counts, held, rows.name, unsaid=overlap is None)
    tree, unit, read_off = place_table(
        rows, geography, units, distinct=True, totals=totals, from_data=units_from_data
    )
    if sums == "refuse":
        refuse_sums(sums_of_others(counts, unit, tree), geography.codes(rows.frame)[-1], rows)
    row, position = np.nonzero(counts)
    cell = np.fromiter(present.values(), dtype=np.int32)[position]
    note_impossible(schema, cell, problems, rows=row)
    problems.refuse()
    return Population(
        rows.name,
        schema,
        tree,
        unit[row],
        cell,
        counts[row, position],
        public=public,
        read_off=read_off,
        reading=reading_of(rows, geography),
        one_person=one_of_counts(totals, choice, overlap, blank_counts),
    )


def _levels(schema: Schema, cell: int) -> tuple[str, ...]:
    at = np.unravel_index(cell, schema.shape)
    return tuple(one.levels[int(k)] for one, k in zip(schema.attributes, at, strict=True))


def one_of_counts(
    totals: Totals, choice: RowChoice, overlap: int | None, blank_counts: BlankCounts
) -> str:
    """What one person is in a table of counts."""
    one = "one person is one count in one cell of one row of the table"
    one += several_times(overlap or 1) + nobodys(totals) + withheld(blank_counts)
    return one + left_out_by(choice, ())


def reading_of(rows: Rows, source: GeographySource) -> ReadSummary:
    """What was read, for the curator's eyes."""
    return ReadSummary(
        rows=((rows.name, rows.frame.height),),
        left_out=rows.left_out,
        remarks=cut_codes(rows.frame, source),
    )


def cut_codes(table: pl.DataFrame, source: GeographySource) -> tuple[str, ...]:
    """What to tell of codes that go on after the last prefix."""
    if not isinstance(source, Prefixes) or table.is_empty():
        return ()
    return source.cut(len(str(table[source.column][0])))


def place_table(
    rows: Rows,
    source: GeographySource,
    units: AnyTable | str | None,
    *,
    distinct: bool = False,
    totals: Totals = "refuse",
    from_data: bool = False,
) -> tuple[Geography, Ints32, tuple[str, ...]]:
    """The geography, each row's leaf, and what of it was read from the data."""
    table, name, where = rows.frame, rows.name, rows.where
    read_off = UNITS_READ_OFF
    if units is None:
        tree, unit = build_geography(table, source, name=name, where=where, distinct=distinct)
        return tree, unit, read_off
    tree = listed_geography(table_of(units), source, totals, rows.form)
    if distinct:
        build_geography(table, source, name=name, where=where, distinct=True)
    problems = rows.problems()
    check_codes(table, source, problems)
    problems.refuse()
    codes = source.codes(table)
    note_other_parents(codes, tree, problems)
    problems.refuse()
    unit = place_rows(codes[-1], tree, name=name, where=where)
    return tree, unit, read_off if from_data else ()


def _cell_columns(
    schema: Schema, columns: Mapping[str, Mapping[str, str]] | None
) -> dict[str, int]:
    if columns is None:
        return {column: cell for cell, column in enumerate(schema.cell_names)}
    cells = {column: schema.cell(**levels) for column, levels in columns.items()}
    missing = set(np.flatnonzero(schema.possible).tolist()) - set(cells.values())
    if missing:
        raise InputError(
            "columns",
            place=f"cell {schema.cell_names[min(missing)]!r}",
            found="no column",
            expected="a column for every possible cell",
        )
    return cells


def read_quarters(
    path: AnyTable | str,
    *,
    population: Population,
    geography: GeographySource,
    attribute: str,
    columns: Mapping[str, str] | None = None,
    vacant: str = "",
    form: Format = PLAIN,
) -> Quarters:
    """Read living quarters: geography columns, then one column for each type, one row per leaf.

    ``columns`` maps a level of the attribute to its column, by default the level's own name;
    ``vacant`` is the column of vacant housing units, if there is one.
    """
    name, tree = str(path), population.geography
    known = population.schema.attribute(attribute)
    chosen = {level: (columns or {}).get(level, level) for level in known.levels}
    extra = [vacant] if vacant else []
    rows = read_rows(table_of(path), [*geography.columns, *chosen.values(), *extra], form=form)
    table, where, problems = rows.frame, rows.where, rows.problems()
    own, at = build_geography(table, geography, name=name, where=where, distinct=True)
    unit = place_rows(geography.codes(table)[-1], tree, name=name, where=where)
    _refuse_other_tree(own, at, tree, unit, rows)
    occupied = np.zeros((tree.size(tree.leaf), known.size), dtype=np.int64)
    empty = np.zeros(len(occupied), dtype=np.int64)
    for k, column in enumerate(chosen.values()):
        occupied[unit, k] = whole_numbers(rows, column, problems)
    if vacant:
        empty[unit] = whole_numbers(rows, vacant, problems)
    problems.refuse()
    return Quarters(tree, attribute, occupied, empty)


def _refuse_other_tree(
    own: Geography, at: Ints32, tree: Geography, unit: Ints32, rows: Rows
) -> None:
    """Refuse quarters of units under other parents, and units of the population without a row."""
    for level in tree.levels[1:-1]:
        here = own.units[own.depth(level)][own.ancestors(level)[at]]
        there = tree.units[tree.depth(level)][tree.ancestors(level)[unit]]
        if (wrong := np.flatnonzero(here != there)).size:
            row = int(wrong[0])
            raise InputError(
                rows.name,
                place=f"{rows.where([row])[0]}, unit {str(tree.units[-1][unit[row]])!r}",
                found=f"{level} {str(here[row])!r}",
                expected=f"{str(there[row])!r}, as in the population",
            )
    if (missing := np.setdiff1d(np.arange(tree.size(tree.leaf)), unit)).size:
        raise InputError(
            rows.name,
            place=f"unit {str(tree.units[-1][missing[0]])!r}",
            found="no row",
            expected=f"one for each {tree.leaf}, with zeros where there are no living quarters",
        )
