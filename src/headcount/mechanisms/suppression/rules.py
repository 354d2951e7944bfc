"""The suppression rules of the 1980 census (Hawes & Rodríguez 2021), and how much they withhold.

    cells     a count of 1 or 2 in P1 or P2 is published as 0; the total is never touched
    groups    P3 and P4 (18 and over) are withheld where any group of P1 or P2 has 1 to 14 people,
              of any age
    persons   other person tables are withheld where 1 to 14 people live, but for those on race and
              origin alone: P6 to P9 go by the rule of P1 and P2, P10 and P11 by that of P3 and P4
    homes     housing tables are withheld where 1 to 4 homes are occupied

Race is in seven groups: white; black, Asian, Pacific Islander, American Indian and other, each
alone or with white; all other combinations. Only these primary rules were ever run: a published
margin may give a hidden count away (see ``complementary``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.population import Population
from headcount.release.published import PublishedCells, is_total
from headcount.release.published import Thresholds as Thresholds  # a setting of the mechanism too
from headcount.schema import Schema
from headcount.tabulate import Counts
from headcount.tabulate.counts import adder
from headcount.tabulate.linked_tables import levels_of, table_values
from headcount.tabulate.published import PublishedTable, TableCells, tables

TABLES = ("P1", "P2", "P3", "P4")
GROUPS_OF = {"P3": "P1", "P4": "P2", "P10": "P1", "P11": "P2"}
"""Tables of people of 18 and over, and the table of all ages whose groups decide on them."""
RACE_ONLY = ("P6", "P7", "P8", "P9")
"""Tables of Summary File 1 on race and origin alone: as P1 and P2, they have the cell rule."""
CELL, TABLE = "cell", "table"
PERSONS, HOUSING = "SF1_person", "SF1_housing"
_Row = tuple[str, str, str, int, int]
"""Table, rule and level, how many cells or tables would be published, and how many are withheld."""


def race_tables() -> dict[str, PublishedTable]:
    """P1 to P4 by the seven groups of race."""
    adults = (("age", ("voting-age/18+",)),)
    race, origin = ("race", ("seven", "alone")), ("hispanic", ("hispanic",))
    rows: tuple[tuple[str, str, Any, Any], ...] = (
        ("P1", "Race", (race,), ()),
        ("P2", "Hispanic origin by race", (origin, race), ()),
        ("P3", "Race, 18 years and over", (race,), adults),
        ("P4", "Hispanic origin by race, 18 years and over", (origin, race), adults),
    )
    return {
        name: PublishedTable("1980 rules", name, title, "block", axes, universe)
        for name, title, axes, universe in rows
    }


def known_tables() -> dict[str, PublishedTable]:
    """P1 to P4 by seven groups, and the other person tables of Summary File 1."""
    return {**tables("sf1"), **race_tables()}


def find_tables(
    names: tuple[str, ...], schema: Schema, *, source: str = "suppression"
) -> tuple[TableCells, ...]:
    """Tables by name on a schema; one that cannot be made is an error that says why."""
    known = known_tables()
    found = []
    for name in names:
        if name not in known:
            raise ConfigError(
                source,
                place="tables",
                found=repr(name),
                expected=f"some of {', '.join(known)}",
            )
        support = known[name].supports(schema)
        if not support:
            raise ConfigError(
                source,
                place=f"table {name}",
                found=support.reason,
                expected="a population that has what the table shows, or tables of its attributes: "
                'tables = "auto", or tables = { NAME = ["attribute", ...] }',
            )
        found.append(known[name].on(schema))
    return tuple(found)


def too_small(values: NDArray[Any], most: int) -> Flags:
    """Counts from 1 to ``most``."""
    counts = np.asarray(values)
    return np.asarray((counts >= 1) & (counts <= most), dtype=bool)


def _small_cells(values: Ints, cells: TableCells, *, most: int) -> Flags:
    """Cells that the cell rule hides: all but the table's total."""
    return too_small(values, most) & ~is_total(cells)


def small_groups(values: Ints, cells: TableCells, *, most: int) -> Flags:
    """Units in which some group of the table's detail is too small: a flag for each unit."""
    return np.asarray(too_small(values[:, cells.inner], most).any(axis=1), dtype=bool)


