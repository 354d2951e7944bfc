"""``headcount demo``: the main job on a population that comes with headcount."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("headcount-demo"),
) -> None:
    """Run a small study on an embedded population and say where the report is.

    Example: headcount demo
    """
    from headcount.progress import bar
    from headcount.run_studies import run_flaxman_2019

    report = run_flaxman_2019(out, seed=12345, replicates=5, progress=bar)
    typer.echo(f"Done. Open the report in a browser:\n  {report.resolve()}")
