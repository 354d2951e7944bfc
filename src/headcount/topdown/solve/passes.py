"""Least squares in passes: some answers are fitted first, and held while the others are fitted.

The answer of a batch depends on how much its queries are trusted; in passes, one query goes before
another whatever their weights. With Q_k the queries of pass k and C the constraints of the batch,

    x_k = argmin over C of the squares of Q_k alone, subject to |Q_j x - Q_j x_j| <= t + within_j
          for every earlier pass j

where t is the least for which that can be done: 0, because x_(k-1) itself does it. So a pass is a
batch like any other: other weights, and a band around what was found before. Multi-pass least
squares of the 2020 census (Abowd and others 2022, The 2020 Census Disclosure Avoidance System
TopDown Algorithm, section 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.errors import HeadcountError
from headcount.topdown.solve.batch import NO_BOUND, Batch
from headcount.topdown.solve.leastsquares import Solved, least_squares
from headcount.topdown.solve.objective import family_margins, margins
from headcount.topdown.solve.outcome import Solver, Status

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


def solve_passes(
    batch: Batch,
    passes: Sequence[FitPass] = (),
    *,
    tolerance: float = 1e-7,
    threads: int | None = None,
) -> tuple[Solved, tuple[Floats, ...]]:
    """The answer after the last pass, and the marginals (as ``Batch.margin``) after each.

    Without passes, least squares of the whole batch. A parent that one pass cannot solve has no
    answer. The outcome adds up the steps of all passes; its attempts are the most in any.
    """
    answers = list(_answers(batch, passes, tolerance=tolerance, threads=threads))
    return _joined(batch, answers), tuple(margins(batch, one.x) for one in answers)


def fit_passes(
    batch: Batch, passes: Sequence[FitPass] = (), *, threads: int | None = None
) -> Solved:
    """The answer of ``solve_passes`` alone."""
    return _joined(batch, list(_answers(batch, passes, threads=threads)))


def _answers(
    batch: Batch,
    passes: Sequence[FitPass],
    *,
    tolerance: float = 1e-7,
    threads: int | None = None,
) -> Iterator[Solved]:
    """The answer after each pass."""
    if not passes:
        yield least_squares(batch, tolerance=tolerance, threads=threads)
        return
    from headcount.topdown.solve._coarse import coarsen, shares_by_totals

    refuse(batch, passes)
    now = batch
    for number, one in enumerate(passes, start=1):
        now = fitting(now, batch, one)
        if one.detail:
            solved = least_squares(now, tolerance=tolerance, threads=threads)
        else:
            small = coarsen(now)
            near = shares_by_totals(small.batch)
            solved = least_squares(small.batch, tolerance=tolerance, threads=threads, near=near)
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


def freeze(batch: Batch, counts: Ints, families: Sequence[int]) -> Batch:
    """The batch with some families fixed at the integers that an earlier round has given them."""
    (low, high), found = batch.bounds_by_group(), margins(batch, counts)
    for f in families:
        own = slice(batch.family_start[f], batch.family_start[f + 1])
        low[:, own] = high[:, own] = np.rint(found[:, own]).astype(np.int64)
    return replace(batch, low=low, high=high, bound_start=batch.family_start, forest=None)


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
