"""``headcount intervals``: between which numbers is a count, in 9 of 10 cases?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import AsJson, Quiet, named_area


def intervals(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run, a release, a folder of measurements, or the config of an estimate.",
        ),
    ],
    query: Annotated[str, typer.Option(help="A query of topdown, such as total or cells.")],
    level: Annotated[str, typer.Option(help="All units of this level.")] = "",
    areas: Annotated[
        Path | None,
        typer.Option(help="A table of areas: area, and a column of codes named as their level."),
    ] = None,
    area: Annotated[
        list[str],
        typer.Option("--area", help="A union of units: NAME=LEVEL:CODE,CODE; may be repeated."),
    ] = [],  # noqa: B006 - typer asks for a list
    confidence: Annotated[
        str, typer.Option(help="How often an interval is to hold the true count, such as 0.95.")
    ] = "0.9",
    out: Annotated[Path | None, typer.Option(help="The table's file: .csv or .parquet.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Give intervals for counts of topdown, from its published measurements alone.

    For each count: the best linear estimate from all noisy answers, its standard deviation, and the
    whole numbers between which the true count is, in as many cases as --confidence says. Released
    counts stand beside; no interval is centred on them. Nothing is spent. The run must have
    published its measurements (publish = ["measurements"]).

    \b
    Example:
      headcount intervals runs/first --query total --level county --out counties.csv
      headcount intervals runs/first --query cells --areas districts.csv --confidence 0.95
      headcount intervals runs/first --query total --area "old town=tract:000100,000200"
    """
    import polars as pl

    from headcount.cli.options import print_json
    from headcount.cli.show import show_table
    from headcount.run.interval_table import write_intervals

    found = write_intervals(
        source,
        query,
        out=out,
        level=level,
        areas=[named_area(one, command="intervals") for one in area],
        areas_file=areas,
        confidence=confidence,
    )
    shown = pl.concat(found.first)
    if as_json:
        numbers = {name: value for name, value in asdict(found).items() if name != "first"}
        print_json({"table": out, "query": query, "confidence": confidence, **numbers})
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
