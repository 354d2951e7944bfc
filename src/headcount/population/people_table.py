"""A table of people: where in it things stand, which rows are people, and where everybody is.

First all batches are looked at for what exists (``SeenTable``: places, levels, and what looks
odd); then each row is placed in what is known to exist (``KnownDomain``, ``placed``), and checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

import numpy as np
import polars as pl

from headcount.arrays import Ints, Ints32
from headcount.errors import InputError, Noted, Problems
from headcount.fields import Pairs
from headcount.geography import Geography
from headcount.geography.geography import (
    ONE_PLACE,
    GeographySource,
    Prefixes,
    build_geography,
    check_codes,
    code_lengths,
    find_units,
    geography_of,
    note_longer,
    note_places,
    note_short,
    place_rows,
    places_of,
)
from headcount.population.columns import (
    AttributeColumn,
    BlankCounts,
    KeyColumn,
    level_numbers,
    refuse_no_values,
    whole_numbers,
    with_levels,
    with_values,
)
from headcount.population.population import MOST_PEOPLE, ReadSummary
from headcount.population.suspicious import (
    COUNT_COLUMNS,
    TOTAL_ROWS,
    Totals,
    counts_of_people,
    note_totals,
    refuse_counts_of_people,
    without_totals,
)
from headcount.population.tables import AnyTable, Rows, read_rows, rows_named, table_of
from headcount.population.text_files import PLAIN, Format
from headcount.schema import Schema
from headcount.schema.schema import Combination

Values = tuple[tuple[str, tuple[str, ...]], ...]
"""Columns, each with some of its values."""


@dataclass(frozen=True)
class RowChoice:
    """Rows to read: those with one of the values of each column of ``include``, and not with one
    of any column of ``exclude``. An empty text stands for no value."""

    include: Values = ()
    exclude: Values = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are looked at."""
        return tuple(dict.fromkeys(column for column, _ in (*self.include, *self.exclude)))

    @property
    def said(self) -> str:
        """What is left out, by the settings."""
        only = [
            f"rows with other values of {column!r} than {_some(v)}" for column, v in self.include
        ]
        none = [f"rows with {_some(values)} in {column!r}" for column, values in self.exclude]
        return " and ".join([*only, *none])

    def within(self, columns: list[str]) -> RowChoice:
        """The part of it that is about some columns."""
        return RowChoice(
            Pairs(one for one in self.include if one[0] in columns),
            Pairs(one for one in self.exclude if one[0] in columns),
        )

    def of(self, rows: Rows) -> Rows:
        """The rows that are chosen; none at all is an error."""
        chosen = self.among(rows)
        if chosen.frame.is_empty():
            refuse_no_choice(rows.name)
        return chosen

    def among(self, rows: Rows) -> Rows:
        """The rows that are chosen, among some of a file."""
        given = [*((one, True) for one in self.include), *((one, False) for one in self.exclude)]
        for ((column, values), wanted), reason in zip(given, self.reasons, strict=True):
            has = rows.frame[column].cast(pl.String).fill_null("").is_in(list(values))
            rows = rows.only(has if wanted else ~has, without=reason)
        return rows

    @property
    def reasons(self) -> list[str]:
        """Why rows are left out, in the order in which they are."""
        outside = [f"rows outside include ({column})" for column, _ in self.include]
        return [*outside, *(f"rows by exclude ({column})" for column, _ in self.exclude)]


EVERY_ROW = RowChoice()


def refuse_no_choice(name: str) -> NoReturn:
    """Refuse a file of which no row is chosen."""
    raise InputError(
        name,
        place="include and exclude",
        found="no row that they choose",
        expected="values that stand in the file",
    )


def _some(values: tuple[str, ...]) -> str:
    return " or ".join(repr(value) for value in values)


