"""Do least squares, rounding and the failsafe match another system's answers in a folder?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.figures import Reading
from benchmarks.golden_2020 import Golden2020, Verdict2020, judge_2020
from benchmarks.golden_files import Golden, golden_problems
from headcount.arrays import Floats, Ints, Ints32
from headcount.topdown.solve.batch import Batch, violation, violations
from headcount.topdown.solve.failsafe import estimate, round_kept
from headcount.topdown.solve.leastsquares import Status, least_squares
from headcount.topdown.solve.rounding import RoundingMethod, round_batch
from tests.support.dense import on_variables, reopen, to_dense
from tests.support.solver_answers import objective

ABOVE = 1e-6
"""How much our objective may lie above the stored one, relative, and a distance, absolute."""
BROKEN = 1e-6
"""How far an estimate may break a constraint, in persons."""


@dataclass(frozen=True, kw_only=True)
class GoldenVerdict:
    """One problem: relative gap of the objective, violation, gap of the L1 distance.

    A gap above 0 means worse than the stored answer. ``rounded`` says that rounding from the
    stored estimate kept every constraint in integers; ``ours`` that rounding our own did.
    """

    name: str
    failsafe: bool
    gap: float
    violation: float
    distance: float
    rounded: bool
    ours: bool

    @property
    def solved(self) -> bool:
        """Whether least squares is as good as the stored answer."""
        return self.gap <= ABOVE and self.violation <= BROKEN

    @property
    def near(self) -> bool:
        """Whether rounding is as good as the stored answer, and ours is sound too."""
        return self.rounded and self.ours and self.distance <= ABOVE


def measure(directory: Path) -> list[Reading]:
    """Run every problem of the folder; counts of passes, worst gaps, names of what failed.

    A folder has problems of 2018, solved at once, or of 2020, solved in passes.
    """
    found = list(golden_problems(directory))
    in_passes = [judge_2020(golden) for golden in found if isinstance(golden, Golden2020)]
    if in_passes:
        return _readings_2020(in_passes)
    verdicts = [judge(golden, directory) for golden in found if isinstance(golden, Golden)]
    plain = [v for v in verdicts if not v.failsafe]
    rescued = [v for v in verdicts if v.failsafe]
    return [
        *_readings("least squares and rounding", plain),
        *_readings("failsafe", rescued),
    ]


def judge(golden: Golden, directory: Path) -> GoldenVerdict:
    """One problem against its stored answers; rounding starts from the stored estimate."""
    if golden.failsafe:
        return _judge_failsafe(golden, directory)
    batch, stored = golden.batch, on_variables(golden.batch, golden.estimate)
    solved = least_squares(batch, threads=1)
    done = bool((solved.outcome.status == Status.SOLVED).all())
    found = round_batch(batch, stored)
    own = round_batch(batch, solved.x)
    return GoldenVerdict(
        name=golden.name,
        failsafe=False,
        gap=_gap(batch, solved.x, golden.objective) if done else np.inf,
        violation=float(violation(batch, solved.x).max(initial=0.0)),
        distance=_distance(batch, found.counts, golden),
        rounded=_sound(batch, found.counts) and bool((found.method != RoundingMethod.NONE).all()),
        ours=_sound(batch, own.counts),
    )


def _judge_failsafe(golden: Golden, directory: Path) -> GoldenVerdict:
    """The first attribute is summed over: the margin over all others is kept."""
    if golden.parent is None:
        raise ValueError(f"{golden.name}: found a failsafe problem without parent")
    cells = len(golden.parent)
    keep = (np.arange(cells) % (cells // golden.shape[0])).astype(np.int32)
    with np.load(directory / f"{golden.name}.npz", allow_pickle=False) as arrays:
        noisy = arrays["noisy_detail"].reshape(cells, -1)
    batch = reopen(golden.batch, keep=keep, total=golden.parent, answer=noisy)
    x, least = estimate(batch, keep=keep)
    counts, _ = round_kept(batch, on_variables(batch, golden.estimate), keep=keep)
    own, _ = round_kept(batch, x, keep=keep)
    return GoldenVerdict(
        name=golden.name,
        failsafe=True,
        gap=_gap(batch, x, golden.objective),
        violation=_kept_violation(batch, x, keep, allowed=least + 1),
        distance=_distance(batch, counts, golden),
        rounded=_sound(batch, counts, keep),
        ours=_sound(batch, own, keep),
    )


def _kept_violation(batch: Batch, x: Floats, keep: Ints32, *, allowed: float) -> float:
    """Largest violation of bounds, of the kept margin, and of the change allowed to the parent."""
    sums = np.add.reduceat(np.append(x, 0.0), batch.var_start[:-1])
    sums[np.diff(batch.var_start) == 0] = 0.0
    margin = np.bincount(keep[batch.cell], weights=sums - batch.total)
    change = float(np.abs(sums - batch.total).sum()) - allowed
    bounds = float(violation(replace(batch, is_root=True), x).max(initial=0.0))
    return max(bounds, float(np.abs(margin).max(initial=0.0)), change)


def _readings(what: str, verdicts: list[GoldenVerdict]) -> list[Reading]:
    if not verdicts:
        return [Reading(f"{what}: problems", 0, "problems")]
    many = f"of {len(verdicts)} pass"
    bad = ", ".join(v.name for v in verdicts if not v.solved)
    far = ", ".join(v.name for v in verdicts if not v.near)
    return [
        Reading(
            f"{what}: estimates",
            sum(v.solved for v in verdicts),
            many,
            f"failed: {bad}" if bad else "",
        ),
        Reading(
            "  worst objective above the stored",
            max(v.gap for v in verdicts),
            "relative",
            "negative: ours is lower",
        ),
        Reading("  worst violation", max(v.violation for v in verdicts), "persons"),
        Reading(
            f"{what}: rounding from the stored estimate",
            sum(v.near for v in verdicts),
            many,
            f"failed: {far}" if far else "",
        ),
        Reading(
            "  worst L1 distance above the stored", max(v.distance for v in verdicts), "persons"
        ),
    ]


def _readings_2020(verdicts: list[Verdict2020]) -> list[Reading]:
    many = f"of {len(verdicts)} pass"
    solved = [v for v in verdicts if v.gap <= ABOVE and v.violation <= BROKEN]
    near = [v for v in verdicts if v.sound and not any(v.distances)]
    bad = ", ".join(v.name for v in verdicts if v not in solved)
    far = ", ".join(v.name for v in verdicts if v not in near)
    passes = max(len(v.distances) for v in verdicts)
    ties = [v.own[-1] for v in verdicts if v in near and any(v.own)]
    return [
        Reading("passes: estimates", len(solved), many, f"failed: {bad}" if bad else ""),
        Reading(
            "  worst objective of the last pass above the stored",
            max(v.gap for v in verdicts),
            "relative",
            "negative: ours is lower",
        ),
        Reading("  worst violation, band included", max(v.violation for v in verdicts), "persons"),
        Reading(
            "passes: rounding from the stored estimate",
            len(near),
            many,
            f"failed: {far}" if far else "",
        ),
        *(
            Reading(
                f"  pass {k + 1}: worst L1 distance above the stored",
                max(v.distances[k] for v in verdicts if len(v.distances) > k),
                "persons",
                "earlier passes as stored",
            )
            for k in range(passes)
        ),
        Reading(
            "  problems with another choice among ties",
            len(ties),
            "problems",
            f"last pass nearer in {sum(t < 0 for t in ties)}, "
            f"farther in {sum(t > 0 for t in ties)}",
        ),
    ]


def _gap(batch: Batch, x: Floats, stored: float) -> float:
    return (float(objective(batch, x).sum()) - stored) / max(abs(stored), 1e-300)


def _distance(batch: Batch, counts: Ints, golden: Golden) -> float:
    """How much farther our counts are from the stored estimate than the stored ones."""
    dense = to_dense(batch, counts, n=len(golden.estimate))
    return float(np.abs(dense - golden.estimate).sum()) - golden.distance


def _sound(batch: Batch, counts: Ints, keep: Ints32 | None = None) -> bool:
    return not violations(batch, counts, keep=keep)
