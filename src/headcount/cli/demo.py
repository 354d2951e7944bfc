"""``headcount demo``: the main job on a population that comes with headcount."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import Quiet

CONFIG = Path(__file__).with_suffix(".toml")
"""What the demo compares."""


def demo(
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("headcount-demo"),
    quiet: Quiet = False,
) -> None:
    """Protect made-up people in eight ways, attack each, and compare them in a report.

    Noise with a guarantee (TopDown, with pooling, plain) beside swapping, suppression, cell keys
    and rounding, on towns of 4,000 people. The config is written beside the report, to be changed
    and given to ``headcount compare``.

    Example: headcount demo
    """
    from headcount.cli.compare import show_memo
    from headcount.cli.options import progress_of
    from headcount.comparison.settings import Settings
    from headcount.run.compare import compare_run

    config = out.with_name(f"{out.name}.toml")
    _write(config)
    done = compare_run(
        config,
        Settings(preset="demo"),
        out=out,
        progress=progress_of(quiet=quiet),
    )
    if quiet:
        typer.echo(f"report: {done.internal}")
        return
    show_memo(done, without=("guarantee", "guess_percent"))
    typer.echo(f"Change {config} and give it to headcount compare, or put your own people into it.")
    typer.echo(f"Done. Open the report in a browser:\n  {done.internal.resolve()}")


def _write(config: Path) -> None:
    """Put the config there, unless it is there already; a file of the user's is left alone."""
    from headcount.errors import InputError

    text = CONFIG.read_text(encoding="utf-8")
    if not config.exists():
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(text, encoding="utf-8")
    elif config.read_text(encoding="utf-8", errors="replace") != text:
        raise InputError(
            str(config),
            found="another file than the demo's config",
            expected="no file of that name, or --out with another name; "
            "a config of yours is for headcount compare",
        )
