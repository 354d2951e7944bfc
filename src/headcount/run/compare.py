"""Several finished runs on the same data, scored on the same counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from headcount.errors import RunError
from headcount.release.directory import RunDirectory


def refuse_other_data(paths: Sequence[Path]) -> None:
    """Refuse runs that were not made from the same data, or one that is named twice."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise RunError(f"{paths[-1]}: found a run named twice, expected each run once")
    digests = {}
    for path in paths:
        facts = RunDirectory(path).facts()
        digests[path] = None if facts is None else facts.data_digest
        if digests[path] != digests[paths[0]]:
            raise RunError(
                f"{path}: found other data than those of {paths[0]}, expected runs on the same "
                "data, with the same units and attributes"
            )


def side_by_side(scores: Mapping[Path, pl.DataFrame]) -> pl.DataFrame:
    """Mean absolute error by level and query, a column for each run of counts.

    A suppressed release has no error to be compared: what it withholds is in its own account.
    """
    counted = {path: frame for path, frame in scores.items() if "mean_absolute" in frame.columns}
    made = [
        frame.select(pl.lit(str(path)).alias("run"), "level", "query", "n", "mean_count",
                     "mean_absolute")
        for path, frame in counted.items()
    ]  # fmt: skip
    if not made:
        raise RunError("comparison: found no run with counts, expected at least one")
    return pl.concat(made).pivot(
        "run", index=["level", "query", "n", "mean_count"], values="mean_absolute"
    )
