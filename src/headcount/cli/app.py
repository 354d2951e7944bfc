"""The command line: one short file per verb, no logic of its own."""

from __future__ import annotations

import logging
import sys
from io import TextIOWrapper

import typer

from headcount.cli import (
    attack,
    bench,
    check,
    close,
    demo,
    evaluate,
    init,
    ledger,
    protect,
    schema,
    study,
)
from headcount.errors import HeadcountError

EXAMPLES = """Protect census-like counts, and measure what the protection costs.

\b
Examples:
  headcount demo                                  a small study, ending in a report
  headcount init people.csv                       look at a file, write a config
  headcount check config.toml                     are config and data all right?
  headcount protect config.toml                   make a release
  headcount schema > headcount.schema.json        keys of a config, for your editor
  headcount close runs/first --why "no disk"      give up a run that cannot finish
  headcount evaluate runs/first                   how far is it from the truth?
  headcount attack reconstruct runs/first --out found     rebuild records from it
  headcount study petti-flaxman-2020 --out pf     reproduce a paper
  headcount ledger show census.ledger.sqlite      what is left to spend
  headcount bench                                 what can be measured here

Each command has its own --help with an example.
"""

app = typer.Typer(
    help=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: shows examples as written, and starts twice as fast
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("protect")(protect.protect)
app.command("check")(check.check)
app.command("schema")(schema.schema)
app.command("close")(close.close)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(attack.app, name="attack")
app.add_typer(study.app, name="study")
app.command("bench")(bench.bench)
app.add_typer(ledger.app, name="ledger")


def main() -> None:
    """Run a command; an expected error is one clear line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without some letter gets "?"
            stream.reconfigure(errors="replace")
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    logging.getLogger("headcount").setLevel(logging.INFO)
    try:
        app()
    except HeadcountError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(2)
    except OSError as error:
        # Disk full, no permission, read-only: what is on disk is the last good state.
        what = error.strerror or str(error)
        typer.secho(f"error: {error.filename or 'file system'}: {what}", fg="red", err=True)
        sys.exit(3)
    except MemoryError:
        typer.secho("error: memory: found too little for this, expected more", fg="red", err=True)
        sys.exit(3)
