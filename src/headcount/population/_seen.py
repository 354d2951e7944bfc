"""What exists in a table of people, found batch by batch: places, levels, and what looks odd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import polars as pl

from headcount.errors import InputError, Noted, Problems
from headcount.geography.build import Prefixes, code_lengths, note_short, places_of
from headcount.population.attribute_column import refuse_no_values
from headcount.population.people_table import TableOfPeople
from headcount.population.reading import ReadSummary
from headcount.population.row_choice import refuse_no_choice
from headcount.population.suspicious import counts_of_people, refuse_counts_of_people
from headcount.population.tables import Rows, rows_named

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
        if table.units is None:
            seen.places = [places_of(people.frame.filter(~short), table.geography)]
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
        places = pl.concat(self.places).unique()
        return places.sort(places.columns)

    def refuse(self, table: TableOfPeople) -> None:
        """Refuse a table without people, and what is not a table of people."""
        if not self.read:
            raise InputError(table.name, found="no rows", expected="at least one")
        if not self.chosen:
            refuse_no_choice(table.name)
        refuse_counts_of_people(table.name, self.counts)
        problems = problems_of(table)
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


def problems_of(table: TableOfPeople) -> Problems:
    """What is wrong with a table, by positions in it."""
    return Problems(table.name, partial(rows_named, table.path, table.form))


def _first(values: pl.DataFrame) -> pl.DataFrame:
    return values.group_by(VALUE).agg(pl.col(ROW).min()).sort(ROW)
