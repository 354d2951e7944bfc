"""``python -m benchmarks NAME ...``, or ``make bench NAME=... ARGS=...``, in a clone."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.figures import Result
from benchmarks.harness import benchmarks, machine_facts, run_all, run_benchmark, write_results
from headcount.errors import HeadcountError
from headcount.privacy.loss import positive

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
Tracts = Annotated[int | None, typer.Option(min=2, help="How many tracts the largest county has.")]
Kills = Annotated[int | None, typer.Option(min=1, help="How many runs to kill.")]
KillsOnSpark = Annotated[int | None, typer.Option(min=0, help="How many of runs on Spark.")]
Quick = Annotated[bool, typer.Option("--quick", help="Less of everything: minutes for all.")]
Json = Annotated[Path | None, typer.Option(help="Also write the figures to this file.")]


def bench(
    benchmark: Annotated[
        str, typer.Argument(help="Which benchmark, or all of them; if none is given, a list.")
    ] = "",
    directory: Dir = None,
    name: Name = None,
    replicates: Replicates = None,
    epsilon: Epsilon = None,
    households: HouseholdsToMake = None,
    persons: Persons = None,
    cases: Cases = None,
    share: PartOfNation = None,
    county: Tracts = None,
    kills: Kills = None,
    on_spark: KillsOnSpark = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Measure something and print the figures with the machine's facts.

    A figure beyond its limit is marked, and the exit code is then 1.

    Examples: make bench NAME=noise ARGS="--json noise.json", make bench NAME=all ARGS=--quick
    """
    if not benchmark:
        for known, one in benchmarks().items():
            usage = f"  {one.usage}" if one.usage else ""
            typer.echo(f"  {known:18} {one.question}{usage}")
        return
    facts = machine_facts()
    typer.echo(f"{facts['processor']}; {facts['machine']}")
    results = []
    if benchmark == "all":
        for result in run_all(quick=quick):
            results.append(result)
            times = f"{result.seconds:.0f} s, {result.cpu:.0f} s of CPU"
            typer.echo(f"{result.name}: {times}{_verdict(result)}")
            _show(result)
    else:
        options: dict[str, object] = {
            "persons": persons,
            "directory": directory,
            "name": name,
            "cases": cases,
        }
        options |= {"replicates": replicates, "households": households, "share": share}
        options |= {"county": county, "kills": kills, "on_spark": on_spark}
        amount = positive(epsilon, name="--epsilon") if epsilon is not None else None
        result = run_benchmark(benchmark, quick=quick, epsilon=amount, **options)
        results.append(result)
        _show(result)
    if json is not None:
        write_results(json, results)
    if failed := [one.name for one in results if not (one.passed or one.left_out)]:
        typer.secho(f"beyond its limits: {', '.join(failed)}", fg="red", err=True)
        raise typer.Exit(1)


def _verdict(result: Result) -> str:
    return f", {result.fault}" if result.fault else "" if result.passed else ", BEYOND ITS LIMITS"


def _show(result: Result) -> None:
    for one in result.readings:
        said = [one.note, f"published: {one.published}" if one.published else ""]
        if one.at_most is not None:
            said.append(f"{'' if one.passed else 'BEYOND '}limit {_short(one.at_most)}")
        note = "; ".join(filter(None, said))
        shown = f"  ({note})" if note else ""
        typer.echo(f"  {one.what:58} {_short(one.value):>14} {one.unit}{shown}")


def _short(value: float) -> str:
    """Four digits, or all those before the point if there are more."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:,.4g}"


app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(bench)


def main() -> None:
    """Run a benchmark; what is refused is one line on standard error and exit code 2."""
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    logging.getLogger("headcount").setLevel(logging.INFO)
    try:
        app(prog_name="python -m benchmarks")
    except HeadcountError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
