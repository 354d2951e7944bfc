"""``headcount study``: reproduce a paper with one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Reproduce a paper: tables, figures and a report.",
)

Out = Annotated[Path, typer.Option(help="A new directory for report, tables and figures.")]


@app.command("flaxman-2019")
def flaxman_2019(
    out: Out,
    seed: Annotated[int, typer.Option(min=0, help="Makes the study repeatable.")] = 12345,
    replicates: Annotated[int, typer.Option(min=1, help="Runs behind every mean.")] = 20,
) -> None:
    """Flaxman (2019): how much privacy do simple counting mechanisms lose, measured three ways?

    Example: headcount study flaxman-2019 --out out/flaxman
    """
    from headcount.progress import bar
    from headcount.run_studies import run_flaxman_2019

    report = run_flaxman_2019(out, seed=seed, replicates=replicates, progress=bar)
    typer.echo(f"report: {report}")
