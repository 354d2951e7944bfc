"""Disclosure risk by k-anonymity: the smallest group anyone in a household belongs to, by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import ConfigError
from headcount.fields import AtLeast0
from headcount.population.population import Households

WIDEST_TABLE = 1 << 24
"""Groups up to which counts are kept in a plain table, 128 MB of it."""


@dataclass(frozen=True, kw_only=True)
class Risk:
    """A household is at risk at a level where fewer than k people are like one of its members.

        count(p, level) = people in p's unit of that level with p's values of the attributes
        risk(h, level)  = max over members p of h of 1 / count(p, level)
        at risk where risk > 1 / k, and the coarsest such level says how far it must move

    where
        attributes   of persons or dwellings: ("race", "hispanic")
        levels       geography levels to look at, in any order
        k            2 finds uniques only; 0 turns the rule off, and uniques are still counted

    Templ, Kowarik & Meindl (2015), "Statistical disclosure control for micro-data using sdcMicro".
    """

    attributes: tuple[str, ...]
    levels: tuple[str, ...]
    k: AtLeast0 = 3

    def __post_init__(self) -> None:
        for place in ("attributes", "levels"):
            object.__setattr__(self, place, tuple(getattr(self, place)))
            if not getattr(self, place):
                raise ConfigError("risk", place=place, found="none", expected="at least one")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 0:
            raise ConfigError("risk", place="k", found=repr(self.k), expected="a whole number >= 0")


@dataclass(frozen=True, eq=False)
class DwellingRisk:
    """The disclosure risk of each dwelling.

    where
        depths     depths of the levels looked at, from the coarsest
        fewest     levels x dwellings: the smallest count of any member; for dwellings that
                   nobody lives in, the largest number there is
        depth      for each dwelling the coarsest depth at which it is at risk, NEVER for none
        count      its smallest count there
    """

    depths: tuple[int, ...]
    fewest: Ints
    depth: Ints
    count: Ints

    @property
    def unique(self) -> Flags:
        """Whether a member is the only one of a kind at any of the levels."""
        return np.asarray((self.fewest == 1).any(axis=0))


NEVER = 1 << 30
"""Depth of a household that is not at risk: below every level."""


def standing(households: Households, risk: Risk) -> DwellingRisk:
    """Count everyone, group quarters included, and see whose group is small."""
    geography = households.geography
    schema, cell = households.cells(risk.attributes)
    levels = sorted(set(risk.levels), key=geography.depth)
    depths = tuple(geography.depth(level) for level in levels)
    leaf = households.block[households.dwelling]
    fewest = np.empty((len(levels), len(households.block)), dtype=np.int64)
    for row, level in enumerate(levels):
        group = geography.ancestors(level)[leaf].astype(np.int64) * schema.size + cell
        people = group_sizes(group, geography.size(level) * schema.size)
        fewest[row] = _smallest_in_dwelling(households, people)
    depth = np.full(len(households.block), NEVER, dtype=np.int64)
    count = np.zeros(len(households.block), dtype=np.int64)
    for row in reversed(range(len(levels))):
        small = fewest[row] < risk.k
        depth[small], count[small] = depths[row], fewest[row][small]
    return DwellingRisk(depths, fewest, depth, count)


def group_sizes(group: Ints, groups: int) -> Ints:
    """For each row the number of rows in its group."""
    if groups <= WIDEST_TABLE:
        return np.bincount(group, minlength=groups)[group]
    _, place, size = np.unique(group, return_inverse=True, return_counts=True)
    return np.asarray(size[place], dtype=np.int64)


def _smallest_in_dwelling(households: Households, values: Ints) -> Ints:
    """The smallest of the members' values for each dwelling."""
    smallest = np.full(len(households.block), np.iinfo(np.int64).max)
    lived_in = np.flatnonzero(households.size)
    if len(lived_in):
        smallest[lived_in] = np.minimum.reduceat(values, households.first[lived_in])
    return smallest


def by_risk(standing: DwellingRisk, rows: Ints) -> Ints:
    """``rows`` with those at risk first: coarsest level, then smallest count; ties as they are."""
    order = np.lexsort((standing.count[rows], standing.depth[rows]))
    return rows[order]


def at_risk_by_level(standing: DwellingRisk, levels: Sequence[str], among: Flags) -> dict[str, int]:
    """How many of some dwellings are at risk, by the coarsest level at which they are."""
    return {
        levels[depth]: int(np.count_nonzero(among & (standing.depth == depth)))
        for depth in standing.depths
    }
