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
    run_id: Annotated[
        str | None,
        typer.Option(help="The run's id on the ledger, if internal/run.json cannot be read."),
    ] = None,
) -> None:
    """Close a run that can never complete: its key is destroyed, any spend stands.

    A spend is not refunded: noise may have been drawn, and even a failure can reveal something. A
    run that drew nothing may be voided instead (headcount ledger void). Where the run's own facts
    (internal/run.json) are damaged, the ledger is marked only if the run's id is given.

    Example: headcount close runs/first --why "the disk with the data is gone"
    """
    from headcount.run.close import close_run

    typer.echo(close_run(run, why=why, ledger=ledger, run_id=run_id).sentence())
