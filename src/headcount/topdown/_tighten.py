"""Bound propagation up the tree: what the bounds below say about the counts above.

A parent's counts are the sum of its children's, so the bounds of a group at the parent are at
least as tight as the sums of the children's. These sums are only worth something if every child's
bounds are attained: a child of exactly 10 people with at least 4 men has at most 6 women, whatever
its own table says of women. For bounds [l, u] of the groups B of one query that make up a group A
of another (or everybody), until nothing changes,

    l(A) >= sum of l(B),                      u(A) <= sum of u(B)
    l(B) >= l(A) - sum of u(other parts),     u(B) <= u(A) - sum of l(other parts)

which is exact where all groups nest, and never excludes counts that keep the bounds.

Bounds that contradict each other are told from those that only the truth breaks. Bounds that hold
the truth can be met by some counts. Where one does not, it is put beside the bounds of its parent,
its siblings and its children, and tested for any answer at all: a flow test, see
``solve.integer_programs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headcount.arrays import Ends, Ints, Ints32
from headcount.errors import ConfigError, TruthError
from headcount.geography import Geography
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Schema
from headcount.tabulate import Query
from headcount.topdown.restrict import (
    Restriction,
    Restrictions,
    binding_groups,
    bound_name,
    sum_bounds,
)
from headcount.topdown.solve.batch import NO_BOUND, Batch

_EVERYONE = Query("everyone")

PARENTS_AT_ONCE = 1 << 12
"""Parents whose children's bounds are added up at once."""


@dataclass(frozen=True, eq=False)
class _Refines:
    """Groups of one query that make up the groups of another, by position in a level's list.

    where
        inside   for each fine group the coarse one that holds it, -1 if it can hold nobody
    """

    fine: int
    coarse: int
    inside: Ints

    def onto(self, groups: int) -> Ints:
        """Fine x coarse groups, 1 where one is part of the other."""
        made = np.zeros((len(self.inside), groups), dtype=np.int64)
        some = np.flatnonzero(self.inside >= 0)
        made[some, self.inside[some]] = 1
        return made


def _refinements(queries: Sequence[Query], schema: Schema) -> list[_Refines]:
    """Every pair of the queries of which one refines the other, counting possible cells only."""
    possible = np.flatnonzero(schema.possible)
    groups = [query.groups(schema)[possible] for query in queries]
    found = []
    for fine, a in enumerate(groups):
        for coarse, b in enumerate(groups):
            if fine == coarse:
                continue
            inside = np.full(queries[fine].size(schema), -1, dtype=np.int64)
            inside[a] = b
            if np.array_equal(inside[a], b):
                found.append(_Refines(fine, coarse, inside))
    return found


def tighten(restrictions: Restrictions, *, schema: Schema, geography: Geography) -> Restrictions:
    """The restrictions of every level with what the levels below add to them.

    A bound that a unit's other bounds imply anyway is left out: it would only make groups cross
    that need not.
    """
    made: dict[str, tuple[Restriction, ...]] = {}
    passed: dict[str, Ends] = {}
    for level in reversed(geography.levels):
        own = list(restrictions[level])
        alone = attained(own, schema)
        for k, one in enumerate(own):
            if one.query.name in passed:
                low, high = sum_bounds(*passed[one.query.name], geography.children_start(level))
                news_low = (low > alone[k][0]).any(axis=0)
                news_high = (high < alone[k][1]).any(axis=0)
                own[k] = replace(
                    one,
                    low=np.where(news_low, np.maximum(one.low[:], low), one.low[:]),
                    high=np.where(news_high, np.minimum(one.high[:], high), one.high[:]),
                )
        made[level] = tuple(own)
        best = attained(own, schema)
        passed = {one.query.name: best[k] for k, one in enumerate(own)}
    return {level: made[level] for level in geography.levels}


def attained(restrictions: Sequence[Restriction], schema: Schema) -> list[Ends]:
    """Bounds of each restriction, tightened by the others of the same unit."""
    return _settled(restrictions, schema)[:-1] if restrictions else []


