"""The screen of the run: a confirmation that names what is spent, progress, stop and resume."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any

from starlette.responses import Response

from headcount.config.settings import Config
from headcount.errors import HeadcountError
from headcount.privacy import Guarantee, Ledger
from headcount.privacy.loss import figure
from headcount.privacy.outlook import outlook
from headcount.release.directory import RunDirectory
from headcount.run.close import close_run
from headcount.run.forecast import needs
from headcount.run.protect import Prepared, prepare_run
from headcount.studio.app import VEILED, Asked, Studio, require
from headcount.studio.known import stamps
from headcount.studio.start import run_state
from headcount.tabulate.summary import summarize

MOST_KEPT = 100
_taking = Lock()


@dataclass(frozen=True)
class Checked:
    """What a check has found of one text of a config and its files as they were.

    where
        seen       the SHA-256 of the text, and the stamps of the files
        fault      why it cannot run
        public     whether everybody may see the people
        readings   what was read of the people: for the curator's eyes
    """

    seen: tuple[str, Any]
    fault: HeadcountError | None = None
    promise: Guarantee | None = None
    public: bool = True
    readings: Any = None

    @classmethod
    def of(cls, seen: tuple[str, Any], made: Prepared) -> Checked:
        """Of a config that can run."""
        readings = {
            "remarks": made.remarks,
            "needs": needs(made, so_far=0),
            "read": summarize(made.counts, made.reading),
        }
        return cls(seen, None, made.guarantee, made.public, readings)


def show(studio: Studio, asked: Asked) -> Response:
    """How far the run is."""
    config = studio.texts.load(asked.config)
    return studio.page(
        "run.html.j2",
        here="run",
        config=asked.config,
        again=asked.again,
        command=studio.command("protect", asked.config),
        out=studio.folder.name_of(config.run.out),
        state=run_state(studio, config.run.out, asked.config),
        **job_words(studio, "protect", asked.config),
    )


def job_words(studio: Studio, what: str, config: str) -> dict[str, Any]:
    """What can be said of a job: "protect" or "compare", and the config that it is about."""
    job = studio.jobs.find(f"{what} {config}")
    words = {"what": what, "job": None, "far": None, "said": ""}
    if job is None:
        return words
    words |= job.described()
    if job.state == "failed" and not studio.accepted and job.ending not in job.words:
        words["said"] = f"{job.ending}\n{VEILED}"
    return words


def progress(studio: Studio, asked: Asked) -> Response:
    """The bar that moves; when the job ends the page is loaded again."""
    found = job_words(studio, asked.query.get("what", ""), asked.config)
    page = studio.page("progress.html.j2", config=asked.config, **found)
    if found["job"] != "running":
        page.headers["HX-Refresh"] = "true"
    return page


def cancel(studio: Studio, asked: Asked) -> Response:
    """Stop a job; what is finished is kept, and the same command goes on from there."""
    studio.jobs.cancel(f"{asked.field('what')} {asked.config}")
    if asked.field("what") == "protect":
        return studio.go("/run", config=asked.config)
    how = {name: asked.field(name) for name in ("preset", "replicates")}
    return studio.go("/compare", config=asked.config, **how)


def _seen(studio: Studio, name: str) -> tuple[Config, tuple[str, Any]]:
    """A config with the SHA-256 of its text and the stamps of its files."""
    digest = sha256(studio.texts.read(name).path.read_bytes()).hexdigest()
    config = studio.texts.load(name, only_if=digest)
    return config, (digest, stamps(config))


def check(studio: Studio, asked: Asked) -> Response:
    """Check everything, as ``headcount check`` does; then show what would be spent."""
    config, seen = _seen(studio, asked.config)
    try:
        found = Checked.of(seen, prepare_run(config))
    except HeadcountError as error:
        found = Checked(seen, error)
    _keep(studio, "checks", asked.config, found)
    return studio.go("/run/confirm", config=asked.config)


def _keep(studio: Studio, what: str, key: str, value: Any) -> None:
    """Hold something until later, and no more of its kind than is reasonable."""
    with _taking:
        held: dict[str, Any] = studio.held.setdefault(what, {})
        held.pop(key, None)
        held[key] = value
        for old in list(held)[:-MOST_KEPT]:
            del held[old]


def confirm(studio: Studio, asked: Asked) -> Response:
    """What a check has found, and what the run would spend. Nothing is read but the ledger."""
    config, seen = _seen(studio, asked.config)
    found: Checked | None = studio.held.get("checks", {}).get(asked.config)
    if found is None or found.seen != seen:  # nothing was checked, or something else
        return studio.go("/run", config=asked.config)
    visible = studio.accepted or found.public
    return studio.page(
        "confirm.html.j2",
        here="run",
        config=asked.config,
        command=studio.command("check", asked.config),
        fault="" if found.fault is None else studio.said(found.fault),
        again=asked.again,
        confidential=not found.public and studio.accepted,
        visible=visible,
        status=422 if found.fault else 200,
        **({} if found.promise is None else _spending(studio, asked, config, found.promise)),
        **(found.readings if visible and found.readings else {}),
    )


def _spending(studio: Studio, asked: Asked, config: Config, promise: Guarantee) -> dict[str, Any]:
    """Dataset, loss and remainder; and a confirmation that is good for one run of this file."""
    run, once = config.run, secrets.token_urlsafe(16)
    digest = sha256(studio.texts.read(asked.config).path.read_bytes()).hexdigest()
    _keep(studio, "confirmations", once, (asked.config, digest))
    begun, ahead = RunDirectory(run.out).facts(), None
    if run.ledger is not None:
        run_id = begun.run_id if begun else ""
        ahead = outlook(Ledger.open(run.ledger), run.dataset, promise, run_id=run_id)
    loss = ahead.loss if ahead else next(iter(promise.losses), None)
    return {
        "once": once,
        "digest": digest,
        "dataset": run.dataset,
        "ledger": None if run.ledger is None else studio.folder.name_of(run.ledger),
        "ahead": ahead,
        "loss": loss,
        "price": "" if loss is None else f"{loss.currency} {figure(loss.amount)}",
        "state": run_state(studio, run.out, asked.config),
        "out": studio.folder.name_of(run.out),
        "promise": promise,
        "typed": studio.command(*_words(asked.config, digest)),
    }


def _words(name: str, digest: str) -> list[str]:
    """The command of a run; it reads the file anew, and refuses any other text."""
    return ["protect", name, "--only-if", digest]


def start(studio: Studio, asked: Asked) -> Response:
    """Start the run that was confirmed; a second click finds the confirmation used."""
    once = require(asked.field("once"), "confirmation")
    with _taking:
        confirmed = studio.held.get("confirmations", {}).pop(once, None)
        if confirmed is None:  # clicked twice, sent again by a reload, or another start's
            return studio.go("/run", config=asked.config)
        name, digest = confirmed
        studio.texts.load(name, only_if=digest)
        studio.jobs.start(f"protect {name}", _words(name, digest))
    return studio.go("/run", config=name)


def close(studio: Studio, asked: Asked) -> Response:
    """Give up a run that can never complete; its spend stands."""
    studio.jobs.refuse_busy(f"protect {asked.config}", asked.config)
    config, why = studio.texts.load(asked.config), asked.field("why")
    done = close_run(config.run.out, why=why)
    return studio.page(
        "said.html.j2",
        here="run",
        config=asked.config,
        title="The run is closed",
        said=done.sentence(),
        command=studio.command("close", studio.folder.name_of(config.run.out), "--why", why),
    )
