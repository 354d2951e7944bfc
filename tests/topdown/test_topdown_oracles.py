"""Every problem of whole descents against general solvers and brute force."""

from __future__ import annotations

import logging
import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples

from headcount.errors import RunError
from headcount.solve.mip import minimise
from headcount.topdown.solve.batch import Batch, violation
from headcount.topdown.solve.integer_programs import clashes, rounding_program
from headcount.topdown.solve.leastsquares import Status, programme, solve_clarabel
from headcount.topdown.solve.network import split
from headcount.topdown.solve.rounding import RoundingMethod
from tests.support.solver_answers import objective
from tests.topdown.small import hierarchies, pure, run, settings, village
from tests.topdown.watched import nearest, variables, watching

EXAMPLES = int(os.environ.get("TOPDOWN_EXAMPLES", "120"))
MOST_TRIED = 9
"""Variables of a parent for which brute force tries every rounding."""

seen: Counter[str] = Counter()


def scale(one: Batch) -> float:
    """The objective is in units of this weight."""
    return float(max(one.weight.max(), one.family_weight.max(initial=0.0)))


def agrees_with_clarabel(one: Batch, x: np.ndarray, status: int) -> None:
    found, other = solve_clarabel(programme(one))
    if status == Status.SOLVED:
        seen["least squares"] += 1
        assert violation(one, x)[0] <= 1e-6
        if found is Status.SOLVED:
            ours, theirs = objective(one, x)[0], objective(one, np.maximum(other, 0))[0]
            assert ours <= theirs * (1 + 1e-6) + 1e-6 * scale(one)
            seen["least squares beside Clarabel"] += 1
    else:
        seen["cannot be met"] += 1
        assert found is not Status.SOLVED or violation(one, other)[0] > 1e-6
        assert clashes(one)


def agrees_with_highs(one: Batch, x: np.ndarray, counts: np.ndarray, wide: bool) -> None:
    whole, cost = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    split(x, whole, cost)
    best = minimise(rounding_program(one, whole, cost, wide=int(wide)))
    assert best is not None
    reached = whole + best.reshape(3, -1).T @ np.array([1, 1, -1])
    theirs = np.abs(reached - x).sum()
    assert np.abs(counts - x).sum() <= theirs + 1e-5
    seen["roundings"] += 1
    if wide:
        assert minimise(rounding_program(one, whole, cost, wide=0)) is None
        seen["wide roundings"] += 1
    elif 0 < len(x) <= MOST_TRIED:
        tried = nearest(one, x)
        assert tried is not None
        assert np.abs(counts - x).sum() <= tried + 1e-5
        seen["roundings by brute force"] += 1


@examples(
    max_examples=EXAMPLES,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(hierarchies())
def every_problem(drawn):
    mechanism, counts = drawn
    with watching() as watched:
        run(mechanism, counts)
        seen["descents"] += 1
    for batch, solved in watched.estimates:
        for p, one in enumerate(batch):
            own = variables(batch, p)
            agrees_with_clarabel(one, solved.x[own], int(solved.outcome.status[p]))
    for (batch, x, rounded), (_, solved) in zip(watched.roundings, watched.estimates, strict=True):
        assert rounded.broken == ()
        for p, one in enumerate(batch):
            if solved.outcome.status[p] != Status.SOLVED:
                continue
            own = variables(batch, p)
            if rounded.method[p] == RoundingMethod.NONE:
                assert clashes(one) or solved.outcome.violation[p] <= 1e-6
                seen["no rounding"] += 1
                continue
            agrees_with_highs(one, x[own], rounded.counts[own], bool(rounded.widened[p]))


def test_every_problem_of_small_hierarchies_agrees_with_general_solvers():
    seen.clear()
    every_problem()
    logging.getLogger(__name__).info("%s", dict(seen))
    # The examples reach what they are made to reach.
    assert seen["least squares beside Clarabel"] > 2 * EXAMPLES
    assert seen["roundings by brute force"] > EXAMPLES / 2
    assert seen["cannot be met"] > EXAMPLES / 20


def test_a_rounding_that_breaks_a_sum_stops_the_run(monkeypatch):
    """Bounds alone would not show it: published levels are sums of leaves and add up anyway."""
    from dataclasses import replace as changed

    from headcount.topdown.solve import rounding

    def one_too_many(batch, x, *, threads=1):
        found = rounded_well(batch, x, threads=threads)
        counts = found.counts.copy()
        counts[-1] += not batch.is_root
        return changed(found, counts=counts, broken=rounding._broken(batch, counts, found.method))

    rounded_well = rounding.round_batch
    monkeypatch.setattr(rounding, "round_batch", one_too_many)
    with pytest.raises(RunError, match=r"children of 'whole': found a constraint broken by round"):
        run(settings(pure(1)), village())