@dataclass(frozen=True, kw_only=True, repr=False)
class TableOfPeople:
    """A table with a row for each person, or for several.

    where
        units             a table with the geography columns, one row for each leaf that exists;
                          without it the units are read from the data, and the population says so
        units_from_data   that this list was itself read from the data
        count             the column that says for how many people a row stands
        blank_counts      what to do with counts that are not there
        overlap           in how many rows a person may be counted
        totals            what to do with rows that look like totals
        not_counts        columns that are not numbers of people though they are called so
        keys              the column of ids or record keys that goes with the people
        choice            which rows are read
        form              how files are written
    """

    path: AnyTable
    attributes: tuple[AttributeColumn, ...]
    geography: GeographySource
    structural_zeros: tuple[Combination, ...] = ()
    units: AnyTable | None = None
    units_from_data: bool = False
    public: bool = False
    totals: Totals = "refuse"
    not_counts: tuple[str, ...] = ()
    count: str = ""
    blank_counts: BlankCounts = "refuse"
    overlap: int = 1
    keys: KeyColumn | None = None
    choice: RowChoice = EVERY_ROW
    form: Format = PLAIN

    def __post_init__(self) -> None:
        if self.keys is not None and self.count:
            self.keys.refuse_counted(f"it beside counts in {self.count!r}")
        if not self.columns:
            raise InputError(
                self.name,
                found="no column of a place or an attribute",
                expected="at least one of them: else a row says nothing of a person",
            )

    @property
    def name(self) -> str:
        """The file, for errors."""
        return str(self.path)

    @property
    def one_person(self) -> str:
        """What one person is, for the guarantee."""
        one = "counted in one row of the file" if self.count else "one row of the file"
        said = f"one person is {one}{several_times(self.overlap)}{nobodys(self.totals)}"
        said += withheld(self.blank_counts)
        return said + left_out_by(self.choice, self.attributes)

    @property
    def columns(self) -> list[str]:
        """All columns that must be there."""
        own = [*self.geography.columns, *(a.column for a in self.attributes), *self.numbers]
        return [*own, *([self.keys.column] if self.keys else []), *self.choice.columns]

    @property
    def numbers(self) -> list[str]:
        """The column of counts, if there is one."""
        return [self.count] if self.count else []

    @property
    def suspects(self) -> list[str]:
        """Columns that may be there, and would then count people."""
        return [] if self.count else [one for one in COUNT_COLUMNS if one not in self.columns]

    @property
    def telling(self) -> list[str]:
        """Columns that tell what exists, or which rows are people."""
        looked_at = [a.column for a in self.open_attributes]
        looked_at += [a.column for a in self.attributes if a.missing == "drop"]
        # Whatever is read, rows are counted by a column of it.
        return [*self.geography.columns, *looked_at, *self.choice.columns] or self.columns[:1]

    @property
    def open_attributes(self) -> Sequence[AttributeColumn]:
        """Attributes whose levels are read from the data."""
        return [one for one in self.attributes if one.known_levels is None]

    @property
    def reasons(self) -> list[str]:
        """Why rows may be left out, in the order in which they are."""
        without = [one.reason for one in self.attributes if one.missing == "drop"]
        return [*self.choice.reasons, TOTAL_ROWS, *without]

    def people(self, rows: Rows, problems: Problems) -> Rows:
        """Rows that are people, of those that are chosen; rows of totals are noted."""
        inside = note_totals(rows, self.geography, self.totals, problems)
        return with_values(inside, self.attributes)


def several_times(overlap: int) -> str:
    """What the guarantee says where a person is counted several times."""
    if overlap == 1:
        return ""
    return (
        f"; but a person may be counted in up to {overlap} cells or rows, and for such a person "
        f"the loss is up to {overlap} times the one that is stated"
    )


def withheld(blank_counts: BlankCounts) -> str:
    """What the guarantee says of counts that are not in the file."""
    if blank_counts != "withheld":
        return ""
    return "; whoever is in a count that the file withholds is not counted"


def nobodys(totals: Totals) -> str:
    """What the guarantee says of rows that are left out: by the setting, not by the data."""
    return "; rows of totals are left out, and are nobody's" if totals == "drop" else ""


