"""``headcount bench``: figures anyone can repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[Path | None, typer.Option("--dir", help="Folder of another system's files.")]
Name = Annotated[str | None, typer.Option("--name", help="Which population of that folder.")]
Replicates = Annotated[int | None, typer.Option(min=2, help="How many releases to make.")]
Epsilon = Annotated[str | None, typer.Option(help="Total privacy loss, such as 1, 0.25 or 1/4.")]
HouseholdsToMake = Annotated[int | None, typer.Option(min=100, help="How many households to make.")]
Persons = Annotated[Path | None, typer.Option(help="Person records: block, sex, age, race...")]
Cases = Annotated[int | None, typer.Option(min=1, help="How many random cases to run.")]
PartOfNation = Annotated[
    float | None, typer.Option(help="Which part of a nation to make, such as 0.01.")
]
Json = Annotated[Path | None, typer.Option(help="Also write the figures to this file.")]


def bench(
    benchmark: Annotated[
        str, typer.Argument(help="Which benchmark; if none is given, all are listed.")
    ] = "",
    directory: Dir = None,
    name: Name = None,
    replicates: Replicates = None,
    epsilon: Epsilon = None,
    households: HouseholdsToMake = None,
    persons: Persons = None,
    cases: Cases = None,
    share: PartOfNation = None,
    json: Json = None,
) -> None:
    """Measure something and print the figures with the machine's facts.

    Example: headcount bench noise --json noise.json
    """
    from headcount.bench import benchmarks, run_benchmark
    from headcount.bench.figures import machine_facts
    from headcount.privacy.loss import positive

    if not benchmark:
        for known, one in benchmarks().items():
            usage = f"  {one.usage}" if one.usage else ""
            typer.echo(f"  {known:18} {one.question}{usage}")
        return
    readings = run_benchmark(
        benchmark,
        json_file=json,
        persons=persons,
        directory=directory,
        name=name,
        replicates=replicates,
        epsilon=positive(epsilon, name="--epsilon") if epsilon is not None else None,
        households=households,
        cases=cases,
        share=share,
    )
    facts = machine_facts()
    typer.echo(f"{facts['processor']}; {facts['machine']}")
    for reading in readings:
        note = f"  ({reading.note})" if reading.note else ""
        typer.echo(f"  {reading.what:58} {_short(reading.value):>14} {reading.unit}{note}")


def _short(value: float) -> str:
    """Four digits, or all those before the point if there are more."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:,.4g}"
