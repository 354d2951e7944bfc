"""Small trees with noise, for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from headcount.arrays import Floats
from headcount.errors import InputError
from headcount.schema import Attribute, Recode, Schema, impossible
from headcount.tabulate import CELLS, Query, every_cell
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.tree import LevelNoise, NoiseTree, _used


@dataclass(frozen=True, eq=False)
class Case:
    """A tree, its cells, and its queries as 0/1 matrices (answers x cells)."""

    schema: Schema
    components: Components
    queries: dict[str, Floats]
    asked: dict[str, Query]
    tree: NoiseTree

    def told(self, name: str) -> Floats:
        """The rows of a query's answers that can count anybody."""
        rows = self.queries[name]
        return rows[rows @ self.schema.possible > 0]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Recodes, structural zeros, units without answers, exact queries, and unequal noise within a
    level."""
    schema = draw(_schemas())
    marginals = draw(_marginals(schema))
    parents = [np.zeros(0, dtype=np.int32)]
    for _ in range(draw(st.integers(0, 2))):
        above = len(parents[-1]) or 1
        many = draw(st.lists(st.integers(1, 3), min_size=above, max_size=above))
        parents.append(np.repeat(np.arange(above, dtype=np.int32), many))
    names = [CELLS, "total", *(query.name for query in marginals)]
    levels = [draw(_noise(names, len(one) or 1)) for one in parents]
    return case_of(schema, marginals, NoiseTree(parents, levels))


def case_of(schema: Schema, marginals: Sequence[Query], tree: NoiseTree) -> Case:
    """A tree in which all cells, their total and some marginals are asked for."""
    asked = [every_cell(schema), Query("total"), *marginals]
    queries = {}
    for query in asked:
        rows = query.matrix(schema).toarray().T.astype(float)
        queries[query.name] = rows[rows.sum(axis=1) > 0]
    by_name = {query.name: query for query in asked}
    return Case(schema, Components.of(schema, asked), queries, by_name, tree)


@st.composite
def _schemas(draw: st.DrawFn) -> Schema:
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    levels = [tuple(f"{k}-{i}" for i in range(size)) for k, size in enumerate(sizes)]
    attributes = tuple(Attribute(f"a{k}", own) for k, own in enumerate(levels))
    zeros = []
    for _ in range(draw(st.sampled_from([0, 1, 2]))):
        some = draw(st.lists(st.sampled_from(attributes), min_size=1, unique=True))
        never = {
            one.name: draw(
                st.lists(
                    st.sampled_from(one.levels), min_size=1, max_size=one.size - 1, unique=True
                )
            )
            for one in some
        }
        zeros.append(impossible(never))
    try:
        return Schema(attributes, tuple(zeros))
    except InputError:  # two of them can rule out everybody
        return Schema(attributes, tuple(zeros[:1]))


@st.composite
def _marginals(draw: st.DrawFn, schema: Schema) -> list[Query]:
    found = []
    for attribute in schema.attributes:
        found.append(Query(attribute.name, (attribute.name,)))
        if attribute.size > 2 and draw(st.booleans()):
            end = draw(st.integers(1, attribute.size - 1))
            order = draw(st.permutations(attribute.levels))
            groups = {"first": order[:end], "second": order[end:]}
            recode = Recode.of(attribute, f"{attribute.name}-groups", groups)
            others = [name for name in schema.names if name != attribute.name]
            with_another = tuple(others[:1]) if draw(st.booleans()) else ()
            found.append(Query(recode.name, (recode, *with_another)))
    return found


@st.composite
def _noise(draw: st.DrawFn, names: list[str], units: int) -> LevelNoise:
    kinds = draw(st.integers(1, 2))
    weight = st.floats(0.1, 2.0)
    weights = []
    for _ in range(kinds):
        own: dict[str, float] = draw(st.dictionaries(st.sampled_from(names), weight))
        with_cells: bool = draw(st.booleans())
        if own and with_cells:
            own[CELLS] = draw(weight)
        weights.append(own)
    of_unit = draw(st.lists(st.integers(0, kinds - 1), min_size=units, max_size=units))
    exact = draw(st.sampled_from([(), (), ("total",), (names[-1],)]))
    return LevelNoise(tuple(weights), np.array(of_unit), exact)


def class_variances(tree, components, queries):
    """The mean variance of the best linear estimates, by class of units, for depths and queries."""
    found: dict[Any, Any] = {}
    for errors, asked, spreads in _used(tree, components, queries):
        for depth, covariance, unknown in errors.down():
            parts = errors.mean_variances(spreads, covariance, unknown)
            for query, part in zip(asked, parts.T, strict=True):
                found[depth, query] = found.get((depth, query), 0.0) + part
    return found
