"""CP-SAT in a process of its own: questions as JSON on standard input, answers on output.

Started by solvers.py; ortools and highspy cannot be loaded into one process.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

WHOLE = 1e-6
"""By how much a bound in floating point may miss a whole number."""
STEP = 0.001
"""A step in units of deterministic time, which CP-SAT counts by what it does, not by a clock."""


def _solver(steps: int) -> Any:
    """CP-SAT on one thread, for so many steps."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = steps * STEP
    return solver


def answer(question: dict[str, Any], steps: int) -> dict[str, Any]:
    """Any solution, or the farthest one from the start."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    ends = zip(question["lo"], question["hi"], strict=True)
    x = [model.new_int_var(lo, hi, f"x{i}") for i, (lo, hi) in enumerate(ends)]
    ptr, idx = question["ptr"], question["idx"]
    for r, (low, high) in enumerate(zip(question["rlo"], question["rhi"], strict=True)):
        model.add_linear_constraint(sum(x[i] for i in idx[ptr[r] : ptr[r + 1]]), low, high)
    if question["start"] is not None:
        distances = []
        for i, start in enumerate(question["start"]):
            reach = max(start - question["lo"][i], question["hi"][i] - start)
            distance = model.new_int_var(0, reach, f"d{i}")
            model.add_abs_equality(distance, x[i] - start)
            distances.append(distance)
        model.maximize(sum(distances))
    solver = _solver(steps)
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        proven = status == cp_model.OPTIMAL or question["start"] is None
        return {"x": [solver.value(one) for one in x], "proven": proven}
    return {"x": None, "proven": status == cp_model.INFEASIBLE}


def ends(question: dict[str, Any], steps: int) -> dict[str, Any]:
    """The smallest and the largest whole value of some cells x with A x = right.

    An end is what is proved: after the last step, the best bound of the search.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    between = zip(question["lo"], question["hi"], strict=True)
    x = [model.new_int_var(lo, hi, f"x{i}") for i, (lo, hi) in enumerate(between)]
    ptr, idx, sign = question["ptr"], question["idx"], question["sign"]
    for r, right in enumerate(question["right"]):
        row = range(ptr[r], ptr[r + 1])
        model.add(sum(sign[k] * x[idx[k]] for k in row) == right)
    found: list[tuple[int, int]] = []
    seen = (list(question["hi"]), list(question["lo"]))  # smallest and largest in any solution
    for cell in question["cells"]:
        both = []
        for side, extreme in enumerate((question["lo"][cell], question["hi"][cell])):
            if seen[side][cell] == extreme:  # an earlier solution is there already
                both.append(extreme)
                continue
            (model.maximize if side else model.minimize)(x[cell])
            solver = _solver(steps)
            status = solver.solve(model)
            if status == cp_model.INFEASIBLE:
                return {"ends": None}
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                both.append(extreme)  # a search that has not begun has proved nothing
                continue
            values = [solver.value(one) for one in x]
            seen = (
                [min(pair) for pair in zip(seen[0], values, strict=True)],
                [max(pair) for pair in zip(seen[1], values, strict=True)],
            )
            bound = solver.best_objective_bound
            both.append(math.floor(bound + WHOLE) if side else math.ceil(bound - WHOLE))
        found.append((both[0], both[1]))
    return {"ends": found}


def main() -> None:
    """Answer every question on standard input."""
    sent = json.load(sys.stdin)
    ask = ends if sent["ask"] == "ends" else answer
    answers = [ask(question, sent["steps"]) for question in sent["questions"]]
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
