"""``headcount bench``: figures anyone can repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark; without it they are listed.")] = "",
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Measure something and print the figures with the machine's facts.

    Example: headcount bench noise --json noise.json
    """
    from headcount.bench import BENCHMARKS, run_benchmark
    from headcount.bench.figures import machine_facts

    if not name:
        for known, benchmark in BENCHMARKS.items():
            typer.echo(f"  {known:14} {benchmark.question}")
        return
    readings = run_benchmark(name, json_file=json)
    facts = machine_facts()
    typer.echo(f"{facts['processor']}; {facts['machine']}")
    for one in readings:
        note = f"  ({one.note})" if one.note else ""
        typer.echo(f"  {one.what:58} {one.value:>14,.4g} {one.unit}{note}")
