"""Constraints: invariants and bounds of a release, worked out from the truth by the curator.

Right-hand sides are data: they are published, or follow from what is published. The guarantee
lists them as released without noise. Some totals belong to several units of the measured tree
together (``JointTotals``): the optimised spine has a state in two parts, inside and outside of
Indian areas. What is published exactly is the state's total; the parts' own totals are not, and
must not be pinned.

A guarantee compares databases that agree in what is released exactly. If no two of them differ by
one person, it promises nothing, however small its epsilon: so all of it together must leave a
neighbour under add-remove.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from headcount.arrays import Ends, Flags, Ints, Ints32
from headcount.errors import ConfigError, RunError, TruthError
from headcount.geography import Geography
from headcount.mechanisms import LIVING_QUARTERS, PEOPLE, Preserved
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Recode, Schema
from headcount.storage import StoredNumbers
from headcount.tabulate import Counts, Query
from headcount.topdown.choices import (
    Invariant,
    QuartersBounds,
    TableBounds,
    refuse_pass,
    rounding_passes,
)
from headcount.topdown.measurements import PublishedBounds
from headcount.topdown.settings import TopDownSettings
from headcount.topdown.solve.batch import NO_BOUND

UNITS_AT_ONCE = 1 << 16
"""Units whose answers are held at once."""


@dataclass(frozen=True, eq=False)
class Multiples:
    """Numbers of units times a factor for each column, worked out where they are asked for."""

    numbers: Ints
    factors: Ints

    @property
    def shape(self) -> tuple[int, ...]:
        """Units x columns."""
        return self.numbers.shape

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, units: slice | Ints) -> Ints:
        found: Ints = np.minimum(self.numbers[units] * self.factors, NO_BOUND)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)


BoundNumbers: TypeAlias = Ints | Multiples | StoredNumbers | PublishedBounds
"""Numbers, units x groups, of which some units are asked for at a time."""


@dataclass(frozen=True, eq=False)
class Restriction:
    """Bounds on the answers of one query in every unit of one level: units x groups."""

    query: Query
    low: BoundNumbers
    high: BoundNumbers

    def pieces(self) -> Iterator[tuple[slice, Ints, Ints]]:
        """The bounds of some units after others."""
        for first in range(0, len(self.low), UNITS_AT_ONCE):
            units = slice(first, min(first + UNITS_AT_ONCE, len(self.low)))
            yield units, self.low[units], self.high[units]


Restrictions = Mapping[str, tuple[Restriction, ...]]
"""For each level, its restrictions."""


def restrict(
    settings: TopDownSettings,
    counts: Mapping[str, Counts],
    joint: Mapping[str, JointTotals] = MappingProxyType({}),
) -> Restrictions:
    """All restrictions of every level, each query at most once a level, the tighter bound kept.

    Totals that units of a level have together (``joint``) are not bounds of any of them.
    """
    from headcount.topdown._bounds import quarters_bounds, table_bounds

    found: dict[str, dict[str, Restriction]] = {level: {} for level in counts}
    for invariant in settings.invariant:
        query = settings.query(invariant.query)
        # Exact below is exact above: the parts add up to the whole.
        for level in at_or_above(invariant.level, counts):
            if level in joint:
                continue
            answer = _answers(counts[level], query)
            _add(found[level], Restriction(query, answer, answer))
    for bounds in settings.bounds:
        made = (
            table_bounds(settings, bounds, counts)
            if isinstance(bounds, TableBounds)
            else quarters_bounds(settings, bounds, counts, joint)
        )
        for level, restrictions in made.items():
            for restriction in restrictions:
                _add(found[level], restriction)
    leaf = next(iter(counts.values()))
    whole = tuple(found[leaf.geography.levels[0]].values())
    unit = settings.loss.unit if settings.loss is not None else None
    _refuse_fixed_total(whole, leaf.schema, unit)
    return {level: tuple(by_query.values()) for level, by_query in found.items()}


def truth_outside(
    restrictions: Restrictions, counts: Mapping[str, Counts]
) -> list[tuple[str, int, str]]:
    """Units whose true counts break a bound: level, unit and the bound, the finest level first.

    One unit for each bounded query of a level, to be named to the curator.
    """
    found = []
    for level in reversed(tuple(restrictions)):  # the finest unit says best where to look
        for restriction in restrictions[level]:
            schema = counts[level].schema
            if (where := _first_outside(restriction, counts[level].matrix, schema)) is not None:
                found.append((level, where[0], bound_name(restriction.query, schema, where[1])))
    return found


def refuse_truth_outside(restrictions: Restrictions, counts: Mapping[str, Counts]) -> None:
    """Refuse bounds that the truth itself breaks: names the unit and the constraint, no count.

    Says whether the bounds contradict each other. For the curator only: that a run was refused
    says something about the data.
    """
    from headcount.topdown._tighten import contradiction

    if not (outside := truth_outside(restrictions, counts)):
        return
    leaf = next(iter(counts.values()))
    suspects = [(level, unit) for level, unit, _ in outside]
    clash = contradiction(restrictions, suspects, schema=leaf.schema, geography=leaf.geography)
    level, unit, bound = outside[0]
    place = f"level {level!r}, unit {_code(leaf.geography, level, unit)!r}, bound on {bound}"
    if clash:
        said = " and ".join(clash[:3])
        raise TruthError(
            "topdown",
            place=place,
            expected="bounds that some counts meet",
            found=f"bounds that no counts can meet (in conflict: {said})",
        )
    raise TruthError(
        "topdown",
        place=place,
        expected="bounds that the data meet",
        found="a true count outside the bound",
    )


def refuse_release_outside(
    restrictions: Restrictions, tables: Mapping[str, Any], *, schema: Schema, geography: Geography
) -> None:
    """Check every bound of every unit of what will be published, in integers.

    Levels above the leaf are sums of leaves. After a failsafe these need not be the counts that
    were estimated there, and what was checked then is checked again.
    """
    for level, those in restrictions.items():
        for restriction in those:
            if (where := _first_outside(restriction, tables[level], schema)) is not None:
                code = _code(geography, level, where[0])
                bound = bound_name(restriction.query, schema, where[1])
                raise RunError(
                    f"topdown: level {level!r}, unit {code!r}: found the bound on {bound} broken "
                    f"by the sum of its leaves, expected it kept"
                )


def _first_outside(restriction: Restriction, matrix: Any, schema: Schema) -> tuple[int, int] | None:
    """The first unit and group of counts (units x cells, sparse) outside its bounds."""
    groups = restriction.query.matrix(schema)
    for units, low, high in restriction.pieces():
        answers = (matrix[units] @ groups).toarray()
        unit, group = np.nonzero((answers < low) | (answers > high))
        if len(unit):
            return units.start + int(unit[0]), int(group[0])
    return None


def units_outside(restriction: Restriction, answers: Ints) -> list[int]:
    """The units with a group outside its bounds."""
    outside = (answers < restriction.low[:]) | (answers > restriction.high[:])
    return [int(unit) for unit in np.flatnonzero(outside.any(axis=1))]


def nests(restrictions: tuple[Restriction, ...], schema: Schema) -> bool:
    """Whether of any two bounded groups of a unit one holds the other, or they share no cell.

    Then rounding is a network problem; otherwise it goes to an integer programme.
    """
    bounded = []
    for restriction in restrictions:
        group = restriction.query.groups(schema)
        binds = np.flatnonzero(binding_groups(restriction))
        bounded += [frozenset(np.flatnonzero(group == g).tolist()) for g in binds]
    return all(a <= b or b <= a or not a & b for a, b in combinations(bounded, 2))


def binding_groups(restriction: Restriction) -> Flags:
    """The groups of which some unit has a bound that can bind."""
    binds = np.zeros(restriction.low.shape[1], dtype=bool)
    for _, low, high in restriction.pieces():
        binds |= ((low > 0) | (high < NO_BOUND)).any(axis=0)
    return binds


def exact_statements(settings: TopDownSettings) -> tuple[str, ...]:
    """What the restrictions publish, in plain words."""
    said = [invariant_words(settings, one) for one in settings.invariant]
    for bounds in settings.bounds:
        if isinstance(bounds, QuartersBounds):
            said.append(_quarters_words(bounds))
            if settings.spine and bounds.part_totals:
                said.append(_part_words(bounds))
        elif bounds.public:
            said.append(
                f"that {bounds.query!r} of every {bounds.level} is within the bounds of a public "
                f"table ({bounds.file.name})"
            )
        else:
            said.append(
                f"the bounds on {bounds.query!r} of every {bounds.level}, worked out from "
                f"confidential data ({bounds.file.name})"
            )
    return tuple(said)


def exact_counts(settings: TopDownSettings, geography: Geography) -> dict[str, Preserved]:
    """The counts that these statements are about; those on bounds from a file are about none."""
    found = {}
    for one in settings.invariant:
        axes = settings.query(one.query).by
        by = tuple(axis.source.name if isinstance(axis, Recode) else axis for axis in axes)
        found[invariant_words(settings, one)] = Preserved(PEOPLE, one.level, by)
    for bounds in settings.bounds:
        if isinstance(bounds, QuartersBounds):
            found[_quarters_words(bounds)] = Preserved(LIVING_QUARTERS, geography.leaf)
            if settings.spine and bounds.part_totals:
                # Parts need not be unions of published places: counts of leaves alone make them.
                found[_part_words(bounds)] = Preserved(PEOPLE, geography.leaf)
    return found


def invariant_words(settings: TopDownSettings, one: Invariant) -> str:
    """What an invariant publishes."""
    if not settings.unit.of_housing_unit:
        return f"{one.query!r} of every {one.level}"
    if settings.query(one.query).by:
        return f"the number of housing units by {one.query!r} of every {one.level}"
    return f"the number of housing units of every {one.level}"


def _quarters_words(bounds: QuartersBounds) -> str:
    vacant = "vacant homes among them" if bounds.vacant else "and of vacant ones"
    return f"the number of living quarters of each type ({bounds.query!r}), {vacant}, everywhere"


def _part_words(bounds: QuartersBounds) -> str:
    """Bounds made from a part's total give it away.

    The most people of a type are the total less the floors of the other types, whose living
    quarters are published: whoever knows the bound knows the total. Only a bound that is looser
    than the caps hides it, which no guarantee can count on.
    """
    return f"the number of people in each part of a {bounds.total_level} on the spine"


def at_or_above(level: str, counts: Mapping[str, Counts]) -> tuple[str, ...]:
    """A level and all above it, from the top."""
    geography = next(iter(counts.values())).geography
    return geography.levels[: geography.depth(level) + 1]


def _answers(counts: Counts, query: Query) -> Ints:
    return np.asarray((counts.matrix @ query.matrix(counts.schema)).toarray(), dtype=np.int64)


def _add(found: dict[str, Restriction], new: Restriction) -> None:
    old = found.get(new.query.name)
    if old is not None:
        low, high = np.maximum(old.low[:], new.low[:]), np.minimum(old.high[:], new.high[:])
        new = Restriction(new.query, low, high)
    found[new.query.name] = new


def group_name(axes: tuple[Attribute, ...], group: int) -> str:
    """A group by the names of its levels."""
    place = np.unravel_index(group, [axis.size for axis in axes] or [1])
    names = [one.levels[int(k)] for one, k in zip(axes, place, strict=False)]
    return ", ".join(names) or "everyone"


def sum_bounds(low: Ints, high: Ints, first: Ints) -> Ends:
    """Sums of the rows from each of ``first`` on; a sum with a free part is free."""
    free = np.logical_or.reduceat(high >= NO_BOUND, first)
    most = np.add.reduceat(np.where(high < NO_BOUND, high, 0), first)
    return np.add.reduceat(low, first), np.where(free, NO_BOUND, most)


def bound_name(query: Query, schema: Schema, group: int) -> str:
    """A group of a query by the names of its levels."""
    return f"{query.name!r} ({group_name(query.attributes(schema), group)})"


def _code(geography: Geography, level: str, unit: int) -> str:
    return str(geography.units[geography.depth(level)][unit])


@dataclass(frozen=True, eq=False)
class JointTotals:
    """For each unit of a level the number of its group, and the people of each group."""

    group: Ints32
    total: Ints

    @classmethod
    def apart(cls, totals: Ints) -> JointTotals:
        """Every unit in a group of its own."""
        return cls(np.arange(len(totals), dtype=np.int32), totals)

    @property
    def of_units(self) -> Ints:
        """For each unit the total of its group."""
        return self.total[self.group]

    def of_children(self, child: Ints) -> dict[str, Any]:
        """As a batch of problems has them: groups of its children, and the total of each."""
        return {"joint": self.group[child], "joint_total": self.total}

    def together(self, numbers: Ints) -> Ints:
        """Numbers of units added up in their groups, for each unit that of its group."""
        sums = np.zeros(len(self.total), dtype=np.int64)
        np.add.at(sums, self.group, numbers)
        return sums[self.group]


def groups_of(tree: Geography, published: Geography, level: str) -> Ints32:
    """For each unit of a level of a spine, the published unit of that level that it is part of."""
    own, whole = tree.ancestors(level), published.ancestors(level)[published.along_spine]
    found = np.full(tree.size(level), -1, dtype=np.int32)
    found[own] = whole
    if (found[own] != whole).any():
        code = str(tree.units[tree.depth(level)][own[np.argmax(found[own] != whole)]])
        raise ConfigError(
            "topdown",
            place=f"spine, level {level!r}, unit {code!r}",
            found="leaves of two published units",
            expected="a spine that splits published units where something is exact, or keeps them",
        )
    return found


def joint_totals(
    settings: TopDownSettings, counts: Mapping[str, Counts], published: Geography
) -> dict[str, JointTotals]:
    """For each level at which the spine has published units in parts, their exact totals."""
    tree, found = next(iter(counts.values())).geography, {}
    for level, group in joint_groups(settings, tree, published).items():
        totals = np.bincount(group, weights=counts[level].totals(), minlength=group.max() + 1)
        found[level] = JointTotals(group, totals.astype(np.int64))
    return found


def joint_groups(
    settings: TopDownSettings, tree: Geography, published: Geography
) -> dict[str, Ints32]:
    """For each level of a spine with exact totals of several units together, the units' groups.

    What is exact of every leaf is so of every unit of the spine: no total is of several together.
    """
    found: dict[str, Ints32] = {}
    for invariant in settings.invariant if tree is not published else ():
        if invariant.level == published.leaf:
            continue
        depth = published.depth(invariant.level)
        for level in published.levels[: depth + 1]:
            group = groups_of(tree, published, level)
            if len(group) == published.size(level):
                continue
            _refuse_apart(tree, level, group)
            if settings.query(invariant.query).by:
                raise ConfigError(
                    "topdown",
                    place=f"invariant {invariant.query!r}",
                    found=f"a spine that has units of {level!r} in parts",
                    expected="the total alone to be exact there",
                )
            found[level] = group
    return found


def _refuse_apart(tree: Geography, level: str, group: Ints32) -> None:
    """Refuse totals of units under different parents, which are estimated one by one."""
    depth = tree.depth(level)
    parent = tree.parents[depth]
    together = np.zeros(int(group.max()) + 1, dtype=np.int32)
    together[group] = parent
    if len(apart := np.flatnonzero(together[group] != parent)):
        code = str(tree.units[depth][apart[0]])
        raise ConfigError(
            "topdown",
            place=f"spine, level {level!r}, unit {code!r}",
            found=f"the other parts of its published unit below another {tree.levels[depth - 1]}",
            expected="exact totals at no level below the one where the spine splits units",
        )


def neighbours_in_words(settings: TopDownSettings, geography: Geography) -> tuple[str, ...]:
    """Which databases are neighbours where totals of places are exact: the record stays in one."""
    depths = [geography.depth(one.level) for one in settings.invariant]
    if not max(depths, default=0):
        return ()
    one = "household" if settings.unit.of_household else "record"
    place = geography.levels[max(depths)]
    moved = "is changed" if place == geography.leaf else "is changed, or moved,"
    differ = f"one {one} {moved} within one {place}"
    if settings.unit.of_housing_unit:
        differ = (
            "the status of one housing unit changes, or those of the two homes between which a "
            "person moves"
            if place == geography.leaf
            else f"one housing unit {moved} within one {place}, or two are: the homes between "
            "which a person moves"
        )
    return (f"{differ}; neighbours agree in all that is released without noise",)


def _refuse_fixed_total(
    whole: Sequence[Restriction], schema: Schema, unit: UnitOfPrivacy | None
) -> None:
    """Refuse bounds on the whole that together leave one total only: an invariant but in name."""
    if unit is None or not unit.adds or not whole:
        return
    least, most = total_range(whole, schema)
    if most - least < 0.5:
        names = " and ".join(repr(one.query.name) for one in whole)
        raise ConfigError(
            "topdown",
            place=f"bounds on {names}",
            found=f"bounds that fix how many people there are, with unit {unit.value!r}",
            expected=f"{unit.pair[1].value!r}, or bounds that leave room for a person more or less",
        )


def refuse_no_neighbour(
    restrictions: Restrictions, counts: Mapping[str, Counts], unit: UnitOfPrivacy | None
) -> None:
    """Refuse data beside which no database with one person more or less keeps every bound."""
    if unit is None or not unit.adds or not any(restrictions.values()):
        return
    if not has_neighbour(restrictions, counts):
        raise TruthError(
            "topdown",
            place="bounds",
            found="data whose every neighbour breaks a bound",
            expected=f"{unit.pair[1].value!r}, or bounds that leave room for a person more or less",
        )


def total_range(whole: Sequence[Restriction], schema: Schema) -> tuple[float, float]:
    """The least and the most people that bounds on the whole allow together (a linear programme).

    Cells that are in the same group of every bounded query are one variable. Bounds that no counts
    meet allow everything here: they are refused by another check, which says more.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    classes, _ = _classes([one.query.groups(schema) for one in whole], schema.possible)
    rows, limits = [], []
    for one, group in zip(whole, classes, strict=True):
        shape = (one.low.shape[1], classes.shape[1])
        member = coo_array(
            (np.ones(len(group)), (group, np.arange(len(group)))), shape=shape
        ).tocsr()
        (low,), (high,) = one.low[:1], one.high[:1]
        rows += [member[high < NO_BOUND], -member[low > 0]]
        limits += [high[high < NO_BOUND], -low[low > 0]]
    ends = []
    for sign in (1.0, -1.0):
        found = linprog(
            np.full(classes.shape[1], sign),
            A_ub=vstack(rows),
            b_ub=np.concatenate(limits),
            method="highs",
            options={"presolve": False},
        )
        ends.append(sign * found.fun if found.status == 0 else -sign * np.inf)
    return float(ends[0]), float(ends[1])


