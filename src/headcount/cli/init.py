"""``headcount init``: from a file to a config that runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.options import AsJson, print_json


def init(
    files: Annotated[
        list[Path],
        typer.Argument(help="A table of any office, and tables or a codebook that belong to it."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The config to write; by default here.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, take proposals.")] = False,
    places: Annotated[
        str, typer.Option(help="Columns of places from the top down, separated by commas.")
    ] = "",
    no_places: Annotated[
        bool, typer.Option("--no-places", help="No column says where: everybody is in one place.")
    ] = False,
    kind: Annotated[
        str, typer.Option(help="What a row is: people, dwellings, long or wide (docs/own-data.md).")
    ] = "",
    count: Annotated[
        str, typer.Option(help="The column that says for how many people a row stands.")
    ] = "",
    key: Annotated[str, typer.Option(help="The column that people of one dwelling share.")] = "",
    attributes: Annotated[
        str, typer.Option(help="Columns of attributes, separated by commas; else found.")
    ] = "",
    universe: Annotated[
        str, typer.Option(help="Of columns that count, only those with this in their names.")
    ] = "",
    not_counts: Annotated[
        str, typer.Option(help="Columns to leave aside, separated by commas.")
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="Only rows with this value: COLUMN=VALUE.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="No rows with this value: COLUMN=VALUE.")
    ] = None,
    blank_counts: Annotated[
        str, typer.Option(help='Counts that are not there are "zero" or "withheld".')
    ] = "",
    ages: Annotated[
        str, typer.Option(help='Whether small ages are "years", or "codes" of age groups.')
    ] = "",
    sheet: Annotated[str, typer.Option(help="The sheet of an Excel file with several.")] = "",
    epsilon: Annotated[str, typer.Option(help="The privacy loss to start with.")] = "1",
    every_level: Annotated[
        bool, typer.Option("--every-level", help="Keep places too small for this loss.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at a file and write a config, a list of places and a schema that run as they are.

    Says what it decided and why, and shows the first rows, the places and the levels as they are
    read, with true numbers of people, on standard output only. It ends with how many people it read
    in how many places: is that right? On a terminal it waits for the answer. A reading that it
    cannot prove is refused, with the option that decides it. It writes no count of people into any
    file. What is read from the data is marked so in the config.

    Of several files it finds which holds the people, and by which key the others belong to it:
    households, places, labels of codes.

    Example: headcount init people.csv
    """
    from headcount.errors import ConfigError
    from headcount.fields import exact_number
    from headcount.init import TakeProposals, Told, config_name, write_draft
    from headcount.init.proposal import proposal_of
    from headcount.population.population import is_it_right

    try:
        exact_number(epsilon)
    except ValueError:
        raise ConfigError(
            "--epsilon", found=repr(epsilon), expected="a number above 0 such as 1 or 0.5"
        ) from None
    asks = not yes and sys.stdin.isatty()
    told = Told.by_words(
        kind=kind,
        places=places,
        no_places=no_places,
        count=count,
        key=key,
        attributes=attributes,
        universe=universe,
        not_counts=not_counts,
        only=only or (),
        leave_out=leave_out or (),
        blank_counts=blank_counts,
        ages=ages,
        sheet=sheet,
    )
    person = _Person()
    answers = person if asks else TakeProposals()
    found = proposal_of(files, ask=answers, epsilon=epsilon, told=told)
    if not every_level:
        found = found.without_hopeless_levels(told)
    made, size = found.made, found.size
    file = Path(str(made.look.path))
    if not as_json:
        for line in (*made.notes, *found.preview.lines()):
            typer.echo(f"  {line}")
    if asks and person.choose(is_it_right(*size), ["yes", "no"], "") != "yes":
        raise ConfigError(
            str(file),
            found="another number of people or places than is right",
            expected="options that say what a row and a column is (headcount init --help)",
        )
    config = out or Path(config_name(file))
    written = write_draft(made, config, overwrite=overwrite)
    if as_json:
        counted = dict(zip(("people", "places"), size, strict=True))
        print_json(
            {"config": config, "written": [*map(str, written)], "decided": made.notes} | counted
        )
        return
    typer.echo(f"written: {', '.join(str(path) for path in written)}")
    typer.echo(f"next:    headcount check {config}")
    typer.echo(is_it_right(*size))


class _Person:
    """Whoever sits at the terminal."""

    def choose(self, question: str, options: Sequence[str], proposed: str) -> str:
        """What is typed, or what is proposed."""
        from rich.console import Console
        from rich.markup import escape
        from rich.prompt import Prompt

        console = Console(stderr=True)
        default: Any = proposed or ...  # without a proposal there must be an answer
        answers = {one: one for one in options}
        if any(" " in one for one in options):  # too long to be typed
            answers = {str(n): one for n, one in enumerate(options, 1)}
            question = "\n".join([question, *(f"  {n}: {one}" for n, one in answers.items())])
        answer: str = Prompt.ask(
            escape(question), choices=list(answers), default=default, console=console
        )
        return answers[answer]
