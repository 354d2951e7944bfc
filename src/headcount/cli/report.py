"""``headcount report``: what a release says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import AsJson, Quiet


def report(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or the folder of a published release.")
    ],
    errors: Annotated[
        bool, typer.Option("--errors", help="How far off its counts are, on average.")
    ] = False,
    runs: Annotated[int, typer.Option(min=2, help="How often the release is protected again.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of that noise.")] = 0,
    measurements: Annotated[
        Path | None,
        typer.Option(help="Published measurements that it was made from, if not beside it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report: by default errors/ in the run.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Report on a release from its published files alone, for whoever uses it.

    --errors predicts how far off the counts of topdown are, by level, query and size: the release
    takes the place of the truth, and the same method protects it again several times. No truth is
    looked at and nothing is spent. Writes errors.csv, errors.parquet and report.html, which may be
    published. Bias is understated in small areas, and shrunk releases understate their errors.

    Example: headcount report runs/first --errors --runs 10
    """
    from headcount.cli.options import print_json, progress_of
    from headcount.cli.show import show_table
    from headcount.run.error_report import report_errors

    if not errors:
        raise typer.BadParameter("say what to report: --errors")
    done = report_errors(
        run,
        out=out,
        measurements=measurements,
        runs=runs,
        seed=seed,
        progress=progress_of(quiet=quiet or as_json),
    )
    if as_json:
        print_json({"report": done.report, "runs": runs, "seed": seed, "errors": done.found.table})
        return
    if not quiet:
        for title, table in done.found.terminal().items():
            show_table(table, title=title)
        typer.echo(done.found.notes())
    typer.echo(f"report: {done.report}")
