"""``headcount check`` and ``schema``: is a config all right, what does it promise, which keys?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.cli.options import AsJson, print_json
from headcount.cli.show import plain_console, show_far, show_reading, table_of
from headcount.fields import in_plain_numbers
from headcount.processes import only_warnings

if TYPE_CHECKING:
    from headcount.mechanisms import PlannedMeasurement
    from headcount.privacy import Loss
    from headcount.run.protect import Prepared

LISTS = (
    "The lists of places and categories come from your data and are published as they are. Use "
    "public lists if you can: units = ..., levels = [...]."
)
DEPENDS = (
    "What is printed here depends on lists that were read from the data: {}. It may be published "
    "only where these may be."
)


def check(
    config: Annotated[Path, typer.Argument(help="A TOML file; see docs/config.md.")],
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            callback=only_warnings,
            help="Show only what follows from the config and the lists of places and levels.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a config and the data it names: what was read, and what a release would promise.

    Shows how far off counts will be, beside how many people they count; what will be measured, and
    the time, memory and disk that a run needs. How far off sparse counts will be can be said if
    [public] in the config names public facts.

    The numbers shown are true ones: confidential unless the population is public, and printed on
    standard output only. --quiet leaves out all that depends on the people, and what a run needs:
    the rest follows from the config and the lists of places and levels. Nothing is drawn, written
    or spent. A bad config is refused before any data is read. Why a mechanism refuses data is
    written to internal/ of the run directory, not here.

    A config of headcount estimate, with [measurements], is checked by the files alone: each row,
    variance and constraint, as before an estimate.

    Example: headcount check config.toml
    """
    from headcount.config.load import is_estimate, load_config
    from headcount.run.how_far_off import how_far_off
    from headcount.run.protect import prepare_run
    from headcount.tabulate.counts import summarize

    if is_estimate(config):
        _check_estimate(config, as_json=as_json)
        return
    planned = prepare_run(load_config(config))
    read = None if quiet else summarize(planned.counts, planned.reading)
    if as_json:
        more = {} if read is None else {"needs": _needs(planned), "read": asdict(read)}
        print_json(_plain(planned) | more)
        return
    if read is not None:
        show_reading(read, public=planned.public, counted=planned.counts.domain.counted)
    typer.echo(f"population: {planned.counts.schema.size:,} cells, {planned.counts.geography!r}")
    first, *then = planned.mechanism.parts
    typer.echo(f"mechanism:  {in_plain_numbers(repr(first))}")
    for part in then:
        typer.echo(f"      then  {in_plain_numbers(repr(part))}")
    far = planned.far if quiet else how_far_off(planned.design, planned.facts, own=planned.truth)
    show_far(far)
    _show_measured(planned)
    for remark in planned.remarks:
        typer.echo(f"  {remark}")
    for sentence in planned.guarantee.sentences():
        typer.echo(f"  {sentence}")
    if planned.counts.domain.read_off and not planned.public:
        _say(LISTS)
    if not quiet:
        _show_needs(planned)
    elif planned.counts.domain.read_off and not planned.public:
        _say(DEPENDS.format(", ".join(planned.counts.domain.read_off)))
    typer.echo("all right: nothing was drawn, written or spent")


def _check_estimate(config: Path, *, as_json: bool) -> None:
    """The same of published measurements, of which all is public."""
    from headcount.release.store import geographies_to_json, guarantee_to_json
    from headcount.run.estimate import check_estimate

    start = check_estimate(config)
    found, guarantee = start.measurements, start.guarantee
    answers = [
        {
            "level": level,
            "query": query,
            "standard_deviation": 0.0 if noise.law is None else noise.law.variance**0.5,
        }
        for (level, query), noise in start.answers.planned.items()
    ]
    if as_json:
        print_json(
            {
                "cells": found.schema.size,
                "geography": geographies_to_json(found.geography, found.tree),
                "mechanism": repr(start.mechanism),
                "answers": answers,
                "guarantee": guarantee_to_json(guarantee),
                "in_words": guarantee.sentences(),
            }
        )
        return
    typer.echo(f"measurements: {found.schema.size:,} cells, {found.geography!r}")
    if found.tree is not found.geography:
        typer.echo(f"   measured:  {found.tree!r}")
    typer.echo(f"mechanism:    {in_plain_numbers(repr(start.mechanism))}")
    for one in answers:
        deviation = f"{one['standard_deviation']:,.3g}"
        typer.echo(f"  {one['level']}, {one['query']}: noise with standard deviation {deviation}")
    for sentence in guarantee.sentences():
        typer.echo(f"  {sentence}")
    typer.echo("all right: nothing was estimated, written or spent")


