"""Linear and integer programs by HiGHS: for what is no network, and for what is rare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Floats
from headcount.errors import HeadcountError

if TYPE_CHECKING:
    from headcount.solve.worker import SolverAnswer


DONE = ("Optimal", "Empty")
"""Names of HiGHS' statuses for an optimum."""

STOPPED = ("Interrupted by user", "Solution limit reached", "Iteration limit reached")
"""For a search that was given up: by steps, by nodes (which HiGHS calls solutions), by pivots."""

EFFORT, FEWEST_NODES = 2_000_000_000, 100
"""Nodes of a search times entries of the programme's matrix, and the nodes that any may have."""

ENDLESS = 2**31 - 1
"""Nodes without a limit, to HiGHS."""

STEP_ENTRIES = 5_000
"""Entries of the matrix of a programme whose steps take about a millisecond each."""

NOTHING = ("Infeasible", "Primal infeasible or unbounded")
"""For no solution: every program here is bounded below, so that the second is the first."""


class SolverError(HeadcountError):
    """A general solver that neither solved a problem nor proved that it has no solution."""


class MachineError(SolverError):
    """A search that the machine has ended, not the problem: nothing may be concluded from it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """Minimise cost'x subject to row_low <= A x <= row_high and low <= x <= high."""

    cost: Floats
    low: Floats
    high: Floats
    matrix: Any  # scipy sparse
    row_low: Floats
    row_high: Floats
    integer: bool


def minimise(program: Program, *, steps: int | None = None) -> Floats | None:
    """The optimum by HiGHS with no gap; None if there is no solution."""
    found = _run(program, nodes=most_nodes(program), steps=steps)
    if found.status in STOPPED:
        raise _unfinished(found.status)
    return found.x


def best_within(program: Program, *, nodes: int | None = None, here: bool = False) -> Floats | None:
    """The optimum, or after so many nodes the best solution so far; None if there is none.

    ``here``: in this process and without presolve, for when no worker lives long enough.
    """
    found = search(program, nodes=nodes, here=here)
    if found.x is None and not found.proved:
        raise _unfinished(found.status)
    return found.x


@dataclass(frozen=True, eq=False)
class _Found:
    """What a search has found: a point if any, and whether that it is best, or none, is proved."""

    x: Floats | None
    status: str

    @property
    def proved(self) -> bool:
        """False where the search was given up."""
        return self.status in (*DONE, *NOTHING)


def search(program: Program, *, nodes: int | None = None, here: bool = False) -> _Found:
    """The best solution after so many nodes."""
    found = _run(program, nodes=most_nodes(program) if nodes is None else nodes, here=here)
    return _Found(found.x, found.status)


def most_nodes(program: Program) -> int:
    """When the search for an integer solution is given up: the same on every machine."""
    return int(max(FEWEST_NODES, EFFORT // max(1, program.matrix.nnz)))


def steps_of(program: Program, steps: int) -> int:
    """So many steps of a small programme, and of a large one as many fewer as each takes longer."""
    return steps * STEP_ENTRIES // max(STEP_ENTRIES, int(program.matrix.nnz))


def _run(
    program: Program, *, nodes: int, steps: int | None = None, here: bool = False
) -> SolverAnswer:
    """Integer programmes run in a process of their own: HiGHS may abort on them."""
    from headcount.solve.worker import run_here, solve_apart

    options: dict[str, Any] = {
        "mip_feasibility_tolerance": 1e-9,
        "primal_feasibility_tolerance": 1e-9,
        "mip_max_nodes": min(nodes, ENDLESS),
    }
    if steps is not None:
        options["steps"] = steps_of(program, steps)
    if here:
        options["presolve"] = "off"
    run = solve_apart if program.integer and not here else run_here
    found = run(program, **options)
    if found.status in NOTHING:
        return replace(found, x=None)
    ended = found.status in DONE and found.x is not None
    if not ended and found.status not in STOPPED:
        raise _unfinished(found.status)
    return replace(found, x=np.rint(found.x)) if program.integer and found.x is not None else found


def _unfinished(status: str) -> SolverError:
    return SolverError(
        f"HiGHS ended with status {status!r}, without an optimum or a proof that there is none"
    )


def load(program: Program, **options: float) -> Any:
    """HiGHS on one thread with the program in it, ready to run.

    Never with a time limit: the presolve of HiGHS searches for dependent equations for a hundredth
    of it, or guesses that it would, and so finds others on a busy machine even if the limit is far.
    """
    import highspy

    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    quiet = {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_abs_gap": 1e-9}
    for option, value in (quiet | options).items():
        solver.setOptionValue(option, value)
    solver.passModel(_model(program))
    return solver


def _model(program: Program) -> Any:
    import highspy

    columns = program.matrix.tocsc()
    model = highspy.HighsLp()
    model.num_col_ = len(program.cost)
    model.num_row_ = len(program.row_low)
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = program.low, program.high
    model.row_lower_, model.row_upper_ = program.row_low, program.row_high
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = columns.indptr
    model.a_matrix_.index_ = columns.indices
    model.a_matrix_.value_ = columns.data
    if program.integer:
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(program.cost)
    return model
