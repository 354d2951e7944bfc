"""From people to counts: sparse counts per level, queries and workloads by attribute name."""

from headcount.tabulate.counts import (
    CELLS,
    TOTAL,
    Counts,
    Query,
    Tabulated,
    content_digest,
    counts_digest,
    every_cell,
    tabulate,
)

__all__ = [
    "CELLS",
    "TOTAL",
    "Counts",
    "Query",
    "Tabulated",
    "content_digest",
    "counts_digest",
    "every_cell",
    "tabulate",
]
