"""``headcount plan``: how far off would a release be, at this loss or at another?"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, isinf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.cli.options import AsJson, Quiet, named_area, print_json
from headcount.cli.show import plain_console, show_far, show_table, table_of
from headcount.errors import ConfigError

if TYPE_CHECKING:
    from headcount.geography.spine import NamedArea
    from headcount.mechanisms import LinearError, PostTabular
    from headcount.run.plan import Plan
    from headcount.topdown.linear.shares import Goal

LINEAR = (
    "Of areas, and of published measurements, what noisy answers tell, in standard deviations: "
    '"answer" is one as it is drawn, "pooled" the same with what the levels below say of it, '
    '"best" the best linear estimate from all answers, which headcount errors gives. "-": the '
    "query is not measured at that level."
)
READ_OFF = (
    "Which places there are was read from {}, but nothing of who is there: a release shows the "
    "places without noise, and its guarantee says so."
)


def plan(
    config: Annotated[Path, typer.Argument(help="A TOML file with a mechanism that adds noise.")],
    change: Annotated[
        list[str],
        typer.Option(
            "--set", help="What if: rho=1, levels.tract=0.3, queries.total=0.2; may be repeated."
        ),
    ] = [],  # noqa: B006 - typer asks for a list
    within: Annotated[
        list[str],
        typer.Option(
            "--within",
            help="A goal: LEVEL.QUERY=PEOPLE@SHARE, such as tract.total=10@0.95. The least loss "
            "that keeps all goals is found; may be repeated.",
        ),
    ] = [],  # noqa: B006
    area: Annotated[
        list[str],
        typer.Option("--area", help="A union of units: NAME=LEVEL:CODE,CODE; may be repeated."),
    ] = [],  # noqa: B006
    goal: Annotated[
        str,
        typer.Option(
            "--goal",
            help="Suggest shares: balanced (best on average) or minimax (nothing much worse).",
        ),
    ] = "",
    want: Annotated[
        list[str],
        typer.Option(
            "--want", help="What the goal is about: LEVEL.QUERY=IMPORTANCE; may be repeated."
        ),
    ] = [],  # noqa: B006
    coarsen: Annotated[
        bool,
        typer.Option(
            "--coarsen",
            help="Of a config with coarsening: try ladders, crossings and joins on the people.",
        ),
    ] = False,
    areas: Annotated[
        str, typer.Option("--areas", help="With --coarsen: least people of areas, with commas.")
    ] = "",
    cross: Annotated[
        str,
        typer.Option(
            "--cross", help="With --coarsen: levels or least people at which tables are crossed."
        ),
    ] = "",
    join: Annotated[
        list[str],
        typer.Option(
            "--join",
            help="With --coarsen: joined levels, race:other=aian,nhpi, or where bins of years "
            "begin, age=0,18,65; may be repeated.",
        ),
    ] = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option(help="With --coarsen: a new folder for the page.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how far off a release would be, by level and query: as configured, and changed.

    With --within, the least epsilon or rho is found at which counts are near enough. With --set, a
    second table shows what another loss or other shares would do: a gain at one level is a loss at
    another. With --goal, shares are suggested. Reads the config and the list of units, never who is
    there, and spends nothing. How far off sparse counts will be can be said if [public] in the
    config names public facts.

    A config of headcount estimate, with [measurements], is planned by the published files alone:
    how exact they are. Their noise is drawn, so --set and --goal are refused.

    With --coarsen the people are read: plans of coarsening are tried on them, each audited, and a
    confidential page shows what each keeps and proves. Nothing is chosen; a person writes a plan
    into the config.

    \b
    Example:
      headcount plan config.toml --coarsen --areas 100,200 --join age=0,18,65
      headcount plan config.toml --within tract.total=10@0.95
      headcount plan config.toml --set epsilon=2
      headcount plan config.toml --set levels.county=0.4
    """
    from headcount.config.load import is_estimate

    if coarsen:
        if change or goal or want or within or area:
            raise ConfigError(
                "plan", place="--coarsen", found="other questions", expected="--coarsen alone"
            )
        _try_coarsening(config, areas, cross, join, out, as_json=as_json, quiet=quiet)
        return
    if areas or cross or join or out:
        found = "--areas, --cross, --join or --out"
        raise ConfigError("plan", place="--coarsen", found=found, expected="--coarsen with them")
    named = [named_area(one, command="plan") for one in area]
    if is_estimate(config):
        if change or goal or want or within:
            raise ConfigError(
                str(config),
                place="measurements",
                found="published answers, whose noise is drawn",
                expected="no --set, --goal, --want or --within: their shares are what they are",
            )
        _show_measurements(config, named, as_json=as_json)
        return
    tables, file, shares = _of_settings(config, named, change, goal, want, within)
    if as_json:
        plain = {name: _plain(one) for name, one in tables.items()}
        print_json({"tables": plain, "places_read_from": file})
        return
    for name, one in tables.items():
        typer.echo(f"{name}:\n")
        if within and one is tables.get(LEAST):
            typer.echo(f"  {_loss_of(one)}, for {', '.join(within)}\n")
        show_far(one.far)
        _show_linear(one.areas)
    if file is not None:
        typer.echo(f"\n{READ_OFF.format(file)}")
    if shares is not None:
        typer.echo("\nthe suggested shares, for the config:\n")
        typer.echo(_toml(shares))


