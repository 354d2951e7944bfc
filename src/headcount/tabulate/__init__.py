"""From people to counts: sparse counts per level, queries and workloads by attribute name."""

from headcount.tabulate.counts import Counts, tabulate
from headcount.tabulate.query import CELLS, TOTAL, Query, every_cell
from headcount.tabulate.tabulated import Tabulated, content_digest, counts_digest

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
