"""A note beside a data file that says in which ledger its releases are recorded.

So that a config which leaves the ledger out, or names a fresh one, does not go unseen.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from headcount.errors import ConfigError, RunError
from headcount.files import write_text_atomic
from headcount.privacy import Ledger

log = logging.getLogger(__name__)


def note_of(data: Path) -> Path:
    """Where the note about a data file lies: beside the file itself, whatever link leads to it."""
    file = data.resolve()
    return file.with_name(f"{file.name}.ledger.json")


def refuse_unrecorded(data: Path | None, ledger: Ledger | None) -> None:
    """Refuse data whose releases are recorded in a ledger that the config does not name."""
    if data is None or (known := _read(note_of(data))) is None:
        return
    if ledger is not None and ledger.identity == known["identity"]:
        return
    raise ConfigError(
        str(note_of(data)),
        place="run.ledger",
        found="no ledger" if ledger is None else f"another ledger ({ledger.path})",
        expected=f"ledger = {known['ledger']!r} and dataset = {known['dataset']!r}, where releases "
        f"of these data are recorded (delete this note only if they no longer are)",
    )


def leave_note(data: Path | None, ledger: Ledger, dataset: str) -> None:
    """Write the note, before the first spend on a file; where that is not possible, say so."""
    if data is None or _read(note_of(data)) is not None:
        return
    known = {"ledger": str(ledger.path), "dataset": dataset, "identity": ledger.identity}
    try:
        write_text_atomic(note_of(data), json.dumps(known, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        log.warning(
            "%s: cannot be written (%s): a config that leaves the ledger out will not be noticed",
            note_of(data),
            error.strerror,
        )


def _read(note: Path) -> dict[str, str] | None:
    if not note.exists():
        return None
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        return {key: str(known[key]) for key in ("ledger", "dataset", "identity")}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RunError(
            f"{note}: found a damaged note, expected the ledger in which releases are recorded"
        ) from None
