"""Which rows of a file are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import polars as pl

from headcount.errors import InputError
from headcount.fields import Pairs
from headcount.population.tables import Rows

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
