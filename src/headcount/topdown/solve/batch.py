"""The problems of many parents, side by side in flat arrays: what every solver works on.

With what an answer adds up to, how far it is from feasible, and how parents are shared by threads.
And the forests of groups of cells that nest, bounds or the queries of a pass: only where groups are
laminar (of two, one holds the other, or they share nothing) is rounding a network problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32

NO_BOUND = np.int64(2**53)
"""A bound that never binds: |bound| >= NO_BOUND means there is none."""


class BatchArrays(NamedTuple):
    """The arrays of a batch as one argument of compiled loops; see ``Batch``.

    Bounds are real in least squares and integers in rounding.
    """

    cell_start: Ints
    cell: Ints32
    total: Ints
    child_start: Ints
    var_start: Ints
    var_child: Ints32
    answer: Floats
    weight: Floats
    family_start: Ints
    bound_start: Ints
    group: Ints32
    family_weight: Floats
    margin: Floats
    low: Ints | Floats
    high: Ints | Floats
    is_root: bool
    joint: Ints32
    joint_total: Ints

    def variables(self, parents: Ints) -> int:
        """How many variables some parents have."""
        first = self.var_start[self.cell_start]
        return int((first[parents + 1] - first[parents]).sum())


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """For each parent: share its counts among its children, close to the noisy answers.

    The unknowns of a parent are x[i, c] >= 0 for its kept cells i and its children c,

        minimise    sum over c of weight[c] * sum (x[i, c] - answer[i, c])^2
                    + sum over families f of family_weight[c, f] * sum (m_f[g, c] - margin[g, c])^2
        subject to  sum over c of x[i, c] = total[i]              (not for the root)
                    low[g, c] <= m_f[g, c] <= high[g, c]
                    sum of x[i, c] over all i and over the children c of group j = joint_total[j]

    where
        m_f[g, c]   the sum of x[i, c] over the cells i that family f puts into group g
        a family    is a partition of the schema's cells into groups: a marginal. It may be
                    measured (family_weight > 0), bounded (low, high), or both
        a weight    of 0 means not measured: each child has its own

    Arrays, for P parents, E kept entries (cells of parents), C children, V variables, F families,
    S groups of all families together and B groups of the bounded ones:

        parent       int64[P]      the parent's number in its level, for errors
        cell_start   int64[P+1]    parent p keeps the entries cell_start[p] : cell_start[p+1]
        cell         int32[E]      schema cell of each entry
        total        int64[E]      the parent's count there
        child_start  int64[P+1]    parent p has the children child_start[p] : child_start[p+1]
        var_start    int64[E+1]    entry e has the variables var_start[e] : var_start[e+1]
        var_child    int32[V]      child of each variable, ascending within an entry; a child in
                                   which the cell must be empty has no variable
        answer       float64[V]    noisy detailed answer of each variable
        weight       float64[C]    of the detailed answers, child by child
        family_start int64[F+1]    family f owns the columns family_start[f] : family_start[f+1]
        group        int32[F, n]   for each family, the group (0 ...) of each schema cell
        family_weight float64[C, F]
        margin       float64[C, S] noisy answers of the families, child by child; those of groups
                                   that no variable is in are not looked at
        low, high    int64[C, B]   bounds; NO_BOUND and beyond are none
        bound_start  int64[F+1]    family f owns the columns bound_start[f] : bound_start[f+1] of
                                   low and high, none if it has no bounds; by default each has
        is_root      the one problem without a parent: no sums to keep

    and, where there are any,

        band         for some families float64[2, C, groups of the family]: real bounds besides
                     low and high, around the answers of an earlier pass; for least squares alone,
                     rounding has no use for them
        joint        int32[C]      the group of siblings whose people are counted together, -1 for
                                   none: a total that belongs to several children
        joint_total  int64[J]      that total
        forest       how the bounded groups nest, decided for all problems of a level, lest it
                     matter which of them are in a batch; None to work it out from this batch
    """

    parent: Ints
    cell_start: Ints
    cell: Ints32
    total: Ints
    child_start: Ints
    var_start: Ints
    var_child: Ints32
    answer: Floats
    weight: Floats
    family_start: Ints
    group: Ints32
    family_weight: Floats
    margin: Floats
    low: Ints
    high: Ints
    bound_start: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    is_root: bool = False
    band: Mapping[int, Floats] = field(default_factory=dict)
    joint: Ints32 = field(default_factory=lambda: np.zeros(0, np.int32))
    joint_total: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    forest: Nesting | None = None

    def __post_init__(self) -> None:
        if not len(self.bound_start):
            object.__setattr__(self, "bound_start", self.family_start)

    @property
    def bounded(self) -> Flags:
        """Which families have bounds."""
        return np.diff(self.bound_start) > 0

    @property
    def limited(self) -> Ints:
        """The families with bounds or a band: what can limit least squares."""
        held = np.isin(np.arange(len(self.group)), list(self.band))
        return np.flatnonzero(self.bounded | held)

    def bounds_by_group(self, families: Ints | None = None) -> tuple[Ints, Ints]:
        """Lower and upper bounds of the groups of some families side by side, int64[C, groups].

        By default of all families: int64[C, S].
        """
        chosen = np.arange(len(self.group)) if families is None else families
        lows, highs = [np.zeros((len(self.low), 0), np.int64)], [np.zeros((len(self.low), 0), int)]
        for f in chosen:
            own = slice(self.bound_start[f], self.bound_start[f + 1])
            size = int(self.family_start[f + 1] - self.family_start[f])
            free = np.full((len(self.low), 0 if self.bounded[f] else size), NO_BOUND)
            lows += [self.low[:, own], -free]
            highs += [self.high[:, own], free]
        return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)

    @property
    def entry(self) -> Ints:
        """The entry of each variable."""
        return _owner(self.var_start)

    @property
    def parents(self) -> int:
        """Number of problems."""
        return len(self.parent)

    @property
    def arrays(self) -> BatchArrays:
        """What compiled loops read."""
        return BatchArrays(*(getattr(self, name) for name in BatchArrays._fields))

    def limits(self, families: Ints | None = None) -> tuple[Floats, Floats]:
        """The bounds of least squares, as ``bounds_by_group``: within the band if there is one."""
        chosen = np.arange(len(self.group)) if families is None else families
        low, high = (bound.astype(np.float64) for bound in self.bounds_by_group(chosen))
        first = 0
        for f in chosen:
            own = slice(first, first + int(self.family_start[f + 1] - self.family_start[f]))
            if f in self.band:
                low[:, own] = np.maximum(low[:, own], self.band[f][0])
                high[:, own] = np.minimum(high[:, own], self.band[f][1])
            first = own.stop
        return low, high

    def one(self, p: int) -> Batch:
        """The problem of one parent, as a batch of its own."""
        cells = slice(self.cell_start[p], self.cell_start[p + 1])
        kids = slice(self.child_start[p], self.child_start[p + 1])
        first, last = self.var_start[cells.start], self.var_start[cells.stop]
        return replace(
            self,
            parent=self.parent[p : p + 1],
            cell_start=self.cell_start[p : p + 2] - cells.start,
            cell=self.cell[cells],
            total=self.total[cells],
            child_start=self.child_start[p : p + 2] - kids.start,
            var_start=self.var_start[cells.start : cells.stop + 1] - first,
            var_child=self.var_child[first:last] - np.int32(kids.start),
            answer=self.answer[first:last],
            weight=self.weight[kids],
            family_weight=self.family_weight[kids],
            margin=self.margin[kids],
            low=self.low[kids],
            high=self.high[kids],
            band={f: around[:, kids] for f, around in self.band.items()},
            joint=self.joint[kids],
        )

    def __iter__(self) -> Iterator[Batch]:
        return (self.one(p) for p in range(self.parents))


def map_parents(work: Callable[[Ints], None], batch: Batch, parents: Ints, *, threads: int) -> None:
    """Call work(some parents) on as many threads as asked; kernels let go of the interpreter.

    Python's threads rather than numba's: they may be used from threads, and half the compiling.
    Pieces have about equal numbers of variables, the largest parents first.
    """
    if threads <= 1 or len(parents) < 2:
        work(parents)
        return
    size = np.diff(batch.var_start[batch.cell_start])[parents]
    order = np.argsort(-size, kind="stable")
    done = np.cumsum(size[order])
    piece = max(int(done[-1]) // 64, 1)
    pieces = np.split(parents[order], np.flatnonzero(np.diff(done // piece)) + 1)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, pieces))


Amounts = Floats | Ints


def margins(batch: Batch, x: Amounts) -> Floats:
    """The families' marginals of an answer, float64[C, S] as in the batch."""
    made = [family_margins(batch, x, f) for f in range(len(batch.group))]
    return np.concatenate([np.zeros((len(batch.margin), 0)), *made], axis=1)


