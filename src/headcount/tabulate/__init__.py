"""From people to counts: sparse counts per level, queries and workloads by attribute name."""

from headcount.tabulate.counts import Counts, tabulate
from headcount.tabulate.digest import content_digest
from headcount.tabulate.query import CELLS, TOTAL, Query, every_cell

__all__ = [
    "CELLS",
    "TOTAL",
    "Counts",
    "Query",
    "content_digest",
    "every_cell",
    "tabulate",
]
