"""``headcount protect`` and ``headcount estimate``: make a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import AsJson, OnEngine, ProgressFile, Quiet, print_json
from headcount.processes import progress_of


def protect(
    config: Annotated[Path, typer.Argument(help="A TOML file; see docs/config.md.")],
    engine: OnEngine = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    progress_file: ProgressFile = None,
    only_if: Annotated[
        str,
        typer.Option(
            hidden=True,  # for the studio
            help="Run only if the config is still the one you checked: its SHA-256.",
        ),
    ] = "",
) -> None:
    """Protect a population as a config file says; the same command resumes an unfinished run.

    The run directory has two halves. release/ is what can be published, as safe as its guarantee
    says, which is printed at the end (identity and some others have none). internal/ is secret.

    Example config:

    \b
      [population]
      kind = "microdata"              # or "counts", "uniform"
      file = "people.csv"
      units = "tracts.csv"            # public list of units
      [population.geography]
      columns = ["state", "county", "tract"]
      [[population.attribute]]
      name = "age"
      levels = ["minor", "adult"]
      [mechanism]
      name = "geometric"              # or topdown, swapping, suppression, cell-key, ...
      epsilon = "1/2"
      [run]
      out = "runs/first"
    """
    from headcount.processes import fault_noted
    from headcount.run.protect import protect_run

    progress = progress_of(quiet=quiet or as_json, file=progress_file)
    with fault_noted(progress_file):
        path = protect_run(config, engine=engine, progress=progress, only_if=only_if)
    _show_release(path, as_json=as_json, quiet=quiet)


def estimate(
    config: Annotated[Path, typer.Argument(help="A TOML file; see docs/measurements.md.")],
    engine: OnEngine = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate counts from published noisy measurements alone: no data, no noise, nothing spent.

    The same command resumes an unfinished run. From the measurements of a run of topdown, and with
    its settings, the release is the one that the run made.

    Example config:

    \b
      [measurements]
      folder = "first/release/measurements"
      [run]
      out = "again"
    """
    from headcount.run.estimate import estimate_run

    path = estimate_run(config, engine=engine, progress=progress_of(quiet=quiet or as_json))
    _show_release(path, as_json=as_json, quiet=quiet)


def _show_release(run: Path, *, as_json: bool, quiet: bool) -> None:
    """Where a release is, and what it promises."""
    from headcount.release.store import guarantee_from_json, read_receipt

    receipt = read_receipt(run / "release")
    sentences = guarantee_from_json(receipt["guarantee"]).sentences()
    negative = receipt.get("negative_counts", {})
    if as_json:
        print_json(
            {
                "release": run / "release",
                "guarantee": receipt["guarantee"],
                "in_words": sentences,
                "negative_counts": negative,
            }
        )
        return
    typer.echo(f"release: {run / 'release'}")
    if quiet:
        return
    for sentence in sentences:
        typer.echo(f"  {sentence}")
    below = [
        f"{found['negative']:,} of {found['counts']:,} counts at {level!r}"
        for level, found in negative.items()
        if found["negative"]
    ]
    if below:
        typer.echo(
            f"  Below 0: {', '.join(below)}. That is expected noise. Do not replace such counts "
            "with 0: totals would become too high."
        )