def family_margins(batch: Batch, x: Amounts, family: int) -> Floats:
    """One family's marginals of an answer, float64[C, groups]."""
    kids, size = len(batch.margin), int(np.diff(batch.family_start)[family])
    cell = np.repeat(batch.group[family, batch.cell], np.diff(batch.var_start))
    at = batch.var_child.astype(np.int64) * size + cell
    sums = np.asarray(np.bincount(at, x, kids * size), np.float64)
    return sums.reshape(kids, size)


def violation(batch: Batch, x: Amounts) -> Floats:
    """The largest violation of any constraint of each parent, in persons, float64[P]."""
    worst = np.zeros(batch.parents)
    first_var = batch.var_start[batch.cell_start]
    np.maximum.at(worst, _owner(first_var), np.maximum(-x, 0.0))
    if not batch.is_root:
        gap = np.abs(_per_parent(x, batch.var_start) - batch.total)
        np.maximum.at(worst, _owner(batch.cell_start), gap)
    have = margins(batch, x)
    if len(batch.joint):
        people, grouped = np.bincount(batch.var_child, x, len(batch.joint)), batch.joint >= 0
        sums = np.bincount(batch.joint[grouped], people[grouped], len(batch.joint_total))
        gap = np.abs(sums - batch.joint_total)[batch.joint[grouped]]
        np.maximum.at(worst, _owner(batch.child_start)[grouped], gap)
    if have.size:
        low, high = batch.limits()
        under = np.where(low > -NO_BOUND, low - have, 0.0)
        over = np.where(high < NO_BOUND, have - high, 0.0)
        child = np.maximum(np.maximum(under, over).max(axis=1), 0.0)
        np.maximum.at(worst, _owner(batch.child_start), child)
    return worst


