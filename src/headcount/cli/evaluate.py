"""``headcount evaluate``: how far is a release from the truth?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    run: Annotated[Path, typer.Argument(help="A directory made by headcount protect.")],
) -> None:
    """Score a release against the truth it was made from; for the curator.

    Writes internal/evaluation/ (errors.csv, report.html) and prints the errors of the totals. With
    attributes race and hispanic, representation.csv tells how small groups fare, by size of area.
    Of a suppressed release withheld.csv says how much is withheld by table and level, and the
    report what still leaks.

    Example: headcount evaluate runs/first
    """
    from headcount.cli.show import show_table
    from headcount.report.model import CONFIDENTIAL_BANNER
    from headcount.run import evaluate_run

    scores, report, public = evaluate_run(run)
    if not public:
        typer.secho(CONFIDENTIAL_BANNER, fg="yellow")
    if "withheld" in scores.columns:
        show_table(scores, title="what is withheld: cells, tables, and people in them")
        typer.echo(f"report: {report}")
        return
    show_table(
        scores.filter(query="total").select(
            "level", "n", "median_absolute", "mean_absolute", "p95_absolute", "rmse", "bias"
        ),
        title="errors of the totals, in people",
    )
    typer.echo(f"report: {report}")
