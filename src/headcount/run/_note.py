"""Notes beside data and ledger that say in which ledger releases are recorded, and how many.

So that a config which leaves the ledger out, or names a fresh one, does not go unseen, nor a ledger
that was put back from a backup and has forgotten what was spent since. Every file of data has its
own, with an entry for each dataset that it was released under, and so has the ledger: for data that
lie elsewhere, or in no file. All notes of a folder are read, so that one file knows of spends on
another. Data that are released without any ledger have a note that names none: the second such
release gets a warning.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headcount.errors import ConfigError, RunError
from headcount.files import from_json, write_text_atomic
from headcount.privacy import Ledger

log = logging.getLogger(__name__)

_ENDING = ".ledger.json"


@dataclass(frozen=True)
class _Spends:
    """How many there were on a dataset, and the run of the last."""

    spends: int = 0
    last_run: str = ""


@dataclass(frozen=True)
class _LedgerNote:
    """What a note knows of a ledger."""

    ledger: str
    identity: str
    datasets: Mapping[str, _Spends]


def _note_of(file: Path) -> Path:
    """Where the note about a file lies: beside the file itself, whatever link leads to it."""
    file = file.resolve()
    return file.with_name(f"{file.name}{_ENDING}")


def refuse_unrecorded(data: Path | None, ledger: Ledger | None, dataset: str) -> None:
    """Refuse data whose releases are recorded in a ledger that the config does not name.

    Nor may another ledger beside it have the same dataset, nor this one be an older copy, which
    would give back what was spent since.
    """
    if data is not None and (known := _read(_note_of(data))) is not None and known.ledger:
        _refuse_another(_note_of(data), known, ledger, next(iter(known.datasets)))
    if ledger is None:
        return
    for place, known in _notes(data):
        if known.ledger and dataset in known.datasets:
            _refuse_another(place, known, ledger, dataset)
    for place, known in _notes(data, ledger.path):
        if known.identity == ledger.identity:
            _refuse_older(place, known, ledger)


def _notes(*files: Path | None) -> Iterator[tuple[Path, _LedgerNote]]:
    """All notes in the folders of some files; damaged ones of other files are only told of."""
    own = [_note_of(file) for file in files if file is not None]
    others = (place for one in own for place in sorted(one.parent.glob(f"*{_ENDING}")))
    for place in dict.fromkeys((*own, *others)):
        try:
            known = _read(place)
        except RunError as error:
            if place in own:
                raise
            log.warning("%s", error)
            continue
        if known is not None:
            yield place, known


def _refuse_another(place: Path, known: _LedgerNote, ledger: Ledger | None, dataset: str) -> None:
    if ledger is not None and ledger.identity == known.identity:
        return
    raise ConfigError(
        str(place),
        place="run.ledger",
        found="no ledger" if ledger is None else f"another ledger ({ledger.path})",
        expected=f"ledger = {known.ledger!r} and dataset = {dataset!r}, where releases "
        f"of these data are recorded (delete this note only if they no longer are)",
    )


def _refuse_older(place: Path, known: _LedgerNote, ledger: Ledger) -> None:
    declared = {one.name for one in ledger.datasets()}
    for dataset, noted in known.datasets.items():
        runs = [one.run_id for one in ledger.history(dataset)] if dataset in declared else []
        last = noted.last_run
        if len(runs) >= noted.spends and (not last or last in runs):
            continue
        raise RunError(
            f"{ledger.path}: found a ledger with {len(runs)} spends on {dataset!r} and "
            f"{'' if last in runs else 'not '}run {last}, expected the {noted.spends} that {place} "
            f"knows of, the last of them run {last}: this is an older copy, which would give back "
            "what was spent since. Put the newest copy in its place. If there is none, make a new "
            "ledger whose total is what is left after all releases, also those that this copy has "
            "forgotten (each receipt states its loss), name it in the config and delete the notes "
            f"of the old one (*{_ENDING}, beside data and ledger)"
        )


def leave_note(data: Path | None, ledger: Ledger, dataset: str) -> None:
    """Write the notes, before and after a spend on a file; where that is not possible, say so.

    Before, so that no spend is without one; after, and before noise is drawn, so that they know of
    this one. A run that is killed in between leaves notes that know less than the ledger.
    """
    runs = [one.run_id for one in ledger.history(dataset)]
    noted = {dataset: _Spends(len(runs), runs[-1] if runs else "")}
    for place in (_note_of(file) for file in (data, ledger.path) if file is not None):
        _write(place, _LedgerNote(str(ledger.path), ledger.identity, noted))


def note_without_ledger(data: Path | None, run_id: str) -> None:
    """Note a release that no ledger knows of, and warn if there was one before of the same file."""
    if data is None:
        return
    place = _note_of(data)
    known = _read(place)
    before = _Spends() if known is None else known.datasets.get("", _Spends())
    if before.last_run == run_id:
        return
    if before.spends:
        log.warning(
            "%s: %d released before without a ledger. What each release loses adds up, and nobody "
            "keeps account: headcount ledger init, then ledger and dataset under [run] "
            "(docs/privacy.md)",
            data,
            before.spends,
        )
    _write(place, _LedgerNote("", "", {"": _Spends(before.spends + 1, run_id)}))


def _write(place: Path, note: _LedgerNote) -> None:
    """Write a note; what it knows of other datasets of the same ledger stays."""
    known = _read(place)
    if known is not None and known.identity == note.identity:
        note = replace(note, datasets={**note.datasets, **known.datasets, **note.datasets})
        if note == known:
            return
    try:
        text = json.dumps(asdict(note), indent=2, ensure_ascii=False)
        write_text_atomic(place, f"{text}\n")
    except OSError as error:
        log.warning(
            "%s: cannot be written (%s): a config that leaves the ledger out, or names an older "
            "copy of it, will not be noticed",
            place,
            error.strerror,
        )


def _read(place: Path) -> _LedgerNote | None:
    if not place.exists():
        return None
    try:
        known = from_json(place.read_text(encoding="utf-8"))
        datasets = known.get("datasets") or {str(known["dataset"]): known}  # of an earlier version
        return _LedgerNote(
            str(known["ledger"]),
            str(known["identity"]),
            {
                str(name): _Spends(int(one.get("spends", 0)), str(one.get("last_run", "")))
                for name, one in datasets.items()
            },
        )
    except (ValueError, TypeError, AttributeError, KeyError):
        raise RunError(
            f"{place}: found a damaged note, expected the ledger in which releases are recorded"
        ) from None
