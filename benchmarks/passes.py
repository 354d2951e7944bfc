"""Do passes match Clarabel and HiGHS on generated problems, and what do they cost?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.figures import Reading, timed
from benchmarks.golden_2020 import SLACK
from headcount.arrays import Floats, Ints, Ints32
from headcount.solve.batch import Batch
from headcount.solve.general import programme, solve_clarabel
from headcount.solve.mip import minimise
from headcount.solve.objective import objective, violation
from headcount.solve.outcome import Status
from headcount.solve.passes import FitPass, solve_passes
from headcount.solve.target_programs import target_program
from headcount.solve.target_rounding import margin_counts, round_passes, target_distance
from tests.support.dense import side_by_side
from tests.support.pass_problems import TOTALS_FIRST, pass_problem, rounding_passes
from tests.support.problems import SETTINGS, problem

TWO_PASS, CHAINED = 200, 300
CLOSE = 1e-6
COSTS = {"n=2016, tracts": (27, 5), "n=2016, blocks": (25, 20)}


def measure() -> list[Reading]:
    """Every pass beside a general solver's optimum, and CPU milliseconds a parent, one thread."""
    return [*_least_squares(), *_rounding(), *(r for name in COSTS for r in _cost(name))]


def pass_gaps(seed: int) -> tuple[float, float, float]:
    """Our objective of each pass beside Clarabel's, relative; how far totals leave their band.

    An objective of nearly 0 is compared as one of 0.001.
    """
    batch = pass_problem(seed).batch
    solved, (first, last) = solve_passes(batch, TOTALS_FIRST, threads=1)
    if solved.outcome.status[0] != Status.SOLVED or violation(batch, solved.x)[0] > CLOSE:
        return np.inf, np.inf, np.inf
    early = batch.family_weight * (np.arange(len(batch.group)) == 0)
    cost = float((early[:, 0] * (first[:, 0] - batch.margin[:, 0]) ** 2).sum())
    one = replace(batch, weight=np.zeros_like(batch.weight), family_weight=early)
    band = np.stack([first[:, :1] - SLACK, first[:, :1] + SLACK])
    two = replace(batch, family_weight=batch.family_weight - early, band={0: band})
    return (
        _gap(cost, _clarabel(one)),
        _gap(float(objective(two, solved.x)[0]), _clarabel(two)),
        float(np.abs(last[:, 0] - first[:, 0]).max()) - SLACK,
    )


def chain_gaps(seed: int) -> list[float]:
    """Our distance in each rounding pass less the least of HiGHS without integrality."""
    batch = pass_problem(seed).batch
    x = solve_passes(batch, TOTALS_FIRST, threads=1)[0].x
    passes = rounding_passes(seed)
    found, after = round_passes(batch, x, passes, network=True)
    if found.broken or found.widened.any():
        return [np.inf]
    held: list[tuple[Ints32, Ints]] = []
    gaps = []
    for one, counts in zip(passes, after, strict=True):
        program = replace(target_program(batch, x, one.queries, held), integer=False)
        steps = minimise(program)
        least = np.inf if steps is None else float(program.cost @ steps)
        gaps.append(float(target_distance(batch, x, counts, one)[0]) - least)
        held += [(query, margin_counts(batch, query, counts)) for query in one.queries]
    return gaps


def _least_squares() -> list[Reading]:
    gaps = np.array([pass_gaps(seed) for seed in range(TWO_PASS)])
    many = f"of {TWO_PASS} problems"
    return [
        Reading(
            f"objective of pass {k + 1} as Clarabel's",
            int((np.abs(gaps[:, k]) <= CLOSE).sum()),
            many,
            f"worst {gaps[np.abs(gaps[:, k]).argmax(), k]:+.0e} (relative)",
        )
        for k in (0, 1)
    ] + [
        Reading(
            f"totals held within {SLACK}",
            int((gaps[:, 2] <= CLOSE).sum()),
            many,
            f"{int((gaps[:, 2] >= -CLOSE).sum())} with a total at the edge",
        )
    ]


def _rounding() -> list[Reading]:
    gaps = [chain_gaps(seed) for seed in range(CHAINED)]
    return [
        Reading(
            "every rounding pass as near as HiGHS' linear relaxation",
            sum(all(abs(gap) <= CLOSE for gap in each) for each in gaps),
            f"of {CHAINED} chains",
            f"{sum(map(len, gaps))} passes, worst {max(max(each) for each in gaps):+.0e} persons",
        )
    ]


def _cost(name: str) -> list[Reading]:
    children, problems = COSTS[name]
    batch = side_by_side([problem(name, seed=s, children=children) for s in range(problems)])
    families = tuple(range(len(batch.group)))
    at_once = (FitPass(families=families, detail=True),)
    totals_first = (FitPass(families=families[:1]), FitPass(families=families[1:], detail=True))
    seconds = []
    for fits, seed in ((at_once, 1), (totals_first, 0)):
        chains = rounding_passes(seed, SETTINGS[name].sizes)
        for _ in range(2):  # the first run compiles
            (solved, _), _, fit = timed(lambda: solve_passes(batch, fits, threads=1))  # noqa: B023
            _, _, rest = timed(lambda: round_passes(batch, solved.x, chains))  # noqa: B023
        seconds.append((fit / problems, rest / problems))
    (fit, rest), (fit_2, rest_2) = seconds
    return [
        Reading(
            f"{name}: two passes",
            (fit_2 + rest_2) / (fit + rest),
            "x one pass",
            f"least squares {1e3 * fit:.1f} and {1e3 * fit_2:.1f} ms CPU, "
            f"rounding {1e3 * rest:.1f} and {1e3 * rest_2:.1f}, {problems} parents",
        )
    ]


def _gap(ours: float, best: float) -> float:
    return (ours - best) / (best + 1e-3)


def _clarabel(batch: Batch) -> float:
    x: Floats = solve_clarabel(programme(batch), tolerance=1e-11)[1]
    return float(objective(batch, np.maximum(x, 0.0)).sum())
