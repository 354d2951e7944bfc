"""The screen of a comparison: its report inside the page, and the choice with its reason."""

from __future__ import annotations

import shlex
from typing import Any

from starlette.responses import Response

from headcount.comparison.methods import NONE
from headcount.comparison.settings import PRESETS, Settings
from headcount.config.edit import parts_of_chain, put_method, take_case
from headcount.config.load import load_comparison
from headcount.errors import ConfigError, did_you_mean
from headcount.mechanisms import Chain
from headcount.run.compare import ways_of
from headcount.studio.app import Asked, Studio, require
from headcount.studio.known import FinishedComparison, comparison_folder
from headcount.studio.run import job_words
from headcount.studio.wanted import OWN, ways_in

COMPARISONS = "comparisons/"
SUMMARY = ("report-summary", "report-limits")
"""Sections that are printed as a summary."""


def show(studio: Studio, asked: Asked) -> Response:
    """The comparison, if there is one and it may be shown."""
    text = studio.texts.read(asked.config)
    how = _how(asked)
    out = comparison_folder(studio.texts, asked.config, how)
    found = _report(studio, out)
    return studio.page(
        "compare.html.j2",
        here="compare",
        config=asked.config,
        command=how.command(asked.config, out=out),
        how={"preset": how.preset, "replicates": how.replicates or ""},
        presets={one: one for one in PRESETS},
        out=out,
        again=asked.again,
        text=text,
        ways={one: one for one in _ways(studio, asked, how) if one != NONE}
        if found["sections"]
        else {},
        **found,
        **job_words(studio, "compare", asked.config),
    )


def summary(studio: Studio, asked: Asked) -> Response:
    """The beginning of a comparison and its limits, to be printed; also after the choice."""
    out = require(asked.query.get("of", ""), "comparison")
    found = _report(studio, out) if out.startswith(COMPARISONS) else {}
    if not found.get("there"):
        raise ConfigError(out, found="no comparison", expected=f"a finished one in {COMPARISONS}")
    found["sections"] = [one for one in found["sections"] if one.name in SUMMARY]
    return studio.page(
        "summary.html.j2",
        here="compare",
        config=asked.config,
        out=out,
        again=asked.again,
        choice=studio.texts.load(asked.config).choice,
        **found,
    )


def _report(studio: Studio, out: str) -> dict[str, Any]:
    """The report of a finished comparison, if it is there and may be shown."""
    found = FinishedComparison(studio.folder, out)
    public = found.there and found.public
    visible = found.there and (studio.accepted or public)
    return {
        "there": found.there,
        "sections": found.sections() if visible else (),
        "confidential": visible and not public,
    }


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
    out = comparison_folder(studio.texts, asked.config, how)
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
    # A comparison tries methods without their files: what the config has of them stays.
    own = ways_in(studio.texts.load(asked.config)).items()
    same = next((one for one, way in own if way.for_a_trial() == ways[name]), None)
    parts = [] if same == OWN else parts_of_chain(ways[name].parts)

    def change(text: Any) -> None:
        if same:
            take_case(text, same, reason)
        else:
            put_method(text, name, parts, reason)

    out = comparison_folder(studio.texts, asked.config, _how(asked))
    studio.edit(asked, change, back="/plan")
    return studio.go("/compare/summary", config=asked.config, of=out)


def _ways(studio: Studio, asked: Asked, how: Settings) -> dict[str, Chain]:
    """The ways of the comparison by name, as the command finds them."""
    domain = studio.known.of(studio.texts.load(asked.config))
    loaded = load_comparison(studio.texts.read(asked.config).path)
    return ways_of(loaded, how, domain)
