"""How fast is controlled rounding, beside HiGHS on the same problems?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.figures import Reading, timed
from headcount.arrays import Ints
from headcount.solve.mip import Program, load
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.integer_programs import rounding_program
from headcount.topdown.solve.leastsquares import least_squares
from headcount.topdown.solve.network import SCALE, split
from headcount.topdown.solve.rounding import round_batch
from tests.support.dense import side_by_side
from tests.support.problems import problem
from tests.support.suppression_exact import optimum

CASES = {
    "n=192, epsilon 0.25": 45,
    "n=192, epsilon 1": 45,
    "n=192, epsilon 4": 45,
    "49 states, totals fixed": 49,
    "n=2016, blocks": 25,
    "n=2016, tracts": 27,
}
PROBLEMS = 10
REPEATS = 9


def measure() -> list[Reading]:
    """CPU milliseconds a problem on one thread, and the ratio to HiGHS at equal optimum.

    Our time is all of ``round_batch``, the sorting of bounds and the integer check included.
    HiGHS gets the plain model, one binary for each variable, no gap, default tolerances; its time
    is that of its run alone, without building the model.
    """
    readings = []
    for name, children in CASES.items():
        problems = [problem(name, seed=seed, children=children) for seed in range(PROBLEMS)]
        readings += _compare(f"{name}, {children} children", problems)
    return readings


def _compare(name: str, problems: list[Batch]) -> list[Reading]:
    batch = side_by_side(problems)
    x = least_squares(batch, threads=1).x
    work = partial(round_batch, batch, x, threads=1)
    found = work()  # compile and warm
    ours = float(np.median([timed(work)[2] for _ in range(REPEATS)])) / len(problems)
    whole, cost = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    split(x, whole, cost)
    seconds, equal = [], 0
    for p, each in enumerate(problems):
        part = slice(*batch.var_start[batch.cell_start[p : p + 2]])
        theirs, cpu = _highs(each, whole[part], cost[part])
        seconds.append(cpu)
        gap = _price(whole[part], cost[part], theirs) - _price(
            whole[part], cost[part], found.counts[part]
        )
        equal += abs(gap) <= 1e-6
    highs = float(np.mean(seconds))
    return [
        Reading(
            f"{name}: headcount",
            1e3 * ours,
            "ms CPU",
            f"{len(problems)} problems, {len(x) / len(problems):,.0f} variables, "
            f"{found.repairs.mean():.1f} repairs, {int(found.widened.sum())} widened, "
            f"{len(found.broken)} violations",
        ),
        Reading(
            "  HiGHS MIP",
            highs / ours,
            "x headcount",
            f"{1e3 * highs:,.2f} ms CPU, same optimum in {equal} of {len(problems)}",
        ),
    ]


def _highs(batch: Batch, whole: Ints, cost: Ints) -> tuple[Ints, float]:
    """HiGHS' counts, and the CPU seconds of its run."""
    solver = load(_binaries(rounding_program(batch, whole, cost), len(whole)))
    _, _, seconds = timed(solver.run)
    steps = optimum(solver, integer=True)
    if steps is None:
        raise RuntimeError("found no rounding by HiGHS, expected one")
    return whole + steps.astype(np.int64), seconds


def _binaries(program: Program, size: int) -> Program:
    """The program without its moves beyond floor and ceiling."""
    return replace(
        program,
        cost=program.cost[:size],
        low=program.low[:size],
        high=program.high[:size],
        matrix=program.matrix.tocsc()[:, :size],
    )


def _price(whole: Ints, cost: Ints, counts: Ints) -> float:
    step = counts - whole
    return float(np.where(step > 0, cost, -step * SCALE).sum() / SCALE)