def totals(restrictions: Restrictions, *, schema: Schema, geography: Geography) -> dict[str, Ends]:
    """For each level the fewest and most people that all bounds together leave to every unit."""
    made: dict[str, Ends] = {}
    below = ""
    for level in reversed(geography.levels):
        free = np.full((geography.size(level), 1), NO_BOUND, dtype=np.int64)
        low, high = np.zeros_like(free), free
        if restrictions[level]:
            low, high = _settled(restrictions[level], schema)[-1]
        if below:
            least, most = sum_bounds(*made[below], geography.children_start(level))
            low, high = np.maximum(low, least), np.minimum(high, most)
        made[level] = low, high
        below = level
    return {level: made[level] for level in geography.levels}


def refuse_fixed_units(
    unit: UnitOfPrivacy,
    restrictions: Restrictions,
    *,
    schema: Schema,
    geography: Geography,
    public: bool,
) -> None:
    """Refuse bounds that leave a place below the whole, or a group anywhere, one count only.

    Elsewhere people may have neighbours, but nobody there has, and the guarantee would promise
    these people nothing. Where nobody can be, nobody is let down. ``public`` says that all bounds
    are from public tables; otherwise the refusal is a function of the truth, for the curator only.
    The total of the whole is refused before (see ``neighbours``).
    """
    if not unit.adds:
        return
    left = totals(restrictions, schema=schema, geography=geography)
    names = sorted({one.query.name for those in restrictions.values() for one in those})
    bounded = ", ".join(map(repr, names))
    fixed = [(level, bounded, "people", left[level]) for level in geography.levels[1:]]
    for level, those in restrictions.items():
        fixed += [
            (level, repr(one.query.name), f"people of one group of {one.query.name!r}", bounds)
            for one, bounds in zip(those, attained(those, schema), strict=True)
        ]
    for level, queries, who, (low, high) in fixed:
        where, _ = np.nonzero((low == high) & (low > 0))
        if not len(where):
            continue
        code = str(geography.units[geography.depth(level)][where[0]])
        kind = ConfigError if public else TruthError
        raise kind(
            "topdown",
            place=f"bounds on {queries}",
            found=f"bounds that fix how many {who} are in {level} {code!r}, with unit '{unit}'",
            expected=f"{unit.pair[1].value!r}, or bounds that leave room for a person more or less",
        )


def _settled(restrictions: Sequence[Restriction], schema: Schema) -> list[Ends]:
    """The same, and last the bounds of everyone in the unit."""
    bounds = [
        (np.maximum(one.low[:], 0), np.minimum(one.high[:], NO_BOUND)) for one in restrictions
    ]
    units = len(bounds[0][0])
    bounds.append(
        (np.zeros((units, 1), dtype=np.int64), np.full((units, 1), NO_BOUND, dtype=np.int64))
    )
    pairs = _refinements([*(one.query for one in restrictions), _EVERYONE], schema)
    for _ in range(len(bounds) + 1):
        before = bounds.copy()
        for pair in pairs:
            _propagate(bounds, pair)
        if all(
            np.array_equal(old[end], new[end])
            for old, new in zip(before, bounds, strict=True)
            for end in (0, 1)
        ):
            break
    return bounds


def _propagate(bounds: list[Ends], pair: _Refines) -> None:
    """One step of the rules above between a query and one that it refines."""
    (low, high), (low_of_all, high_of_all) = bounds[pair.fine], bounds[pair.coarse]
    onto = pair.onto(low_of_all.shape[1])
    free = (high >= NO_BOUND).astype(np.int64)
    finite = np.where(free > 0, 0, high)
    least, most, unlimited = low @ onto, finite @ onto, free @ onto
    touched = onto.any(axis=0)
    new_low = np.where(touched, np.maximum(low_of_all, least), low_of_all)
    limited = touched & (unlimited == 0)
    new_high = np.where(limited, np.minimum(high_of_all, most), high_of_all)
    bounds[pair.coarse] = new_low, new_high
    some = np.flatnonzero(pair.inside >= 0)
    whole = pair.inside[some]
    others = (unlimited[:, whole] - free[:, some]) == 0
    needed = np.where(others, new_low[:, whole] - (most[:, whole] - finite[:, some]), 0)
    bounded = new_high[:, whole] < NO_BOUND
    room = np.where(bounded, new_high[:, whole] - (least[:, whole] - low[:, some]), NO_BOUND)
    low, high = low.copy(), high.copy()
    low[:, some] = np.maximum(low[:, some], needed)
    high[:, some] = np.minimum(high[:, some], room)
    bounds[pair.fine] = low, high


