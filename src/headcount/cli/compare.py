"""``headcount compare``: which protection, at what price? ``headcount demo`` shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.cli.options import AsJson, OnEngine, ProgressFile, Quiet, print_json
from headcount.cli.show import show_table
from headcount.processes import progress_of

if TYPE_CHECKING:
    import polars as pl

    from headcount.run.compare import ComparedRun

DEMO = Path(__file__).with_name("demo.toml")
"""What the demo compares."""

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
    no_noise: Annotated[
        bool, typer.Option("--no-noise", help="Leave out methods in which chance decides anything.")
    ] = False,
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
    from headcount.comparison.settings import Settings
    from headcount.processes import fault_noted
    from headcount.run.compare import compare_run

    typed = {"methods": methods, "epsilon": epsilon, "release": ",".join(release or [])}
    read = {
        one.field: one.read(typed[one.field]) for one in Settings.options() if one.field in typed
    }
    settings = Settings(
        preset=preset,
        replicates=replicates,
        seed=seed,
        cells=cells,
        unit=unit,
        no_noise=no_noise,
        **read,
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
        _show_memo(done)
    typer.echo(f"report:     {done.internal}{'' if done.public else ' (confidential)'}")
    typer.echo(f"to publish: {done.publish}")


def _show_memo(done: ComparedRun, *, without: tuple[str, ...] = ()) -> None:
    """The memo's table, shortened for a terminal: what each case costs and gives away."""
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


def demo(
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("headcount-demo"),
    quiet: Quiet = False,
) -> None:
    """Protect made-up people in eight ways, attack each, and compare them in a report.

    Noise with a guarantee (TopDown, with pooling, plain) beside swapping, suppression, cell keys
    and rounding, on towns of 4,000 people. The config is written beside the report, to be changed
    and given to ``headcount compare``.

    Example: headcount demo
    """
    from headcount.comparison.settings import Settings
    from headcount.run.compare import compare_run

    config = out.with_name(f"{out.name}.toml")
    _write_demo(config)
    done = compare_run(
        config,
        Settings(preset="demo"),
        out=out,
        progress=progress_of(quiet=quiet),
    )
    if quiet:
        typer.echo(f"report: {done.internal}")
        return
    _show_memo(done, without=("guarantee", "guess_percent"))
    typer.echo(f"Change {config} and give it to headcount compare, or put your own people into it.")
    typer.echo(f"Done. Open the report in a browser:\n  {done.internal.resolve()}")


def _write_demo(config: Path) -> None:
    """Put the config there, unless it is there already; a file of the user's is left alone."""
    from headcount.errors import InputError

    text = DEMO.read_text(encoding="utf-8")
    if not config.exists():
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(text, encoding="utf-8")
    elif config.read_text(encoding="utf-8", errors="replace") != text:
        raise InputError(
            str(config),
            found="another file than the demo's config",
            expected="no file of that name, or --out with another name; "
            "a config of yours is for headcount compare",
        )
