"""The screen of the run: a confirmation that names what is spent, progress, stop and resume."""

from __future__ import annotations

from concurrent.futures import wait
from typing import Any

from starlette.responses import Response

from headcount.errors import RunError
from headcount.population.population import is_it_right
from headcount.run.close import close_run
from headcount.studio.app import VEILED, Asked, Studio, require
from headcount.studio.confirm import Spending, text_digest
from headcount.studio.start import run_state

SOON = 1.0
"""Seconds that a check may take before its page shows that it is at work."""


def show(studio: Studio, asked: Asked) -> Response:
    """How far the run is."""
    config = studio.texts.load(asked.config)
    what = "check" if studio.confirmations.checking(asked.config) else "protect"
    return studio.page(
        "run.html.j2",
        here="run",
        config=asked.config,
        again=asked.again,
        command=studio.command("protect", asked.config),
        out=studio.folder.name_of(config.run.out),
        state=run_state(studio, config.run.out, asked.config),
        **job_words(studio, what, asked.config),
    )


def job_words(studio: Studio, what: str, config: str) -> dict[str, Any]:
    """What can be said of a job: "check", "protect" or "compare", and the config it is about."""
    far = {"what": "", "done": 0, "total": None}
    words: dict[str, Any] = {"what": what, "job": None, "far": far, "said": ""}
    if what == "check" and studio.confirmations.checking(config):
        words["job"] = "running"
    job = studio.jobs.find(f"{what} {config}")
    if job is None:
        return words
    words |= job.described()
    if job.state == "failed" and not studio.accepted and job.ending not in job.words:
        words["said"] = f"{job.ending}\n{VEILED}"
    return words


def progress(studio: Studio, asked: Asked) -> Response:
    """The bar that moves; a job that ends loads the page again, a check leads to what it found."""
    found = job_words(studio, asked.query.get("what", ""), asked.config)
    page = studio.page("progress.html.j2", config=asked.config, **found)
    if found["job"] != "running" and found["what"] == "check":
        page.headers["HX-Redirect"] = studio.at("/run/confirm", config=asked.config)
    elif found["job"] != "running":
        page.headers["HX-Refresh"] = "true"
    return page


def cancel(studio: Studio, asked: Asked) -> Response:
    """Stop a job; what is finished is kept, and the same command goes on from there."""
    what = asked.field("what")
    studio.jobs.cancel(f"{what} {asked.config}")
    how = {name: asked.field(name) for name in ("preset", "replicates")}
    return studio.go("/run" if what == "protect" else "/compare", config=asked.config, **how)


def check(studio: Studio, asked: Asked) -> Response:
    """Check everything, as ``headcount check`` does; then show what would be spent."""
    digest = text_digest(studio.texts.read(asked.config).path)
    config = studio.texts.load(asked.config, only_if=digest)
    wait([studio.confirmations.check(asked.config, config, digest)], timeout=SOON)
    return studio.go("/run/confirm", config=asked.config)


def confirm(studio: Studio, asked: Asked) -> Response:
    """What a check has found, and what the run would spend. Nothing is read but the ledger."""
    digest = text_digest(studio.texts.read(asked.config).path)
    config = studio.texts.load(asked.config, only_if=digest)
    found = studio.confirmations.checked(asked.config, config, digest)
    if found is None:
        return studio.go("/run", config=asked.config)
    page: dict[str, Any] = {
        "here": "run",
        "config": asked.config,
        "command": studio.command("check", asked.config),
        "again": asked.again,
        "fault": "" if found.fault is None else studio.said(found.fault),
    }
    if found.promise is None:
        return studio.page("confirm.html.j2", status=422, **page)
    run, visible = config.run, studio.accepted or found.public
    return studio.page(
        "confirm.html.j2",
        confidential=not found.public and studio.accepted,
        once=studio.confirmations.give(asked.config, digest),
        digest=digest,
        ledger=None if run.ledger is None else studio.folder.name_of(run.ledger),
        spending=Spending.of(config, found.promise),
        state=run_state(studio, run.out, asked.config),
        out=studio.folder.name_of(run.out),
        promise=found.promise,
        readings=found.readings if visible else None,
        is_it_right=is_it_right,
        typed=studio.command(*_words(asked.config, digest)),
        **page,
    )


def _words(name: str, digest: str) -> list[str]:
    """The command of a run; it reads the file anew, and refuses any other text."""
    return ["protect", name, "--only-if", digest]


def start(studio: Studio, asked: Asked) -> Response:
    """Start the run that was confirmed; a second click finds the confirmation used."""
    confirmed = studio.confirmations.take(require(asked.field("once"), "confirmation"))
    if confirmed is None:  # clicked twice, sent again by a reload, or another start's
        return studio.go("/run", config=asked.config)
    name, digest = confirmed
    config = studio.texts.load(name, only_if=digest)
    if studio.confirmations.checked(name, config, digest) is None:
        raise RunError(f"{name}: the data are not those that were checked. Check again.")
    studio.jobs.start(f"protect {name}", _words(name, digest))
    return studio.go("/run", config=name)


def close(studio: Studio, asked: Asked) -> Response:
    """Give up a run that can never complete; its spend stands."""
    studio.jobs.refuse_busy(f"protect {asked.config}", asked.config)
    out, why = studio.texts.load(asked.config).run.out, asked.field("why")
    return studio.page(
        "said.html.j2",
        here="run",
        config=asked.config,
        title="The run is closed",
        said=close_run(out, why=why).sentence(),
        command=studio.command("close", studio.folder.name_of(out), "--why", why),
    )
