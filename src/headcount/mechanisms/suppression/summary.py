"""How much the rules of 1980 withhold, by level: the tables of Hawes & Rodríguez (2021).

What is counted, as in the slides: cells of the detail of P1 to P4 in units with people; P3 and P4
as tables in units with someone of 18 or over; other person tables in units with people; housing
tables in units with an occupied home.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.mechanisms.suppression.rules import (
    GROUPS_OF,
    Thresholds,
    race_tables,
    small_cells,
    small_groups,
    too_small,
)
from headcount.population import Population
from headcount.release.published import is_total
from headcount.tabulate import Counts
from headcount.tabulate.counts import adder
from headcount.tabulate.published import TableCells

CELL, TABLE = "cell", "table"
PERSONS, HOUSING = "SF1_person", "SF1_housing"


@dataclass(frozen=True, kw_only=True)
class WithheldSummary:
    """How many cells or tables of a level a rule withholds."""

    table: str
    rule: str
    level: str
    total: int
    withheld: int

    @property
    def percent(self) -> float:
        """Of all that would be published; not a number where there is nothing."""
        return 100 * self.withheld / self.total if self.total else float("nan")


def suppression_summary(
    counts: Counts, *, thresholds: Thresholds | None = None, occupied: Ints | None = None
) -> pl.DataFrame:
    """Cells and tables withheld by table, rule and level.

    Columns: table, rule, level, total, withheld, percent. ``occupied`` gives the occupied homes of
    each leaf unit (``occupied_homes``); without it the housing row is left out. Tables that the
    schema cannot make are left out too.
    """
    limits, homes = thresholds or Thresholds(), occupied
    rows: list[WithheldSummary] = []
    for level in counts.geography.levels:
        values = counts.at(level)
        tables = {
            name: (cells := table.on(counts.schema), _dense(values, cells))
            for name, table in race_tables().items()
            if table.supports(counts.schema)
        }
        rows += _at(level, values.totals(), tables, limits)
        if homes is not None:
            rows.append(_homes(counts.geography, level, homes, limits))
    rows.sort(
        key=lambda row: (row.table.startswith("SF1"), row.rule, row.table != PERSONS, row.table)
    )
    return pl.DataFrame(
        [
            {
                "table": r.table,
                "rule": r.rule,
                "level": r.level,
                "total": r.total,
                "withheld": r.withheld,
                "percent": r.percent,
            }
            for r in rows
        ]
    )


def occupied_homes(population: Population) -> Ints | None:
    """Occupied households of each leaf unit, where who lives with whom is known."""
    households, geography = population.households, population.geography
    if households is None:
        return None
    where = households.block[households.is_household]
    return np.bincount(where, minlength=geography.size(geography.leaf))


def _dense(values: Counts, cells: TableCells) -> Ints:
    return np.asarray((values.matrix @ cells.matrix).toarray(), dtype=np.int64)


def _at(
    level: str, people: Ints, tables: dict[str, tuple[TableCells, Ints]], limits: Thresholds
) -> Iterator[WithheldSummary]:
    populated = people > 0
    for name, (cells, values) in tables.items():
        yield cell_row(name, level, cells, values, populated, most=limits.cell)
        if (groups := GROUPS_OF.get(name)) in tables:
            adults = values[:, is_total(cells)][:, 0] > 0
            withheld = small_groups(tables[groups][1], tables[groups][0], most=limits.group)
            yield _row(name, TABLE, level, adults, withheld)
    yield _row(PERSONS, TABLE, level, populated, too_small(people, limits.persons))


def cell_row(
    name: str, level: str, cells: TableCells, values: Ints, populated: Flags, *, most: int
) -> WithheldSummary:
    """The cell rule on a table: its detail, in units with people."""
    hidden = small_cells(values, cells, most=most)[:, cells.inner][populated]
    return WithheldSummary(
        table=name, rule=CELL, level=level, total=hidden.size, withheld=int(hidden.sum())
    )


def _row(name: str, rule: str, level: str, counted: Flags, withheld: Flags) -> WithheldSummary:
    return WithheldSummary(
        table=name,
        rule=rule,
        level=level,
        total=int(counted.sum()),
        withheld=int((withheld & counted).sum()),
    )


def _homes(geography: Geography, level: str, occupied: Ints, limits: Thresholds) -> WithheldSummary:
    if occupied.shape != (geography.size(geography.leaf),):
        raise InputError(
            "suppression summary",
            place="occupied",
            found=f"shape {occupied.shape}",
            expected="a number for each leaf unit",
        )
    homes = np.asarray(adder(geography, level, of=geography.leaf) @ occupied)
    return _row(HOUSING, TABLE, level, homes > 0, too_small(homes, limits.homes))
