"""``headcount estimate``: make a release from published measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import AsJson, OnEngine, Quiet


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
    from headcount.cli.options import print_json, progress_of
    from headcount.release.store import guarantee_from_json, read_receipt
    from headcount.run.estimate import estimate_run

    path = estimate_run(config, engine=engine, progress=progress_of(quiet=quiet or as_json))
    receipt = read_receipt(path / "release")
    sentences = guarantee_from_json(receipt["guarantee"]).sentences()
    if as_json:
        release = path / "release"
        print_json({"release": release, "guarantee": receipt["guarantee"], "in_words": sentences})
        return
    typer.echo(f"release: {path / 'release'}")
    for sentence in () if quiet else sentences:
        typer.echo(f"  {sentence}")
