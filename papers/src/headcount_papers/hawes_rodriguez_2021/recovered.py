"""What the rules of 1980 hide and other tables give back: why a complementary step is needed."""

from __future__ import annotations

import numpy as np
import polars as pl

from headcount.mechanisms.suppression.rules import Thresholds, race_tables, too_small
from headcount.tabulate import Counts
from headcount.tabulate.linked_tables import table_values


def recovered_table(counts: Counts, limits: Thresholds) -> pl.DataFrame:
    """How many cells changed to 0 a reader works out again.

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
            at_level = counts.at(level)
            values = table_values(at_level, cells)[:, inner]
            hidden = too_small(values, limits.cell)
            zeros = (hidden | (values == 0)).sum(axis=1)
            missing = np.where(hidden, values, 0).sum(axis=1)
            by_total = hidden[(zeros == 1) | (missing == limits.cell * zeros)]
            many = at_level.totals() > limits.persons
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
