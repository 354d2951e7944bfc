"""Bounds of a user's own, from a file, and bounds on people by type of living quarters.

The latter have the rules of the 2018 test, and those of 2020.

For every leaf unit and type k, with u = living quarters of that type, floors l and caps c,

    l_k u_k <= people of type k <= c_k u_k

which add up over children. At the level whose totals T are exact a unit can have no more people of
a type than T leaves beside the others' floors, and has all of them where nothing else stands:

    low_k  = T if no other quarters stand there, else l_k u_k
    high_k = T - (sum of the others' l u) if u_k > 0, else 0

where the others are all other types of the unit and, where T is that of several units together,
all types of these. In 2018 l = 1 and these take the place of the sums; in 2020 the tighter of both
is kept, vacant housing units count, and l = 0 for these.

The Bureau made the bounds of 2020 from the total of each part of a state, inside and outside of
Indian areas, though the state's total alone is published. These bounds give the part's total away:
with the floors known, T follows from high_k of any type that stands there. With ``part_totals``
they are made so, and the guarantee lists the total of every part as released exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError, InputError, Problems
from headcount.geography import Geography
from headcount.population.columns import AttributeColumn, coded
from headcount.population.tables import Rows, read_rows
from headcount.schema import Attribute, Recode, Schema
from headcount.schema.schema import first_repeated
from headcount.tabulate import Counts, Query
from headcount.topdown.choices import QuartersBounds, TableBounds, file_digest
from headcount.topdown.restrict import (
    JointTotals,
    Multiples,
    Restriction,
    at_or_above,
    group_name,
    sum_bounds,
)
from headcount.topdown.settings import TopDownSettings
from headcount.topdown.solve.batch import NO_BOUND

PARENTS_AT_ONCE = 1 << 12
"""Units whose living quarters are summed together."""


def quarters_bounds(
    settings: TopDownSettings,
    bounds: QuartersBounds,
    counts: Mapping[str, Counts],
    joint: Mapping[str, JointTotals],
) -> dict[str, list[Restriction]]:
    """The bounds of every level, from the leaf up; ``joint`` has totals of units together.

    One column for each set of types. Below ``total_level`` a union of types is bounded by the sums
    of its types' bounds, which says nothing new: unions are made from that level up only.
    """
    geography = next(iter(counts.values())).geography
    query = settings.query(bounds.query)
    stand = _standing(bounds, counts[geography.leaf], query)
    _refuse_hidden_totals(settings, bounds, geography)
    caps, floors = np.asarray(bounds.caps), np.asarray(bounds.floors or [1] * len(bounds.caps))
    sets = _sets(stand.shape[1], unions=False)
    low = stand if (floors == 1).all() else Multiples(stand, floors)
    made = {geography.leaf: [Restriction(query, low, Multiples(stand, caps))]}
    least = most = stand
    for level in reversed(geography.levels[:-1]):
        first = geography.children_start(level)
        stand = _summed(stand, first)
        if len(made) == 1:
            least, most = stand * floors, stand * caps
        else:
            least, most = np.add.reduceat(least, first), np.add.reduceat(most, first)
        if level == bounds.total_level:
            sets = _sets(stand.shape[1], unions=bounds.unions)
            own = joint.get(level)
            if own is None or bounds.part_totals:
                own = JointTotals.apart(counts[level].totals())
            sums = least @ sets, most @ sets
            least, most = _from_total(stand, stand * floors, own, sets)
            if bounds.tighter:
                least, most = np.maximum(least, sums[0]), np.minimum(most, sums[1])
        made[level] = _split(query, counts[level].schema, sets, least, most)
    return made


def _standing(bounds: QuartersBounds, leaf: Counts, query: Query) -> Ints:
    """Living quarters of each leaf by type; vacant homes are of the first type, if they count."""
    quarters = leaf.quarters
    if quarters is None:
        raise ConfigError(
            "topdown",
            place=f"bounds on {query.name!r}",
            found="no living quarters in the data",
            expected="a population with a table of living quarters",
        )
    types = quarters.occupied.shape[1]
    if query.by != (quarters.attribute,) or len(bounds.caps) != types:
        raise ConfigError(
            "topdown",
            place=f"bounds on {query.name!r}",
            found=f"a query by {list(query.by)} and {len(bounds.caps)} caps",
            expected=f"a query by {quarters.attribute!r} and one cap for each of {types} types",
        )
    if not bounds.vacant:
        return quarters.occupied
    stand = quarters.occupied.copy()
    stand[:, 0] += quarters.vacant
    return stand


def _summed(stand: Ints, first: Ints) -> Ints:
    """Sums of the rows from each of ``first`` on, in 64 bits, some at a time.

    All at once numpy would first copy every row to 64 bits, which for 8 million blocks is half a
    GiB.
    """
    found = np.empty((len(first), stand.shape[1]), dtype=np.int64)
    ends = np.append(first[1:], len(stand))
    for k in range(0, len(first), PARENTS_AT_ONCE):
        some = slice(k, k + PARENTS_AT_ONCE)
        rows = stand[first[k] : ends[some][-1]].astype(np.int64)
        found[some] = np.add.reduceat(rows, first[some] - first[k])
    return found


def _refuse_hidden_totals(
    settings: TopDownSettings, bounds: QuartersBounds, geography: Geography
) -> None:
    """Bounds made from true totals give these away, so they must be published.

    Any invariant there or below will do: whatever it counts adds up to the people there.
    """
    if not bounds.total_level:
        return
    if bounds.total_level not in geography.levels[:-1]:
        raise ConfigError(
            "topdown",
            place="total_level",
            found=repr(bounds.total_level),
            expected=f"one of {list(geography.levels[:-1])}",
        )
    depth = geography.depth(bounds.total_level)
    if not any(geography.depth(one.level) >= depth for one in settings.invariant):
        raise ConfigError(
            "topdown",
            place="total_level",
            found=f"{bounds.total_level!r} without an invariant",
            expected="a total that is invariant at this level: the bounds are made from it",
        )


def _sets(types: int, *, unions: bool) -> Ints:
    """Types x sets, 1 where a set holds the type: each type alone, then unions of 2 to types-1."""
    sets = [frozenset([k]) for k in range(types)]
    if unions:
        sets += [frozenset(s) for n in range(2, types) for s in combinations(range(types), n)]
    return np.array([[int(k in s) for s in sets] for k in range(types)], dtype=np.int64)


def _from_total(stand: Ints, floor: Ints, totals: JointTotals, sets: Ints) -> tuple[Ints, Ints]:
    """Bounds rebuilt from exact totals: the others must hold their floors."""
    inside, least = stand @ sets, floor @ sets
    others = totals.together(stand.sum(axis=1))[:, None] - inside
    outside = totals.together(floor.sum(axis=1))[:, None] - least
    everyone = np.broadcast_to(totals.of_units[:, None], inside.shape)
    low = np.where(others == 0, everyone, least)
    high = np.where(inside > 0, everyone - outside, 0)
    return low, high


def _split(query: Query, schema: Schema, sets: Ints, low: Ints, high: Ints) -> list[Restriction]:
    """The types alone as bounds on the query; each union as a query of its own with two groups."""
    types = len(sets)
    made = [Restriction(query, low[:, :types], np.minimum(high[:, :types], NO_BOUND))]
    for j in range(types, sets.shape[1]):
        members = np.flatnonzero(sets[:, j])
        free = np.full(len(low), NO_BOUND)
        union = _union(query, schema, tuple(int(k) for k in members))
        made.append(
            Restriction(
                union,
                np.column_stack([low[:, j], -free]),
                np.column_stack([np.minimum(high[:, j], NO_BOUND), free]),
            )
        )
    return made


def _union(query: Query, schema: Schema, members: tuple[int, ...]) -> Query:
    (name,) = query.by
    attribute = schema.attribute(str(name))
    inside = [attribute.levels[k] for k in members]
    rest = [level for level in attribute.levels if level not in inside]
    label = f"{query.name} in {inside}"  # no two unions, and no query of the user, share it
    return Query(label, (Recode.of(attribute, label, {"inside": inside, "rest": rest}),))


LARGEST_BOUND = 2**40
"""The largest bound; more people are refused anyway."""


def table_bounds(
    settings: TopDownSettings, bounds: TableBounds, counts: Mapping[str, Counts]
) -> dict[str, list[Restriction]]:
    """A user's own bounds at their level, and their sums above it."""
    leaf = next(iter(counts.values()))
    query, geography = settings.query(bounds.query), leaf.geography
    levels = at_or_above(bounds.level, counts)
    low, high = _read_bounds(bounds, query, leaf.schema, geography)
    made = {bounds.level: [Restriction(query, low, high)]}
    for level in reversed(levels[:-1]):
        low, high = sum_bounds(low, high, geography.children_start(level))
        made[level] = [Restriction(query, low, high)]
    return made


