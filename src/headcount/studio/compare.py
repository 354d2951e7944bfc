"""The screen of a comparison: its report inside the page, and the choice with its reason."""

from __future__ import annotations

from pathlib import Path

import tomlkit
from starlette.responses import Response

from headcount.config.load import load_comparison
from headcount.errors import ConfigError, did_you_mean
from headcount.mechanisms import Chain
from headcount.report.inside import report_inside
from headcount.run.compare import INTERNAL, ways_of
from headcount.studies.compare.methods import NONE
from headcount.studies.compare.settings import PRESETS, Settings
from headcount.studio.app import Asked, Studio, require
from headcount.studio.methods import as_tables, parts_of_chain, record_choice
from headcount.studio.plan import domain
from headcount.studio.run import job_words


def about(config: str) -> str:
    """What the job of a config's comparison is called."""
    return f"compare {config}"


def comparison_folder(studio: Studio, config: str, how: Settings) -> str:
    """Where the comparison of this very config goes: another text is another comparison."""
    version = studio.texts.read(config).version[:8]
    runs = "" if how.replicates is None else f"-{how.replicates}"
    return f"comparisons/{Path(config).stem}-{how.preset}{runs}-{version}"


def show(studio: Studio, asked: Asked) -> Response:
    """The comparison, if there is one and it may be shown."""
    loaded = load_comparison(studio.texts.read(asked.config).path)
    studio.texts.load(asked.config)  # whose files are inside the folder
    text = studio.texts.read(asked.config)
    how = _how(asked)
    out = comparison_folder(studio, asked.config, how)
    report = studio.folder.inside(out) / INTERNAL / "report.html"
    public = (
        bool(getattr(loaded.population, "public", False)) or loaded.population.data_file is None
    )
    there, visible = report.is_file(), studio.accepted or public
    return studio.page(
        "compare.html.j2",
        here="compare",
        config=asked.config,
        command=how.command(asked.config, out=out),
        how={"preset": how.preset, "replicates": how.replicates or ""},
        presets=list(PRESETS),
        out=out,
        there=there,
        visible=visible,
        confidential=there and visible and not public,
        report=report_inside(report) if there and visible else None,
        text=text,
        ways=[one for one in _ways(studio, asked, how) if one != NONE] if there else [],
        undo=studio.texts.can_undo(text),
        **job_words(studio, about(asked.config)),
    )


def _how(asked: Asked) -> Settings:
    """The settings of the comparison that is looked at, or asked for."""
    given = {**asked.query, **asked.form}
    runs = given.get("replicates", "").strip()
    if runs and not (runs.isascii() and runs.isdigit() and len(runs) < 6):
        raise ConfigError("replicates", found=repr(runs), expected="a whole number, or nothing")
    return Settings(preset=given.get("preset", "quick"), replicates=int(runs) if runs else None)


def start(studio: Studio, asked: Asked) -> Response:
    """Compare; the same command goes on where it was stopped. Nothing is spent."""
    how = _how(asked)
    out = comparison_folder(studio, asked.config, how)
    studio.texts.load(asked.config)
    studio.folder.inside(out)
    words = ["compare", asked.config, "--preset", how.preset, "--out", out]
    if how.replicates is not None:
        words += ["--replicates", str(how.replicates)]
    studio.jobs.start(about(asked.config), words)
    return _back(studio, asked, how)


def _back(studio: Studio, asked: Asked, how: Settings) -> Response:
    return studio.go(
        "/compare", config=asked.config, preset=how.preset, replicates=how.replicates or ""
    )


def progress(studio: Studio, asked: Asked) -> Response:
    """The bar that moves; in the end the page is loaded again."""
    found = job_words(studio, about(asked.config))
    page = studio.page("progress.html.j2", config=asked.config, path="/compare/progress", **found)
    if found["job"] != "running":
        page.headers["HX-Refresh"] = "true"
    return page


def cancel(studio: Studio, asked: Asked) -> Response:
    """Stop it; finished cases are kept."""
    studio.jobs.cancel(about(asked.config))
    return _back(studio, asked, _how(asked))


def choose(studio: Studio, asked: Asked) -> Response:
    """Write the chosen way into the config, and the reason with it."""
    name, reason = asked.field("case"), require(asked.field("reason"), "reason")
    ways = _ways(studio, asked, _how(asked))
    if name not in ways:
        raise ConfigError("choice", found=repr(name), expected=did_you_mean(name, ways))

    def change(document: tomlkit.TOMLDocument) -> None:
        document["mechanism"] = as_tables(parts_of_chain(ways[name].parts))
        record_choice(document, name, reason)

    return studio.edit(asked, change, back="/plan")


def _ways(studio: Studio, asked: Asked, how: Settings) -> dict[str, Chain]:
    """The ways of the comparison by name, as the command finds them."""
    loaded = load_comparison(studio.texts.read(asked.config).path)
    return ways_of(loaded, how, *domain(studio, studio.texts.load(asked.config)))
