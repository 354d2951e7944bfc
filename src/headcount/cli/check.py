"""``headcount check``: would this config work, and what would it promise?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    config: Annotated[Path, typer.Argument(help="A TOML file; see docs/config.md.")],
) -> None:
    """Check a config and the data it names, and say what a release would promise.

    Nothing is drawn, written or spent. A bad config is refused before any data is read. Why data
    are refused is written to internal/ of the run directory, not here: it depends on the truth.

    Example: headcount check config.toml
    """
    from headcount.config.load import load_config
    from headcount.privacy import UnitOfPrivacy
    from headcount.run import prepare

    planned = prepare(load_config(config))
    typer.echo(f"population: {planned.counts.schema.size:,} cells, {planned.counts.geography!r}")
    typer.echo(f"mechanism:  {planned.mechanism!r}")
    for one in planned.mechanism.plan(planned.counts.schema, planned.counts.geography):
        losses = [str(loss) for unit in UnitOfPrivacy if (loss := one.loss(unit)) is not None]
        typer.echo(f"  measures {one.query} at {one.level}, {one.draws}x: {'; '.join(losses)}")
    for remark in planned.remarks:
        typer.echo(f"  {remark}")
    for sentence in planned.guarantee.sentences():
        typer.echo(f"  {sentence}")
    typer.echo("all right: nothing was drawn, written or spent")
