"""Solving settled problems, and how far another solution can lie from the one found.

Solution variability of a block: with S0 the records found and N their number,

    v = 100 * max over solutions x of L1(S0, x) / (2 N)

where L1 compares histograms over everything that the block's tables tell apart. Zero means that
the records are certain. From another start the value lies between v / 2 and 2 v.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints
from headcount.attacks._problem import Problem, Settled
from headcount.attacks._solvers import HIGHS, Question, ask

ALGEBRA, SEARCH, SOLVER = "algebra", "search", "solver"


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How hard to try: nodes of search for a part, then a solver with so many steps each."""

    nodes: int = 300
    largest: int = 400
    steps: int = 10_000
    solver: str = HIGHS


@dataclass(frozen=True, eq=False)
class SolvedLeaf:
    """A solution or None; how it was found; and whether that is proven."""

    x: Ints | None
    method: str
    proven: bool


def solve(problems: Sequence[Settled], effort: Effort) -> list[SolvedLeaf]:
    """A solution of each problem: search in small parts, a solver for the rest, all at once."""
    from headcount.attacks import _search as search

    found: list[dict[int, Ints | None]] = [{} for _ in problems]
    questions: list[tuple[int, int]] = []
    impossible = np.zeros(len(problems), dtype=bool)
    for p, settled in enumerate(problems):
        for k, part in enumerate(settled.open):
            status, x = search.GAVE_UP, part.lo
            if not len(part.rlo):
                status = search.FOUND  # nothing but its bounds is known of it
            elif len(part.lo) <= effort.largest and part.bounded:
                status, x = search.first_solution(*_arrays(part), effort.nodes)
            if status == search.GAVE_UP:
                questions.append((p, k))
            else:
                found[p][k] = x if status == search.FOUND else None
                impossible[p] |= status == search.NONE
    asked = [Question(problems[p].open[k]) for p, k in questions]
    proven = np.ones(len(problems), dtype=bool)
    for (p, k), answer in zip(
        questions, ask(asked, solver=effort.solver, steps=effort.steps), strict=True
    ):
        found[p][k] = answer.x
        proven[p] &= answer.proven or answer.x is not None
        impossible[p] |= answer.proven and answer.x is None
    # One part without any solution is proof, whatever became of the others.
    proven |= impossible
    hard = {p for p, _ in questions}
    return [
        _join(settled, found[p], proven=bool(proven[p]), solver=p in hard)
        for p, settled in enumerate(problems)
    ]


def _join(
    settled: Settled, parts: dict[int, Ints | None], *, proven: bool, solver: bool
) -> SolvedLeaf:
    method = SOLVER if solver else SEARCH if parts else ALGEBRA
    x = settled.x.copy()
    for k, part in enumerate(settled.open):
        values = parts[k]
        if values is None:
            return SolvedLeaf(None, method, proven)
        if not part.keeps(values):
            raise AssertionError("a reconstruction breaks its own tables")
        x[part.place] = values
    return SolvedLeaf(x, method, proven)


def farthest(
    problems: Sequence[Settled], starts: Sequence[Ints], effort: Effort
) -> list[tuple[int, bool, str]]:
    """The largest L1 distance of a solution from each start, whether it is proven, and by what.

    Parts are independent, so that the distances add up. A distance not proven is the largest
    found: a lower bound.
    """
    from headcount.attacks import _search as search

    distance = np.zeros(len(problems), dtype=np.int64)
    proven = np.ones(len(problems), dtype=bool)
    questions: list[tuple[int, int]] = []
    for p, (settled, start) in enumerate(zip(problems, starts, strict=True)):
        for k, part in enumerate(settled.open):
            if not part.bounded:
                proven[p] = False  # no table bounds the number of people
                continue
            done = False
            if len(part.lo) <= effort.largest:
                best, done = search.farthest_solution(
                    *_arrays(part), start[part.place], settled.fixed, effort.nodes
                )
            if done:
                distance[p] += best
            else:
                questions.append((p, k))
    asked = []
    for p, k in questions:
        part = problems[p].open[k]
        asked.append(Question(part, starts[p][part.place], problems[p].fixed))
    answers = ask(asked, solver=effort.solver, steps=effort.steps)
    for (p, _), question, answer in zip(questions, asked, answers, strict=True):
        proven[p] &= answer.proven
        if answer.x is not None and question.start is not None:
            distance[p] += int(np.abs(answer.x - question.start).sum())
    hard = {p for p, _ in questions}
    methods = [
        SOLVER if p in hard else SEARCH if s.open else ALGEBRA for p, s in enumerate(problems)
    ]
    return list(zip(distance.tolist(), proven.tolist(), methods, strict=True))


def _arrays(part: Problem) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    return part.ptr, part.idx, part.rlo, part.rhi, part.lo, part.hi
