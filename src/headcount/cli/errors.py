"""``headcount errors``: how far off is a release, by what is published of it alone?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.options import AsJson, Quiet, named_area, print_json
from headcount.cli.show import show_table
from headcount.processes import progress_of


def errors(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run, or the folder of a release. For intervals also a folder of measurements "
            "or the config of an estimate.",
        ),
    ],
    level: Annotated[
        str, typer.Option(help="Intervals for every unit of this level, such as county.")
    ] = "",
    area: Annotated[
        list[str],
        typer.Option(
            "--area",
            help="Intervals for a union of units: NAME=LEVEL:CODE,CODE; may be repeated.",
        ),
    ] = [],  # noqa: B006 - typer asks for a list
    areas: Annotated[
        Path | None,
        typer.Option(
            help="Intervals for areas of a table: area, and a column of codes named as their level."
        ),
    ] = None,
    query: Annotated[
        str, typer.Option(help="The counts that get intervals; total if not given.")
    ] = "",
    confidence: Annotated[
        str | None,
        typer.Option(
            help="How often an interval is to hold the true count, such as 0.95; 0.9 if not given."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=2, help="How often the release is protected again for the report; 5 if not given."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of that noise; 0 if not given.")
    ] = None,
    measurements: Annotated[
        Path | None,
        typer.Option(
            help="For the report: measurements that the release was made from, if not beside it."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the report, errors/ in the run if not given; "
            "of intervals the table's file, .csv or .parquet."
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    was_report: Annotated[bool, typer.Option("--errors", hidden=True)] = False,
) -> None:
    """Say how far off the counts of topdown are, for whoever uses a release.

    Only published files are read: no truth is looked at, and nothing is spent.

    Without --level, --area or --areas: a report of average errors by level, query and size. The
    release takes the place of the truth, and the same method protects it again several times.
    Writes errors.csv, errors.parquet and report.html, which may be published. Bias is understated
    in small areas, and shrunk releases understate their errors.

    With one of them: an interval for each count, from the published measurements (the run needs
    publish = ["measurements"]). For each count the best linear unbiased estimate (BLUE) from all
    noisy answers, its standard deviation, and the whole numbers between which the true count is,
    in as many cases as --confidence says. Released counts stand beside; no interval is centred on
    them.

    \b
    Example:
      headcount errors runs/first
      headcount errors runs/first --level county --out counties.csv
      headcount errors runs/first --area "old town=tract:000100,000200" --confidence 0.95
      headcount errors runs/first --query cells --areas districts.csv
    """
    if level or area or areas or query:
        _refuse_beside(
            "intervals", {"--runs": runs, "--seed": seed, "--measurements": measurements}
        )
        _intervals(
            source,
            query or "total",
            out,
            level=level,
            areas=[named_area(one, command="errors") for one in area],
            areas_file=areas,
            confidence=confidence or "0.9",
            as_json=as_json,
            quiet=quiet,
        )
        return
    _refuse_beside("a report", {"--confidence": confidence})
    if out is not None and out.suffix in (".csv", ".parquet"):
        raise typer.BadParameter(f"--out {out}: a report needs a folder; intervals need --level")
    _report(source, out, runs, seed, measurements=measurements, as_json=as_json, quiet=quiet)


def _refuse_beside(asked: str, others: Mapping[str, object]) -> None:
    """Refuse options of the other half of the command."""
    for name, value in others.items():
        if value is not None:
            raise typer.BadParameter(f"{name} is not for {asked}: see --help")


def _report(
    source: Path,
    out: Path | None,
    runs: int | None,
    seed: int | None,
    *,
    measurements: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Average errors, by protecting the release again."""
    from headcount.run.error_report import RUNS, SEED, report_errors

    done = report_errors(
        source,
        out=out,
        measurements=measurements,
        runs=runs or RUNS,
        seed=SEED if seed is None else seed,
        progress=progress_of(quiet=quiet or as_json),
    )
    found = done.found
    if as_json:
        print_json(
            {"report": done.report, "runs": found.runs, "seed": found.seed, "errors": found.table}
        )
        return
    if not quiet:
        for title, table in found.terminal().items():
            show_table(table, title=title)
        typer.echo(found.notes())
    typer.echo(f"report: {done.report}")


def _intervals(
    source: Path, query: str, out: Path | None, *, as_json: bool, quiet: bool, **chosen: Any
) -> None:
    """An interval for each count; ``chosen`` says of which places, and how sure."""
    import polars as pl

    from headcount.run.intervals import write_intervals

    found = write_intervals(source, query, out=out, **chosen)
    shown = pl.concat(found.first)
    if as_json:
        numbers = {name: value for name, value in asdict(found).items() if name != "first"}
        print_json({"table": out, "query": query, "confidence": chosen["confidence"], **numbers})
        return
    if not quiet:
        show_table(shown.with_columns(pl.col("estimate", "deviation").round(1)), title=query)
        if found.rows > len(shown):
            more = "" if out else ": --out FILE writes all"
            typer.echo(f"the first {len(shown)} of {found.rows:,} rows{more}")
        for sentence in found.sentences():
            typer.echo(f"  {sentence}")
    if out is not None:
        typer.echo(f"table: {out}")
