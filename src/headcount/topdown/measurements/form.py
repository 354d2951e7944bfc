"""The form of published measurements, which is that of the noisy measurement files of 2020.

A folder for each level (``LEVEL.parquet``) has two tables, each in parts: ``DPQuery``, a row for
each unit and measured query, and ``Constraint``, a row for each unit and query whose answers are
exact or bounded. Files made here say more about themselves: see ``_files.Described``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headcount.schema import Recode
from headcount.tabulate import CELLS, Query

ANSWERS, CONSTRAINTS = "DPQuery", "Constraint"
"""The two tables of a level, by the names of their folders."""

TOGETHER = "Together"
"""A third table, where the measured tree has published units in parts: their exact totals."""

SPINE = "spine"
"""The file of the measured tree, where that is not the published one."""

WITHOUT_ROWS = "without_rows"
"""Levels that are neither measured nor bounded, as the file of places lists them."""

MEASURED, KEPT = "_dpq", "_con"
"""How the name of a measured query, and of a constraint, ends."""

EXACT, LEAST, MOST = "=", ">=", "<="
"""The signs of constraints."""

DETAILED = "detailed"
"""What the Bureau calls the query of every cell."""

NURSING_MINORS = "nurse_nva_0"
"""A constraint of the Bureau's that is a structural zero of the schema."""

ABOUT = b"headcount"
"""The key of a file's metadata under which it describes itself."""


def plain(name: str) -> str:
    """A name as other spellings have it too: Block_Group, block group."""
    return "".join(letter for letter in name.casefold() if letter not in "_ ")


class QueryNames:
    """Queries by the names that files give them."""

    def __init__(self, queries: Iterable[Query]) -> None:
        self.queries: Mapping[str, Query] = {one.name: one for one in queries}
        self._plain: dict[str, str] = {}
        for one in self.queries.values():
            axes = (axis.name if isinstance(axis, Recode) else axis for axis in one.by)
            for name in (one.name, "*".join(axes) or one.name):
                self._plain.setdefault(plain(name), one.name)
        if CELLS in self.queries:
            self._plain.setdefault(DETAILED, CELLS)

    def measured(self, text: str) -> str | None:
        """The query that a row of answers is about."""
        return self._find(text.removesuffix(MEASURED)) if text.endswith(MEASURED) else None

    def kept(self, text: str) -> str | None:
        """The query that a constraint is about: ``hhgq_con``, ``hhgq_total_lb_con``."""
        if not text.endswith(KEPT):
            return None
        name = text.removesuffix(KEPT)
        shorter = name.removesuffix("_lb").removesuffix("_ub")
        tried = (name, shorter, shorter.removesuffix("_total"))
        return next((found for one in tried if (found := self._find(one))), None)

    def _find(self, name: str) -> str | None:
        return name if name in self.queries else self._plain.get(plain(name))
