"""CP-SAT in a process of its own: questions as JSON on standard input, answers on output.

Started by solvers.py; ortools and highspy cannot be loaded into one process.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(question: dict[str, Any], seconds: float) -> dict[str, Any]:
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
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        proven = status == cp_model.OPTIMAL or question["start"] is None
        return {"x": [solver.value(one) for one in x], "proven": proven}
    return {"x": None, "proven": status == cp_model.INFEASIBLE}


def main() -> None:
    """Answer every question on standard input."""
    sent = json.load(sys.stdin)
    answers = [answer(question, sent["seconds"]) for question in sent["questions"]]
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