def _owner(start: Ints) -> Ints:
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _per_parent(values: Amounts, start: Ints) -> Floats:
    """Sums over the stretches start[k] : start[k+1], the empty ones 0; exact where the values are.

    Not a difference of running sums: that would carry the rounding of everything before.
    """
    return np.asarray(np.bincount(_owner(start), values, len(start) - 1), np.float64)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A constraint that an answer breaks, by its place and never by a count.

    kind    "negative", "sum" (children do not add up to their parent), "low", "high", or "joint"
            (several children do not have their total together)
    parent  the parent's number in its level
    index   the parent's place in the batch
    cell    schema cell, or kept margin, for "negative" and "sum"; else -1
    child   the child's number among all children of the batch, the first for "joint"; -1 for "sum"
    family, group   the bounded group for "low" and "high"; else -1
    """

    kind: str
    parent: int
    index: int
    cell: int = -1
    child: int = -1
    family: int = -1
    group: int = -1

    def __str__(self) -> str:
        """The constraint in words."""
        if self.kind == "sum":
            return f"parent {self.parent}: cell {self.cell}: sum of the children not kept"
        if self.kind == "negative":
            return f"parent {self.parent}: child {self.child}: cell {self.cell}: negative"
        if self.kind == "joint":
            return f"parent {self.parent}: child {self.child}: total together with others not kept"
        side = "lower" if self.kind == "low" else "upper"
        where = f"group {self.group} of family {self.family}"
        return f"parent {self.parent}: child {self.child}: {side} bound of {where} not kept"


def violations(batch: Batch, counts: Ints, *, keep: Ints32 | None = None) -> list[Violation]:
    """Every constraint that an answer breaks: none, if all is well.

    ``keep`` numbers the margin, for each schema cell, in which children must add up to their
    parent; by default every cell of its own.
    """
    if counts.dtype != np.int64 or counts.shape != batch.var_child.shape:
        raise TypeError(
            f"counts: found {counts.dtype}{list(counts.shape)}, "
            f"expected int64{list(batch.var_child.shape)}"
        )
    entry = np.repeat(np.arange(len(batch.cell)), np.diff(batch.var_start))
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.cell_start))
    return [
        *_negatives(batch, counts, entry, owner),
        *([] if batch.is_root else _sums(batch, counts, owner, keep)),
        *_bounds(batch, counts, entry),
        *_joint(batch, counts),
    ]


def _joint(batch: Batch, counts: Ints) -> list[Violation]:
    lacking = batch.joint_total.copy()
    member = np.full(len(batch.var_child), -1)
    if len(batch.joint):
        member = batch.joint[batch.var_child].astype(np.int64)
    np.subtract.at(lacking, member[member >= 0], counts[member >= 0])
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.child_start))
    found = []
    for j in np.flatnonzero(lacking):
        children = np.flatnonzero(batch.joint == j)
        if len(children):
            p = int(owner[children[0]])
            parent = int(batch.parent[p])
            found.append(Violation(kind="joint", parent=parent, index=p, child=int(children[0])))
    return found


def _negatives(batch: Batch, counts: Ints, entry: Ints, owner: Ints) -> list[Violation]:
    return [
        Violation(
            kind="negative",
            parent=int(batch.parent[owner[entry[v]]]),
            index=int(owner[entry[v]]),
            cell=int(batch.cell[entry[v]]),
            child=int(batch.var_child[v]),
        )
        for v in np.flatnonzero(counts < 0)
    ]


def _sums(
    batch: Batch,
    counts: Ints,
    owner: Ints,
    keep: Ints32 | None,
) -> list[Violation]:
    size = batch.group.shape[1] if keep is None else int(keep.max()) + 1
    name = batch.cell if keep is None else keep[batch.cell]
    place = owner * size + name
    running = np.concatenate([[0], np.cumsum(counts)])
    shared = running[batch.var_start[1:]] - running[batch.var_start[:-1]]
    lacking = np.zeros(batch.parents * size, dtype=np.int64)
    np.add.at(lacking, place, batch.total - shared)
    return [
        Violation(
            kind="sum",
            parent=int(batch.parent[k // size]),
            index=int(k // size),
            cell=int(k % size),
        )
        for k in np.flatnonzero(lacking)
    ]


def _bounds(batch: Batch, counts: Ints, entry: Ints) -> list[Violation]:
    owner = np.repeat(np.arange(batch.parents), np.diff(batch.child_start))
    found = []
    for family, group in enumerate(batch.group):
        columns = slice(batch.bound_start[family], batch.bound_start[family + 1])
        low, high = batch.low[:, columns], batch.high[:, columns]
        has_low, has_high = low > -NO_BOUND, high < NO_BOUND
        if not (has_low.any() or has_high.any()):
            continue
        flat = np.zeros(low.size, dtype=np.int64)
        place = batch.var_child.astype(np.int64) * low.shape[1] + group[batch.cell[entry]]
        np.add.at(flat, place, counts)
        margin = flat.reshape(low.shape)
        broken = {"low": has_low & (margin < low), "high": has_high & (margin > high)}
        found += [
            Violation(
                kind=kind,
                parent=int(batch.parent[owner[c]]),
                index=int(owner[c]),
                child=int(c),
                family=family,
                group=int(g),
            )
            for kind, where in broken.items()
            for c, g in zip(*np.nonzero(where), strict=True)
        ]
    return found


Partition = Ints32
"""For each schema cell the number of its group, from 0; -1 for no group."""


class Nesting(NamedTuple):
    """The bounded groups of a level as a forest: of two groups one holds the other or none.

    The matrix of "sum over children" rows and of such a forest of rows within each child is a
    network matrix, so the linear relaxation of rounding has integral vertices (Hoffman and
    Kruskal 1956). Groups that cross an earlier group of the forest are left out of it.

        column    int32[T]   the column of ``low`` and ``high`` of each node of the forest; a node
                             comes after every node that holds it
        above     int32[T]   the smallest node that holds this one, -1 for none
        leaf      int32[n]   for each schema cell the smallest node that holds it, -1 for none
        left_out  int64[L]   bounded columns that cross the forest
    """

    column: Ints
    above: Ints32
    leaf: Ints32
    left_out: Ints

    @property
    def nested(self) -> bool:
        """Whether the forest holds every bounded group: rounding is a network problem."""
        return len(self.left_out) == 0


def nesting(batch: Batch) -> Nesting:
    """How the bounded groups of a batch nest: as decided for its level, or as it is here."""
    if batch.forest is not None:
        return batch.forest
    return forest_of(bounded_columns(batch), group=batch.group, bound_start=batch.bound_start)


def forest_of(bounded: Ints, *, group: Ints32, bound_start: Ints) -> Nesting:
    """Sort the bounded groups into a forest and what crosses it.

    where
        bounded      the columns of ``low`` and ``high`` in which some bound can bind
        group        for each family, the group of each schema cell
        bound_start  where each family's columns begin
    """
    where = bound_column(group, bound_start)
    overlap = _overlaps(where, bounded, int(bound_start[-1]))
    size = overlap.diagonal()
    crossing = (overlap > 0) & (overlap < np.minimum(size[:, None], size[None, :]))
    taken = np.ones(len(bounded), dtype=bool)
    if crossing.any():
        taken[:] = False
        for k in range(len(bounded)):
            taken[k] = not crossing[k, taken].any()
    chosen = np.flatnonzero(taken)
    chosen = chosen[np.argsort(-size[chosen], kind="stable")]
    above, leaf = _forest(where, bounded[chosen], overlap[np.ix_(chosen, chosen)])
    return Nesting(
        column=bounded[chosen].astype(np.int64),
        above=above,
        leaf=leaf,
        left_out=bounded[~taken].astype(np.int64),
    )


def bounded_columns(batch: Batch) -> Ints:
    """The columns in which some child has a bound that can bind."""
    return np.flatnonzero(((batch.low > 0) | (batch.high < NO_BOUND)).any(axis=0))


def bound_column(group: Ints32, bound_start: Ints) -> Ints:
    """For each family and schema cell, the column of its group's bounds; -1 if it has none."""
    bounded = np.diff(bound_start) > 0
    return np.where(bounded[:, None], group + bound_start[:-1, None], -1)


