"""A note beside a data file that says in which ledger its releases are recorded, and how many.

So that a config which leaves the ledger out, or names a fresh one, does not go unseen, nor a ledger
that was put back from a backup and has forgotten what was spent since.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from headcount.errors import ConfigError, RunError
from headcount.files import from_json, write_text_atomic
from headcount.privacy import Ledger

log = logging.getLogger(__name__)


def note_of(data: Path) -> Path:
    """Where the note about a data file lies: beside the file itself, whatever link leads to it."""
    file = data.resolve()
    return file.with_name(f"{file.name}.ledger.json")


def refuse_unrecorded(data: Path | None, ledger: Ledger | None) -> None:
    """Refuse data whose releases are recorded in a ledger that the config does not name.

    Nor may it be an older copy of that ledger, which would give back what was spent since.
    """
    if data is None or (known := _read(note_of(data))) is None:
        return
    if ledger is not None and ledger.identity == known["identity"]:
        _refuse_older(note_of(data), known, ledger)
        return
    raise ConfigError(
        str(note_of(data)),
        place="run.ledger",
        found="no ledger" if ledger is None else f"another ledger ({ledger.path})",
        expected=f"ledger = {known['ledger']!r} and dataset = {known['dataset']!r}, where releases "
        f"of these data are recorded (delete this note only if they no longer are)",
    )


def _refuse_older(note: Path, known: dict[str, str], ledger: Ledger) -> None:
    declared = {one.name for one in ledger.datasets()}
    runs = (
        [one.run_id for one in ledger.history(known["dataset"])]
        if (known["dataset"] in declared)
        else []
    )
    spends, last = int(known["spends"]), known["last_run"]
    if len(runs) >= spends and (not last or last in runs):
        return
    raise RunError(
        f"{ledger.path}: found a ledger with {len(runs)} spends on {known['dataset']!r} and "
        f"{'' if last in runs else 'not '}run {last}, expected the {spends} that {note} knows of, "
        f"the last of them run {last}: this is an older copy, which would give back what was spent "
        "since. Put the newest copy in its place. If there is none, make a new ledger whose total "
        "is what is left after all releases, also those that this copy has forgotten (each receipt "
        "states its loss), name it in the config and delete the note"
    )


def leave_note(data: Path | None, ledger: Ledger, dataset: str) -> None:
    """Write the note, before and after a spend on a file; where that is not possible, say so.

    Before, so that no spend is without one; after, and before noise is drawn, so that it knows of
    this one. A run that is killed in between leaves a note that knows less than the ledger.
    """
    if data is None:
        return
    runs = [one.run_id for one in ledger.history(dataset)]
    known = {
        "ledger": str(ledger.path),
        "dataset": dataset,
        "identity": ledger.identity,
        "spends": str(len(runs)),
        "last_run": runs[-1] if runs else "",
    }
    if _read(note_of(data)) == known:
        return
    try:
        write_text_atomic(note_of(data), json.dumps(known, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        log.warning(
            "%s: cannot be written (%s): a config that leaves the ledger out, or names an older "
            "copy of it, will not be noticed",
            note_of(data),
            error.strerror,
        )


def _read(note: Path) -> dict[str, str] | None:
    if not note.exists():
        return None
    try:
        known = from_json(note.read_text(encoding="utf-8"))
        found = {key: str(known[key]) for key in ("ledger", "dataset", "identity")}
        spends, last = int(known.get("spends", 0)), str(known.get("last_run", ""))
        return {**found, "spends": str(spends), "last_run": last}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise RunError(
            f"{note}: found a damaged note, expected the ledger in which releases are recorded"
        ) from None