def _read_bounds(
    bounds: TableBounds, query: Query, schema: Schema, geography: Geography
) -> tuple[Ints, Ints]:
    """Low and high of every unit and group (units x groups).

    One row for each: the unit's code in a column named after the level, the group's levels in
    columns named after the query's attributes or recodes, then ``low`` and ``high``. An empty
    ``low`` is 0, an empty ``high`` no bound. Groups that cannot hold anyone may be left out.
    """
    path = bounds.file
    name = str(path)
    if bounds.sha256 and file_digest(path) != bounds.sha256:
        raise InputError(name, found="different content", expected=f"sha256 {bounds.sha256}")
    axes = query.attributes(schema)
    columns = [bounds.level, *(axis.name for axis in axes), "low", "high"]
    if twice := first_repeated(columns):
        raise InputError(
            name,
            place=f"column {twice!r}",
            found="two columns of that name",
            expected="a level, attributes and recodes with distinct names, none low or high",
        )
    rows = read_rows(path, columns)
    codes = [str(code) for code in geography.units[geography.depth(bounds.level)]]
    problems, row = rows.problems(), np.zeros(rows.frame.height, dtype=np.int64)
    for axis in (Attribute(bounds.level, tuple(codes)), *axes):
        known = AttributeColumn(name=axis.name, levels=axis.levels)
        row = row * axis.size + coded(rows, known, problems)[1]
    low, high = (
        _whole(rows, which, problems, empty=n) for which, n in (("low", 0), ("high", None))
    )
    problems.refuse()
    shape = (len(codes), prod(axis.size for axis in axes))
    problems.add(
        _repeated(row),
        found=lambda _: "a second row for its unit and group",
        expected="one",
    )
    problems.add(
        np.flatnonzero(low > high),
        found=lambda _: "low above high",
        expected="low at most high",
    )
    problems.refuse()
    wanted = np.zeros(shape[1], dtype=bool)
    wanted[query.groups(schema)[schema.possible]] = True
    _refuse_missing(row, wanted, shape, bounds.level, codes, axes, name)
    lows = np.zeros(shape, dtype=np.int64)
    highs = np.where(wanted, NO_BOUND, 0) * np.ones(shape, dtype=np.int64)
    lows.flat[row], highs.flat[row] = low, high
    return lows, highs


