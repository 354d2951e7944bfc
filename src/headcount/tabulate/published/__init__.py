"""Published tables as data: P.L. 94-171, Summary File 1, and a user's own."""

from headcount.tabulate.published._load import supported, tables
from headcount.tabulate.published._table import OWN_PRODUCT, PublishedTable, TableCells

__all__ = ["OWN_PRODUCT", "PublishedTable", "TableCells", "supported", "tables"]
