"""Cells that no query of a pass and no bound tells apart, taken together as one. Loads numba."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.compiled import kernel
from headcount.topdown.solve._ssn import threshold
from headcount.topdown.solve.batch import NO_BOUND, Batch, BatchArrays


@dataclass(frozen=True, eq=False, kw_only=True)
class Coarse:
    """A batch without detail, with fewer entries, and how its answers spread over the cells.

    Entries of a parent with the same groups in every family that counts, and with the same
    children, are exchangeable: the batch asks for their sum alone, and any share of that sum in
    proportion to the entries' totals keeps every constraint.

    where
        source   the coarse variable behind each of the fine batch
        share    the part of it that the variable gets
    """

    batch: Batch
    source: Ints
    share: Floats

    def spread(self, x: Floats) -> Floats:
        """An answer of the coarse batch over the variables of the fine one."""
        return x[self.source] * self.share


def coarsen(batch: Batch) -> Coarse:
    """The batch of a pass without detail, one entry for all cells that it cannot tell apart."""
    used = _families_that_count(batch)
    kind = np.zeros(batch.group.shape[1], np.int64)
    if len(used):
        kind = np.unique(batch.group[used], axis=1, return_inverse=True)[1].ravel()
    number, first, cell_start = group_entries(
        batch.cell_start, kind[batch.cell], int(kind.max()) + 1, batch.var_start, batch.var_child
    )
    sizes = np.diff(batch.var_start)[first]
    var_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    taken = np.repeat(batch.var_start[first] - var_start[:-1], sizes) + np.arange(var_start[-1])
    total = np.zeros(len(first), np.int64)
    np.add.at(total, number, batch.total)
    together = np.bincount(number, minlength=len(first))
    share = batch.total / np.maximum(total, 1)[number]
    if batch.is_root:
        share = 1.0 / together[number]
    entry = np.repeat(np.arange(len(batch.cell)), np.diff(batch.var_start))
    within = np.arange(len(batch.var_child)) - batch.var_start[entry]
    small = _with_families(batch, used)
    small = replace(
        small,
        cell_start=cell_start,
        cell=batch.cell[first],
        total=total,
        var_start=var_start,
        var_child=batch.var_child[taken],
        answer=np.zeros(len(taken)),
    )
    return Coarse(batch=small, source=var_start[number[entry]] + within, share=share[entry])


def shares_by_totals(batch: Batch) -> Floats | None:
    """Shares of every entry by the totals nearest to the noisy ones: where to begin, float64[V].

    For a batch in which the total of each child is measured and nothing else; None for others.
    """
    measured = (batch.family_weight > 0).sum(axis=0)
    (weighed,) = np.nonzero(measured)
    sizes = np.diff(batch.family_start)[weighed]
    if batch.is_root or sizes.tolist() != [1] or measured[weighed[0]] < len(batch.margin):
        return None
    out = np.zeros(len(batch.var_child))
    share_by_totals(batch.arrays, int(weighed[0]), out)
    return out


def _families_that_count(batch: Batch) -> Ints:
    """Those with a weight, or with a bound or a band in some child."""
    bound = []
    for f in batch.limited:
        low, high = batch.limits(np.array([f]))
        if (low > -NO_BOUND).any() or (high < NO_BOUND).any():
            bound.append(f)
    measured = np.flatnonzero((batch.family_weight != 0).any(axis=0))
    return np.union1d(measured, np.array(bound, dtype=np.int64))


def _with_families(batch: Batch, used: Ints) -> Batch:
    """The batch with some of its families alone."""
    sizes = np.diff(batch.family_start)
    low, high = batch.bounds_by_group(used)
    family_start = np.concatenate([[0], np.cumsum(sizes[used])]).astype(np.int64)
    columns = np.flatnonzero(np.repeat(np.isin(np.arange(len(sizes)), used), sizes))
    return replace(
        batch,
        family_start=family_start,
        bound_start=family_start,
        forest=None,
        group=batch.group[used],
        family_weight=np.ascontiguousarray(batch.family_weight[:, used]),
        margin=np.ascontiguousarray(batch.margin[:, columns]),
        low=low,
        high=high,
        band={k: batch.band[f] for k, f in enumerate(used) if f in batch.band},
    )


@kernel
def group_entries(
    cell_start: Ints, kind: Ints, kinds: int, var_start: Ints, var_child: Ints32
) -> tuple[Ints, Ints, Ints]:
    """Number the groups of entries of one parent, one kind and the same children.

    Returns each entry's group, each group's first entry, and where each parent's groups begin.
    """
    entries = kind.size
    number, first = np.empty(entries, np.int64), np.empty(entries, np.int64)
    start, following = np.zeros(cell_start.size, np.int64), np.empty(entries, np.int64)
    head, used = np.full(kinds, -1, np.int64), 0
    for p in range(cell_start.size - 1):
        for e in range(cell_start[p], cell_start[p + 1]):
            size, k = var_start[e + 1] - var_start[e], head[kind[e]]
            while k >= 0:
                f = first[k]
                same = var_start[f + 1] - var_start[f] == size
                for i in range(size if same else 0):
                    same = same and var_child[var_start[f] + i] == var_child[var_start[e] + i]
                if same:
                    break
                k = following[k]
            if k < 0:
                k, first[used], following[used] = used, e, head[kind[e]]
                head[kind[e]] = used
                used += 1
            number[e] = k
        for e in range(cell_start[p], cell_start[p + 1]):
            head[kind[e]] = -1
        start[p + 1] = used
    return number, first[:used], start


@kernel
def share_by_totals(b: BatchArrays, family: int, out: Floats) -> None:
    """The totals t >= 0 with the least sum of weight (t - margin)^2, and entries shared by them.

    The totals of a parent's children add up to its own, and those of children that have a total
    together to that: t = max(margin - tau / weight, 0), where tau is the same for all of these.
    """
    weight, margin = b.family_weight[:, family], b.margin[:, b.family_start[family]]
    for p in range(b.child_start.size - 1):
        kids, end = b.child_start[p], b.child_start[p + 1]
        left = float(b.total[b.cell_start[p] : b.cell_start[p + 1]].sum())
        wanted, done = np.zeros(end - kids), np.zeros(end - kids, np.bool_)
        # Those without a total together come last, with what the others leave.
        for turn in range(2):
            for c in range(kids, end):
                j = b.joint[c] if b.joint.size > 0 else -1
                if done[c - kids] or (j >= 0) != (turn == 0):
                    continue
                own = np.empty(end - kids, np.int64)
                many = 0
                for k in range(c, end):
                    if (b.joint[k] if b.joint.size > 0 else -1) == j:
                        own[many] = k - kids
                        done[k - kids] = True
                        many += 1
                own = own[:many]
                people = float(b.joint_total[j]) if j >= 0 else left
                left -= people
                if people > 0.0:
                    give = 1.0 / weight[kids + own]
                    t = margin[kids + own] / give
                    tau = threshold(t, give, np.uint64(0), np.uint64(many), people, 0.0)
                    wanted[own] = np.maximum(give * (t - tau), 0.0)
        for e in range(b.cell_start[p], b.cell_start[p + 1]):
            first, last = b.var_start[e], b.var_start[e + 1]
            together = 0.0
            for v in range(first, last):
                together += wanted[b.var_child[v] - kids]
            for v in range(first, last):
                part = 1.0 / (last - first)
                if together > 0.0:
                    part = wanted[b.var_child[v] - kids] / together
                out[v] = part * b.total[e]
