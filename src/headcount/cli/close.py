"""``headcount close``: give up a run that can never complete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def close(
    run: Annotated[Path, typer.Argument(help="The run's directory.")],
    why: Annotated[str, typer.Option(help="The reason, kept in the ledger and the directory.")],
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger, if it is no longer where the config says.")
    ] = None,
) -> None:
    """Close a run that can never complete: its key is destroyed, and its spend stands.

    A spend is not refunded: noise may have been drawn, and even a failure can tell something. A
    run that drew nothing may be voided instead (headcount ledger void).

    Example: headcount close runs/first --why "the disk with the data is gone"
    """
    from headcount.run import close_run

    facts = close_run(run, why=why, ledger=ledger)
    typer.echo(f"run {facts.run_id}: closed; its spend stands and its key is destroyed")
