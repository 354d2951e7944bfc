"""Several finished runs on the same data, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from headcount.errors import RunError
from headcount.evaluation.evaluate import Evaluation
from headcount.release.directory import RunDirectory


def refuse_other_data(paths: Sequence[Path]) -> None:
    """Refuse runs that were not made from the same data, or one that is named twice.

    The data are those before households were cut: everybody counts when a release is scored.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise RunError(f"{paths[-1]}: found a run named twice, expected each run once")
    first = RunDirectory(paths[0]).whole_digest()
    for path in paths[1:]:
        if RunDirectory(path).whole_digest() != first:
            raise RunError(
                f"{path}: found data different from those of {paths[0]}, expected runs on the same "
                "data, with the same units and attributes"
            )


@dataclass(frozen=True, eq=False)
class Compared:
    """One metric of several runs: what is compared, and a table with a column for each run."""

    name: str
    words: str
    table: pl.DataFrame


def side_by_side(evaluations: Mapping[Path, Evaluation]) -> tuple[Compared, ...]:
    """Every metric that two runs or more have, row by row."""
    found: dict[str, list[tuple[Path, pl.DataFrame]]] = {}
    kinds = {}
    for path, evaluation in evaluations.items():
        for finding in evaluation:
            if (frame := finding.compared()) is not None:
                found.setdefault(finding.name, []).append((path, frame))
                kinds[finding.name] = finding
    compared = []
    for name, frames in found.items():
        if len(frames) > 1:
            index, value = kinds[name].index, kinds[name].value
            both = pl.concat(
                [frame.select(pl.lit(str(path)).alias("run"), pl.all()) for path, frame in frames],
                how="vertical_relaxed",
            )
            table = both.pivot("run", index=index, values=value)
            compared.append(Compared(name, f"{kinds[name].value_words} ({name})", table))
    if not compared:
        raise RunError("comparison: found no metric that several runs share, expected one")
    return tuple(compared)