def left_out_by(choice: RowChoice, attributes: Sequence[AttributeColumn]) -> str:
    """What the guarantee says of people who are left out: by the settings, not by the data."""
    dropped = [repr(one.name) for one in attributes if one.missing == "drop"]
    why = [choice.said] if choice.said else []
    why += [f"rows without a value of {' or '.join(dropped)}"] if dropped else []
    if not why:
        return ""
    return f"; {' and '.join(why)} are left out first: who is among them is not covered"


UNITS_READ_OFF = ("which units exist",)
"""What a guarantee says where places were read from the data."""
STAGES = 4
"""Checks of rows, each of which supposes that the one before found nothing."""
VALUE, ROW = "value", "row"
MANY_PLACES = 1 << 22
"""Places that wait at least before those that stand twice are taken out."""


@dataclass(eq=False, repr=False)
class SeenTable:
    """What was seen of a table; the rows of each file are its own, so batches add up.

    where
        read, chosen, people   rows: all, those chosen, those that are people
        left_out               rows that are not, by reason
        counts                 columns named like counts: whether all are whole, whether all are 1
        totals                 rows that look like totals
        any_short              whether a code is missing or too short
        places                 the places that stand in it; none where a list of units is given
        lengths                lengths of codes with prefixes, each with the first row of it
        values                 values of attributes whose levels are read, with their first rows
    """

    read: int = 0
    chosen: int = 0
    people: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    counts: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    totals: list[Noted] = field(default_factory=list)
    any_short: bool = False
    places: list[pl.DataFrame] = field(default_factory=list)
    lengths: dict[int, int] = field(default_factory=dict)
    values: dict[str, pl.DataFrame] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Rows, table: TableOfPeople) -> SeenTable:
        """What is seen of some rows."""
        chosen = table.choice.among(rows)
        problems = chosen.problems()
        people = table.people(chosen, problems)
        short = note_short(people.frame, table.geography, people.problems())
        seen = cls(rows.number, chosen.number, people.number, Counter(dict(people.left_out)))
        seen.counts = counts_of_people(chosen, table.columns, table.not_counts)
        seen.totals = [problems.noted] if table.totals == "refuse" else []
        seen.any_short = bool(short.any())
        if table.units is None and table.geography.columns:
            seen.places = [places_of(people.only(~short, without="").frame, table.geography)]
        if isinstance(table.geography, Prefixes):
            seen.lengths = code_lengths(people.frame, table.geography, people.positions)
        for column in table.open_attributes:
            values = people.frame[column.column].cast(pl.String).to_frame(VALUE)
            seen.values[column.name] = _first(values.with_columns(people.positions.alias(ROW)))
        return seen

    @property
    def noted(self) -> int:
        """How many rows were noted."""
        return sum(number for number, _ in self.totals)

    def add(self, other: SeenTable) -> None:
        """See what another part of the table has, too."""
        self.read, self.chosen = self.read + other.read, self.chosen + other.chosen
        self.people += other.people
        self.left_out += other.left_out
        for column, (whole, ones) in other.counts.items():
            before = self.counts.get(column, (True, True))
            self.counts[column] = (before[0] and whole, before[1] and ones)
        self.totals += other.totals
        self.any_short |= other.any_short
        if other.places:
            self._add_places(other.places)
        for length, row in other.lengths.items():
            self.lengths[length] = min(row, self.lengths.get(length, row))
        for name, values in other.values.items():
            both = [self.values[name], values] if name in self.values else [values]
            self.values[name] = _first(pl.concat(both))

    def _add_places(self, more: list[pl.DataFrame]) -> None:
        """Places wait until they are as many as those known, and are then sorted together."""
        self.places += more
        if sum(one.height for one in self.places[1:]) > max(self.places[0].height, MANY_PLACES):
            self.places = [self.all_places()]

    @classmethod
    def together(cls, parts: Iterable[SeenTable]) -> SeenTable:
        """What all parts of a table have."""
        whole = cls()
        for part in parts:
            whole.add(part)
        return whole

    def all_places(self) -> pl.DataFrame:
        """The places, each once and in order."""
        if not self.places:
            return ONE_PLACE
        places = pl.concat(self.places).unique()
        return places.sort(places.columns)

    def refuse(self, table: TableOfPeople) -> None:
        """Refuse a table without people, and what is not a table of people."""
        if not self.read:
            raise InputError(table.name, found="no rows", expected="at least one")
        if not self.chosen:
            refuse_no_choice(table.name)
        refuse_counts_of_people(table.name, self.counts)
        problems = _problems_of(table)
        for noted in self.totals:
            problems.take(noted)
        problems.refuse()
        if not self.people:
            refuse_no_values(table.name)

    def summary(self, table: TableOfPeople) -> ReadSummary:
        """What was read, for the curator's eyes."""
        source, longest = table.geography, max(self.lengths, default=0)
        remarks = source.cut(longest) if isinstance(source, Prefixes) else ()
        left_out = [(why, self.left_out[why]) for why in table.reasons if self.left_out[why]]
        rows = ((table.name, self.people),)
        return ReadSummary(rows=rows, left_out=tuple(left_out), remarks=remarks)


