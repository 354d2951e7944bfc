"""``headcount study``: reproduce a paper with one command.

A study's settings give its options, so that no study is named here.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from headcount.cli.options import OnEngine, Quiet
from headcount.engines import EngineName
from headcount.processes import progress_of

if TYPE_CHECKING:
    from headcount.comparison.study import Given, Study


ALL = "all"


class Studies(TyperGroup):
    """The studies as commands, each loaded when it is asked for.

    ``Any`` is click's context or command, which typer keeps to itself.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Every study, and all of them."""
        from headcount.comparison.study import study_names

        return [ALL, *study_names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a study, or None if there is none of that name."""
        from headcount.comparison.study import load_study, study_names

        if cmd_name == ALL:
            return _built(ALL, _all)
        return command(load_study(cmd_name)) if cmd_name in study_names() else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Refuse a study that is not there with those that are."""
        from headcount.errors import did_you_mean

        names = self.list_commands(ctx)
        if args and args[0] not in names:
            ctx.fail(f"No such command {args[0]!r}, expected {did_you_mean(args[0], names)}")
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=Studies, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _studies() -> None:
    """Reproduce a paper: tables, figures and a report."""


def command(study: Study) -> Any:
    """The command of a study: its settings' options between --out and --cache."""
    options = study.settings.options()

    def run(
        out: Path,
        cache: Path | None = None,
        engine: EngineName | None = None,
        quiet: bool = False,
        **typed: Any,
    ) -> None:
        from headcount.run.study import run_study

        settings = study.settings(**{one.field: one.read(typed[one.field]) for one in options})
        report = run_study(
            study.name,
            out,
            settings,
            cache=cache,
            engine=engine,
            progress=progress_of(quiet=quiet),
        )
        typer.echo(f"report: {report}")

    where = typer.Option(help="A new directory for report, tables and figures.")
    shown = {"out": Annotated[Path, where], **{one.field: _annotated(one) for one in options}}
    defaults = {one.field: "" if one.words else one.default for one in options}
    defaults |= {one.field: None for one in options if one.numbers}
    if study.keeps:
        kept = typer.Option(help=f"Where finished {study.keeps} are kept; OUT.cache if not given.")
        shown["cache"], defaults["cache"] = Annotated[Path | None, kept], None
    shown |= {"engine": OnEngine, "quiet": Quiet}
    defaults |= {"engine": None, "quiet": False}
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=defaults.get(name, Parameter.empty),
            )
            for name, kind in shown.items()
        ]
    )
    run.__annotations__ = dict(shown)
    run.__doc__ = f"{study.title}\n\n{study.about}"
    return _built(study.name, run)


def _built(name: str, run: Any) -> Any:
    alone = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    alone.command(name)(run)
    return typer.main.get_command(alone)


def _all(
    out: Annotated[Path, typer.Option(help="A directory, with one for every study in it.")],
    cache: Annotated[Path | None, typer.Option(help="Where finished pieces are kept.")] = None,
    engine: OnEngine = None,
    quiet: Quiet = False,
) -> None:
    """Every study with its own settings, and one page with their main claims."""
    from headcount.run.study import run_all

    page = run_all(out, cache=cache, engine=engine, progress=progress_of(quiet=quiet))
    typer.echo(f"index: {page}")


def _annotated(one: Given) -> Any:
    """An option as typer reads it."""
    kind: Any = str if one.words else list[str] | None if one.numbers else one.kind
    about = one.option
    return Annotated[kind, typer.Option(f"--{one.name}", help=about.help, min=about.least)]
