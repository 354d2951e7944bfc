"""The first screen: what is in the folder, and where to go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from starlette.responses import Response

from headcount.errors import ConfigError, did_you_mean
from headcount.files import write_text_atomic
from headcount.release.directory import RunDirectory
from headcount.studio.app import Asked, Studio
from headcount.studio.listing import (
    balances_among,
    configs_among,
    plain_files,
    runs_among,
    tables_among,
)

PRACTISE = {"towns": "people = 6000"}
"""Made-up populations to try things on, and how small they are made."""

_CONFIG = """\
# For practice: a made-up population, so that nothing here is confidential.
[population]
kind = "{kind}"
{size}

[mechanism]
name = "topdown"
epsilon = 1                         # the privacy loss: less protects more

[run]
out = "runs/practise-{kind}"
"""


def show(studio: Studio, asked: Asked) -> Response:
    """What is there."""
    root = studio.folder.root
    found = plain_files(root)
    configs = configs_among(found.files, root)
    runs = runs_among(found.files, configs)
    states = (run_state(studio, Path(run.name), run.config) for run in runs)
    return studio.page(
        "start.html.j2",
        here="start",
        command=studio.command("studio", "."),
        found=found,
        tables=tables_among(found.files, runs),
        configs=configs,
        runs=[replace(run, state=state) for run, state in zip(runs, states, strict=True)],
        balances=list(balances_among(found.files)),
        practise=list(PRACTISE),
    )


def practise(studio: Studio, asked: Asked) -> Response:
    """A config with a made-up population."""
    kind = asked.field("kind")
    text, name = _practice_config(kind), f"practise-{kind}.toml"
    path = studio.folder.inside(name)
    if not path.exists():
        write_text_atomic(path, text)
    return studio.go("/plan", config=name)


def _practice_config(kind: str) -> str:
    """The text of a config that protects a made-up population."""
    if kind not in PRACTISE:
        raise ConfigError("practise", found=repr(kind), expected=did_you_mean(kind, PRACTISE))
    return _CONFIG.format(kind=kind, size=PRACTISE[kind])


def accept(studio: Studio, asked: Asked) -> Response:
    """Somebody has read that what follows is confidential."""
    studio.accepted = True
    back = asked.field("back")
    return studio.go(back if back.startswith("/") and "//" not in back else "/")


def stop(studio: Studio, asked: Asked) -> Response:
    """The end, when it was asked for."""
    studio.stopping = True
    said = "Close this tab. The command `headcount studio` starts it again."
    return studio.page("said.html.j2", title="The studio has stopped", said=said)


def run_state(studio: Studio, out: Path, config: str) -> str:
    """How far a run is: none, running, unfinished, finished, closed or damaged."""
    job = studio.jobs.find(f"protect {config}")
    if config and job is not None and job.running:
        return "running"
    return RunDirectory(studio.folder.root / out).state
