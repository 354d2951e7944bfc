"""How fast is least squares, beside PIQP and OSQP on the same problems?"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.figures import Reading, timed
from headcount.arrays import Floats
from headcount.errors import ConfigError
from headcount.topdown.solve.batch import Batch, violation
from headcount.topdown.solve.leastsquares import Programme, least_squares, programme
from tests.support.dense import side_by_side
from tests.support.problems import SETTINGS, problem
from tests.support.solver_answers import objective

PROBLEMS = 30
QUICK = {"problems": 2}
PATIENCE = 5.0  # seconds: OSQP can take minutes on the largest problems
STATES = "49 states, totals fixed"


class PeerAnswer(NamedTuple):
    """Another solver's answer, what it took, and whether the solver was content with it."""

    x: Floats
    seconds: float
    wall: float
    finished: bool


def measure(*, problems: int = PROBLEMS) -> list[Reading]:
    """CPU milliseconds a problem on one thread, ratios to PIQP and OSQP, and violations.

    Our time is all of ``least_squares`` on the batch. The others' is that of their solve call
    alone, at the better of two scalings: neither building the model in Python nor their setup
    counts against them. OSQP is cut off after PATIENCE, which flatters it.
    """
    least_squares(problem(next(iter(SETTINGS)), seed=0, children=2), threads=1)  # compile
    readings = []
    for name in SETTINGS:
        if name == STATES:
            made = [problem(name, seed=seed, children=49) for seed in range(min(problems, 3))]
        else:
            made = [problem(name, seed=seed) for seed in range(problems)]
        readings += _compare(name, made)
    return readings


def _compare(name: str, problems: list[Batch]) -> list[Reading]:
    batch = side_by_side(problems)
    least_squares(batch, threads=1)  # warm
    solved, _, cpu = timed(lambda: least_squares(batch, threads=1))
    ours = cpu / len(problems)
    outcome = solved.outcome
    best = objective(batch, solved.x)
    readings = [
        Reading(
            f"{name}: headcount",
            1e3 * ours,
            "ms CPU",
            f"violation {violation(batch, solved.x).max():.0e}, {len(problems)} problems, "
            f"{len(batch.answer) / len(problems):,.0f} variables, "
            f"{outcome.steps.mean():.0f} Newton and {outcome.conjugate.mean():.0f} CG steps, "
            f"{int((outcome.solver != 0).sum())} by a general solver",
        )
    ]
    for title, solve in (("PIQP 1e-8", solve_piqp), ("OSQP 1e-6", solve_osqp)):
        answers = [_faster(solve, programme(each)) for each in problems]
        x = np.concatenate([answer.x for answer in answers])
        seconds = float(np.mean([answer.seconds for answer in answers]))
        unfinished = sum(not answer.finished for answer in answers)
        gap = ((best - objective(batch, x)) / objective(batch, x)).max()
        readings.append(
            Reading(
                f"  {title}",
                seconds / ours,
                "x headcount",
                f"{1e3 * seconds:,.2f} ms CPU, violation {violation(batch, x).max():.0e}, "
                f"our objective above theirs by at most {gap:+.0e} (relative)"
                + (f", {unfinished} not finished" if unfinished else ""),
            )
        )
    return readings


def _faster(solve: Callable[[Programme, float, float], PeerAnswer], task: Programme) -> PeerAnswer:
    """The faster of two runs, with the largest and with the smallest weight scaled to 1.

    Neither scaling is better throughout, so the others get the benefit of the doubt.
    """
    weights = task.curvature[task.curvature > 0]
    first = solve(task, float(weights.min()), PATIENCE)
    second = solve(task, float(weights.max()), PATIENCE if not first.finished else first.wall)
    return min(first, second, key=lambda answer: (not answer.finished, answer.seconds))


def solve_piqp(task: Programme, scale: float, patience: float) -> PeerAnswer:
    """PIQP's answer, and the CPU seconds of its solve call, which needs no patience."""
    import piqp
    from scipy.sparse import csc_matrix, diags

    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-8
    solver.setup(
        csc_matrix(diags(task.curvature / scale)),
        task.linear / scale,
        task.matrix,
        task.equal,
        x_l=task.low,
        x_u=task.high,
    )
    status, wall, seconds = timed(solver.solve)
    x = np.array(solver.result.x)[: task.variables]
    return PeerAnswer(x, seconds, wall, status == piqp.PIQP_SOLVED)


def solve_osqp(task: Programme, scale: float, patience: float) -> PeerAnswer:
    """OSQP's answer, and the CPU seconds of its solve call, cut off after ``patience``."""
    from scipy.sparse import csc_matrix, diags, identity, vstack

    try:
        import osqp  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError(
            "benchmarks topdown-solve",
            found="no module osqp",
            expected="it to be installed: pip install osqp",
        ) from error
    solver = osqp.OSQP()
    solver.setup(
        csc_matrix(diags(task.curvature / scale)),
        task.linear / scale,
        csc_matrix(vstack([task.matrix, identity(len(task.low))])),
        np.concatenate([task.equal, task.low]),
        np.concatenate([task.equal, task.high]),
        eps_abs=1e-6,
        eps_rel=1e-6,
        max_iter=20_000,
        time_limit=patience,
        verbose=False,
    )
    found, wall, seconds = timed(lambda: solver.solve(raise_error=False))
    x = np.nan_to_num(np.asarray(found.x, np.float64)[: task.variables])
    return PeerAnswer(x, seconds, wall, str(found.info.status) == "solved")
