"""``headcount init``: from a file to a config that runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.options import AsJson


def init(
    file: Annotated[Path, typer.Argument(help="A table: text, Parquet, Excel, Stata or SPSS.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The config to write; by default here.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, take proposals.")] = False,
    places: Annotated[
        str, typer.Option(help="Columns of places from the top down, separated by commas.")
    ] = "",
    epsilon: Annotated[str, typer.Option(help="The privacy loss to start with.")] = "1",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at a file and write a config, a list of places and a schema that run as they are.

    Says what it decided and why, and asks on a terminal. It reads true values to decide, and writes
    no count of people anywhere. Delimiter, encoding, places, attributes, missing values and rows of
    totals are found; what is read from the data is marked so in the config.

    Example: headcount init people.csv
    """
    from headcount.cli.options import print_json
    from headcount.errors import ConfigError
    from headcount.init import TakeProposals, draft, write_draft
    from headcount.numbers import exact_number

    try:
        exact_number(epsilon)
    except ValueError:
        raise ConfigError(
            "--epsilon", found=repr(epsilon), expected="a number above 0 such as 1 or 0.5"
        ) from None
    asks = not yes and sys.stdin.isatty()
    named = [name.strip() for name in places.split(",") if name.strip()]
    made = draft(file, ask=_Person() if asks else TakeProposals(), places=named, epsilon=epsilon)
    config = out or Path(f"{file.name.partition('.')[0] or 'config'}.toml")
    written = write_draft(made, config, overwrite=overwrite)
    if as_json:
        print_json({"config": config, "written": [*map(str, written)], "decided": made.notes})
        return
    for note in made.notes:
        typer.echo(f"  {note}")
    typer.echo(f"written: {', '.join(str(path) for path in written)}")
    typer.echo(f"next:    headcount check {config}")


class _Person:
    """Whoever sits at the terminal."""

    def choose(self, question: str, options: Sequence[str], proposed: str) -> str:
        """What is typed, or what is proposed."""
        from rich.console import Console
        from rich.markup import escape
        from rich.prompt import Prompt

        console = Console(stderr=True)
        return Prompt.ask(
            escape(question), choices=list(options), default=proposed, console=console
        )
