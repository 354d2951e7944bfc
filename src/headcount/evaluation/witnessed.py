"""The audit of a suppression pattern by its witnesses: plain additions and comparisons.

A primary cell c with threshold t is protected if, over all whole tables that agree with everything
published and hold 1 at least in every withheld cell,

    max x_c > t   and   max x_c - min x_c >= width

where a withheld cell that is 0 in truth, if there were one, counts as known. An attacker's linear
programs cannot show this: their intervals contain those of whole tables, and may be wider. A
witness can: it is a table of the kind, so it is enough to check that it is one. That somebody is
in a withheld cell is not hidden: zeros are published. Nothing here is used by the search that
found the witnesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Ints
from headcount.mechanisms.suppression.witnesses import Witnesses
from headcount.tabulate.additive import Additive

AT_ONCE = 2_000_000
"""Differences that are checked at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WitnessAudit:
    """Cells that no witness protects, and witnesses that are none.

    where
        primaries     how many cells are withheld for what they are
        witnesses     how many tables were checked
        wrong         tables that change something published, break a relation or leave less than 1
                      in a withheld cell: they show nothing
        unprotected   primary cells that the others do not show to be protected
        idle          secondary cells that are the same in all of them: they could be published
        zeros         cells withheld although they are 0, which tells the need of others
        lone          primary cells that somebody who is alone in another withheld cell, and knows
                      it, might work out: that cell changes in every witness in which they do. At
                      most so many can be worked out, since there may be tables besides the stored
    """

    primaries: int
    witnesses: int
    threshold: int
    width: int
    wrong: Ints
    unprotected: Ints
    idle: Ints
    zeros: Ints
    lone: Ints

    @property
    def clean(self) -> bool:
        """Whether every primary cell is protected, and nothing is amiss."""
        return not any(len(one) for one in (self.wrong, self.unprotected, self.idle, self.zeros))

    def to_json(self) -> dict[str, Any]:
        """Figures for the curator."""
        return {
            "witnesses": self.witnesses,
            "wrong_witnesses": len(self.wrong),
            "primary": self.primaries,
            "primary_unprotected": len(self.unprotected),
            "secondary_idle": len(self.idle),
            "zeros_withheld": len(self.zeros),
            "primary_lone_contributor": len(self.lone),
            "threshold": self.threshold,
            "width": self.width,
            "clean": self.clean,
        }

    def __str__(self) -> str:
        shown = self.primaries - len(self.unprotected)
        return (
            f"{shown:,} of {self.primaries:,} small counts have witnesses ({self.witnesses:,} "
            f"tables, {len(self.wrong):,} wrong) that they may exceed {self.threshold} and are "
            f"uncertain by {self.width}; {len(self.idle):,} others were withheld without need; at "
            f"most {len(self.lone):,} could be worked out by the only person in another withheld "
            "cell"
        )


def check_witnesses(
    additive: Additive,
    values: ArrayLike,
    *,
    withheld: ArrayLike,
    primary: ArrayLike,
    witnesses: Witnesses,
    threshold: int = 2,
    width: int = 3,
    published: ArrayLike | None = None,
) -> WitnessAudit:
    """Check every witness by arithmetic, and every primary cell by its witnesses.

    where
        values      true counts
        withheld    cells that nobody is shown
        published   cells that some table has; the others are nobody's secret and are neither
                    primary nor secondary. By default all
    """
    truth = np.asarray(values, dtype=np.int64)
    hidden, first = np.asarray(withheld, dtype=bool), np.asarray(primary, dtype=bool)
    shown = np.ones(len(truth), dtype=bool) if published is None else np.asarray(published)
    wrong = _wrong(additive, truth, hidden, witnesses)
    good = np.repeat(~wrong, np.diff(witnesses.start))
    most, least = np.zeros(len(truth), dtype=np.int64), np.zeros(len(truth), dtype=np.int64)
    np.maximum.at(most, witnesses.cell[good], witnesses.change[good])
    np.minimum.at(least, witnesses.cell[good], witnesses.change[good])
    protected = hidden & (truth + most > threshold) & (most - least >= width)
    return WitnessAudit(
        primaries=int(first.sum()),
        witnesses=len(witnesses),
        threshold=threshold,
        width=width,
        wrong=np.flatnonzero(wrong),
        unprotected=np.flatnonzero(first & ~protected),
        idle=np.flatnonzero(hidden & shown & ~first & (truth > 0) & (most == least)),
        zeros=np.flatnonzero(hidden & shown & (truth == 0)),
        lone=_lone(additive, truth, first, witnesses, good),
    )


