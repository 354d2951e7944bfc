"""The command line: one short file per verb, no logic of its own."""

from __future__ import annotations

import contextlib
import logging
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headcount._version import __version__
from headcount.cli import (
    attack,
    check,
    close,
    compare,
    errors,
    evaluate,
    explain,
    init,
    ledger,
    plan,
    protect,
    studio,
    study,
)
from headcount.errors import HeadcountError
from headcount.processes import Terminated, own_process, was_stopped

EXAMPLES = """Protect census-like counts, and measure what the protection costs.

\b
From a file to a release:
  headcount init people.csv                       look at a file, write a config
  headcount check people.toml                     is it all right? how far off will it be?
  headcount plan people.toml --set epsilon=2      and at another loss?
  headcount protect people.toml                   make a release
  headcount errors runs/people                    how far off is it, by the release alone?
  headcount evaluate runs/people                  how far off is it from the truth?
  headcount explain runs/people                   a page about it, in plain words
  headcount attack reconstruct runs/people --out found     rebuild records from it

\b
And besides:
  headcount demo                                  a first report, on made-up people
  headcount compare people.toml                   several methods side by side
  headcount studio                                the whole way in a browser
  headcount errors runs/people --level county     between which numbers is each count?
  headcount estimate again.toml                   a release from published measurements
  headcount ledger show census.ledger.sqlite      what is left to spend
  headcount close runs/people --why "no disk"     give up a run that cannot finish
  headcount study petti-flaxman-2020 --out pf     reproduce a paper
  headcount schema > headcount.schema.json        keys of a config, for your editor

Each command has its own --help with an example. --json prints an answer for programs, --quiet
only where the result is. headcount --install-completion lets your shell complete commands.

\b
Exit codes:
  0    done
  1    a fault of headcount itself: please report it
  2    refused: the command, the config or the data; the message says what was expected
  3    the machine: disk full, no permission, too little memory
  130  stopped with Ctrl-C: what was finished is kept
  143  asked to end by the system or another program (SIGTERM): the same as 130
"""

RESUMES = ("protect", "estimate", "study", "demo", "compare")
"""Commands that go on where they were when they are given again."""


RENAMED = {"report": "errors", "intervals": "errors"}
"""Commands that have another name now; the old ones work for one version and are in no help."""

MOVED = {"bench": "benchmarks are run from a clone of the repository: make bench NAME=..."}
"""Commands that are no more, and what to do instead; each is answered for one version."""

CTRL_C = 130


class _StoppedError(Exception):
    """Somebody pressed Ctrl-C during a command, or asked its process to end."""

    def __init__(self, command: str, exit_code: int) -> None:
        super().__init__(command)
        self.exit_code = exit_code


class Commands(TyperGroup):
    """The commands; one that is stopped says what becomes of its work."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of that name; an old name says what has taken its place."""
        if args[0] in MOVED:
            raise HeadcountError(f"headcount {args[0]}: {MOVED[args[0]]}")
        if args[0] in RENAMED:
            old, args = args[0], [RENAMED[args[0]], *args[1:]]
            typer.echo(f"headcount {old} is now headcount {args[0]}: use that name", err=True)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; ``Any`` is click's context, which typer keeps to itself."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            code = stopped.exit_code if isinstance(stopped, Terminated) else CTRL_C
            raise _StoppedError(ctx.invoked_subcommand or "", code) from None


app = typer.Typer(
    cls=Commands,
    help=EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: shows examples as written, and starts twice as fast
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"headcount {__version__}")
        raise typer.Exit


@app.callback()
def _headcount(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    pass


_headcount.__doc__ = EXAMPLES
app.command("init", short_help="Look at a file, and write a config that runs.")(init.init)
app.command("check", short_help="Is a config all right? What would it promise, how far off?")(
    check.check
)
app.command("plan", short_help="What would be off at another loss, or with other shares?")(
    plan.plan
)
app.command("protect", short_help="Make a release as a config says.")(protect.protect)
app.command("errors", short_help="How far off is a release, by what is published of it?")(
    errors.errors
)
app.command("evaluate", short_help="Score a release against the truth.")(evaluate.evaluate)
app.command("explain", short_help="One page about a release, in plain words.")(explain.explain)
app.command("compare", short_help="Several methods on the same people, in one report.")(
    compare.compare
)
app.add_typer(
    attack.app, name="attack", short_help="Rebuild, find, link or subtract people of a release."
)
app.command("estimate", short_help="Make counts from published noisy measurements.")(
    protect.estimate
)
app.add_typer(ledger.app, name="ledger")
app.command("close", short_help="Give up a run that can never complete.")(close.close)
app.add_typer(study.app, name="study")
app.command("studio", short_help="The whole way in a browser.")(studio.studio)
app.command("schema", short_help="Print the keys of a config, for your editor.")(check.schema)
app.command("demo", short_help="A first report, on made-up people.")(compare.demo)


def main() -> None:
    """Run a command; an expected error is one clear line on standard error and exit code 2."""
    try:
        own_process()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # a terminal without some letter gets "?"
                stream.reconfigure(errors="replace")
        logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
        logging.getLogger("headcount").setLevel(logging.INFO)
        app()
    except KeyboardInterrupt as stopped:  # before there was a command
        sys.exit(stopped.exit_code if isinstance(stopped, Terminated) else CTRL_C)
    except SystemExit:  # typer ends with the code of Ctrl-C while it reads the options
        if number := was_stopped():
            sys.exit(128 + number)
        raise
    except _StoppedError as stopped:
        resumes = str(stopped) in RESUMES
        what = "the same command resumes" if resumes else "nothing was left half written"
        with contextlib.suppress(OSError):  # the terminal may be gone
            typer.secho(f"stopped: {what}", err=True)
        sys.exit(stopped.exit_code)
    except HeadcountError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(2)
    except OSError as error:
        # Disk full, no permission, read-only: what is on disk is the last good state.
        what = error.strerror or str(error)
        typer.secho(f"error: {error.filename or 'file system'}: {what}", fg="red", err=True)
        sys.exit(3)
    except MemoryError:
        typer.secho("error: too little memory for this", fg="red", err=True)
        sys.exit(3)