def _whole(rows: Rows, column: str, problems: Problems, *, empty: int | None) -> Ints:
    """A column of bounds; ``empty`` stands for nothing, None for no bound."""
    text = rows.frame[column].cast(pl.String).str.strip_chars()
    blank = (text.is_null() | (text == "")).to_numpy()
    numbers = text.cast(pl.Float64, strict=False).to_numpy()
    with np.errstate(invalid="ignore"):
        good = blank | (
            (numbers >= 0) & (numbers <= LARGEST_BOUND) & (numbers == np.floor(numbers))
        )
    problems.add(
        np.flatnonzero(~good),
        place=f"column {column!r}",
        found=lambda row: repr(text[row]),
        expected="a whole number from 0 to 2^40, or nothing",
    )
    missing = int(NO_BOUND) if empty is None else empty
    known = np.where(good, np.nan_to_num(numbers, posinf=0), 0)
    return np.where(blank, missing, known).astype(np.int64)


def _repeated(row: Ints) -> Ints:
    """Rows whose unit and group an earlier one has."""
    _, first = np.unique(row, return_index=True)
    return np.setdiff1d(np.arange(len(row)), first)


def _refuse_missing(
    row: Ints,
    wanted: Flags,
    shape: tuple[int, int],
    level: str,
    codes: list[str],
    axes: tuple[Attribute, ...],
    name: str,
) -> None:
    there = np.zeros(shape, dtype=bool)
    there.flat[row] = True
    if len(gone := np.argwhere(~there & wanted)):
        unit, group = (int(k) for k in gone[0])
        raise InputError(
            name,
            place=f"{level} {codes[unit]!r}, group ({group_name(axes, group)})",
            found="no row",
            expected="a row for every unit and group (an empty low or high means no bound)",
        )
