"""Do the verdicts on Christ, Radway & Bellovin (2022) depend on the seed of the block groups?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from benchmarks.figures import Reading, timed
from headcount.studies.christ_2022.settings import Settings
from headcount.studies.christ_2022.study import verdicts_of
from headcount.studies.frame.cache import Cache
from headcount.studies.frame.claims import DEPENDS
from headcount.studies.frame.study import Work

QUICK = {"seeds": "2022", "draws": 2}


def measure(*, seeds: str = "2022,1,2", draws: int = 20) -> list[Reading]:
    """The verdicts with each of some seeds; one that differs between them is "depends"."""
    found, readings = [], []
    for seed in seeds.split(","):
        settings = Settings(seed=int(seed), draws=int(draws))
        with TemporaryDirectory() as folder:
            work = Work(cache=Cache(Path(folder)))
            verdicts, _, cpu = timed(partial(verdicts_of, settings, work))
        found.append(verdicts)
        readings.append(Reading(f"seed {seed}", cpu, "s CPU"))
    for row in over_seeds(found).iter_rows(named=True):
        name = f"{row['holds']}: {row['claim']}"
        shares = ", ".join(f"{share:.2f}" for share in row["shares"])
        readings.append(Reading(name, row["share"], f"of trials; by seed {shares}"))
    return readings


def over_seeds(verdicts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One row a claim: its shares with each seed, their mean, and the verdict over all of them."""
    rows = []
    for same in zip(*(one.iter_rows(named=True) for one in verdicts), strict=True):
        holds = {row["holds"] for row in same}
        shares = [row["share"] for row in same]
        rows.append(
            {
                "id": same[0]["id"],
                "claim": same[0]["claim"],
                "covered_by": same[0]["covered_by"],
                "shares": shares,
                "share": sum(shares) / len(shares),
                "holds": holds.pop() if len(holds) == 1 else DEPENDS,
                "cause": next((row["cause"] for row in same if row["cause"]), ""),
            }
        )
    return pl.DataFrame(rows)
