"""``kind = "counts"``: a wide table of counts, one row per unit, one column per cell.

A table of living quarters is one, too, beside any people: a column for each type of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from headcount.arrays import Ints32
from headcount.domain import Domain
from headcount.errors import InputError, Problems
from headcount.fields import FilePath
from headcount.geography import Geography
from headcount.geography.geography import (
    CodeColumns,
    GeographyLike,
    GeographySource,
    Prefixes,
    build_geography,
    check_codes,
    geography_source,
    place_rows,
)
from headcount.population._base import FromTables, GeographyTable, alias_of_leaf, refuse_overlap
from headcount.population.columns import (
    AttributeColumn,
    BlankCounts,
    level_numbers,
    whole_numbers,
)
from headcount.population.people_table import (
    EVERY_ROW,
    RowChoice,
    left_out_by,
    nobodys,
    note_impossible,
    place_table,
    reading_of,
    several_times,
    withheld,
)
from headcount.population.population import Population, Quarters
from headcount.population.suspicious import (
    Totals,
    refuse_columns_that_overlap,
    refuse_sums,
    sums_of_others,
    without_totals,
)
from headcount.population.tables import AnyTable, Rows, read_rows, table_of
from headcount.population.text_files import PLAIN, Format
from headcount.processes import Progress, silent
from headcount.schema import Schema, load_schema
from headcount.schema.load import SchemaFile


@dataclass(frozen=True, kw_only=True)
class CountsTable(FromTables):
    """A wide table of counts.

    where
        file           the table: text, Parquet, Excel, Stata or SPSS
        geography      its columns of places
        schema         a shipped schema, or a TOML file
        cells          the levels of a column's cell, where columns are not named after their
                       cells; several columns of one cell are added up
        attribute      attributes whose levels stand in rows: then a unit has a row for each of
                       their combinations, and the cells of columns leave them out
        quarters       living quarters by type
        totals         what to do with rows that look like totals by their code
        sums           what to do with rows that equal the sum of others
        blank_counts   what counts that are not there are: "zero", or "withheld"
        overlap        in how many cells or rows a person may be counted: the guarantee says what
                       that means for one; where nobody says it, parts of others are looked for
    """

    kind = "counts"
    file: FilePath
    geography: GeographyTable
    schema: Annotated[str, SchemaFile()]
    cells: Mapping[str, Mapping[str, str]] | None = None
    attribute: tuple[AttributeColumn, ...] = ()
    quarters: QuartersTable | None = None
    totals: Totals = "refuse"
    sums: Literal["refuse", "keep"] = "refuse"
    blank_counts: BlankCounts = "refuse"
    overlap: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_overlap(self.overlap)
        if self.keys is not None:
            self.keys.refuse_counted("it for a table of counts")

    @property
    def aliases(self) -> dict[str, str]:
        """The lowest level by its column."""
        return alias_of_leaf(self.geography)

    @property
    def data_file(self) -> Path:
        """The table of people."""
        return self.file

    def domain(self) -> Domain:
        """The cells of the schema, and the places of the list of units."""
        return Domain(
            load_schema(self.schema),
            self.places(self.geography, self.totals),
            read_off=self.places_read_off(self.geography),
            one_person=_one_of_counts(self.totals, self.choice, self.overlap, self.blank_counts),
        )

    def read(self, progress: Progress = silent) -> Population:
        """Read the counts, and the living quarters if there are any."""
        people = read_counts(
            self.file,
            schema=load_schema(self.schema),
            geography=self.geography,
            columns=self.cells,
            attributes=self.attribute,
            units=self.units,
            units_from_data=self.units_from_data,
            public=self.public,
            totals=self.totals,
            sums=self.sums,
            blank_counts=self.blank_counts,
            overlap=self.overlap,
            choice=self.choice,
            form=self.format,
        )
        if self.quarters is None:
            return people
        return self.quarters.join(people, self.geography, self.format)


def read_counts(
    path: AnyTable | str,
    *,
    schema: Schema | str,
    geography: GeographyLike,
    columns: Mapping[str, Mapping[str, str]] | None = None,
    attributes: Sequence[AttributeColumn] = (),
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
    zeros may have no column. ``attributes`` stand in rows instead: a unit then has a row for each
    of their combinations, and cells of columns leave them out. ``totals`` says what to do with
    rows that look like totals by their code, ``sums`` with those that equal the sum of others;
    columns of which some are parts of others are refused unless ``overlap`` says in how many a
    person may be counted; the rest is as for ``TableOfPeople``.
    """
    schema = load_schema(schema) if isinstance(schema, str) else schema
    geography = geography_source(geography)
    cells = _cell_columns(schema, columns, attributes)
    optional = {column for column, cell in cells.items() if not schema.possible[cell]}
    asked = [*geography.columns, *choice.columns, *(one.column for one in attributes)]
    rows = read_rows(table_of(path), [*asked, *cells], optional=optional - {*asked}, form=form)
    present = {column: cell for column, cell in cells.items() if column in rows.frame.columns}
    rows = without_totals(choice.of(rows), geography, totals)
    problems = rows.problems()
    check_codes(rows.frame, geography, problems)
    counts = np.column_stack(
        [whole_numbers(rows, column, problems, blank=blank_counts) for column in present]
    )
    in_rows = _row_cells(rows, schema, attributes, problems)
    problems.refuse()
    if overlap is None or overlap == 1:
        held = {column: _levels(schema, cell) for column, cell in present.items()}
        refuse_columns_that_overlap(counts, held, rows.name, unsaid=overlap is None)
    tree, unit, read_off = place_table(
        rows, geography, units, distinct=not attributes, totals=totals, from_data=units_from_data
    )
    _refuse_repeated(unit, in_rows, rows)
    if sums == "refuse" and not attributes:
        refuse_sums(sums_of_others(counts, unit, tree), geography.leaf(rows.frame), rows)
    row, position = np.nonzero(counts)
    cell = np.fromiter(present.values(), dtype=np.int32)[position] + in_rows[row]
    note_impossible(schema, cell, problems, rows=row)
    problems.refuse()
    return Population(
        rows.name,
        Domain(
            schema,
            tree,
            read_off=read_off,
            one_person=_one_of_counts(totals, choice, overlap, blank_counts),
        ),
        unit[row],
        cell,
        counts[row, position],
        public=public,
        reading=reading_of(rows, geography),
    )