def _try_coarsening(
    config: Path,
    areas: str,
    cross: str,
    join: Sequence[str],
    out: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Plans of coarsening, tried on the people."""
    from headcount.processes import progress_of
    from headcount.report.model import CONFIDENTIAL_BANNER
    from headcount.run.coarsen import plan_coarsening

    tries: dict[str, Sequence[Any]] = {"joins": [_join(one) for one in join]}
    if areas:
        tries["areas"] = [_people(one, "--areas") for one in areas.split(",")]
    if cross:
        parts = [one.strip() for one in cross.split(",")]
        tries["crossed"] = [int(one) if one.isdigit() else one for one in parts]
    folder = out or Path("coarsening") / config.stem / "internal"
    given = {"areas": [areas], "cross": [cross], "join": join}
    words = [f"--{name} {quote(one)}" for name, many in given.items() for one in many if one]
    recipe = " ".join(["headcount plan", quote(config.name), "--coarsen", *words])
    page, found = plan_coarsening(
        config,
        out=folder,
        recipe=recipe,
        tries=tries,
        progress=progress_of(quiet=quiet or as_json),
    )
    if as_json:
        texts = [found.toml(number) for number in found.table["plan"]]
        rows = [
            row | {"toml": text} for row, text in zip(found.table.to_dicts(), texts, strict=True)
        ]
        print_json({"report": page, "confidential": found.confidential, "plans": rows})
        return
    if not quiet:
        if found.confidential:
            typer.secho(CONFIDENTIAL_BANNER, fg="yellow")
        show_table(found.brief, title="what each plan keeps and proves, in per cent")
    typer.echo(f"page:  {page}{' (confidential)' if found.confidential else ''}")
    typer.echo(f"plans: {page.parent / 'plans'}, each the tables of a config")


def _people(text: str, option: str) -> int:
    if not text.strip().isdigit() or not int(text):
        raise ConfigError("plan", place=option, found=repr(text), expected="least people: 100,200")
    return int(text)


def _join(text: str) -> tuple[str, Any]:
    """ATTRIBUTE:LABEL=LEVEL,LEVEL or ATTRIBUTE=YEAR,YEAR."""
    name, equals, rest = text.partition("=")
    attribute, colon, label = name.partition(":")
    parts = tuple(one.strip() for one in rest.split(","))
    if equals and attribute and colon and label and all(parts):
        return attribute, (label, parts)
    if equals and attribute and not colon and all(one.isdigit() for one in parts):
        return attribute, tuple(map(int, parts))
    expected = "ATTRIBUTE:LABEL=LEVEL,LEVEL or, of years, ATTRIBUTE=0,18,65"
    raise ConfigError("plan", place="--join", found=repr(text), expected=expected)


LEAST = "least loss"


def _loss_of(one: Plan) -> str:
    """The loss of a plan, as a config has it."""
    from headcount.privacy.loss import decimal
    from headcount.run.plan import currency_of

    currency = currency_of(one.mechanism)
    return f"{currency} = {decimal(getattr(one.mechanism.last, currency), digits=12)}"


def _show_measurements(config: Path, areas: Sequence[NamedArea], *, as_json: bool) -> None:
    """How exact published measurements are."""
    from headcount.run.plan import plan_of_measurements

    found = plan_of_measurements(config, areas=areas)
    rows = (*found.levels, *found.areas)
    if as_json:
        plain = {"as published": [_linear(one) for one in rows]}
        print_json({"tables": plain, "places_read_from": None})
        return
    typer.echo("as published:\n")
    _show_linear(rows)


def _of_settings(
    config: Path,
    areas: Sequence[NamedArea],
    change: Sequence[str],
    goal: str,
    want: Sequence[str],
    within: Sequence[str],
) -> tuple[dict[str, Plan], Path | None, PostTabular | None]:
    """Tables by name; where the places were read from, if not from a list; suggested shares."""
    from headcount.config.load import NO_FACTS, load_config
    from headcount.mechanisms import Chain
    from headcount.run.plan import Goal, plan_of
    from headcount.run.public_facts import facts_of

    goals = [Goal.of(*one.partition("=")[::2]) for one in within]
    loaded, shares = load_config(config), None
    design = Chain.of(loaded.mechanism).on(loaded.population.domain().down_to(loaded.run.lowest))
    facts = None
    if loaded.public != NO_FACTS:
        facts = facts_of(loaded.public, loaded.population, design.domain)
    tables = {"as configured": plan_of(design, areas=areas, facts=facts)}
    if change:
        design = Chain.of(design.last.what_if(_changes(change))).on(design.domain)
        tables[", ".join(change)] = plan_of(design, areas=areas, facts=facts)
    if goal or want:
        shares = design.last.weighed.suggested(_goal(goal), _wanted(want))
        tables[f"suggested, {goal}"] = plan_of(
            Chain.of(shares).on(design.domain), areas=areas, facts=facts
        )
        design = Chain.of(shares).on(design.domain)
    if goals:
        tables[LEAST] = plan_of(design, areas=areas, facts=facts, goals=goals)
    return tables, loaded.population.places_from, shares


def _changes(given: Sequence[str]) -> dict[str, Fraction]:
    """KEY=VALUE, each key once."""
    from headcount.privacy.loss import exact

    found: dict[str, Fraction] = {}
    for one in given:
        key, equals, value = (part.strip() for part in one.partition("="))
        if not equals:
            raise ConfigError("plan", place="--set", found=repr(one), expected="KEY=VALUE")
        if key in found:
            raise ConfigError("plan", place="--set", found=f"{key} twice", expected="once")
        found[key] = exact(value, name=f"--set {key}")
    return found


def _goal(text: str) -> Goal:
    if text == "balanced":
        return "balanced"
    if text == "minimax":
        return "minimax"
    raise ConfigError("plan", place="--goal", found=repr(text), expected="'balanced' or 'minimax'")


def _wanted(given: Sequence[str]) -> dict[tuple[str, str], float] | None:
    """LEVEL.QUERY=IMPORTANCE."""
    found = {}
    for one in given:
        name, equals, number = one.partition("=")
        level, dot, query = name.partition(".")
        try:
            importance = float(number)
        except ValueError:
            importance = 0.0
        if not (equals and dot and 0 < importance < inf):
            raise ConfigError(
                "plan", place="--want", found=repr(one), expected="LEVEL.QUERY=NUMBER, above 0"
            )
        found[level, query] = importance
    return found or None


def _toml(settings: Any) -> str:
    """Shares as tables of a config."""
    levels = settings.level_shares or ()
    lines = ["[mechanism.levels]", *(f'"{level}" = "{share}"' for level, share in levels)]
    for level, shares in settings.level_queries:
        lines += ["", f'[mechanism.level_queries."{level}"]']
        lines += [f'"{query}" = "{share}"' for query, share in shares]
    return "\n".join(lines)


def _plain(one: Plan) -> dict[str, Any]:
    """For programs."""
    from headcount.run.plan import currency_of

    currency = currency_of(one.mechanism)
    return {
        **({currency: str(getattr(one.mechanism.last, currency))} if currency else {}),
        "how_far_off": one.far.to_json(),
        "areas": [_linear(area) for area in one.areas],
    }


def _linear(one: LinearError) -> dict[str, Any]:
    """Standard deviations, None where they are infinite."""
    deviations = {"own": one.own, "pooled": one.pooled, "best": one.best}
    return {
        "level": one.level,
        "query": one.query,
        "units": one.units,
        "answers": one.answers,
        **{name: None if isinf(value) else value for name, value in deviations.items()},
    }


def _show_linear(rows: Sequence[LinearError]) -> None:
    if not rows:
        return
    shown = [
        (one.level, one.query, *map(_deviation, (one.own, one.pooled, one.best))) for one in rows
    ]
    console = plain_console()
    columns = ("level", "query", "answer", "pooled", "best")
    console.print(table_of(columns, shown, numbers={2, 3, 4}))
    console.print(LINEAR)


def _deviation(value: float) -> str:
    if isinf(value):
        return "-"
    return "exact" if value == 0 else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"
