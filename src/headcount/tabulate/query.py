"""Queries: marginals of the cells by attribute name, optionally recoded; workloads of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.schema import Attribute, Recode, Schema

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Query:
    """A marginal: counts by some attributes, summed over all others.

    ``by`` holds attribute names or recodes; empty, the query is the total.
    """

    name: str
    by: tuple[str | Recode, ...] = ()

    def on(self, schema: Schema) -> Query:
        """The query as asked of a schema: every recode with its source."""
        return self

    def attributes(self, schema: Schema) -> tuple[Attribute, ...]:
        """The attributes of the answer, recodes replaced by their coarser attribute."""
        return tuple(
            axis.on(schema.attribute(axis.source.name)).attribute
            if isinstance(axis, Recode)
            else schema.attribute(axis)
            for axis in self.by
        )

    def groups(self, schema: Schema) -> Ints:
        """For each cell of the schema the number of the answer's group it is counted in."""
        levels = dict(zip(schema.names, np.indices(schema.shape), strict=True))
        group = np.zeros(schema.shape, dtype=np.int64)
        for axis, attribute in zip(self.by, self.attributes(schema), strict=True):
            if isinstance(axis, Recode):
                if schema.attribute(axis.source.name) != axis.source:
                    raise InputError(
                        f"query {self.name!r}",
                        place=f"recode {axis.name!r}",
                        found=f"other levels of {axis.source.name!r}",
                        expected="the levels of the schema",
                    )
                code = np.asarray(axis.group_of_level)[levels[axis.source.name]]
            else:
                code = levels[axis]
            group = group * attribute.size + code
        return group.reshape(-1)

    def size(self, schema: Schema) -> int:
        """Number of groups in the answer."""
        return prod(attribute.size for attribute in self.attributes(schema))

    def matrix(self, schema: Schema) -> csr_array[Any, tuple[int, int]]:
        """The 0/1 matrix (cells x groups): an answer is ``counts @ matrix``, integer throughout."""
        from scipy.sparse import csr_array

        ones = np.ones(schema.size, dtype=np.int64)
        where = (np.arange(schema.size), self.groups(schema))
        return csr_array((ones, where), shape=(schema.size, self.size(schema)))


CELLS = "cells"
"""Name of the query that asks for every cell."""


def every_cell(schema: Schema) -> Query:
    """The detailed query: all attributes."""
    return Query(CELLS, schema.names)


TOTAL = Query("total")
"""People per unit."""
