"""``headcount check``: would this config work, and what would it promise?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    config: Annotated[Path, typer.Argument(help="A TOML file; see docs/config.md.")],
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not show what was read.")
    ] = False,
) -> None:
    """Check a config and the data it names: what was read, and what a release would promise.

    The numbers shown are true ones: confidential unless the population is public, and printed on
    standard output only. Nothing is drawn, written or spent. A bad config is refused before any
    data is read. Why a mechanism refuses data is written to internal/ of the run directory, not
    here.

    Example: headcount check config.toml
    """
    from headcount.cli.reading import show_reading
    from headcount.config.load import load_config
    from headcount.run.protect import prepare_run
    from headcount.tabulate.summary import summarize

    planned = prepare_run(load_config(config))
    if not quiet:
        show_reading(summarize(planned.counts, planned.reading), public=planned.public)
    typer.echo(f"population: {planned.counts.schema.size:,} cells, {planned.counts.geography!r}")
    first, *then = planned.mechanism.parts
    typer.echo(f"mechanism:  {first!r}")
    for part in then:
        typer.echo(f"      then  {part!r}")
    for one in planned.mechanism.plan(planned.counts.schema, planned.counts.geography):
        losses = [str(loss) for unit in one.units if (loss := one.loss(unit)) is not None]
        cost = "; ".join(losses) or "no loss is stated"
        typer.echo(f"  measures {one.query} at {one.level}, {one.draws}x: {cost}")
    for remark in planned.remarks:
        typer.echo(f"  {remark}")
    for sentence in planned.guarantee.sentences():
        typer.echo(f"  {sentence}")
    typer.echo("all right: nothing was drawn, written or spent")
