"""How do time, memory and published rows of Petti & Flaxman (2020) come out at full size?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from headcount.bench.figures import Reading, peak_gib, timed
from headcount.comparison.cache import Cache
from headcount.comparison.study import Work
from headcount.engines.local import LocalEngine
from headcount.evaluation.tally import summarise
from headcount.mechanisms.topdown.descend import descend
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.planned import PlannedNoise
from headcount.mechanisms.topdown.restrict import restrict
from headcount.noise import KeyedNoise, RunKey, TwoSidedGeometric
from headcount.progress import silent
from headcount.tabulate import CELLS, Counts, counts_digest, tabulate
from headcount_papers.frame.claims import NO, YES, read_claims
from headcount_papers.petti_flaxman_2020 import STUDY
from headcount_papers.petti_flaxman_2020.residuals import STRATA, TrueCounts, pool, reduce_release
from headcount_papers.petti_flaxman_2020.settings import CountType, Level, Settings
from headcount_papers.petti_flaxman_2020.study import run_on
from headcount_papers.petti_flaxman_2020.targets import met_by_kind

SEED = 1940

Change = Callable[[PlannedNoise, str], PlannedNoise]
Cell = tuple[CountType, Level]

QUICK = None  # a study of the whole nation: many minutes


def measure(*, replicates: int = 4) -> list[Reading]:
    """The whole study on the nation, then one run of each wrong build at epsilon 1."""
    settings = Settings(replicates=int(replicates), seed=SEED)
    nation = settings.read(silent)
    with TemporaryDirectory() as folder:
        work = Work(cache=Cache(Path(folder)), engine=LocalEngine())
        study, wall, cpu = timed(lambda: run_on(nation, settings, work))
    return [
        Reading("study, 8 epsilons and 19 fractions", wall, "s wall"),
        Reading("  all threads", cpu, "s CPU"),
        Reading("  peak memory of the process", peak_gib(), "GiB"),
        *judged(study.tables["targets"]),
        *wrong_builds(tabulate(nation)),
    ]


def judged(targets: pl.DataFrame) -> list[Reading]:
    """How many published numbers are met, how much else, and every miss beside what was asked."""
    all_of = targets.filter(pl.col("holds").is_in([YES, NO]))
    missed = all_of.filter(holds=NO)
    kinds = all_of.group_by("id", "level", maintain_order=True).agg(
        pl.len().alias("judged"), (pl.col("holds") == NO).sum().alias("missed")
    )
    return [
        *(
            Reading(f"{kind}: met", met, f"of {of}")
            for kind, (met, of) in met_by_kind(targets).items()
        ),
        Reading("numbers missed", missed.height, f"of {all_of.height}"),
        *(
            Reading(f"  {kind}{'' if level is None else f', {level}'}", misses, f"of {number}")
            for kind, level, number, misses in kinds.iter_rows()
        ),
        *(_miss(row) for row in missed.iter_rows(named=True)),
    ]


def _miss(row: dict[str, Any]) -> Reading:
    asked = f"{row['rule']} {row['published']:.4g}"
    if row["tolerance"] is not None:
        asked = f"within {row['tolerance']:.3g} of {row['published']:.4g}"
    return Reading(f"missed: {row['claim']}", row["ours"], "", f"asked: {asked}")


def tolerances() -> dict[Cell, float]:
    """How far the RMSE of TopDown may be off at most epsilons, as a share of the published one."""
    (claim,) = [one for one in read_claims(STUDY.package) if one.id == "topdown rmse"]
    return {
        (case["count_type"], case["level"]): case["relative"]
        for case in claim.tolerance
        if "epsilon" not in case and "relative" in case
    }


class WrongBuild(Measurements):
    """Measurements whose noise or weights are not what the settings ask for."""

    def change(self, change: Change) -> None:
        """Replace the noise of every query; weights go to the least squares as they are then."""
        self.planned = {
            (level, query): change(noise, query) for (level, query), noise in self.planned.items()
        }


def _rate(noise: PlannedNoise, factor: Fraction) -> PlannedNoise:
    assert isinstance(noise.law, TwoSidedGeometric)
    law = TwoSidedGeometric(noise.law.rate * factor)
    return replace(noise, law=law, weight=1 / law.variance)


WRONG_BUILDS: dict[str, Change] = {
    "as it should be": lambda noise, query: noise,
    "weights all 1": lambda noise, query: replace(noise, weight=1.0),
    "weights 1/SD": lambda noise, query: replace(noise, weight=noise.weight**0.5),
    "weights = variance": lambda noise, query: replace(noise, weight=1 / noise.weight),
    "sensitivity 1": lambda noise, query: _rate(noise, Fraction(2)),
    "shares counted twice": lambda noise, query: (
        noise if query == CELLS else _rate(noise, Fraction(9, 10))
    ),
}


def wrong_builds(counts: Counts) -> list[Reading]:
    """RMSE of one run of each build over that of the right one, at epsilon 1."""
    truth = TrueCounts(counts)
    found = {name: _rmse(counts, truth, change) for name, change in WRONG_BUILDS.items()}
    right = found.pop("as it should be")
    readings = []
    for name, wrong in found.items():
        for cell, share in tolerances().items():
            ratio = wrong[cell] / right[cell]
            caught = "caught" if abs(ratio - 1) > share else "not seen"
            readings.append(
                Reading(
                    f"{name}: {cell[0]} {cell[1]}",
                    ratio,
                    "RMSE ratio",
                    f"{caught} at a tolerance of {share:.0%}",
                )
            )
    return readings


def _rmse(counts: Counts, truth: TrueCounts, change: Change) -> dict[Cell, float]:
    settings = TopDown.from_preset("e2e-2018", epsilon=1)
    levels = {level: counts.at(level) for level in counts.geography.levels}
    noise = KeyedNoise(RunKey.from_seed(SEED), "topdown", counts_digest(counts), b"wrong builds")
    measurements = WrongBuild(levels, settings, noise, run=0)
    measurements.change(change)
    made = descend(
        schema=counts.schema,
        geography=counts.geography,
        settings=settings,
        measurements=measurements,
        restrictions=restrict(settings, levels),
        engine=LocalEngine(),
        progress=silent,
    )
    leaf = made.tables[counts.geography.leaf]
    strata = np.asarray((leaf @ STRATA.matrix(counts.schema)).toarray(), dtype=np.int64)
    errors = reduce_release(truth, strata)
    return {cell: summarise(pool([errors], *cell)).rmse for cell in tolerances()}
