"""Published tables as data: P.L. 94-171, Summary File 1, and a user's own."""

from headcount.tabulate.published.load import supported, tables
from headcount.tabulate.published.table import PublishedTable, TableCells, TableSupport

__all__ = ["PublishedTable", "TableCells", "TableSupport", "supported", "tables"]