def rank_of(columns: Ints, many: int) -> Ints:
    """The place of each of so many columns among the chosen ones; -1 for others, and for -1."""
    rank = np.full(many + 1, -1, dtype=np.int64)
    rank[columns] = np.arange(len(columns))
    return rank


def locate(batch: Batch, column: int) -> tuple[int, int]:
    """Family and group of a column of bounds."""
    family = int(np.searchsorted(batch.bound_start, column, side="right")) - 1
    return family, int(column - batch.bound_start[family])


def _overlaps(where: Ints, columns: Ints, many: int) -> Ints:
    """How many cells each two of the groups share."""
    families, cells = where.shape
    row = rank_of(columns, many)[where]
    held = row >= 0
    member = np.zeros((len(columns), cells), dtype=np.float32)
    member[row[held], np.broadcast_to(np.arange(cells), (families, cells))[held]] = 1
    return (member @ member.T).astype(np.int64)  # exact: far fewer than 2^24 cells


def _forest(where: Ints, columns: Ints, overlap: Ints) -> tuple[Ints32, Ints32]:
    """Link groups, given from large to small, to the smallest group that holds them."""
    above = np.full(len(columns), -1, dtype=np.int32)
    leaf = np.full(where.shape[1], -1, dtype=np.int32)
    for k, column in enumerate(columns):
        holders = np.flatnonzero(overlap[k, :k] == overlap[k, k])
        if len(holders):
            above[k] = holders[-1]
        leaf[(where == column).any(axis=0)] = k
    return above, leaf


