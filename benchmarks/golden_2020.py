"""Golden problems of the redistricting optimiser of 2020: totals first, then all the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints, Ints32
from headcount.errors import InputError
from headcount.topdown.choices import LevelPasses
from headcount.topdown.solve.batch import Batch, family_margins, violation, violations
from headcount.topdown.solve.leastsquares import Status, programme, solve_clarabel
from headcount.topdown.solve.passes import FitPass, fitting
from headcount.topdown.solve.rounding import (
    RoundPass,
    margin_counts,
    round_passes,
)
from tests.support.dense import Margin, from_dense, groups_keeping, on_variables, to_dense
from tests.support.solver_answers import objective, solve_passes

SHAPE = (2, 2, 2, 3)  # hhgq, voting age, hispanic, race
QUERIES = {
    "total": (),
    "race": (3,),
    "hispanic": (2,),
    "hhgq": (0,),
    "hispanic_race": (2, 3),
    "va_hispanic_race": (1, 2, 3),
}
CELLS = (0, 1, 2, 3)
TOTAL_CHAIN = ((),)
CHAIN = ((0,), (0, 2), (0, 2, 3), CELLS, CELLS)  # full cross and detailed are both the cells
ONE_PASS_LEVEL = "Block"
SLACK = 0.1
"""How far, in persons, the last pass of the 2020 census may move a total of the first one:
``opt_tol_slack`` of the Bureau's published configuration. A judge has its own number."""
ARRAYS = ("parent", "detail", "detail_variance", "low", "high", "l2", "rounded")


@dataclass(frozen=True, eq=False, kw_only=True)
class Golden2020:
    """A parent, the passes of its level, and the stored answers (cells, children)."""

    name: str
    batch: Batch
    fits: tuple[FitPass, ...]
    roundings: tuple[RoundPass, ...]
    estimate: Floats
    rounded: Ints


@dataclass(frozen=True, kw_only=True)
class Verdict2020:
    """One problem: last pass and rounding passes beside the stored answer.

    where
        gap         of the last pass's objective above that of the stored estimate, relative
        violation   of constraints and of the band around the totals that Clarabel finds in the
                    first pass, in persons
        distances   of each rounding pass from the stored estimate, less the stored answer's;
                    earlier passes are held as in the stored answer, since ties may end otherwise
        own         the same for our own earlier passes
        sound       every constraint is kept in integers, from the stored estimate and from ours
    """

    name: str
    gap: float
    violation: float
    distances: tuple[int, ...]
    own: tuple[int, ...]
    sound: bool


def read_golden_2020(file: Path, entry: dict[str, Any]) -> Golden2020:
    """One problem in arrays whose last axis is the child, answers (children, groups)."""
    if not file.is_file():
        raise InputError(str(file), found="no such file", expected="the file that the index names")
    with np.load(file, allow_pickle=False) as arrays:
        data = {key: arrays[key] for key in arrays.files}
    names = [f"{part}_{query}" for part in ("answer", "variance") for query in QUERIES]
    if missing := [name for name in (*ARRAYS, *names) if name not in data]:
        raise InputError(str(file), found=f"no array {missing[0]}", expected="all of a problem")
    families = [
        Margin(
            group=groups_keeping(SHAPE, keep),
            weight=1 / float(data[f"variance_{query}"]),
            margin=data[f"answer_{query}"].T,
            low=data["low"] if query == "hhgq" else None,
            high=data["high"] if query == "hhgq" else None,
        )
        for query, keep in QUERIES.items()
    ]
    pairs = len(data.get("group_total", ())) > 0
    batch = from_dense(
        data["detail"],
        weight=1 / float(data["detail_variance"]),
        total=data["parent"],
        families=families,
        joint=data["group_of_child"] if pairs else (),
        joint_total=data["group_total"] if pairs else (),
    )
    at_once = entry["level"] == ONE_PASS_LEVEL
    chains = (TOTAL_CHAIN + CHAIN,) if at_once else (TOTAL_CHAIN, CHAIN)
    everything = tuple(range(len(QUERIES)))
    first = (FitPass(families=everything, detail=True),)
    held = float(LevelPasses().within)  # what a release is made with, and under test
    two = (
        FitPass(families=everything[:1], within=held),
        FitPass(families=everything[1:], detail=True),
    )
    return Golden2020(
        name=file.stem,
        batch=batch,
        fits=first if at_once else two,
        roundings=tuple(tuple(map(_groups, chain)) for chain in chains),
        estimate=data["l2"],
        rounded=data["rounded"].astype(np.int64),
    )


def judge_2020(golden: Golden2020) -> Verdict2020:
    """One problem against its stored answers; rounding starts from the stored estimate."""
    batch, stored = golden.batch, on_variables(golden.batch, golden.estimate)
    theirs = on_variables(batch, golden.rounded)
    solved, _ = solve_passes(batch, golden.fits, threads=1)
    last = golden.fits[-1]
    chosen = np.isin(np.arange(len(batch.group)), last.families)
    late = replace(batch, family_weight=np.where(chosen, batch.family_weight, 0.0))
    best = float(objective(late, stored)[0])
    done = bool(solved.outcome.status[0] == Status.SOLVED)
    out = float(violation(batch, solved.x)[0])
    for one in golden.fits[:-1]:
        early = solve_clarabel(programme(fitting(batch, batch, one)), tolerance=1e-12)[1]
        for f in one.families:
            moved = family_margins(batch, solved.x, f) - family_margins(batch, early, f)
            out = max(out, float(np.abs(moved).max(initial=0.0)) - SLACK)
    rounded, after = round_passes(batch, stored, golden.roundings)
    own, _ = round_passes(batch, solved.x, golden.roundings)
    return Verdict2020(
        name=golden.name,
        gap=(float(objective(late, solved.x)[0]) - best) / max(best, 1e-300) if done else np.inf,
        violation=out,
        distances=_beside_the_stored(golden, stored, theirs),
        own=tuple(
            distance(golden, counts, one) - distance(golden, theirs, one)
            for counts, one in zip(after, golden.roundings, strict=True)
        ),
        sound=not (
            rounded.widened.any()
            or violations(batch, rounded.counts)
            or violations(batch, own.counts)
        ),
    )


def _beside_the_stored(golden: Golden2020, stored: Floats, theirs: Ints) -> tuple[int, ...]:
    """Each rounding pass alone, the ones before it as the stored answer has them."""
    batch, out = golden.batch, []
    held: list[tuple[Ints32, Ints]] = []
    for one in golden.roundings:
        found, _ = round_passes(batch, stored, (one,), held=held)
        out.append(distance(golden, found.counts, one) - distance(golden, theirs, one))
        held += [(query, margin_counts(batch, query, theirs)) for query in one]
    return tuple(out)


def distance(golden: Golden2020, counts: Ints, one: RoundPass) -> int:
    """The sum over queries Q of |Q y - round(Q f)|, by plain sums over all cells.

    where y are the counts above, and f what is beyond, the whole parts of the stored estimate;
    round takes halves to even, as the Bureau's rounder does
    """
    whole = np.floor(golden.estimate)
    above = to_dense(golden.batch, counts, n=len(whole)) - whole
    beyond = golden.estimate - whole
    return int(
        sum(np.abs(_summed(query, above) - np.rint(_summed(query, beyond))).sum() for query in one)
    )


def _summed(query: Ints32, cells: Floats) -> Floats:
    sums = np.zeros((int(query.max()) + 1, cells.shape[1]))
    np.add.at(sums, query, cells)
    return sums


def _groups(keep: tuple[int, ...]) -> Any:
    return groups_keeping(SHAPE, keep).astype(np.int32)