def always_shared(
    above: Sequence[Restriction],
    below: Sequence[Restriction],
    *,
    schema: Schema,
    geography: Geography,
    levels: tuple[str, str],
) -> bool:
    """Whether every count that keeps a parent's bounds can be shared within its children's.

    Shown where the children are bounded in the groups of one query only (others being implied by
    it), and the parent's bounds lie within the sums of theirs: then any count of a group can be
    split into parts within their bounds, group by group. Otherwise not known: False.
    """
    telling = _telling(below, schema)
    if not telling:
        return True
    if len(telling) > 1:
        return False
    (one,) = telling
    best = attained(above, schema)
    for k, other in enumerate(above):
        if other.query.name == one.query.name:
            return _within_sums(best[k], one, geography.children_start(levels[0]))
    return False


def _within_sums(bounds: Ends, children: Restriction, first: Ints) -> bool:
    """Whether bounds of parents lie within the sums of their children's, some parents at a time."""
    cuts = np.append(first, len(children.low))
    for start in range(0, len(first), PARENTS_AT_ONCE):
        some = slice(start, start + PARENTS_AT_ONCE)
        own = cuts[start : start + PARENTS_AT_ONCE + 1]
        kids = slice(own[0], own[-1])
        low, high = sum_bounds(
            np.maximum(children.low[kids], 0), children.high[kids], own[:-1] - own[0]
        )
        if (bounds[0][some] < low).any() or (bounds[1][some] > high).any():
            return False
    return True


def _telling(restrictions: Sequence[Restriction], schema: Schema) -> list[Restriction]:
    """Restrictions that bind and do not follow from another one with finer groups."""
    kept = [one for one in restrictions if binding_groups(one).any()]
    for one in sorted(kept, key=lambda one: one.low.shape[1]):
        others = [other for other in kept if other is not one]
        if any(_follows(one, other, schema) for other in others):
            kept = others
    return kept


def _follows(one: Restriction, other: Restriction, schema: Schema) -> bool:
    for pair in _refinements([one.query, other.query], schema):
        if pair.fine == 1:
            onto = pair.onto(one.low.shape[1])
            return all(
                _implied(here, there, onto)
                for here, there in zip(one.pieces(), other.pieces(), strict=True)
            )
    return False


def _implied(coarse: tuple[slice, Ints, Ints], fine: tuple[slice, Ints, Ints], onto: Ints) -> bool:
    """Whether bounds of some units say nothing that those of finer groups do not."""
    (_, low, high), (_, fine_low, fine_high) = coarse, fine
    free = ((fine_high >= NO_BOUND) @ onto) > 0
    most = np.where(free, NO_BOUND, np.where(fine_high < NO_BOUND, fine_high, 0) @ onto)
    return bool((low <= np.maximum(fine_low, 0) @ onto).all() and (high >= most).all())


def atoms(restrictions: Mapping[str, Sequence[Restriction]], schema: Schema) -> Ints:
    """For each cell the number of the set of cells that no bounded query tells apart; -1 for none.

    Bounds look at counts of atoms only. Impossible cells are in none.
    """
    queries = {one.query.name: one.query for those in restrictions.values() for one in those}
    possible = np.flatnonzero(schema.possible)
    number = np.full(schema.size, -1, dtype=np.int64)
    groups = np.array([query.groups(schema)[possible] for query in queries.values()])
    if not len(groups):
        number[possible] = 0
        return number
    _, number[possible] = np.unique(groups, axis=1, return_inverse=True)
    return number


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
    from headcount.topdown.solve.integer_programs import clashes

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
