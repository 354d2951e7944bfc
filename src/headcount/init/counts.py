"""Which columns count people, by their names or by the shape of the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import polars as pl

from headcount.errors import InputError
from headcount.init.attributes import single_years
from headcount.init.look import SeenColumn, SeenFile
from headcount.init.words import COUNTS, OTHER_UNITS
from headcount.population.suspicious import COUNT_WORDS

FULL = 0.5
"""The share of all combinations that the rows of a cross table have at least."""

LARGE, FEWEST_ROWS = 20, 6
"""Smaller numbers may be codes of levels, and fewer rows people who differ by chance."""

WEIGHTS = ("weight", "perwt", "number")
"""Names of counts that may as well be weights of people in a sample."""

_COUNT = re.compile(rf"^({'|'.join((*COUNT_WORDS, *COUNTS))})$")


def called_count(column: SeenColumn) -> bool:
    """Whether a column is called a number of people."""
    return bool(_COUNT.match(column.says))


def counts_people(column: SeenColumn, *, withheld: bool = False) -> bool:
    """Whether a column may count people; ``withheld``: though most of them are withheld."""
    return (column.counts or (withheld and column.withheld)) and not OTHER_UNITS.search(column.says)


def count_columns(others: Sequence[SeenColumn]) -> list[str]:
    """The columns whose names say that they count people, those of the plainest names first."""
    found = [
        one
        for one in others
        if _COUNT.match(one.says)
        and (one.counts or one.withheld)
        and one.real != ["1"]
        and one.number > 1
    ]
    return [one.name for one in sorted(found, key=lambda one: one.says not in COUNT_WORDS)]


def count_by_shape(places: Sequence[str], others: Sequence[SeenColumn], frame: pl.DataFrame) -> str:
    """The only column of numbers beside a cross table: each place and group stands in one row.

    The rows have at least half of all combinations of the other columns, each once. People with
    so few attributes would repeat, and people with more of them fill a smaller share.
    """
    numbers = [one for one in others if counts_people(one) and not single_years(one)]
    many = [one for one in numbers if not one.whole or one.numbers[-1] >= LARGE]
    if len(many) != 1 or frame.height < FEWEST_ROWS:
        return ""
    groups = [one.name for one in others if not (one is many[0] or _measures(one))]
    keys = [*places, *groups]
    parts = frame.select(keys)
    size = parts.select(places).n_unique() * prod(parts[one].n_unique() for one in groups)
    if not groups or parts.height < FULL * size or parts.n_unique() < parts.height:
        return ""
    return many[0].name


def _measures(column: SeenColumn) -> bool:
    """Whether a column says something of a place and group that is no part of either: a rate."""
    return column.decimal or (column.whole and bool(OTHER_UNITS.search(column.says)))


def refuse_parts_of_people(seen: SeenFile, others: Sequence[SeenColumn]) -> None:
    """Refuse a column that is called a count and holds decimals: its rows are no people either."""
    for column in others:
        if column.says in COUNT_WORDS and column.says not in WEIGHTS and column.decimal:
            raise InputError(
                str(seen.path),
                place=f"column {column.name!r}",
                found="numbers with decimals",
                expected="whole numbers of people (rename the column if it does not count any)",
            )
