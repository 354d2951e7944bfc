"""``headcount demo``: the main job on a population that comes with headcount."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import Quiet

STATE = "WA"
"""The state of the paper's own examples: 39 counties, 2,663 enumeration districts."""


def demo(
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("headcount-demo"),
    quiet: Quiet = False,
) -> None:
    """Protect one state of a synthetic 1940 census at eight values of epsilon, and report.

    It is the study petti-flaxman-2020 for one state, random samples for comparison included, and
    takes a minute or two.

    Example: headcount demo
    """
    from headcount.cli.options import progress_of
    from headcount.run.study import run_study
    from headcount.studies.petti_flaxman_2020.settings import STUDY, Settings

    report = run_study(STUDY, out, Settings(states=(STATE,)), progress=progress_of(quiet=quiet))
    if quiet:
        typer.echo(f"report: {report}")
        return
    typer.echo(f"Done. Open the report in a browser:\n  {report.resolve()}")
