"""Exact totals that belong to several units of the measured tree together.

The optimised spine has a state in two parts, inside and outside of Indian areas. What is published
exactly is the state's total. The parts' own totals are not, and must not be pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.errors import ConfigError
from headcount.geography import Geography
from headcount.tabulate import Counts
from headcount.topdown.settings import TopDownSettings


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
