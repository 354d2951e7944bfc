"""Areas: divisions of the leaves on one ladder, each made by joining areas of the one before.

A *rung* of the ladder is a least number of people or a level of the geography. Areas of so many
people are neighbours in the order of codes, joined within a unit of the lowest level above the
leaf, then of the next, up to the whole: each is closed as soon as it has enough, and what is left
over goes with the last one. A level as a rung has its units, but where an area lies in several of
them these are one. So every area is a union of areas of each finer rung.

What is looked at is the number of people of each leaf, which must be public or published, and
nothing else: see ``Coarsening``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints, Ints32
from headcount.geography import Geography

Rung: TypeAlias = int | str


def rung_name(rung: Rung) -> str:
    """The level of a release at which the areas of a rung are its units."""
    return f"areas-{rung}"


def ladder(geography: Geography, people: Ints, rungs: Sequence[Rung]) -> Geography:
    """The geography of a release: the whole, each rung from the coarsest, and the leaves.

    where
        people   of each leaf, as they are public
        rungs    from the finest
    """
    begins = {level: _begins(geography, level) for level in geography.levels}
    division = np.ones(len(people), dtype=bool)
    levels, units = [geography.leaf], [geography.units[-1]]
    parents: list[Ints32] = []
    for rung in rungs:
        finer = division
        if isinstance(rung, str):
            division, codes = division & begins[rung], geography.units[geography.depth(rung)]
            number = geography.ancestors(rung)
        else:
            division = _joined(division, people, rung, list(begins.values()))
            codes, number = geography.units[-1], np.arange(len(people), dtype=np.int32)
        parents.append(_parents(finer, division))
        levels.append(rung_name(rung))
        units.append(_codes(division, codes, number))
    whole = np.zeros(len(people), dtype=bool)
    whole[:1] = True
    parents += [_parents(division, whole), np.empty(0, dtype=np.int32)]
    levels.append(geography.levels[0])
    units.append(geography.units[0])
    return Geography(tuple(levels[::-1]), tuple(units[::-1]), tuple(parents[::-1]))


def _begins(geography: Geography, level: str) -> Flags:
    """Whether each leaf is the first of its unit."""
    return np.asarray(np.diff(geography.ancestors(level), prepend=-1) != 0)


def _joined(division: Flags, people: Ints, least: int, within: Sequence[Flags]) -> Flags:
    """Areas joined until each has so many people, within units from the lowest level up.

    where
        division   whether each leaf is the first of an area
        within     the same of each level, from the whole to the leaf
    """
    for unit in reversed(within[:-1]):
        first = np.flatnonzero(division)
        many = np.add.reduceat(people, first).tolist()
        new = (unit & division)[first].tolist()
        kept: list[int] = []
        held, alone = least, True
        for number, (here, begins) in enumerate(zip(many, new, strict=True)):
            if begins or held >= least:
                if begins and held < least and not alone:
                    kept.pop()
                kept.append(number)
                held, alone = 0, begins
            held += here
        if held < least and not alone:
            kept.pop()  # what is left over goes with the area before it
        division = np.zeros(len(division), dtype=bool)
        division[first[kept]] = True
    return division


def _parents(finer: Flags, coarser: Flags) -> Ints32:
    """For each area the number of the coarser one that it is in."""
    return (np.cumsum(coarser)[finer] - 1).astype(np.int32)


def _codes(division: Flags, codes: NDArray[np.str_], number: Ints32) -> NDArray[np.str_]:
    """The code of each area: that of its one unit, or "first..last" of several."""
    first = np.flatnonzero(division)
    last = np.append(first[1:], len(division)) - 1
    pairs = zip(codes[number[first]].tolist(), codes[number[last]].tolist(), strict=True)
    return np.array([one if one == other else f"{one}..{other}" for one, other in pairs])