def has_neighbour(restrictions: Restrictions, counts: Mapping[str, Counts]) -> bool:
    """Whether somebody can be added to the truth, or removed from it, with every bound kept."""
    leaf = next(iter(counts.values()))
    geography, schema = leaf.geography, leaf.schema
    bounded = [(level, one) for level, those in restrictions.items() for one in those]
    groups = [one.query.groups(schema) for _, one in bounded]
    classes, of_cell = _classes(groups, schema.possible)
    shape = (geography.size(geography.leaf), classes.shape[1])
    add, remove = np.ones(shape, dtype=bool), _inhabited(counts[geography.leaf], of_cell, shape)
    for (level, one), group in zip(bounded, classes, strict=True):
        at_level = counts[level]
        truth = np.asarray((at_level.matrix @ one.query.matrix(schema)).toarray())
        above = geography.ancestors(level)
        add &= (truth < one.high[:])[above][:, group]
        remove &= (truth > one.low[:])[above][:, group]
    return bool(add.any() or remove.any())


def _classes(groups: Sequence[Ints], possible: Flags) -> tuple[Ints, Ints]:
    """Possible cells alike in every query: the group of each class by query, each cell's class."""
    kinds, of_possible = np.unique(np.stack(groups)[:, possible], axis=1, return_inverse=True)
    of_cell = np.full(len(possible), -1, dtype=np.int64)
    of_cell[possible] = of_possible.reshape(-1)
    return kinds.astype(np.int64), of_cell


