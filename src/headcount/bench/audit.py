"""Does the audit keep its error rate, find the loss, and catch a broken mechanism?"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np

from headcount.arrays import Ints
from headcount.bench.figures import Reading
from headcount.evaluation.epsilon_bounds import audit_trials

EPSILON = 1.0
RUNS, TRIALS = 10_000, 200
DrawCounts = Callable[[np.random.Generator, int], Ints]


QUICK = {"trials": 20}


def measure(*, trials: int = TRIALS) -> list[Reading]:
    """The figures of 200 audits with 10,000 runs on each of two neighbouring databases."""
    honest = audit_trials(_count(1, EPSILON), _count(0, EPSILON), runs=RUNS, trials=trials)
    broken = audit_trials(_count(1, 2 * EPSILON), _count(0, 2 * EPSILON), runs=RUNS, trials=trials)
    moved = audit_trials(_pair(1, 0), _pair(0, 1), runs=RUNS, trials=trials)
    uncorrected = int((honest.uncorrected > EPSILON).sum())
    rate = f"of {trials}, confidence 95 %"
    return [
        Reading("bounds above the true epsilon 1", honest.above(EPSILON), rate),
        Reading("  chance of so many or more", honest.p_value(EPSILON), "p"),
        Reading("mean bound at epsilon 1, add or remove one", honest.mean, "epsilon"),
        Reading(
            "noise scale halved (true loss 2): bound above 1",
            100 * broken.above(EPSILON) / trials,
            "% caught",
        ),
        Reading("uncorrected best of events: bounds above 1", uncorrected, rate),
        Reading("  chance of so many or more", honest.p_value(EPSILON, uncorrected=True), "p"),
        Reading(
            "mean bound, change one, joint event (true loss 2)",
            moved.mean,
            "epsilon",
            f"{moved.above(2 * EPSILON)} of {trials} above 2",
        ),
    ]


def _count(truth: int, epsilon: float) -> DrawCounts:
    """One count with two-sided geometric noise; floats are good enough to test an audit."""
    p = 1 - exp(-epsilon)

    def draw(generator: np.random.Generator, runs: int) -> Ints:
        return truth + generator.geometric(p, runs) - generator.geometric(p, runs)

    return draw


def _pair(first: int, second: int) -> DrawCounts:
    """Two areas, one person moved between them."""

    def draw(generator: np.random.Generator, runs: int) -> Ints:
        areas = [_count(truth, EPSILON)(generator, runs) for truth in (first, second)]
        return np.stack(areas, axis=1)

    return draw
