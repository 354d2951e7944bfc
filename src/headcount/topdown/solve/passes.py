"""Least squares in passes: some answers are fitted first, and held while the others are fitted.

The answer of a batch depends on how much its queries are trusted; in passes, one query goes before
another whatever their weights. With Q_k the queries of pass k and C the constraints of the batch,

    x_k = argmin over C of the squares of Q_k alone, subject to |Q_j x - Q_j x_j| <= t + within_j
          for every earlier pass j

where t is the least for which that can be done: 0, because x_(k-1) itself does it. So a pass is a
batch like any other: other weights, and a band around what was found before. Multi-pass least
squares of the 2020 census (Abowd and others 2022, The 2020 Census Disclosure Avoidance System
TopDown Algorithm, section 6).

A pass without detail does not tell all cells apart: those that no query of it and no bound tells
apart are one variable in it (``coarsen``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.compiled import kernel
from headcount.errors import HeadcountError
from headcount.topdown.solve._newton import threshold
from headcount.topdown.solve.batch import NO_BOUND, Batch, BatchArrays, family_margins
from headcount.topdown.solve.leastsquares import Solved, Solver, Status, least_squares

WITHIN = 0.1
"""How far, in persons, later passes may move an answer: the slack of the 2020 census."""


@dataclass(frozen=True, kw_only=True)
class FitPass:
    """One pass: the families that are fitted, by their place in the batch, and whether the detail.

    Later passes move the families' answers by at most ``within``. Detail is for the last pass.
    """

    families: tuple[int, ...] = ()
    detail: bool = False
    within: float = WITHIN


def fit_passes(
    batch: Batch, passes: Sequence[FitPass] = (), *, threads: int | None = None
) -> Solved:
    """The answer after the last pass. Without passes, least squares of the whole batch.

    A parent that one pass cannot solve has no answer. The outcome adds up the steps of all passes;
    its attempts are the most in any.
    """
    return _joined(batch, list(_answers(batch, passes, threads=threads)))


def _answers(batch: Batch, passes: Sequence[FitPass], *, threads: int | None) -> Iterator[Solved]:
    """The answer after each pass."""
    if not passes:
        yield least_squares(batch, threads=threads)
        return

    refuse(batch, passes)
    now = batch
    for number, one in enumerate(passes, start=1):
        now = fitting(now, batch, one)
        if one.detail:
            solved = least_squares(now, threads=threads)
        else:
            small = coarsen(now)
            near = shares_by_totals(small.batch)
            solved = least_squares(small.batch, threads=threads, near=near)
            solved = replace(solved, x=small.spread(solved.x))
        yield solved
        if number < len(passes):
            now = hold(now, one, solved.x, solved.outcome.status == Status.SOLVED)


def refuse(batch: Batch, passes: Sequence[FitPass]) -> None:
    """Raise where the passes do not make a plan for the batch."""
    fitted = [f for one in passes for f in one.families]
    unknown = [f for f in fitted if not 0 <= f < len(batch.group)]
    if unknown:
        raise HeadcountError(
            f"passes: found family {unknown[0]}, expected one of 0 to {len(batch.group) - 1}"
        )
    if twice := [f for f in fitted if fitted.count(f) > 1]:
        raise HeadcountError(f"passes: found family {twice[0]} in two passes, expected one")
    if none := [f for f in fitted if not (batch.family_weight[:, f] > 0).any()]:
        raise HeadcountError(f"passes: found family {none[0]} in a pass, expected a measured one")
    if any(one.detail for one in passes[:-1]):
        raise HeadcountError("passes: found detail in an early pass, expected it in the last")
    if bad := [one.within for one in passes if not one.within > 0]:
        raise HeadcountError(f"passes: found answers held within {bad[0]}, expected more than 0")


def fitting(now: Batch, batch: Batch, one: FitPass) -> Batch:
    """The next batch: the weights of this pass, and everything that is held so far."""
    chosen = np.isin(np.arange(len(batch.group)), one.families)
    return replace(
        now,
        weight=batch.weight if one.detail else np.zeros_like(batch.weight),
        family_weight=np.where(chosen, batch.family_weight, 0.0),
    )


def hold(now: Batch, one: FitPass, x: Floats, solved: Flags) -> Batch:
    """Put a band around the answers of the families just fitted, where there are any."""
    lost = ~np.repeat(solved, np.diff(now.child_start))
    band = dict(now.band)
    for f in one.families:
        answer = family_margins(now, x, f)
        band[f] = np.stack([answer - one.within, answer + one.within])
        band[f][0, lost], band[f][1, lost] = -NO_BOUND, NO_BOUND
    return replace(now, band=band)


def _joined(batch: Batch, answers: Sequence[Solved]) -> Solved:
    """The last answer, with the work of all passes; none where a pass had none."""
    if len(answers) == 1:
        return answers[0]
    outcomes, last = [one.outcome for one in answers], answers[-1].outcome
    status, solver = last.status.copy(), last.solver.copy()
    for outcome in reversed(outcomes):
        lost = outcome.status != Status.SOLVED
        status[lost] = outcome.status[lost]
    bad = status != Status.SOLVED
    x = np.where(np.repeat(bad, np.diff(batch.var_start[batch.cell_start])), 0.0, answers[-1].x)
    outcome = replace(
        last,
        status=status,
        solver=np.where(bad, np.int8(Solver.NONE), solver),
        attempts=np.max([one.attempts for one in outcomes], axis=0),
        steps=np.sum([one.steps for one in outcomes], axis=0, dtype=np.int32),
        conjugate=np.sum([one.conjugate for one in outcomes], axis=0, dtype=np.int32),
        violation=np.where(bad, np.inf, last.violation),
    )
    return Solved(x=x, outcome=outcome)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Coarse:
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


def coarsen(batch: Batch) -> _Coarse:
    """The batch of a pass without detail, one entry for all cells that it cannot tell apart."""
    used = _families_that_count(batch)
    kind = np.zeros(batch.group.shape[1], np.int64)
    if len(used):
        kind = np.unique(batch.group[used], axis=1, return_inverse=True)[1].ravel()
    number, first, cell_start = _group_entries(
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
    entry = batch.entry
    within = np.arange(len(entry)) - batch.var_start[entry]
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
    return _Coarse(batch=small, source=var_start[number[entry]] + within, share=share[entry])


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
    _share_by_totals(batch.arrays, int(weighed[0]), out)
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
def _group_entries(
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
def _share_by_totals(b: BatchArrays, family: int, out: Floats) -> None:
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
