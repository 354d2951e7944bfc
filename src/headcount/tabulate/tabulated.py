"""A population with its counts and its digest, made once for whatever is done with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.population import Population
from headcount.tabulate._digest import content_digest
from headcount.tabulate.counts import Counts, tabulate


@dataclass(frozen=True, eq=False, repr=False)
class Tabulated:
    """The truth, counted: the curator's side, never written to a release.

    where
        counts   true counts at the leaf
        digest   of the content, whatever the order of rows or files
    """

    population: Population
    counts: Counts
    digest: bytes

    @classmethod
    def of(cls, data: Population | Counts | Tabulated) -> Tabulated:
        """People counted; of counts alone neither dwellings nor any order are known."""
        if isinstance(data, Tabulated):
            return data
        if isinstance(data, Counts):
            population, counts = _of_counts(data), data
        else:
            population, counts = data, tabulate(data)
        return cls(population, counts, content_digest(population, counts))

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        return f"<Tabulated {self.population!r}>"


def _of_counts(counts: Counts) -> Population:
    entries = counts.matrix.tocoo()
    return Population(
        "counts",
        counts.schema,
        counts.geography,
        unit=entries.row.astype(np.int32, copy=False),
        cell=entries.col.astype(np.int32, copy=False),
        count=np.asarray(entries.data, dtype=np.int64),
        read_off=counts.read_off,
        quarters=counts.quarters,
        one_person=counts.one_person,
        weight=counts.weight,
        of_dwellings=counts.of_dwellings,
        plugin=counts.plugin,
    )