def publish_cells(values: Ints, cells: TableCells, *, level: str, most: int) -> PublishedCells:
    """A table under the cell rule: small counts are published as 0."""
    hidden = _small_cells(values, cells, most=most)
    return PublishedCells(
        cells=cells,
        level=level,
        value=np.where(hidden, 0, values),
        withheld=np.zeros(values.shape, dtype=bool),
        zero_hides=most,
    )


def withhold_units(values: Ints, cells: TableCells, units: Flags, *, level: str) -> PublishedCells:
    """A table that is withheld, whole, for some units."""
    withheld = np.repeat(units[:, None], cells.size, axis=1)
    return PublishedCells(
        cells=cells, level=level, value=np.where(withheld, 0, values), withheld=withheld
    )


def publish_by_rules(
    counts: Counts,
    made: tuple[TableCells, ...],
    *,
    by_cell: tuple[str, ...],
    thresholds: Thresholds,
    lowest: str,
) -> tuple[PublishedCells, ...]:
    """Tables at every level under the primary rules, each under its own."""
    published = []
    for cells in made:
        for level in levels_of(cells, counts.geography, lowest):
            values = table_values(counts.at(level), cells)
            name = cells.table.name
            if name in by_cell or name in RACE_ONLY:
                most = thresholds.cell
                published.append(publish_cells(values, cells, level=level, most=most))
                continue
            units = _withheld_units(counts.at(level), name, thresholds)
            published.append(withhold_units(values, cells, units, level=level))
    return tuple(published)


def _withheld_units(at_level: Counts, table: str, thresholds: Thresholds) -> Flags:
    """Where a whole table is withheld."""
    if (groups := GROUPS_OF.get(table)) is not None:
        decides = race_tables()[groups].on(at_level.schema)
        values = table_values(at_level, decides)
        return small_groups(values, decides, most=thresholds.group)
    if table in TABLES:  # P1 or P2 without the cell rule: published as they are
        return np.zeros(at_level.matrix.shape[0], dtype=bool)
    return too_small(at_level.totals(), thresholds.persons)


def suppression_summary(
    counts: Counts, *, thresholds: Thresholds | None = None, occupied: Ints | None = None
) -> pl.DataFrame:
    """Cells and tables withheld by table, rule and level.

    Columns: table, rule, level, total, withheld, percent. ``occupied`` gives the occupied homes of
    each leaf unit (``occupied_homes``); without it the housing row is left out. Tables that the
    schema cannot make are left out too.

    What is counted, as in the slides: cells of the detail of P1 to P4 in units with people; P3 and
    P4 as tables in units with someone of 18 or over; other person tables in units with people;
    housing tables in units with an occupied home.
    """
    limits, homes = thresholds or Thresholds(), occupied
    rows: list[_Row] = []
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
    rows.sort(key=lambda row: (row[0].startswith("SF1"), row[1], row[0] != PERSONS, row[0]))
    frame = pl.DataFrame(rows, schema=["table", "rule", "level", "total", "withheld"], orient="row")
    # not a number where there is nothing that could be published
    return frame.with_columns(percent=100 * pl.col("withheld") / pl.col("total"))


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
) -> Iterator[_Row]:
    populated = people > 0
    for name, (cells, values) in tables.items():
        hidden = _small_cells(values, cells, most=limits.cell)[:, cells.inner][populated]
        yield name, CELL, level, hidden.size, int(hidden.sum())
        if (groups := GROUPS_OF.get(name)) in tables:
            adults = values[:, is_total(cells)][:, 0] > 0
            withheld = small_groups(tables[groups][1], tables[groups][0], most=limits.group)
            yield _row(name, level, adults, withheld)
    yield _row(PERSONS, level, populated, too_small(people, limits.persons))


def _row(name: str, level: str, counted: Flags, withheld: Flags) -> _Row:
    """Of a table that is withheld as a whole."""
    return name, TABLE, level, int(counted.sum()), int((withheld & counted).sum())


def _homes(geography: Geography, level: str, occupied: Ints, limits: Thresholds) -> _Row:
    if occupied.shape != (geography.size(geography.leaf),):
        raise InputError(
            "suppression summary",
            place="occupied",
            found=f"shape {occupied.shape}",
            expected="a number for each leaf unit",
        )
    homes = np.asarray(adder(geography, level, of=geography.leaf) @ occupied)
    return _row(HOUSING, level, homes > 0, too_small(homes, limits.homes))