def _wrong(additive: Additive, truth: Ints, hidden: Flags, witnesses: Witnesses) -> Flags:
    """Which witnesses are no tables that an attacker has to reckon with."""
    wrong = np.zeros(len(witnesses), dtype=bool)
    number = np.repeat(np.arange(len(witnesses)), np.diff(witnesses.start))
    cell, change = witnesses.cell, witnesses.change
    amiss = ~hidden[cell] | (truth[cell] < 1) | (truth[cell] + change < 1) | (change == 0)
    order = np.lexsort((cell, number))
    twice = (np.diff(number[order]) == 0) & (np.diff(cell[order]) == 0)
    wrong[number[amiss]] = True
    wrong[number[order][1:][twice]] = True
    for some in _pieces(witnesses):
        wrong[number[some][_broken(additive, number[some], cell[some], change[some])]] = True
    return wrong


def _pieces(witnesses: Witnesses) -> Iterator[slice]:
    """Whole witnesses, some millions of differences at a time."""
    first = 0
    while first < len(witnesses):
        at_most = witnesses.start[first] + AT_ONCE
        end = max(int(np.searchsorted(witnesses.start, at_most, side="right")) - 1, first + 1)
        yield slice(int(witnesses.start[first]), int(witnesses.start[end]))
        first = end


def _broken(additive: Additive, number: Ints, cell: Ints, change: Ints) -> Ints:
    """Differences that stand in a relation whose total and parts no longer agree."""
    parts = np.diff(additive.start)
    member = np.concatenate([additive.part, additive.total])
    relation = np.concatenate([np.repeat(np.arange(len(parts)), parts), np.arange(len(parts))])
    sign = np.repeat([1, -1], [len(additive.part), len(additive.total)])
    order = np.argsort(member, kind="stable")
    first = np.searchsorted(member[order], np.arange(additive.size + 1))
    many = first[cell + 1] - first[cell]
    entry = np.repeat(np.arange(len(cell)), many)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(many) - many, many)
    use = order[first[cell][entry] + within]
    key = number[entry] * np.int64(max(len(parts), 1)) + relation[use]
    sorting = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[sorting], prepend=-1))
    sums = np.add.reduceat((sign[use] * change[entry])[sorting], starts) if len(starts) else key
    bad = starts[sums != 0]
    return np.asarray(entry[sorting][bad])


def _lone(
    additive: Additive, truth: Ints, primary: Flags, witnesses: Witnesses, good: Flags
) -> Ints:
    """Primary cells that change only together with one other cell of one person."""
    from scipy.sparse import csr_matrix

    number = np.repeat(np.arange(len(witnesses)), np.diff(witnesses.start))[good]
    cell = witnesses.cell[good]
    shape = (len(witnesses), len(truth))

    def changed(some: Flags) -> Any:
        return csr_matrix((some.astype(np.int64), (number, cell)), shape=shape)

    together = (changed(primary[cell]).T @ changed(truth[cell] == 1)).tocoo()
    people = _same_people(additive, truth)
    all_of = np.bincount(cell[primary[cell]], minlength=len(truth))
    always = (together.data == all_of[together.row]) & (together.data > 0)
    always &= people[together.row] != people[together.col]
    return np.unique(together.row[always]).astype(np.int64)


def _same_people(additive: Additive, truth: Ints) -> Ints:
    """The same number for cells that count the same people: a total and its only part above 0."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    parts = np.diff(additive.start)
    total = np.repeat(additive.total, parts)
    relation = np.repeat(np.arange(len(parts)), parts)
    lived = truth[additive.part] > 0
    only = lived & (np.bincount(relation[lived], minlength=len(parts))[relation] == 1)
    edges = (np.ones(int(only.sum())), (total[only], additive.part[only]))
    graph = coo_matrix(edges, shape=(additive.size, additive.size))
    return np.asarray(connected_components(graph, directed=False)[1])