class ChainForest(NamedTuple):
    """The groups of a rounding pass as a forest: of two groups one holds the other, or none.

    above    int32[T]   the smallest group that holds this one, -1 for none
    leaf     int32[n]   for each schema cell the smallest group that holds it, -1 for none
    column   int64[T]   of each group in ``low`` and ``high``; -1 without bounds
    queries  int64[T]   how many queries of the pass have this group
    by_cell  how many queries of the pass are the cells themselves
    low, high   int64[C, B]   the batch's bounds, and the integers of earlier passes
    """

    above: Ints32
    leaf: Ints32
    column: Ints
    queries: Ints
    by_cell: int
    low: Ints
    high: Ints


class _Layer(NamedTuple):
    """A partition with the columns that hold its groups' bounds (-1: none), in a pass or not."""

    group: Partition
    column: Ints
    counts: bool


def chain_forest(
    batch: Batch, queries: Sequence[Partition], held: Sequence[tuple[Partition, Ints]]
) -> ChainForest | None:
    """The forest of a pass's queries, the batch's bounds and earlier queries; None if they cross.

    ``held`` has partitions of earlier passes and their integers, int64[C, groups].
    """
    cells = batch.group.shape[1]
    layers, low, high, used = [], [], [], 0
    for f, columns in _bounded_families(batch):
        first = batch.bound_start[f]
        number = np.full(int(batch.bound_start[f + 1] - first), -1)
        number[columns - first] = np.arange(len(columns))
        layers.append(_Layer(number[batch.group[f]], used + np.arange(len(columns)), False))
        low.append(batch.low[:, columns])
        high.append(batch.high[:, columns])
        used += len(columns)
    for group, integers in held:
        layers.append(_Layer(group, used + np.arange(integers.shape[1]), False))
        low.append(integers)
        high.append(integers)
        used += integers.shape[1]
    singles = [_is_by_cell(group) for group in queries]
    for group, single in zip(queries, singles, strict=True):
        if not single:
            layers.append(_Layer(group, np.full(int(group.max()) + 1, -1), True))
    grown = _grown(layers, cells)
    if grown is None:
        return None
    kids = len(batch.low)
    return ChainForest(
        *grown,
        by_cell=sum(singles),
        low=np.ascontiguousarray(np.concatenate([np.zeros((kids, 0), np.int64), *low], axis=1)),
        high=np.ascontiguousarray(np.concatenate([np.zeros((kids, 0), np.int64), *high], axis=1)),
    )


