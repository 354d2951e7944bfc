"""A table of people: where in it things stand, and which of its rows are people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headcount.errors import Problems
from headcount.geography.build import GeographySource
from headcount.population.attribute_column import AttributeColumn, with_values
from headcount.population.format import PLAIN, Format
from headcount.population.frames import AnyTable
from headcount.population.key_column import KeyColumn
from headcount.population.row_choice import EVERY_ROW, RowChoice
from headcount.population.suspicious import COUNT_COLUMNS, TOTAL_ROWS, Totals, note_totals
from headcount.population.tables import Rows
from headcount.population.whole_numbers import BlankCounts
from headcount.schema.schema import Combination


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
        return [*self.geography.columns, *looked_at, *self.choice.columns]

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
