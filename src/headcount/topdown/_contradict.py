"""Why the truth is outside its bounds: do these contradict each other, or only the truth?

Bounds that hold the truth can be met by some counts. Where one does not, it is put beside the
bounds of its parent, its siblings and its children, and tested for any answer at all: a flow test,
see ``solve.feasibility``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.tabulate import Query
from headcount.topdown.restrict import Restriction, Restrictions, bound_name
from headcount.topdown.solve.batch import NO_BOUND, Batch

STEPS = 10_000
"""Of the solver, for one test. It only makes an error say more: a long one is given up."""


def contradiction(
    restrictions: Restrictions,
    suspects: Sequence[tuple[str, int]],
    *,
    schema: Schema,
    geography: Geography,
) -> list[str]:
    """The bounds that clash near some suspect units, in words; empty if none are found to.

    A suspect is tested with its parent and siblings, and with its children. The first test that
    takes too long is the last.
    """
    from headcount.solve.mip import SolverError

    for level, unit in suspects:
        depth = geography.depth(level)
        tested = [(depth, int(geography.parents[depth][unit]))] if depth else []
        tested += [(depth + 1, unit)] if depth + 1 < len(geography.levels) else []
        for below, parent in tested or [(0, -1)]:
            try:
                if found := _clashes(restrictions, below, parent, schema, geography):
                    return found
            except SolverError:
                return []
    return []


def _clashes(
    restrictions: Restrictions, depth: int, parent: int, schema: Schema, geography: Geography
) -> list[str]:
    """Clashing bounds of one parent and its children at ``depth``; the whole alone is a child.

    With x the children's counts and a number M that no count needs to exceed, the parent's bounds
    are bounds on one more child, y = M - sum of x in every cell:

        low <= sum of x over a group of n cells <= high   is   n M - high <= y <= n M - low
    """
    from headcount.topdown.solve.feasibility import clashes

    level = geography.levels[depth]
    above = geography.levels[depth - 1] if depth else ""
    children = np.flatnonzero(geography.parents[depth] == parent) if depth else np.zeros(1, int)
    mine, theirs = restrictions[level], restrictions[above] if depth else ()
    queries = {one.query.name: one.query for one in (*mine, *theirs)}
    if not queries:
        return []
    low, high = _bounds(mine, queries, children, schema)
    top = _bounds(theirs, queries, np.array([max(parent, 0)]), schema)
    # A count that no lower bound needs can be less: none exceeds its child's or parent's largest.
    needed = low.max(axis=1, initial=0).sum() + top[0].max(initial=0)
    most = max(1, int(needed))
    groups = [query.groups(schema) for query in queries.values()]
    sizes = [query.size(schema) for query in queries.values()]
    cells = np.concatenate(
        [np.bincount(g[schema.possible], minlength=n) for g, n in zip(groups, sizes, strict=True)]
    )
    rest_low = np.where(top[1] >= NO_BOUND, -NO_BOUND, most * cells - top[1])
    rest_high = np.where(top[0] <= 0, NO_BOUND, most * cells - top[0])
    batch = _batch(
        np.concatenate([low, rest_low]),
        np.concatenate([high, rest_high]),
        most,
        np.array(groups, dtype=np.int32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.flatnonzero(schema.possible).astype(np.int32),
    )
    known = list(queries.values())
    said = []
    for clash in clashes(batch, steps=STEPS):
        if clash.family < 0:
            continue
        is_parent = clash.child == len(children)
        where, unit = (above, parent) if is_parent else (level, children[clash.child])
        code = geography.units[geography.depth(where)][unit]
        bound = bound_name(known[clash.family], schema, clash.group)
        said.append(f"the bound on {bound} of {where} {str(code)!r}")
    return sorted(set(said))


def _bounds(
    restrictions: Sequence[Restriction],
    queries: dict[str, Query],
    units: Ints,
    schema: Schema,
) -> tuple[Ints, Ints]:
    """Bounds of some units on all queries side by side; free where there are none."""
    known = {one.query.name: one for one in restrictions}
    lows, highs = [], []
    for name, query in queries.items():
        free = np.full((len(units), query.size(schema)), NO_BOUND)
        lows.append(known[name].low[units] if name in known else -free)
        highs.append(known[name].high[units] if name in known else free)
    return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)


def _batch(
    low: Ints,
    high: Ints,
    total: int,
    group: Ints32,
    family_start: Ints,
    cell: Ints32,
) -> Batch:
    """One parent with so many people in each cell, and every cell open in every child."""
    children, entries = len(low), len(cell)
    return Batch(
        parent=np.zeros(1, dtype=np.int64),
        cell_start=np.array([0, entries]),
        cell=cell,
        total=np.full(entries, total, dtype=np.int64),
        child_start=np.array([0, children]),
        var_start=np.arange(entries + 1, dtype=np.int64) * children,
        var_child=np.tile(np.arange(children, dtype=np.int32), entries),
        answer=np.zeros(entries * children),
        weight=np.ones(children),
        family_start=family_start,
        group=group,
        family_weight=np.zeros((children, len(group))),
        margin=np.zeros(low.shape),
        low=low,
        high=high,
    )