def _problems_of(table: TableOfPeople) -> Problems:
    """What is wrong with a table, by positions in it."""
    return Problems(table.name, partial(rows_named, table.path, table.form))


def _first(values: pl.DataFrame) -> pl.DataFrame:
    return values.group_by(VALUE).agg(pl.col(ROW).min()).sort(ROW)


@dataclass(frozen=True, eq=False, repr=False)
class KnownDomain:
    """What exists: the schema, the places, and what of them was read from the data.

    where
        columns     attributes with all their levels
        geography   None while codes are wrong: then rows are checked, but not placed
        refused     why there is none, where codes do not make a tree
    """

    schema: Schema
    columns: tuple[AttributeColumn, ...]
    geography: Geography | None
    read_off: tuple[str, ...]
    refused: InputError | None = None

    @classmethod
    def of(cls, seen: SeenTable, table: TableOfPeople) -> KnownDomain:
        """From what was seen of a table, and its list of units if it has one."""
        columns: list[AttributeColumn] = []
        read_off: list[str] = []
        for column in table.attributes:
            values = seen.values.get(column.name)
            rows = Rows(table.path, table.form, pl.DataFrame())
            if values is not None:
                frame = values.select(pl.col(VALUE).alias(column.column))
                rows = Rows(table.path, table.form, frame, values[ROW])
            known, said = with_levels(rows, column, counted=bool(table.count))
            columns.append(known)
            read_off += said
        attributes = [one.attribute(one.known_levels or ()) for one in columns]
        schema = Schema(tuple(attributes), table.structural_zeros)
        from_data = table.units is None or table.units_from_data
        places = UNITS_READ_OFF if from_data and table.geography.columns else ()
        geography, refused = None, None
        if table.units is not None:
            geography = listed_geography(table.units, table.geography, table.totals, table.form)
        elif not seen.any_short:
            try:
                geography = geography_of(seen.all_places(), table.geography, name=table.name)
            except InputError as error:  # first what is wrong with single rows
                refused = error
        return cls(schema, tuple(columns), geography, (*places, *read_off), refused)

    def refuse(
        self, seen: SeenTable, table: TableOfPeople, noted: Sequence[Sequence[Noted]]
    ) -> None:
        """Refuse what is wrong with rows: all faults of the first stage that found any."""
        for stage in range(STAGES):
            problems = _problems_of(table)
            if stage == 0 and isinstance(table.geography, Prefixes):
                note_longer(seen.lengths, table.geography, problems)
            for stages in noted:
                problems.take(stages[stage])
            problems.refuse()
        if self.refused is not None:
            raise self.refused


@dataclass(frozen=True, eq=False, repr=False)
class Placed:
    """Rows of a table that are people.

    where
        noted      what is wrong, by stage; where anything is, there is no more
        unit, cell of each row
        many       people for whom it stands; None for one each
    """

    noted: tuple[Noted, ...]
    rows: Rows
    unit: Ints32
    cell: Ints32
    many: Ints | None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not any(number for number, _ in self.noted)


