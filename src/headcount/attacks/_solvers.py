"""What search leaves open goes to a solver, HiGHS or CP-SAT, each in a process of its own.

HiGHS (highspy) and CP-SAT (ortools) cannot be loaded into one process.

How long either may search is counted in steps, the same on every machine: of HiGHS as
``headcount.solve.worker`` counts them, of CP-SAT thousandths of what it calls deterministic time. A
thousand of either take about a second.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.arrays import Ends, Ints
from headcount.attacks._problem import NO_END, Problem
from headcount.attacks.intervals import Contradiction
from headcount.errors import ConfigError, HeadcountError
from headcount.processes import apart, python_command, refuse_stopped
from headcount.solve.mip import MachineError, Program

_log = logging.getLogger(__name__)

HIGHS, CP_SAT = "highs", "cp-sat"

RENAMED = {
    "seconds": "'steps': limits count the work of the solver, which is the same on every machine; "
    "1,000 steps take about a second"
}
"""What is said to whoever still gives a limit in seconds."""

PATIENCE = 3600.0
"""Seconds for one question, whatever its steps. Who runs into that gets an error, not a result."""


@dataclass(frozen=True, eq=False)
class Question:
    """Any solution, or, with a ``start``, the one farthest from it in L1 distance."""

    problem: Problem
    start: Ints | None = None
    fixed: bool = False


@dataclass(frozen=True, eq=False)
class Answer:
    """What was found: a solution or None, and whether that is proven (optimal, or none exists)."""

    x: Ints | None
    proven: bool


def ask(questions: Sequence[Question], *, solver: str = HIGHS, steps: int) -> list[Answer]:
    """Answer questions one after the other, each within so many steps."""
    if not questions:
        return []
    if solver == HIGHS:
        return [_by_highs(question, steps) for question in questions]
    if solver == CP_SAT:
        return _by_cp_sat(questions, steps)
    raise ConfigError("reconstruction", found=f"solver {solver!r}", expected="'highs' or 'cp-sat'")


def distance_program(question: Question) -> Program:
    """The integer program of a question, its first unknowns being x.

    With s the start, the distance sum |x - s| has three kinds of terms. Where s is at an end of
    its range the term is linear. Elsewhere an unknown d <= |x - s| and a binary g (1: x below s)
    stand for it:

        d <= s - x + 2 (hi - s) (1 - g),    d <= x - s + 2 (s - lo) g

    If all solutions have the same total, half the distance is the sum of (s - x)^+, which needs
    no term where s = 0:

        d <= s - x + (hi - s) (1 - g),      d <= (s - lo) g
    """
    problem, s = question.problem, question.start
    n = len(problem.lo)
    lo, hi = problem.lo.astype(float), problem.hi.astype(float)
    hi[problem.endless] = np.inf
    rhi = np.where(problem.rhi > NO_END, np.inf, problem.rhi.astype(float))
    # Of any solution, one without people that no table asks for: a solver is free to say billions.
    cost = problem.endless.astype(float) if s is None else np.zeros(n)
    rows = np.repeat(np.arange(len(problem.rlo)), np.diff(problem.ptr))
    entries: list[tuple[Any, Any, Any]] = [(np.ones(len(rows)), rows, problem.idx)]
    row_low, row_high = [problem.rlo.astype(float)], [rhi]
    extra = 0
    if s is not None:
        below, above = (s - lo) > 0, (hi - s) > 0
        both = np.flatnonzero(below & above)
        cost[below & ~above] = 1.0  # minimise -(s - x)
        if not question.fixed:
            cost[above & ~below] = -1.0
        extra = len(both)
        d, g, base = n + np.arange(extra), n + extra + np.arange(extra), len(problem.rlo)
        one, two = base + np.arange(extra), base + extra + np.arange(extra)
        down, up = (s - lo)[both], (hi - s)[both] * (1 if question.fixed else 2)
        ones = np.ones(extra)
        entries += [(ones, one, d), (ones, one, both), (up, one, g), (ones, two, d)]
        if question.fixed:
            entries += [(-down, two, g)]
            row_high += [s[both] + up, np.zeros(extra)]
        else:
            entries += [(-ones, two, both), (-2 * down, two, g)]
            row_high += [s[both] + up, -s[both].astype(float)]
        row_low += [np.full(2 * extra, -np.inf)]
        reach = down if question.fixed else np.maximum(down, up / 2)
        lo, hi = np.concatenate([lo, 0 * reach, 0 * ones]), np.concatenate([hi, reach, ones])
        cost = np.concatenate([cost, -ones, 0 * ones])
    return _program(cost, lo, hi, entries, np.concatenate(row_low), np.concatenate(row_high))


def _program(
    cost: Any, lo: Any, hi: Any, entries: list[Any], row_low: Any, row_high: Any
) -> Program:
    from scipy.sparse import csc_array

    values, rows, columns = (np.concatenate(part) for part in zip(*entries, strict=True))
    matrix = csc_array((values, (rows, columns)), shape=(len(row_low), len(cost)))
    return Program(
        cost=cost,
        low=lo,
        high=hi,
        matrix=matrix,
        row_low=row_low,
        row_high=row_high,
        integer=True,
    )


def _by_highs(question: Question, steps: int) -> Answer:
    return solve_program(distance_program(question), len(question.problem.lo), steps)


def solve_program(program: Program, size: int, steps: int) -> Answer:
    """The first ``size`` unknowns of an integer program by HiGHS.

    After its steps it is the best so far. HiGHS runs in a process of its own; where that dies,
    even without presolve, or gives up, nothing is proven. Where the machine ended it there is no
    answer at all: another machine might prove more.
    """
    from headcount.solve.mip import DONE, NOTHING, STOPPED, SolverError, steps_of
    from headcount.solve.worker import solve_apart

    # With whole prices two prices differ by one at least: a smaller gap is none.
    whole = bool((program.cost == np.rint(program.cost)).all())
    try:
        found = solve_apart(
            program,
            patience=PATIENCE,
            steps=steps_of(program, steps),
            mip_abs_gap=0.999 if whole else 1e-9,
        )
    except MachineError:
        raise
    except SolverError as error:
        _log.warning("reconstruction: %s: the answer counts as not proven", error)
        return Answer(None, False)
    x = None if found.x is None else np.rint(found.x[:size]).astype(np.int64)
    if found.status in DONE:
        return Answer(x, True)
    if found.status in NOTHING:
        return Answer(None, True)
    if found.status not in STOPPED:
        _log.warning("reconstruction: HiGHS ended with %r: not proven", found.status)
        x = None
    return Answer(x, False)


def _by_cp_sat(questions: Sequence[Question], steps: int) -> list[Answer]:
    """One process answers all questions: starting it costs more than most of them."""
    answers = _cp_sat("solutions", [_plain(question) for question in questions], steps)
    if answers is None:
        return [Answer(None, False) for _ in questions]
    return [
        Answer(None if one["x"] is None else np.array(one["x"], dtype=np.int64), one["proven"])
        for one in answers
    ]


def _cp_sat(what: str, questions: Sequence[Any], steps: int) -> list[Any] | None:
    """Answers by CP-SAT in a process of its own; None where that crashed, and nothing is proven."""
    raised = 1  # how Python ends after an exception; all else but 0 is a signal or a crash
    sent = {"ask": what, "steps": steps, "questions": questions}
    patience = PATIENCE * len(questions)
    try:
        done = subprocess.run(
            python_command("headcount.attacks._cp_sat"),
            input=json.dumps(sent),
            capture_output=True,
            text=True,
            check=False,
            timeout=patience,
            **apart(),
        )
    except subprocess.TimeoutExpired:
        raise MachineError(
            f"CP-SAT: found no answer after {patience:,.0f} s, expected one within its steps: not "
            "finished on this machine"
        ) from None
    refuse_stopped()
    if done.returncode == -getattr(signal, "SIGKILL", 0) != 0:
        raise MachineError(
            "CP-SAT: found its process killed, expected an answer: not finished on this machine; "
            "has it memory enough?"
        )
    if done.returncode not in (0, raised):
        _log.warning("attack: CP-SAT ended with %d: not proven", done.returncode)
        return None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise HeadcountError(
            f"CP-SAT: found {said!r}, expected answers; is the extra headcount[attack] installed?"
        )
    found: list[Any] = json.loads(done.stdout)
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class EndsQuestion:
    """The smallest and the largest whole value of some cells x with A x = right, low <= x <= high.

    where
        matrix   A, sparse (relations x cells), of whole numbers
        asked    the cells
    """

    matrix: Any
    right: Ints
    low: Ints
    high: Ints
    asked: Ints

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        from scipy.sparse import csr_array

        rows = csr_array(self.matrix)
        return {
            "ptr": rows.indptr.tolist(),
            "idx": rows.indices.tolist(),
            "sign": rows.data.astype(np.int64).tolist(),
            "right": self.right.tolist(),
            "lo": self.low.tolist(),
            "hi": self.high.tolist(),
            "cells": self.asked.tolist(),
        }


def whole_ends(questions: Sequence[EndsQuestion], *, steps: int) -> list[Ends | None]:
    """Both ends of the asked cells of each question, by CP-SAT; None where nothing was proved.

    An end that is not proved within so many steps is the bound of the search: never too narrow.
    """
    if not questions:
        return []
    answers = _cp_sat("ends", [one.plain() for one in questions], steps)
    if answers is None:
        return [None for _ in questions]
    if any(one["ends"] is None for one in answers):
        raise Contradiction(
            "published cells",
            found="ranges that no table of whole counts keeps",
            expected="ranges that some table keeps; is what is known of the largest change right?",
        )
    found = (np.array(one["ends"], dtype=np.int64) for one in answers)
    return [(ends[:, 0], ends[:, 1]) for ends in found]


def _plain(question: Question) -> dict[str, Any]:
    problem = question.problem
    plain: dict[str, Any] = {
        name: getattr(problem, name).tolist() for name in ("ptr", "idx", "rlo", "rhi", "lo", "hi")
    }
    plain["start"] = None if question.start is None else question.start.tolist()
    return plain
