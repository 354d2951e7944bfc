"""A population with its counts and its digest, made once for whatever is done with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.population import Population
from headcount.tabulate._digest import content_digest, counts_digest
from headcount.tabulate.counts import Counts, tabulate


@dataclass(frozen=True, eq=False, repr=False)
class Tabulated:
    """The truth, counted: the curator's side, never written to a release.

    where
        counts   true counts at the leaf
        digest   of the content, whatever the order of rows or files
        people   who was counted; None where only counts are known
    """

    counts: Counts
    digest: bytes
    people: Population | None = None

    @classmethod
    def of(cls, data: Population | Counts | Tabulated) -> Tabulated:
        """People counted; of counts alone neither dwellings nor any order are known."""
        if isinstance(data, Tabulated):
            return data
        if isinstance(data, Counts):
            return cls(data, counts_digest(data))
        counts = tabulate(data)
        return cls(counts, content_digest(data, counts), data)

    @property
    def population(self) -> Population:
        """Who was counted. Of counts alone it is made anew each time, because it is as large."""
        return self.people if self.people is not None else _of_counts(self.counts)

    def __repr__(self) -> str:
        # Says nothing that depends on how many people there are.
        return f"<Tabulated {self.people if self.people is not None else self.counts!r}>"


def _of_counts(counts: Counts) -> Population:
    entries = counts.matrix.tocoo(copy=False)
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
        counted=counts.counted,
    )
