"""Hypothesis strategies for tiny schemas, geographies, populations and queries.

Small on purpose: brute force must be able to check every answer. Levels and codes are short
words without '_', so that the names of cells are always distinct.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.geography import Geography
from headcount.population import Population
from headcount.schema import Attribute, Recode, Schema, impossible
from headcount.tabulate import Query

_words = st.text(alphabet="abcdxyz019é", min_size=1, max_size=3)


def _names(least: int, most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(_words, min_size=least, max_size=most, unique=True)


@st.composite
def attributes(draw: st.DrawFn, *, name: str = "kind", max_levels: int = 3) -> Attribute:
    """An attribute of a given name with one to ``max_levels`` levels."""
    return Attribute(name, tuple(draw(_names(1, max_levels))))


@st.composite
def schemas(
    draw: st.DrawFn, *, max_attributes: int = 3, max_levels: int = 3, zeros: bool = True
) -> Schema:
    """A schema; with ``zeros`` some combinations may be structural zeros, never all of them."""
    known = tuple(
        draw(attributes(name=f"attribute{number}", max_levels=max_levels))
        for number in range(draw(st.integers(0, max_attributes)))
    )
    if not zeros or not any(attribute.size > 1 for attribute in known):
        return Schema(known)
    # Leaving out the last level of one attribute keeps at least one cell possible.
    widest = max(known, key=lambda attribute: attribute.size)
    combinations = []
    for _ in range(draw(st.integers(0, 2))):
        chosen = {widest.name: draw(_some(widest.levels[:-1]))}
        for attribute in known:
            if attribute is not widest and draw(st.booleans()):
                chosen[attribute.name] = draw(_some(attribute.levels))
        combinations.append(impossible(chosen))
    return Schema(known, tuple(combinations))


@st.composite
def geographies(draw: st.DrawFn, *, max_depth: int = 3, max_children: int = 3) -> Geography:
    """A tree of one to ``max_depth`` levels below the whole, with children of unequal number."""
    depth = draw(st.integers(1, max_depth))
    units, parents = [np.array(["whole"])], [np.empty(0, dtype=np.int32)]
    for _ in range(depth):
        above = len(units[-1])
        children = draw(st.lists(st.integers(1, max_children), min_size=above, max_size=above))
        prefixes = [""] if len(units) == 1 else [f"{code}." for code in units[-1]]
        codes = [f"{p}{c}" for p, n in zip(prefixes, children, strict=True) for c in range(n)]
        units.append(np.array(codes))
        parents.append(np.repeat(np.arange(above, dtype=np.int32), children))
    levels = ("whole", *(f"level{number}" for number in range(1, depth + 1)))
    return Geography(levels, tuple(units), tuple(parents))


@st.composite
def populations(
    draw: st.DrawFn,
    *,
    schema: st.SearchStrategy[Schema] | None = None,
    geography: st.SearchStrategy[Geography] | None = None,
    max_people: int = 12,
    counted: bool | None = None,
) -> Population:
    """A population, perhaps of nobody; one row per person, or entries with counts (``counted``)."""
    cells = draw(schemas() if schema is None else schema)
    tree = draw(geographies() if geography is None else geography)
    possible = np.flatnonzero(cells.possible).tolist()
    place = st.tuples(st.integers(0, tree.size(tree.leaf) - 1), st.sampled_from(possible))
    entries = draw(st.lists(place, max_size=max_people))
    with_counts = draw(st.booleans()) if counted is None else counted
    amounts = st.lists(st.integers(0, 5), min_size=len(entries), max_size=len(entries))
    return Population(
        "tiny",
        Domain(cells, tree),
        unit=np.array([unit for unit, _ in entries], dtype=np.int32),
        cell=np.array([cell for _, cell in entries], dtype=np.int32),
        count=np.array(draw(amounts), dtype=np.int64) if with_counts else None,
    )


@st.composite
def recodes(draw: st.DrawFn, attribute: Attribute) -> Recode:
    """A grouping of an attribute's levels; some groups may be empty."""
    labels = draw(_names(1, 3))
    choices = st.lists(st.sampled_from(labels), min_size=attribute.size, max_size=attribute.size)
    chosen = list(zip(attribute.levels, draw(choices), strict=True))
    groups = {label: [level for level, group in chosen if group == label] for label in labels}
    return Recode.of(attribute, f"grouped {attribute.name}", groups)


@st.composite
def queries(draw: st.DrawFn, schema: Schema) -> Query:
    """A marginal of the schema over some attributes in any order, some of them recoded."""
    by: list[str | Recode] = []
    for attribute in draw(st.permutations(schema.attributes)):
        kind = draw(st.sampled_from(["leave out", "as it is", "recoded"]))
        if kind != "leave out":
            by.append(attribute.name if kind == "as it is" else draw(recodes(attribute)))
    return Query("drawn", tuple(by))


def _some(levels: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(levels), min_size=1, unique=True)
