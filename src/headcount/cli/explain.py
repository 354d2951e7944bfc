"""``headcount explain``: a page about a release, in plain words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import Quiet


def explain(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Runs, or folders of releases."),
    ],
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Say nothing that is not in the release itself."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the page; internal/explained/ of the run if not given, "
            "explained/ with --publish."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write one page about a release, for whoever decides on it and for whoever uses it.

    What was protected, what it promises and what it does not, in betting odds: how sure somebody
    can become at most. What is exact, how far off counts are, how to cite it. Of several releases
    also what they promise together.

    Everything follows from the release itself; nothing is computed from the truth, and nothing is
    spent. Without --publish the page also says what the ledger has left, and stays in the house.
    Writes page.html and page.txt.

    \b
    Example:
      headcount explain runs/first
      headcount explain runs/first --publish
      headcount explain runs/first runs/second
    """
    from headcount.run.explain import explain_runs

    done = explain_runs(runs, out=out, publish=publish)
    if not quiet:
        typer.echo(done.text)
    typer.echo(f"page: {done.page}\ntext: {done.text_file}")
