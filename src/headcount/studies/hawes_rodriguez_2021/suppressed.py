"""The rules of 1980: how much they withhold, what the margins give back, what an attacker holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.attacks.knowledge import Held, Knowledge, exact, zeros_hide
from headcount.attacks.reconstruction import reconstruct
from headcount.mechanisms.suppression.rules import (
    Thresholds,
    race_tables,
    small_cells,
    small_groups,
    too_small,
)
from headcount.studies.hawes_rodriguez_2021.accuracy import race_totals
from headcount.studies.hawes_rodriguez_2021.field import Battlefield
from headcount.tabulate import Counts
from headcount.tabulate.published import TableCells

Ints = NDArray[np.int64]

TOTAL, CELL_RULE, GROUPS_OF = "P1", ("P8", "P9"), {"P10": "P8", "P11": "P9"}
"""Summary File 1 repeats P1 to P4 of the redistricting data as P8 to P11; its P1 is the total."""


def suppressed_tables(field: Battlefield, limits: Thresholds) -> tuple[Held, ...]:
    """Block tables as the rules leave them, read as ranges: a 0 may be 0 to 2."""
    counts = field.counts
    values = {one.table.name: _dense(counts, one) for one in field.tables}
    few = too_small(counts.totals(), limits.persons)
    found = []
    for cells in field.tables:
        name, level = cells.table.name, counts.level
        if name in CELL_RULE:
            hidden = small_cells(values[name], cells, most=limits.cell)
            published = np.where(hidden, 0, values[name])
            found.append(zeros_hide(cells, published, level=level, most=limits.cell))
            continue
        held = exact(cells, values[name], level=level)
        if name in GROUPS_OF:
            groups = next(one for one in field.tables if one.table.name == GROUPS_OF[name])
            few_in_group = small_groups(values[GROUPS_OF[name]], groups, most=limits.group)
            held = held.withheld(few_in_group)
        elif name != TOTAL:
            held = held.withheld(few)
        found.append(held)
    return tuple(found)


def reconstruct_suppressed(field: Battlefield, limits: Thresholds) -> Any:
    """Records as counts (leaf units x cells) from the suppressed tables."""
    held = suppressed_tables(field, limits)
    knowledge = Knowledge(field.counts.schema, field.geography, held)
    return reconstruct(knowledge, variability=False).matrix


def published_races(counts: Counts, limits: Thresholds) -> NDArray[np.float64]:
    """Race groups of counties as P1 shows them."""
    truth = race_totals(counts, counts.matrix)
    return np.where(too_small(truth, limits.cell), 0.0, truth)


def recovered_table(counts: Counts, limits: Thresholds) -> pl.DataFrame:
    """How many cells changed to 0 a reader works out again: why complementary steps are needed.

    where
        from_total   by the same table's total: with z cells shown as 0 and D people missing, a
                     hidden count is certain if z = 1 or D = most x z
        from_p12     by P12A to P12I, which hold the groups again and are published wherever more
                     than ``limits.persons`` people live: all groups of P1, those of white in P2
    """
    rows = []
    for name in ("P1", "P2"):
        cells = race_tables()[name].on(counts.schema)
        inner = np.flatnonzero(cells.inner)
        again = np.array([name == "P1" or "white" in cells.labels[cell] for cell in inner])
        for level in counts.geography.levels:
            values = _dense(counts.at(level), cells)[:, inner]
            hidden = too_small(values, limits.cell)
            zeros = (hidden | (values == 0)).sum(axis=1)
            missing = np.where(hidden, values, 0).sum(axis=1)
            by_total = hidden[(zeros == 1) | (missing == limits.cell * zeros)]
            many = counts.at(level).totals() > limits.persons
            changed, by_p12 = int(hidden.sum()), int((hidden & again)[many].sum())
            rows.append(
                {
                    "table": name,
                    "level": level,
                    "changed": changed,
                    "from_total": int(by_total.sum()),
                    "from_p12": by_p12,
                    "from_p12_percent": 100 * by_p12 / changed if changed else None,
                }
            )
    return pl.DataFrame(rows, schema_overrides={"from_p12_percent": pl.Float64})


def _dense(counts: Counts, cells: TableCells) -> Ints:
    return np.asarray((counts.matrix @ cells.matrix).toarray(), dtype=np.int64)
