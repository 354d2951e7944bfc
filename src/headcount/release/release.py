"""The release: protected counts, what they promise, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.errors import InputError
from headcount.geography import Geography
from headcount.privacy import Guarantee
from headcount.release.published import PublishedCells
from headcount.schema import Schema
from headcount.tabulate.counts import adder

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Dense = NDArray[np.int64] | NDArray[np.float64]
Table: TypeAlias = "NDArray[np.int64] | NDArray[np.float64] | csr_array[Any, tuple[int, int]]"


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """What is published: a type of its own, so that truth and release are never mistaken.

    where
        mechanism   the mechanism with its parameters, as written to make it again
        tables      protected counts (units x cells) for each level the mechanism publishes
        guarantee   what the release promises, or that it promises nothing
        key_kind    'os' (fresh entropy), 'seed' (repeatable, therefore not private) or 'none'
        backend     which sampler drew the noise
        notes       facts about the making, none of them computed from the truth alone
        published   tables with withheld cells, in place of counts of every unit and cell
    """

    schema: Schema
    geography: Geography
    mechanism: str
    tables: Mapping[str, Table]
    guarantee: Guarantee
    key_kind: str
    backend: str
    notes: Mapping[str, float | str] = field(default_factory=dict)
    published: tuple[PublishedCells, ...] = ()

    def __repr__(self) -> str:
        parts = [*self.tables, *(f"{one.name} at {one.level}" for one in self.published)]
        return f"<Release by {self.mechanism}: {', '.join(parts)}>"

    def negative_counts(self) -> dict[str, dict[str, int]]:
        """How many published counts there are at each level, and how many of them are below 0.

        Facts of what is published. Counts that cannot be other than zero are not among them.
        """
        possible = int(self.schema.possible.sum())
        return {
            level: {
                "counts": table.shape[0] * possible,
                "negative": int(
                    ((table if isinstance(table, np.ndarray) else table.data) < 0).sum()
                ),
            }
            for level, table in self.tables.items()
        }

    def at(self, level: str) -> Dense:
        """Protected counts at a level: as published, or the published leaf added up."""
        leaf = self.geography.leaf
        if leaf not in self.tables:
            raise InputError(
                "release",
                found="published tables with withheld cells",
                expected="counts of every unit and cell",
            )
        if level not in self.tables:
            return np.asarray(adder(self.geography, level, of=leaf) @ self.at(leaf))
        table = self.tables[level]
        return table if isinstance(table, np.ndarray) else np.asarray(table.toarray())