def _cell_columns(
    schema: Schema,
    columns: Mapping[str, Mapping[str, str]] | None,
    attributes: Sequence[AttributeColumn],
) -> dict[str, int]:
    """The cell of each column, in its first levels of attributes that stand in rows."""
    in_rows = {one.name: schema.attribute(one.name).levels[0] for one in attributes}
    if in_rows:
        columns = {column: {**levels, **in_rows} for column, levels in (columns or {}).items()}
        return {column: schema.cell(**levels) for column, levels in columns.items()}
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


def _row_cells(
    rows: Rows, schema: Schema, attributes: Sequence[AttributeColumn], problems: Problems
) -> Ints32:
    """How far the cell of each row is from that of the first levels."""
    found = np.zeros(rows.frame.height, dtype=np.int32)
    for column in attributes:
        at = schema.names.index(column.name)
        step = int(np.prod(schema.shape[at + 1 :], dtype=np.int64))
        column = replace(column, levels=schema.attributes[at].levels, bins=None)
        found += np.int32(step) * level_numbers(rows, column, problems)
    return found


def _refuse_repeated(unit: Ints32, in_rows: Ints32, rows: Rows) -> None:
    """Refuse a second row of a unit and the levels of its row."""
    pairs = np.stack([unit, in_rows])
    _, first = np.unique(pairs, axis=1, return_index=True)
    problems = rows.problems()
    problems.add(
        np.setdiff1d(np.arange(len(unit)), first).tolist(),
        found=lambda row: "a second row of the same unit and levels",
        expected="one row for each unit and each combination of levels in rows",
    )
    problems.refuse()


def _levels(schema: Schema, cell: int) -> tuple[str, ...]:
    at = np.unravel_index(cell, schema.shape)
    return tuple(one.levels[int(k)] for one, k in zip(schema.attributes, at, strict=True))


def _one_of_counts(
    totals: Totals, choice: RowChoice, overlap: int | None, blank_counts: BlankCounts
) -> str:
    """What one person is in a table of counts."""
    one = "one person is one count in one cell of one row of the table"
    one += several_times(overlap or 1) + nobodys(totals) + withheld(blank_counts)
    return one + left_out_by(choice, ())


@dataclass(frozen=True, kw_only=True)
class QuartersTable:
    """A table of living quarters: one row per leaf unit, one column for each type.

    where
        attribute   the attribute whose levels are the types
        columns     the column of a level, where it is not named after it
        vacant      the column of vacant housing units, if there is one
    """

    file: FilePath
    attribute: str
    columns: Mapping[str, str] = field(default_factory=dict)
    vacant: str = ""

    def join(
        self, people: Population, geography: CodeColumns | Prefixes, form: Format
    ) -> Population:
        """The people with the living quarters of their units."""
        quarters = read_quarters(
            self.file,
            population=people,
            geography=geography,
            attribute=self.attribute,
            columns=self.columns,
            vacant=self.vacant,
            form=form,
        )
        return replace(people, quarters=quarters)


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
    rows = read_rows(
        table_of(path), [*geography.columns, *chosen.values(), *extra], form=form.of_others
    )
    table, where, problems = rows.frame, rows.where, rows.problems()
    own, at = build_geography(table, geography, name=name, where=where, distinct=True)
    unit = place_rows(geography.leaf(table), tree, name=name, where=where)
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
