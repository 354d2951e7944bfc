"""An independent recheck, in integers, of what the presets of 2018 and 2020 promise of a release.

It shares no code with the mechanism: constraints are worked out again from the population by the
rules of the 2018 test or of the redistricting product of 2020, with plain sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.geography import Geography
from headcount.population import Population
from headcount.tabulate import Counts

Broken = dict[str, tuple[int, int]]
"""For each kind of constraint how many there are and how many are broken."""

CAP_HOUSEHOLD, CAP_FACILITY = 99, 99_999
NURSING = 3
UNITS_AT_ONCE = 20_000


def recheck(
    population: Population,
    tables: Mapping[str, Any],
    *,
    exact: str,
    cap_household: int = CAP_HOUSEHOLD,
) -> Broken:
    """Every bound, exact total, sum over children and sign of a release, at every level.

    where
        tables   for each level the released counts, sparse, units x cells
        exact    the level whose totals are exact, and from whose totals bounds are rebuilt
    """
    geography = population.geography
    low, high, total = constraints(population, exact=exact, cap_household=cap_household)
    found: Broken = {}
    for level in geography.levels:
        people = by_type(tables[level], types=low[level].shape[1])
        _add(found, "bounds by type", people < low[level])
        _add(found, "bounds by type", people > high[level])
        if level in total:
            _add(found, "exact totals", people.sum(axis=1) != total[level])
    _recheck_sums(found, geography, tables)
    return found


def recheck_2020(counts: Counts, tables: Mapping[str, Any]) -> Broken:
    """The rules of 2020: with u living quarters of a type, vacant homes among them, in a block,

        l u <= people of the type <= 99,999 u,    l = 0 for housing units, 1 for facilities

    nobody under 18 in nursing homes, and totals of states as they are. The bounds of all units
    above, whatever the tree, follow from these and from sums over children.
    """
    geography, (low, high) = counts.geography, leaf_bounds_2020(counts)
    types, leaf = low.shape[1], tables[geography.leaf]
    found: Broken = {}
    people = by_type(leaf, types=types)
    _add(found, "bounds by type", people < low)
    _add(found, "bounds by type", people > high)
    kind, adult = np.divmod(leaf.indices // (leaf.shape[1] // types // 2), 2)
    _add(found, "nobody under 18 in nursing homes", (kind == NURSING) & (adult == 0))
    for level in geography.levels[: geography.depth("state") + 1]:
        truth = _up(geography, level, counts.totals()[:, None])[:, 0]
        _add(found, "exact totals", by_type(tables[level], types=types).sum(axis=1) != truth)
    _recheck_sums(found, geography, tables)
    return found


def leaf_bounds_2020(counts: Counts) -> tuple[Ints, Ints]:
    """The fewest and the most people of each type in every block, by the rules of 2020."""
    quarters = counts.quarters
    assert quarters is not None
    stand = quarters.occupied.astype(np.int64)
    stand[:, 0] += quarters.vacant
    return stand * np.arange(stand.shape[1]).clip(max=1), stand * CAP_FACILITY


def _recheck_sums(found: Broken, geography: Geography, tables: Mapping[str, Any]) -> None:
    """No count is below 0, and every unit's counts are the sums of its children's."""
    for depth, level in enumerate(geography.levels):
        table = tables[level]
        _add(found, "no count below 0", table.data < 0)
        if depth:
            above = tables[geography.levels[depth - 1]]
            for first in range(0, above.shape[0], UNITS_AT_ONCE):
                parents = range(first, min(first + UNITS_AT_ONCE, above.shape[0]))
                sums = add_children(geography, depth, table, parents=parents)
                _add(found, "sums over children", sums != above[first : parents.stop].toarray())


def constraints(
    population: Population, *, exact: str, cap_household: int = CAP_HOUSEHOLD
) -> tuple[dict[str, Ints], dict[str, Ints], dict[str, Ints]]:
    """Lower and upper bounds by type, and exact totals, for each level.

    A leaf with u quarters of a type holds u to 99 u people in households (``cap_household``), to
    99,999 u in each facility type. Bounds add up, but at the exact level, with total T and U
    quarters in all,

        low = T if u = U else u,  high = T - (U - u) if u > 0 else 0

    and these add up above it.
    """
    quarters, geography = population.quarters, population.geography
    assert quarters is not None
    assert population.count is not None
    types = quarters.occupied.shape[1]
    caps = np.array([cap_household, *[CAP_FACILITY] * (types - 1)])
    people = np.zeros((geography.size(geography.leaf), 1), dtype=np.int64)
    np.add.at(people[:, 0], population.unit, population.count)
    low, high, total = {}, {}, {}
    low_leaf, high_leaf = quarters.occupied, quarters.occupied * caps
    for depth in range(len(geography.levels) - 1, -1, -1):
        level = geography.levels[depth]
        if level == exact:
            t, u = _up(geography, level, people), _up(geography, level, quarters.occupied)
            others = u.sum(axis=1, keepdims=True) - u
            low[level] = np.where(others == 0, t, u)
            high[level] = np.where(u > 0, t - others, 0)
        elif depth < geography.depth(exact):
            below = geography.levels[depth + 1]
            low[level], high[level] = (
                _up(geography, level, bound[below], of=below) for bound in (low, high)
            )
        else:
            low[level], high[level] = (_up(geography, level, b) for b in (low_leaf, high_leaf))
        if depth <= geography.depth(exact):
            total[level] = _up(geography, level, people)[:, 0]
    return low, high, total


def by_type(table: Any, *, types: int) -> Ints:
    """People of each type of living quarters, which is the first attribute, in each unit."""
    people = np.zeros((table.shape[0], types), dtype=np.int64)
    unit = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    np.add.at(people, (unit, table.indices // (table.shape[1] // types)), table.data)
    return people


def add_children(
    geography: Geography, depth: int, table: Any, *, parents: range | None = None
) -> Ints:
    """The counts of the units of one level added up to (some of) their parents, units x cells."""
    parents = range(len(geography.units[depth - 1])) if parents is None else parents
    first, last = np.searchsorted(geography.parents[depth], [parents.start, parents.stop])
    own = slice(table.indptr[first], table.indptr[last])
    parent = np.repeat(
        geography.parents[depth][first:last], np.diff(table.indptr[first : last + 1])
    )
    sums = np.zeros((len(parents), table.shape[1]), dtype=np.int64)
    np.add.at(sums, (parent - parents.start, table.indices[own]), table.data[own])
    return sums


def _up(geography: Geography, level: str, values: NDArray[Any], *, of: str | None = None) -> Ints:
    sums = np.zeros((geography.size(level), values.shape[1]), dtype=np.int64)
    np.add.at(sums, geography.ancestors(level, of=of), values)
    return sums


def _add(found: Broken, kind: str, broken: Flags) -> None:
    checked, bad = found.get(kind, (0, 0))
    found[kind] = checked + broken.size, bad + int(broken.sum())