def placed(rows: Rows, table: TableOfPeople, domain: KnownDomain) -> Placed:
    """The people among some rows, and where they are."""
    people = table.people(table.choice.among(rows), rows.problems())
    stages = [people.problems() for _ in range(STAGES)]
    note_short(people.frame, table.geography, stages[0])
    counts = None
    if table.count:
        counts = whole_numbers(people, table.count, stages[0], blank=table.blank_counts)
    cell = np.zeros(people.frame.height, dtype=np.int32)
    for column, attribute in zip(domain.columns, domain.schema.attributes, strict=True):
        number = level_numbers(people, column, stages[0])
        cell = cell * np.int32(attribute.size) + number
    unit = np.zeros(len(cell), dtype=np.int32)
    tree = domain.geography
    if not stages[0].noted[0]:
        note_impossible(domain.schema, cell, stages[1], counts=counts)
        if tree is not None:
            if table.units is not None:
                _note_other_parents(table.geography.codes(people.frame), tree, stages[2])
            unit = note_places(table.geography.leaf(people.frame), tree, stages[3])
    noted = tuple(one.noted for one in stages)
    return Placed(noted, people, unit, cell, _times(people, counts))


def _times(people: Rows, counts: Ints | None) -> Ints | None:
    """For how many people each row stands; None for one each."""
    if people.times is None:
        return counts
    times: Ints = people.times.to_numpy()
    if counts is None:
        return times
    refuse_too_many(people.name, float((counts * times.astype(np.float64)).sum()))
    many: Ints = counts * times
    return many


def refuse_too_many(name: str, people: float) -> None:
    """Refuse sums that could leave 64 bits."""
    if people > MOST_PEOPLE:
        raise InputError(name, place="count", found="too many people", expected="at most 2^62")


def note_impossible(
    schema: Schema,
    cell: Ints32,
    problems: Problems,
    *,
    rows: Ints | None = None,
    counts: Ints | None = None,
) -> None:
    """Note rows with someone in a structural zero."""
    wrong = ~schema.possible[cell]
    if counts is not None:
        wrong &= counts > 0
    bad = np.flatnonzero(wrong)
    at = bad if rows is None else rows[bad]
    cells = dict(zip(at.tolist(), cell[bad].tolist(), strict=True))
    problems.add(
        sorted(cells),
        found=lambda row: f"someone in cell {schema.cell_names[cells[row]]!r}, a structural zero",
        expected="nobody there",
    )


def listed_geography(
    units: AnyTable, source: GeographySource, totals: Totals, form: Format
) -> Geography:
    """The geography of a list of units."""
    if not source.columns:
        raise InputError(
            str(units),
            place="units",
            found="a list of places, and no columns of places",
            expected="none where everybody is in one place; or columns under "
            "[population.geography]",
        )
    listed = read_rows(units, source.columns, form=form.of_others)
    listed = without_totals(listed, source, totals, may_drop=False)
    tree, _ = build_geography(
        listed.frame, source, name=listed.name, where=listed.where, distinct=True
    )
    return tree


def _note_other_parents(codes: Sequence[pl.Series], tree: Geography, problems: Problems) -> None:
    """Note rows whose leaf is in the tree but whose upper codes are not those above it."""
    unit = find_units(codes[-1], tree, tree.leaf)
    wrong = np.zeros(len(unit), dtype=bool)
    for level, here in zip(tree.levels[1:-1], codes, strict=False):
        wrong |= find_units(here, tree, level) != tree.ancestors(level)[unit]
    problems.add(
        np.flatnonzero(wrong & (unit >= 0)),
        found=lambda row: f"unit {codes[-1][row]!r} under other parents than in the list of units",
        expected="the same parent units in both files",
    )


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
    read_off = UNITS_READ_OFF if source.columns else ()
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
    _note_other_parents(codes, tree, problems)
    problems.refuse()
    unit = place_rows(codes[-1], tree, name=name, where=where)
    return tree, unit, read_off if from_data else ()


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
