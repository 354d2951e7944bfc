"""The screen of the run: a confirmation that names what is spent, progress, stop and resume."""

from __future__ import annotations

import secrets
from hashlib import sha256
from threading import Lock
from typing import Any

from starlette.responses import Response

from headcount.errors import HeadcountError
from headcount.privacy import Ledger
from headcount.privacy.loss import figure
from headcount.run.close import close_run
from headcount.run.forecast import needs
from headcount.run.protect import Prepared, prepare_run
from headcount.studio.app import Asked, Studio, require
from headcount.studio.start import run_state
from headcount.tabulate.summary import summarize

MOST_CONFIRMATIONS = 100
_taking = Lock()


def about(config: str) -> str:
    """What the job of a config's run is called."""
    return f"protect {config}"


def show(studio: Studio, asked: Asked) -> Response:
    """How far the run is."""
    config = studio.texts.load(asked.config)
    out = studio.folder.name_of(config.run.out)
    return studio.page(
        "run.html.j2",
        here="run",
        config=asked.config,
        command=f"headcount protect {asked.config}",
        out=out,
        state=run_state(studio, config.run.out, asked.config),
        **job_words(studio, about(asked.config)),
    )


def job_words(studio: Studio, what: str) -> dict[str, Any]:
    """What can be said of a job."""
    job = studio.jobs.find(what)
    if job is None:
        return {"job": None, "far": None, "said": ""}
    return {"job": job.state, "far": job.how_far(), "said": job.words}


def progress(studio: Studio, asked: Asked) -> Response:
    """The bar that moves; when the run ends the page is loaded again."""
    found = job_words(studio, about(asked.config))
    page = studio.page("progress.html.j2", config=asked.config, path="/run/progress", **found)
    if found["job"] != "running":
        page.headers["HX-Refresh"] = "true"
    return page


def confirm(studio: Studio, asked: Asked) -> Response:
    """Check everything, as ``headcount check`` does, and say what would be spent."""
    digest = sha256(studio.texts.read(asked.config).path.read_bytes()).hexdigest()
    config = studio.texts.load(asked.config, only_if=digest)
    prepared, fault = None, ""
    try:
        prepared = prepare_run(config)
    except HeadcountError as error:
        fault = studio.said(error)
    words = {} if prepared is None else _spending(studio, asked, prepared, digest)
    return studio.page(
        "confirm.html.j2",
        here="run",
        config=asked.config,
        command=f"headcount check {asked.config}",
        fault=fault,
        confidential=studio.accepted and prepared is not None and not prepared.public,
        status=422 if fault else 200,
        **words,
    )


def _spending(studio: Studio, asked: Asked, prepared: Prepared, digest: str) -> dict[str, Any]:
    """Dataset, loss and remainder; and a confirmation that is good for one run of this file."""
    run = prepared.config.run
    once = secrets.token_urlsafe(16)
    given: dict[str, tuple[str, str]] = studio.held.setdefault("confirmations", {})
    with _taking:
        given[once] = (asked.config, digest)
        for old in list(given)[:-MOST_CONFIRMATIONS]:
            del given[old]
    left = ""
    if run.ledger is not None:
        balance = Ledger.open(run.ledger).balance(run.dataset)
        left = f"{balance.dataset.total.currency} {figure(balance.remaining)}"
    visible = studio.accepted or prepared.public
    return {
        "once": once,
        "digest": digest,
        "dataset": run.dataset,
        "ledger": None if run.ledger is None else studio.folder.name_of(run.ledger),
        "left": left,
        "loss": prepared.loss or next(iter(prepared.guarantee.losses), None),
        "state": run_state(studio, run.out, asked.config),
        "out": studio.folder.name_of(run.out),
        "promise": prepared.guarantee,
        "remarks": prepared.remarks,
        "needs": needs(prepared, so_far=0),
        "visible": visible,
        "read": summarize(prepared.counts, prepared.reading) if visible else None,
    }


def start(studio: Studio, asked: Asked) -> Response:
    """Start the run that was confirmed; a second click finds the confirmation used."""
    once = require(asked.field("once"), "confirmation")
    given: dict[str, tuple[str, str]] = studio.held.setdefault("confirmations", {})
    with _taking:
        confirmed = given.pop(once, None)
        if confirmed is None:  # clicked twice, sent again by a reload, or another start's
            return studio.go("/run", config=asked.config)
        name, digest = confirmed
        studio.texts.load(name, only_if=digest)
        # The command reads the file anew, and refuses it if an editor has changed it since.
        studio.jobs.start(about(name), ["protect", name, "--only-if", digest])
    return studio.go("/run", config=name)


def cancel(studio: Studio, asked: Asked) -> Response:
    """Stop the run; what is finished is kept, and the same command resumes it."""
    studio.jobs.cancel(about(asked.config))
    return studio.go("/run", config=asked.config)


def close(studio: Studio, asked: Asked) -> Response:
    """Give up a run that can never complete; its spend stands."""
    studio.jobs.refuse_busy(about(asked.config), asked.config)
    config = studio.texts.load(asked.config)
    done = close_run(config.run.out, why=asked.field("why"))
    return studio.page(
        "said.html.j2",
        here="run",
        config=asked.config,
        title="The run is closed",
        said=done.sentence(),
        command=f'headcount close {studio.folder.name_of(config.run.out)} --why "..."',
    )
