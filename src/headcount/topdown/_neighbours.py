"""Whether invariants and bounds together leave any neighbouring database under add-remove.

A guarantee compares databases that agree in what is released exactly. If no two of them differ by
one person, it promises nothing, however small its epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError, TruthError
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Schema
from headcount.tabulate import Counts
from headcount.topdown.solve.batch import NO_BOUND

if TYPE_CHECKING:
    from headcount.geography import Geography
    from headcount.topdown.restrict import Restriction, Restrictions
    from headcount.topdown.settings import TopDownSettings


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


def refuse_fixed_total(
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
