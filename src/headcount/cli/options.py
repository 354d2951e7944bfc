"""Options that several commands share, and answers for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.engines import EngineName
from headcount.processes import only_warnings

if TYPE_CHECKING:
    from headcount.geography.spine import NamedArea

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, for programs, in place of words.")
]


OnEngine = Annotated[
    EngineName | None,
    typer.Option(
        help="Where the work is done: local, this machine, or spark. Results are the same."
    ),
]


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        callback=only_warnings,
        help="Print only where the result is, and warnings; show no progress.",
    ),
]


ProgressFile = Annotated[
    Path | None,
    typer.Option(
        "--progress-file",
        hidden=True,
        help="Note how far the work is in a file, or why it failed.",
    ),
]
"""For the studio, which shows the file."""


def named_area(text: str, *, command: str) -> NamedArea:
    """A union of units as it is typed: NAME=LEVEL:CODE,CODE."""
    from headcount.errors import ConfigError

    name, equals, rest = text.partition("=")
    level, colon, codes = rest.partition(":")
    if not (equals and colon and name and level and codes):
        raise ConfigError(
            command, place="--area", found=repr(text), expected="NAME=LEVEL:CODE,CODE,..."
        )
    return name, level, tuple(codes.split(","))


def print_json(answer: Mapping[str, Any]) -> None:
    """One object on standard output; a table is a list of rows, a fraction stays exact."""
    typer.echo(json.dumps(answer, indent=2, ensure_ascii=False, default=_plain, allow_nan=False))


def _plain(value: Any) -> Any:
    import polars as pl

    if isinstance(value, pl.DataFrame):  # what is no number, such as 0 / 0, is null
        return json.loads(value.write_json())
    if isinstance(value, Path | Fraction):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
