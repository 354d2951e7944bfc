"""``headcount compare``: which protection, at what price?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.cli.options import AsJson, OnEngine, ProgressFile, Quiet

if TYPE_CHECKING:
    import polars as pl

    from headcount.run.compare import ComparedRun


def compare(
    config: Annotated[Path, typer.Argument(help="A TOML file; see docs/compare.md.")],
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for the reports; comparisons/CONFIG if not given."),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="demo (seconds), quick (minutes) or thorough.")
    ] = "quick",
    methods: Annotated[
        str, typer.Option(help="Methods to try, by name, with commas; else those of the preset.")
    ] = "",
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Losses to try, with commas or repeated.")
    ] = None,
    replicates: Annotated[
        int | None, typer.Option(help="Runs of each case; else as the preset says.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes the comparison repeatable.", min=0)] = 0,
    cells: Annotated[
        str, typer.Option(help="Counts to score: all possible ones, or truth (not zero).")
    ] = "all",
    unit: Annotated[
        str, typer.Option(help="Unit of privacy of all losses; else that of the config.")
    ] = "",
    release: Annotated[
        list[str] | None,
        typer.Option(
            help="A finished run that the config's ledger knows, to be described in the version "
            "to publish; may be repeated."
        ),
    ] = None,
    engine: OnEngine = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    progress_file: ProgressFile = None,
) -> None:
    """Protect a population in several ways and compare what each costs and gives away.

    The methods are those of a preset, those named, or the [[case]] tables of the config; its own
    mechanism is compared too, and its unit of privacy is that of all losses. What a method cannot
    do on these data is listed with the reason. The same command goes on where it was stopped.

    Writes two reports: internal/report.html is computed from the data, without protection, and
    confidential; publish/report.html holds only what does not depend on the data (with
    public = true, everything). The runs are seeded: nothing is spent and nothing is a release.
    Choosing a method by looking at the data is itself not protected.

    \b
    Example:
      headcount compare config.toml
      headcount compare config.toml --methods topdown,geometric --epsilon 0.5,1,2
      headcount compare config.toml --preset thorough --out comparisons/thorough
    """
    from headcount.cli.options import print_json, progress_of
    from headcount.comparison.settings import Settings
    from headcount.progress import fault_noted
    from headcount.run.compare import compare_run

    typed = {"methods": methods, "epsilon": epsilon, "release": ",".join(release or [])}
    read = {
        one.field: one.read(typed[one.field]) for one in Settings.options() if one.field in typed
    }
    settings = Settings(
        preset=preset, replicates=replicates, seed=seed, cells=cells, unit=unit, **read
    )
    with fault_noted(progress_file):
        done = compare_run(
            config,
            settings,
            out=out or Path("comparisons") / config.stem,
            engine=engine,
            progress=progress_of(quiet=quiet or as_json, file=progress_file),
        )
    if as_json:
        print_json(
            {
                "report": done.internal,
                "publish": done.publish,
                "confidential": not done.public,
                "memo": _memo(done),
            }
        )
        return
    if not quiet:
        show_memo(done)
    typer.echo(f"report:     {done.internal}{'' if done.public else ' (confidential)'}")
    typer.echo(f"to publish: {done.publish}")


MEMO = {
    "case": "case",
    "guarantee": "guarantee",
    "leaf_percent": "smallest places, %",
    "above_percent": "one level up, %",
    "worst_percent": "worst group, %",
    "withheld_people_percent": "withheld, %",
    "found_percent": "attack right, %",
    "guess_percent": "guess right, %",
}
"""What of the memo a terminal shows, in short words."""


def show_memo(done: ComparedRun, *, without: tuple[str, ...] = ()) -> None:
    """The memo's table, shortened for a terminal: what each case costs and gives away."""
    from headcount.cli.show import show_table
    from headcount.report.model import CONFIDENTIAL_BANNER

    if not done.public:
        typer.secho(CONFIDENTIAL_BANNER, fg="yellow")
    memo = _memo(done).select(list(MEMO))
    empty = [one.name for one in memo if one.null_count() == memo.height]
    memo = memo.drop({*empty, *without}).rename(MEMO, strict=False)
    show_table(memo, title="how far off totals are, and what an attacker gets right")


def _memo(done: ComparedRun) -> pl.DataFrame:
    import polars as pl

    return pl.read_csv(done.internal.parent / "tables" / "memo.csv", glob=False)