def nest(partitions: Sequence[Partition]) -> bool:
    """Whether of any two groups of some partitions one holds the other, or they share no cell."""
    layers = [_Layer(one, np.full(int(one.max()) + 1, -1), True) for one in partitions]
    return _grow(layers, len(partitions[0])) is not None


def _is_by_cell(group: Partition) -> bool:
    """Whether every group of a partition is one cell."""
    return int(group.max()) + 1 == len(group) and bool(np.bincount(group).all())


def _bounded_families(batch: Batch) -> list[tuple[int, Ints]]:
    """The families with bounds that can bind, each with its bounded columns."""
    columns = bounded_columns(batch)
    if batch.forest is not None:  # decided for the whole level
        columns = np.sort(np.concatenate([batch.forest.column, batch.forest.left_out]))
    family = np.searchsorted(batch.bound_start, columns, side="right") - 1
    return [(int(f), columns[family == f]) for f in np.unique(family)]


def _grown(layers: Sequence[_Layer], cells: int) -> tuple[Ints32, Ints32, Ints, Ints] | None:
    """As ``_grow``; batches of one level have the same layers, and share what was grown once."""
    return _grow_once(
        tuple(layer.group.astype(np.int32, copy=False).tobytes() for layer in layers),
        tuple(layer.column.tobytes() for layer in layers),
        tuple(layer.counts for layer in layers),
        cells,
    )


@lru_cache(maxsize=16)
def _grow_once(
    groups: tuple[bytes, ...], columns: tuple[bytes, ...], counts: tuple[bool, ...], cells: int
) -> tuple[Ints32, Ints32, Ints, Ints] | None:
    parts = zip(groups, columns, counts, strict=True)
    return _grow(
        [_Layer(np.frombuffer(a, np.int32), np.frombuffer(b, np.int64), c) for a, b, c in parts],
        cells,
    )


def _grow(layers: Sequence[_Layer], cells: int) -> tuple[Ints32, Ints32, Ints, Ints] | None:
    """Order the groups that hold each cell from large to small, and link each to the one before.

    Groups nest exactly when each group has the same one before it in all its cells: of two groups
    that cross, some cells of the smaller have the larger before them and some have not, and the
    first difference shows.
    """
    if not any(len(layer.column) for layer in layers):
        none = np.zeros(0, np.int64)
        return none.astype(np.int32), np.full(cells, -1, np.int32), none, none
    first = np.concatenate([[0], np.cumsum([len(layer.column) for layer in layers])])
    node = np.stack(
        [np.where(a.group >= 0, a.group + k, -1) for a, k in zip(layers, first, strict=False)]
    )
    size = np.bincount(node[node >= 0], minlength=int(first[-1]))
    order = np.argsort(np.where(node >= 0, -size[node], 1), axis=0, kind="stable")
    path = np.take_along_axis(node, order, axis=0)  # each cell's groups, from large to small
    before = np.concatenate([np.full((1, cells), -1), path[:-1]])
    above = np.full(int(first[-1]), -2)
    held = path >= 0
    above[path[held][::-1]] = before[held][::-1]  # the first cell decides
    if (above[path[held]] != before[held]).any():
        return None
    leaf = np.full(cells, -1)
    for row in path:
        leaf = np.where(row >= 0, row, leaf)
    rank = np.argsort(-size, kind="stable")  # numbers from large to small: holders come first
    number = np.empty(len(rank) + 1, np.int64)
    number[rank], number[-1] = np.arange(len(rank)), -1
    above = np.where(above < -1, -1, above)  # a group without cells
    return (
        number[above[rank]].astype(np.int32),
        number[leaf].astype(np.int32),
        np.concatenate([layer.column for layer in layers])[rank],
        np.concatenate([np.full(len(a.column), int(a.counts)) for a in layers])[rank],
    )
