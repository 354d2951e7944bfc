"""``headcount evaluate``: what does a release cost, and what does it give away?"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.cli.options import AsJson, OnEngine, Quiet, print_json
from headcount.cli.show import show_table
from headcount.processes import progress_of

if TYPE_CHECKING:
    from headcount.run.evaluate import Compared, EvaluatedRun
    from headcount.run.matching import Matching

MOST_ROWS = 40


def evaluate(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Directories made by headcount protect."),
    ] = None,
    cells: Annotated[
        str | None,
        typer.Option(
            help="Counts to score: all possible ones (default), truth (not zero), or either."
        ),
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="Metrics to compute: names separated by commas, all, or none.")
    ] = "all",
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Also bound epsilon from below by many runs."),
    ] = False,
    attacks: Annotated[
        str, typer.Option(help="Attacks to make: names separated by commas, all, or none.")
    ] = "all",
    truth: Annotated[
        Path | None,
        typer.Option(help="Your people, behind --release: a table, or a config."),
    ] = None,
    release: Annotated[
        list[Path] | None,
        typer.Option(help="A file of a release that was not made here; may be given again."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="With --release: the folder for tables and report.")
    ] = Path("evaluation"),
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --release: take the proposed matching.")
    ] = False,
    engine: OnEngine = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score a release against the truth it was made from; for the curator.

    Writes internal/evaluation/: a table for each metric, and report.html, which explains them. The
    metrics that apply follow from the release: errors (errors.csv, groups.csv) or what is withheld
    (withheld.csv), how small groups fare, and more; --audit runs the mechanism many times to see
    whether it keeps its epsilon. Then the release is attacked by someone who knows where everybody
    lives: can records be rebuilt, and people found in them? Attacks that take long are made on some
    units, drawn at random. What was left out is listed with the reason.

    Several runs on the same data are also compared. --cells all scores every possible count,
    truth those that are not zero in truth; either adds those that only the release has, so it
    depends on the method and is refused where several runs are compared.

    --truth and --release score files that were not made here, in place of runs: tables of counts
    (tidy or wide), the Bureau's MDF of 1940, PPMF. Where columns and codes are not called as yours,
    a matching is proposed and shown; once agreed to it is written into the config, which for a
    table of yours is made in the folder of --out. Nothing is known of the files' guarantee.

    \b
    Example:
      headcount evaluate runs/first
      headcount evaluate runs/first runs/second --cells truth
      headcount evaluate runs/first --metrics error,representation --attacks none
      headcount evaluate --truth mine.csv --release theirs.csv
    """
    from headcount.evaluation.evaluate import Choice, named
    from headcount.evaluation.tally import check_cells
    from headcount.run.evaluate import evaluate_files, evaluate_run, refuse_other_data, side_by_side

    runs = runs or []
    _refuse_mixture(runs, truth, release)
    several = len(runs) > 1
    settings = {}
    if cells is not None or several:  # otherwise a config may have its own
        settings["error"] = {"cells": check_cells(cells or "all", compared=several)}
    choice = Choice(
        metrics=named(metrics),
        attacks=named(attacks),
        on_request=("audit",) if audit else (),
        settings=settings,
    )
    if several:
        refuse_other_data(runs)
    if truth is not None and release:
        from headcount.run.matching import matched

        truth = matched(truth, release, out=out, agree=partial(_agreed, yes=yes))
    evaluated = {}
    progress = progress_of(quiet=quiet or as_json)
    for run in runs or [out]:
        if truth is not None and release:
            done = evaluate_files(
                truth, release, out=out, choice=choice, engine=engine, progress=progress
            )
        else:
            done = evaluate_run(run, choice=choice, engine=engine, progress=progress)
        evaluated[run] = done
        if quiet:
            typer.echo(f"report: {done.report}")
        elif not as_json:
            _show_one(done, named=run if several else None)
    compared: tuple[Compared, ...] = ()
    if several:
        compared = side_by_side({run: done.evaluation for run, done in evaluated.items()})
    if as_json:
        print_json(
            {
                "runs": [_plain(run, done) for run, done in evaluated.items()],
                "compared": {one.words: one.table for one in compared},
            }
        )
    for one in () if quiet or as_json else compared:
        _show_compared(one)


def _refuse_mixture(runs: list[Path], truth: Path | None, release: list[Path] | None) -> None:
    if bool(release) != (truth is not None) or bool(runs) == bool(release):
        raise typer.BadParameter("give run directories, or --truth FILE and --release FILE")


def _agreed(found: Matching, *, yes: bool) -> bool:
    """Show how files are matched, and ask once; the counts are for the curator's eyes."""
    from headcount.errors import ConfigError

    for line in found.said:
        typer.echo(line, err=True)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError(
            "--release",
            found="columns or codes that are not called as in --truth",
            expected="--yes, to take the matching above, or a table [release] in the config",
        )
    return typer.confirm("Is that right?", err=True)


def _plain(run: Path, done: EvaluatedRun) -> dict[str, Any]:
    """What was found about a run, for programs."""
    return {
        "run": run,
        "report": done.report,
        "confidential": not done.public,
        "tables": {name: table for one in done.evaluation for name, table in one.files().items()},
        "not_computed": {one.name: one.why for one in done.evaluation.not_computed},
    }


def _show_compared(one: Compared) -> None:
    """A long table is shown for its last level; the files of each run have the others."""

    if not one.table.height:
        typer.echo(f"{one.words}: nothing is left to compare")
        return
    table = one.table
    if table.height > MOST_ROWS and "level" in table.columns:
        table = table.filter(level=table["level"][-1])
    show_table(table, title=one.words)
    if left := one.table.height - table.height:
        typer.echo(f"{left} rows of other levels: see the tables of each run")


def _show_one(done: EvaluatedRun, *, named: Path | None) -> None:
    from headcount.privacy.guarantee import UnknownGuarantee
    from headcount.report.model import CONFIDENTIAL_BANNER

    if named is not None:
        typer.secho(str(named), bold=True)
    if isinstance(done.release.guarantee, UnknownGuarantee):
        typer.echo(done.release.guarantee.sentences()[0])
    if not done.public:
        typer.secho(CONFIDENTIAL_BANNER, fg="yellow")
    for finding in done.evaluation:
        tables = finding.terminal()
        for title, table in tables.items():
            show_table(table, title=title)
        if tables and finding.notes():
            typer.echo(finding.notes())
        for number in () if tables else finding.numbers():
            unit = f" {number.unit}" if number.unit else ""
            typer.echo(f"{number.value}{unit} {number.label}")
    for left_out in done.evaluation.not_computed:
        typer.echo(f"not computed: {left_out.name}: {left_out.why}")
    typer.echo(f"report: {done.report}")
