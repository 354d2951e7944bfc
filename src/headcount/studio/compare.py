"""The screen of a comparison: its report inside the page, and the choice with its reason."""

from __future__ import annotations

import shlex

from starlette.responses import Response

from headcount.config.load import load_comparison
from headcount.config.methods import parts_of_chain, put_method
from headcount.errors import ConfigError, did_you_mean
from headcount.mechanisms import Chain
from headcount.report.directory import MANIFEST
from headcount.report.inside import ReportSection, report_inside
from headcount.run.compare import INTERNAL, ways_of
from headcount.studies.compare.methods import NONE
from headcount.studies.compare.settings import PRESETS, Settings
from headcount.studio.app import Asked, Studio, require
from headcount.studio.known import comparison_folder, known, reader
from headcount.studio.run import job_words

SUMMARY = ("report-summary", "report-limits")
"""Sections that are printed as a summary."""


def show(studio: Studio, asked: Asked) -> Response:
    """The comparison, if there is one and it may be shown."""
    config, text = studio.texts.load(asked.config), studio.texts.read(asked.config)
    how, summary = _how(asked), bool(asked.query.get("summary"))
    out = comparison_folder(studio, asked.config, how)
    read = reader(studio, f"{out}/{INTERNAL}")
    there = bool(read(MANIFEST))  # which is written last
    public = known(studio, config).public or config.population.data_file is None
    visible = studio.accepted or public
    sections: tuple[ReportSection, ...] = ()
    if there and visible:
        found = report_inside(read, source=f"{out}/{INTERNAL}/report.html")
        sections = tuple(one for one in found if not summary or one.name in SUMMARY)
    return studio.page(
        "compare.html.j2",
        here="compare",
        config=asked.config,
        command=how.command(asked.config, out=out),
        how={"preset": how.preset, "replicates": how.replicates or ""},
        presets={one: one for one in PRESETS},
        out=out,
        there=there,
        visible=visible,
        again=asked.again,
        confidential=bool(sections) and not public,
        sections=sections,
        summary=summary,
        choice=config.choice,
        text=text,
        ways={one: one for one in _ways(studio, asked, how) if one != NONE} if sections else {},
        **job_words(studio, "compare", asked.config),
    )


def _how(asked: Asked) -> Settings:
    """The settings of the comparison that is looked at, or asked for."""
    given = {**asked.query, **asked.form}
    runs = given.get("replicates", "").strip()
    if runs and not (runs.isascii() and runs.isdigit() and len(runs) < 6):
        raise ConfigError("replicates", found=repr(runs), expected="a whole number, or nothing")
    return Settings(preset=given.get("preset", "quick"), replicates=int(runs) if runs else None)


def start(studio: Studio, asked: Asked) -> Response:
    """Compare by the command that the page shows; it goes on where it was stopped."""
    how = _how(asked)
    out = comparison_folder(studio, asked.config, how)
    studio.folder.inside(out)
    command = shlex.split(how.command(asked.config, out=out))
    studio.jobs.start(f"compare {asked.config}", command[1:])
    runs = how.replicates or ""
    return studio.go("/compare", config=asked.config, preset=how.preset, replicates=runs)


def choose(studio: Studio, asked: Asked) -> Response:
    """Write the chosen way into the config, and the reason with it."""
    name, reason = asked.field("case"), require(asked.field("reason"), "reason")
    ways = _ways(studio, asked, _how(asked))
    if name not in ways:
        raise ConfigError("choice", found=repr(name), expected=did_you_mean(name, ways))
    parts = parts_of_chain(ways[name].parts)
    return studio.edit(asked, lambda text: put_method(text, name, parts, reason), back="/plan")


def _ways(studio: Studio, asked: Asked, how: Settings) -> dict[str, Chain]:
    """The ways of the comparison by name, as the command finds them."""
    people = known(studio, studio.texts.load(asked.config))
    loaded = load_comparison(studio.texts.read(asked.config).path)
    return ways_of(loaded, how, people.schema, people.geography)