def _plain(planned: Prepared) -> dict[str, Any]:
    """What a run would do, for programs: from the config and the lists of places and levels."""
    from headcount.release.store import guarantee_to_json

    geography = planned.counts.geography
    return {
        "confidential": not planned.public,
        "cells": planned.counts.schema.size,
        "units": {level: geography.size(level) for level in geography.levels},
        "mechanism": [repr(part) for part in planned.mechanism.parts],
        "how_far_off": planned.far.to_json(),
        "answers": [
            {
                "level": one.level,
                "query": one.query,
                "answers": _answers(one),
                "draws": one.draws,
                "loss": loss and {loss.currency: loss.amount},
            }
            for one, loss in _measured(planned)
        ],
        "guarantee": guarantee_to_json(planned.guarantee),
        "in_words": planned.guarantee.sentences(),
        "remarks": planned.remarks,
        "read_from_data": planned.counts.domain.read_off,
    }


def _needs(planned: Prepared) -> dict[str, Any]:
    """What a run needs: it depends on how many counts are not 0."""
    from headcount.run.forecast import needs

    return asdict(needs(planned, so_far=process_time()))


def _measured(planned: Prepared) -> list[tuple[PlannedMeasurement, Loss | None]]:
    """What will be measured, with the loss under the unit of privacy that is stated first."""
    losses = planned.guarantee.losses
    unit = losses[0].unit if losses else None
    return [
        (one, one.loss(unit) if unit is not None and unit in one.units else None)
        for one in planned.design.plan
    ]


def _answers(one: PlannedMeasurement) -> int:
    return 1 if one.distance else one.entries


def _show_measured(planned: Prepared) -> None:
    """What will be measured, and what each costs."""
    from headcount.privacy.loss import decimal
    from headcount.run.forecast import same_as_above

    measured = _measured(planned)
    if not measured:
        typer.echo("measures nothing with noise")
        return
    typer.echo("measures, each with noise of its own:\n")
    rows = [
        (
            one.level,
            one.query + (f", {one.draws:,} times" if one.draws > 1 else ""),
            f"{_answers(one):,}",
            f"{loss.currency} {decimal(loss.amount)}" if loss else "not stated",
        )
        for one, loss in measured
    ]
    plain_console().print(table_of(("level", "query", "answers", "loss"), rows, numbers={2}))
    typer.echo("")
    for level, above in same_as_above(planned.design).items():
        typer.echo(f"  {level} has the units of {above}, and is measured with it.")


def _say(text: str) -> None:
    """A paragraph that fits the terminal."""
    from rich.padding import Padding

    plain_console().print(Padding(text, (0, 0, 0, 2)))


def _show_needs(planned: Prepared) -> None:
    from headcount.run.forecast import needs

    found = needs(planned, so_far=process_time())
    time = "a time that depends on the data (progress shows it)"
    if found.seconds is not None:
        seconds = max(1, round(found.seconds))
        time = f"about {seconds:,} s" if seconds < 120 else f"about {seconds / 60:,.0f} min"
    typer.echo(
        f"needs:      {time} of one core, about {_size(found.memory)} of memory and "
        f"{_size(found.output)} for the release"
    )


def _size(count: int) -> str:
    """Bytes in the largest unit of which there is one at least."""
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{max(1, count >> 10)} KiB"


def schema() -> None:
    """Print the JSON schema of a config, with every key, its kind and what it means.

    An editor that knows it completes keys and marks faults while you type. Some checks need more
    than a schema can say: headcount check has the last word.

    Example: headcount schema > headcount.schema.json
    """
    from headcount.config.schema import config_schema

    typer.echo(json.dumps(config_schema(), indent=2, ensure_ascii=False))
