"""``headcount evaluate``: how far is a release from the truth?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl

_WORDS = {
    "n": "counts", "median_count": "typical count", "median_absolute": "median error",
    "mean_absolute": "mean error", "p95_absolute": "95 % within", "percent_of_mean": "error %",
    "bias": "bias", "lost": "lost groups", "lost_people": "people lost", "negative": "below 0",
}  # fmt: skip
_ERRORS = ("n", "median_count", "median_absolute", "mean_absolute", "percent_of_mean")


def evaluate(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Directories made by headcount protect."),
    ],
    cells: Annotated[
        str,
        typer.Option(help="Counts to score: all possible ones, truth (not zero), or either."),
    ] = "all",
) -> None:
    """Score a release against the truth it was made from; for the curator.

    Writes internal/evaluation/ (errors.csv, groups.csv, report.html) and prints errors beside the
    size of what is counted. With attributes race and hispanic, representation.csv tells how small
    groups fare, by size of area. Of a suppressed release withheld.csv says how much is withheld by
    table and level, and the report what still leaks.

    Several runs on the same data are also compared. --cells all scores every possible count,
    truth those that are not zero in truth; either adds those that only the release has, so it
    depends on the method and is refused where several runs are compared.

    \b
    Example:
      headcount evaluate runs/first
      headcount evaluate runs/first runs/second --cells truth
    """
    from headcount.cli.show import show_table
    from headcount.evaluate.error import check_cells
    from headcount.run.compare import refuse_other_data, side_by_side
    from headcount.run.evaluate import evaluate_run

    several = len(runs) > 1
    chosen = check_cells(cells, compared=several)
    if several:
        refuse_other_data(runs)
    scores = {}
    for run in runs:
        scores[run], report, public = evaluate_run(run, cells=chosen)
        _show_one(scores[run], report, public, named=run if several else None)
    if several:
        show_table(side_by_side(scores), title="mean error, in people, of the same counts")


def _show_one(scores: pl.DataFrame, report: Path, public: bool, *, named: Path | None) -> None:
    from headcount.cli.show import show_table
    from headcount.report.model import CONFIDENTIAL_BANNER

    if named is not None:
        typer.secho(str(named), bold=True)
    if not public:
        typer.secho(CONFIDENTIAL_BANNER, fg="yellow")
    if "withheld" in scores.columns:
        show_table(scores, title="what is withheld: cells, tables, and people in them")
    else:
        _show_errors(scores)
    typer.echo(f"report: {report}")


def _show_errors(scores: pl.DataFrame) -> None:
    import polars as pl

    from headcount.cli.show import show_table
    from headcount.evaluate.error import CELL_WORDS

    totals = scores.filter(query="total").select("level", *_ERRORS, "p95_absolute", "bias")
    show_table(totals.rename(_WORDS, strict=False), title="errors of the totals, in people")
    leaf = scores["level"][-1]
    finest = scores.filter(level=leaf).select(
        pl.col("query").replace({"cells": "every cell"}).alias("counts by"),
        *(name for name in _ERRORS if name != "median_absolute"),
        *("lost", "lost_people", "negative"),
    )
    show_table(
        finest.rename(_WORDS, strict=False),
        title=f"errors at {leaf!r}, in people",
    )
    typer.echo(
        f"counts: {CELL_WORDS[scores['cells'][0]]}. typical count: median of those that are not 0. "
        "error %: sum of the errors in per cent of the people. lost: groups with people, released "
        "as 0 or less."
    )
