"""Priority in matching: as many at risk as can be get a partner, those at the highest risk first.

Who may change places with whom is a forest: one tree of units for each group of alike ones. A
household *stands at* the unit that it has to leave. Two of one group fit each other if neither
lives in the unit that the other has to leave, which is so exactly if the one unit does not contain
the other. So the units of a tree say all: who stands below one child of a unit fits everybody below
its other children, and nobody who stands at the unit itself.

How many of some households can be paired with each other follows from counts alone. In the forest
let a unit v have sit(v) households standing at it and below(v) standing below it. The
fewest of those below v who stay alone, and of those at or below v, are

    alone(v) = max(below(v) mod 2, max over children c of alone_at(c) + all(c) - below(v), 0)
    alone_at(v) = sit(v) + alone(v),    all(v) = sit(v) + below(v)

where the term of c says that the others can serve at most below(v) - all(c) of those left over in
c (pairs among the others may be broken for them). At a root, alone(root) of the group stay alone.

If some need not be paired (they only serve as partners), those who must and cannot are

    short(v) = max(owing_at(c) + all(c) - below(v) over children c, 0; and 1 if below(v) is odd and
                   all who stand below v must be paired)
    owing_at(v) = (those at v who must) + short(v)

Both follow from the formula of Tutte and Berge for graphs that are joined from parts. The sets that
can be paired are the independent sets of a matroid (Edmonds & Fulkerson 1965), so serving one after
another whoever can still be served serves as many as can be.

With W pairs at most, of which m can be made among those at risk, W + m of those at risk can be
served if so many can be at all, and 2 W if W < m: each pair has one, and m of them have two. A set
S of them is part of such a choice exactly if it can be paired at all; at most max(W - m, 0) of it
are short of partners at risk; and, if W < m, it needs no more than W pairs, which are (|S| + those
of S who stay alone among S) / 2. For W >= m these sets are a matroid (a lift of the one of pairs
among those at risk towards the one of all pairs, Higgs 1968); for W < m each of them can be filled
up, since whoever is left alone in S has partners at risk who cost no further pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.compiled import kernel, njit
from headcount.mechanisms.swapping.risk import group_sizes


@dataclass(frozen=True, eq=False)
class Fits:
    """What a pair must have in common, and what each of them has to leave.

    where
        group    partners are of one group: same key, same unit that nobody leaves
        places   from the coarsest level: the unit in which each household lives
        sizes    the number of units of each of these levels
        depth    for each household which of the levels it has to leave, 0 for the coarsest
    """

    group: Ints
    places: tuple[Ints, ...]
    sizes: tuple[int, ...]
    depth: Ints


@dataclass(frozen=True, eq=False)
class _Forest:
    """The units at which some households stand, those above them, and a root for each group.

    where
        node     for each of the households its unit
        root     for each of them the root of its tree
        parent   for each unit the one above it, itself for a root; parents have lower numbers
        groups   for each root its group
        levels   for each level the unit of each household, -1 for those who stand above it
    """

    node: Ints
    root: Ints
    parent: Ints
    groups: Ints
    levels: tuple[Ints, ...]


def forest(fits: Fits, rows: Ints) -> _Forest:
    """The trees of some households."""
    groups, root = np.unique(fits.group[rows], return_inverse=True)
    root = root.astype(np.int64)
    node, above = root.copy(), root
    parents = [np.arange(len(groups))]
    levels, first = [], len(groups)
    for depth, (place, size) in enumerate(zip(fits.places, fits.sizes, strict=True)):
        below = np.flatnonzero(fits.depth[rows] >= depth)
        code = above[below] * size + place[rows[below]]
        units, at = np.unique(code, return_inverse=True)
        here = np.full(len(rows), -1, dtype=np.int64)
        here[below] = first + at
        parents.append(units // size)
        node[below] = here[below]
        above = here
        levels.append(here)
        first += len(units)
    return _Forest(node, root, np.concatenate(parents), groups, tuple(levels))


@dataclass(frozen=True, eq=False)
class _Served:
    """Whom to pair.

    where
        rows       those to be paired
        hopeless   those for whom nobody is left, whoever is paired with whom
    """

    rows: Ints
    hopeless: Ints


def serve(ordered: Ints, fits: Fits, *, pairs: int) -> _Served:
    """Serve as many households as can be with at most so many pairs in all (-1: no limit).

    Of the choices that serve most it is the first in the order given: each is served if some such
    choice has it and all before it who are served.
    """
    trees = forest(fits, ordered)
    everyone, under = _all_who_stand(fits, ordered, trees)
    verdict = _serve(trees.node, trees.root, trees.parent, everyone, under, pairs)
    return _Served(ordered[verdict == 1], ordered[verdict == -1])


def alone(rows: Ints, fits: Fits) -> tuple[Ints, Ints]:
    """Groups, and the fewest of the rows in each that stay alone if paired among themselves."""
    trees = forest(fits, rows)
    return trees.groups, _alone(trees.node, trees.parent)[: len(trees.groups)]


def partners_for(rows: Ints, candidates: Ints, fits: Fits) -> Ints:
    """Candidates, first come first taken, with whom all of the rows can be paired."""
    trees = forest(fits, np.concatenate([rows, candidates]))
    taken = _add_partners(trees.node, trees.root, trees.parent, len(rows))
    return candidates[taken]


def couples_for(rows: Ints, candidates: Ints, fits: Fits, *, pairs: int) -> Ints:
    """Candidates, two by two of a group, that can be paired as well as all of the rows."""
    trees = forest(fits, np.concatenate([rows, candidates]))
    taken = _add_couples(trees.node, trees.root, trees.parent, len(rows), pairs)
    return candidates[taken]


def _all_who_stand(fits: Fits, rows: Ints, trees: _Forest) -> tuple[Ints, Ints]:
    """For each unit of some rows' trees all households at or below it, and below it.

    Whoever stands above the finest level must be among the rows.
    """
    units = len(trees.parent)
    everyone, under = np.zeros(units, dtype=np.int64), np.zeros(units, dtype=np.int64)
    under[trees.root] = group_sizes(fits.group, int(fits.group.max(initial=0)) + 1)[rows]
    sit = np.bincount(trees.node, minlength=units)
    for depth, (place, size) in enumerate(zip(fits.places, fits.sizes, strict=True)):
        stands = np.flatnonzero(fits.depth >= depth)
        code = fits.group[stands] * size + place[stands]
        lives = np.zeros(len(fits.group), dtype=np.int64)
        lives[stands] = group_sizes(code, int(code.max(initial=0)) + 1)
        at = np.flatnonzero(trees.levels[depth] >= 0)
        unit = trees.levels[depth][at]
        everyone[unit] = lives[rows[at]]
        if depth < len(fits.places) - 1:
            under[unit] = everyone[unit] - sit[unit]
    return everyone, under


@kernel(work=lambda node, *_: 100 * len(node))
def _serve(
    node: Ints, root: Ints, parent: Ints, everyone: Ints, under: Ints, pairs: int
) -> NDArray[np.int8]:
    """For each in turn: 1 served, 0 beyond the number of pairs, -1 no partner can be left for it.

    where
        sit, below, top     of those served: at the unit, below it, and the largest
                            alone_at(c) + all(c) of a child
        must, free, most    of everyone: those served at the unit, those below it who are not, and
                            the largest owing_at(c) + all(c) of a child
        rivals, beneath     those at risk at or below the unit, and below it
        needs, open, peak   as must, free and most, with partners at risk only
    """
    units, rows = len(parent), len(node)
    sit, below, top = _none(units), _none(units), _none(units)
    must, free, most = _none(units), under.copy(), _none(units)
    rivals, beneath = _none(units), _none(units)
    for unit in node:
        rivals[unit] += 1
    for unit in range(units - 1, -1, -1):
        if parent[unit] != unit:
            beneath[parent[unit]] += rivals[unit] + beneath[unit]
    rivals += beneath
    needs, open_, peak = _none(units), beneath.copy(), _none(units)
    among = (rows - np.sum(_alone(node, parent)[np.unique(root)])) // 2
    spare = max(pairs - among, 0) if pairs >= 0 else rows
    lacking = _none(units)
    lack, used = 0, 0
    verdict = np.zeros(rows, dtype=np.int8)
    for i in range(rows):
        unit, tree = node[i], root[i]
        if _owe(unit, parent, everyone, under, must, free, most, False) > 0:
            verdict[i] = -1
            continue
        short = _owe(unit, parent, rivals, beneath, needs, open_, peak, False)
        before = _left(below[tree], top[tree])
        more = (1 + _stand(unit, parent, sit, below, top, False) - before) // 2
        if lack + short - lacking[tree] > spare or (0 <= pairs < among and used + more > pairs):
            continue
        lack += short - lacking[tree]
        lacking[tree] = short
        used += more
        verdict[i] = 1
        _owe(unit, parent, everyone, under, must, free, most, True)
        _owe(unit, parent, rivals, beneath, needs, open_, peak, True)
        _stand(unit, parent, sit, below, top, True)
    return verdict


@njit
def _none(units: int) -> Ints:
    return np.zeros(units, dtype=np.int64)


@njit
def _left(below: int, top: int) -> int:
    """The fewest who stay alone below a unit."""
    return max(below & 1, top - below)


@njit
def _stand(unit: int, parent: Ints, sit: Ints, below: Ints, top: Ints, stay: bool) -> int:
    """How many of the group stay alone if one more stands at the unit; note it if it is to stay.

    A child's alone_at + all never falls when somebody is added, so the largest is kept up to date
    by looking at one child.
    """
    here, down, one = unit, below[unit], sit[unit] + 1
    left = _left(down, top[unit])
    while parent[here] != here:
        if stay:
            below[here], sit[here] = down, one
        child = left + down + 2 * one
        here = parent[here]
        down, one = below[here] + 1, sit[here]
        largest = max(top[here], child)
        left = _left(down, largest)
        if stay:
            top[here] = largest
    if stay:
        below[here] = down
    return left


@njit
def _owe(
    unit: int,
    parent: Ints,
    everyone: Ints,
    under: Ints,
    must: Ints,
    free: Ints,
    most: Ints,
    stay: bool,
) -> int:
    """How many of the group cannot be served if one more at the unit must be; note it likewise."""
    here, owing = unit, must[unit] + 1
    short = max(most[unit] - under[unit], 0)
    if free[unit] == 0:
        short = max(short, under[unit] & 1)
    if stay:
        must[unit] += 1
    while parent[here] != here:
        child = owing + short + everyone[here]
        here = parent[here]
        owing, others = must[here], free[here] - 1
        largest = max(most[here], child)
        short = max(largest - under[here], 0)
        if others == 0:
            short = max(short, under[here] & 1)
        if stay:
            free[here], most[here] = others, largest
    return int(short)


@kernel(work=lambda node, *_: 20 * len(node))
def _alone(node: Ints, parent: Ints) -> Ints:
    """For each unit the fewest who stay alone below it."""
    units = len(parent)
    sit, below, top = _none(units), _none(units), _none(units)
    for unit in node:
        _stand(unit, parent, sit, below, top, True)
    alone = np.empty(units, dtype=np.int64)
    for unit in range(units):
        alone[unit] = _left(below[unit], top[unit])
    return alone


@kernel(work=lambda node, *_: 30 * len(node))
def _add_partners(node: Ints, root: Ints, parent: Ints, rows: int) -> Ints:
    """Positions after the rows of those whom to add so that fewer stay alone, each in turn.

    Once of no use, always of no use: who helps lives outside a unit that can only grow.
    """
    units = len(parent)
    sit, below, top = _none(units), _none(units), _none(units)
    for i in range(rows):
        _stand(node[i], parent, sit, below, top, True)
    taken = np.empty(len(node) - rows, dtype=np.int64)
    many = 0
    for i in range(rows, len(node)):
        left = _left(below[root[i]], top[root[i]])
        if left > 0 and _stand(node[i], parent, sit, below, top, False) < left:
            _stand(node[i], parent, sit, below, top, True)
            taken[many] = i - rows
            many += 1
    return taken[:many]


@kernel(work=lambda node, *_: 30 * len(node))
def _add_couples(node: Ints, root: Ints, parent: Ints, rows: int, pairs: int) -> Ints:
    """Positions after the rows of those whom to add two by two, so that nobody stays alone.

    Those to add who are of one group stand at one unit (else they would have been paired), so a
    group that cannot take two of them is full.
    """
    units = len(parent)
    sit, below, top = _none(units), _none(units), _none(units)
    for i in range(rows):
        _stand(node[i], parent, sit, below, top, True)
    waiting = np.full(units, -1, dtype=np.int64)
    full = np.zeros(units, dtype=np.bool_)
    taken = np.empty(2 * pairs, dtype=np.int64)
    many = 0
    for i in range(rows, len(node)):
        if many == len(taken) or full[root[i]]:
            continue
        if waiting[root[i]] < 0:
            waiting[root[i]] = i
            _stand(node[i], parent, sit, below, top, True)
        elif _stand(node[i], parent, sit, below, top, False) > 0:
            full[root[i]] = True
        else:
            _stand(node[i], parent, sit, below, top, True)
            taken[many], taken[many + 1] = waiting[root[i]] - rows, i - rows
            many += 2
            waiting[root[i]] = -1
    return taken[:many]