def _inhabited(leaf: Counts, of_cell: Ints, shape: tuple[int, int]) -> Flags:
    """Where somebody is: leaves x classes of cells."""
    entries = leaf.matrix.tocoo()
    there = np.zeros(shape, dtype=bool)
    some = entries.data > 0
    there[entries.row[some], of_cell[entries.col[some]]] = True
    return there


def refuse_crossing(settings: TopDownSettings, restrictions: Restrictions, schema: Schema) -> None:
    """Refuse, where a level asks for queries that nest, some that cross each other or a bound."""
    from headcount.topdown.solve.rounding import first_crossing

    for level, chosen in settings.passes:
        if not chosen.nested:
            continue
        bounds = [_bounded(one, schema) for one in restrictions[level]]
        number = first_crossing(rounding_passes(settings, chosen, schema), bounds)
        if number is not None:
            refuse_pass(
                level,
                "round",
                f"queries in pass {number + 1} that cross each other, a bound or an earlier query",
                "queries that nest, as nested = true asks",
            )


def _bounded(restriction: Restriction, schema: Schema) -> Ints32:
    """The group of each cell, numbered among those with a bound that can bind; -1 for others."""
    binds = binding_groups(restriction)
    number = np.where(binds, np.cumsum(binds) - 1, -1)
    return number[restriction.query.groups(schema)].astype(np.int32)
