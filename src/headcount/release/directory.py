"""A run directory: ``release/`` to publish, ``internal/`` secret; it survives a crash.

A finished release is packed as one file to send. Each file is opened once, below the folder and
through no link, and is copied while its digest is taken: what was checked is what is packed,
whatever happens to the folder meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from headcount.engines import HANDED, left_behind, remove_left_behind
from headcount.errors import HeadcountError, RunError
from headcount.files import (
    POSIX,
    UNCHECKED,
    close_folder,
    from_json,
    mode_of,
    open_own,
    stranger,
    write_text_atomic,
)
from headcount.noise import RunKey, destroy_run_key, load_run_key, save_run_key
from headcount.release.store import MANIFEST, RECEIPT, manifest_in, refuse_study
from headcount.storage import Storage, storage_at

RELEASE, INTERNAL = "release", "internal"
"""The two halves of a run directory."""
FACTS = "run.json"

MEANING = 2
"""What settings mean; raised when a default changes. An unfinished run of another is refused.

1   epsilon of geometric, raked, averaged and histogram was for one person added or removed
2   ... is for the unit of privacy in the config, by default one changed record
"""

CUT_PEOPLE = "people left out of households that were cut"
CUT_FROM = "digest of the data before they were cut"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run is bound to: resuming with other data or another config is refused."""

    run_id: str
    config_digest: str
    data_digest: str
    key_kind: str
    meaning: int = 1

    @property
    def older(self) -> str:
        """Words for a config that another version of headcount may have read otherwise."""
        return "" if self.meaning == MEANING else " or by another version of headcount"

    def __post_init__(self) -> None:
        texts = (self.run_id, self.config_digest, self.data_digest, self.key_kind)
        if not all(isinstance(one, str) and one for one in texts) or type(self.meaning) is not int:
            raise TypeError("facts of a run are texts")


@dataclass(frozen=True)
class RunDirectory:
    """The places of a run below one folder."""

    path: Path

    @property
    def release(self) -> Path:
        """Safe to publish."""
        return self.path / RELEASE

    @property
    def internal(self) -> Path:
        """The curator's side: key, config, evaluation."""
        return self.path / INTERNAL

    @property
    def key(self) -> Path:
        """The run key, gone when the release is complete."""
        return self.internal / "run.key"

    @property
    def levels(self) -> Path:
        """Finished levels of a mechanism that works level by level, until the release is whole."""
        return self.internal / "levels"

    @property
    def refusal(self) -> Path:
        """Why data were refused: a function of the truth, so not for the terminal."""
        return self.internal / "refused.txt"

    @property
    def _facts(self) -> Path:
        return self.internal / FACTS

    @property
    def _cut(self) -> Path:
        return self.internal / "cut.json"

    @property
    def _workspaces(self) -> Path:
        return self.internal / "workspaces.json"

    @property
    def _closed(self) -> Path:
        return self.internal / "closed.json"

    @property
    def is_complete(self) -> bool:
        """Whether the release is wholly written."""
        return (self.release / MANIFEST).is_file()

    @property
    def state(self) -> str:
        """How far the run here is: none, unfinished, finished, closed or damaged."""
        try:
            if self.is_complete:
                return "finished"
            if self.closed() is not None:
                return "closed"
            return "none" if self.facts() is None else "unfinished"
        except HeadcountError:
            return "damaged"

    def facts(self) -> RunFacts | None:
        """What the run here is bound to; None where no run has begun."""
        if (text := self._read(self._facts)) is None:
            refuse_study(self.path)
            return None
        try:
            return RunFacts(**from_json(text))
        except (ValueError, TypeError, RecursionError):
            raise RunError(f"{self._facts}: found a damaged file, expected a run's facts") from None

    def _read(self, path: Path) -> str | None:
        """A file of the run's own, or None where there is none."""
        if not os.path.lexists(path):
            return None
        with os.fdopen(open_own(path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def require_facts(self) -> RunFacts:
        """What the run here is bound to; an error where no run has begun."""
        if (facts := self.facts()) is None:
            raise RunError(f"{self.path}: found no run, expected a directory made by headcount")
        return facts

    def written(self) -> list[Path]:
        """Files here that hold anything worked out from noise."""
        return list(self.release.iterdir()) if self.release.is_dir() else []

    def refuse_other(self, *, config_digest: str) -> None:
        """Refuse a folder that holds anything but this very run, before any data is read."""
        if self.path.is_file() and not self.path.is_symlink():
            raise RunError(f"{self.path}: found a file, expected a new or empty directory")
        refuse_unsafe(self.path)
        if (why := self.closed()) is not None:
            raise RunError(
                f"{self.path}: found a run that was closed ({why}), expected a new directory: its "
                f"key is destroyed, and a spend that was recorded for it stands"
            )
        facts = self.facts()
        if facts is None and (strange := self._strange()):
            raise RunError(
                f"{self.path}: found {strange[0]!r}, which is not part of a headcount run, "
                f"expected a new or empty directory"
            )
        if facts is not None and facts.meaning != MEANING and not self.is_complete:
            raise RunError(
                f"{self.path}: found run {facts.run_id}, unfinished and begun by another version "
                f"of headcount, in which the same settings may mean a different loss; expected a "
                f"new directory (a spend that was recorded for the run stands)"
            )
        if facts is not None and facts.config_digest != config_digest:
            raise RunError(
                f"{self.path}: found run {facts.run_id} made with a different config{facts.older}, "
                f"expected another run.out, or the config and tables of bounds it was made with"
            )

    def _strange(self) -> list[str]:
        """What cannot be the beginning of a run: a lock, a key without facts, a refusal can.

        So can work that was handed to other processes when a run was killed while it read.
        """
        names = set(_names(self.path)) - {INTERNAL}
        inside = set(_names(self.internal)) - {"lock", self.key.name, self.refusal.name}
        begun = {n for n in inside if n.endswith(".tmp") or n.startswith(HANDED)}
        return sorted(names) + sorted(f"internal/{n}" for n in inside - begun)

    def left_of_reading(self) -> bool:
        """Whether a run that was killed before it began left work here that it had handed out."""
        begun = os.path.lexists(self._facts) or os.path.lexists(self.key)
        return not begun and not self._strange() and bool(left_behind(self.internal))

    def note_refusal(self, why: str) -> Path:
        """Write down why data were refused, where only the curator reads it."""
        self._open_internal()
        write_text_atomic(self.refusal, why + "\n")
        return self.refusal

    def _open_internal(self) -> None:
        for folder in (*reversed(self.path.parents), self.path):
            if not folder.exists():
                folder.mkdir(mode=0o755, exist_ok=True)  # not open to all, whatever the umask
        if not os.path.lexists(self.internal):
            self.internal.mkdir(mode=0o700)
            if not POSIX:
                log.warning(UNCHECKED, self.internal)
        refuse_unsafe(self.path)
        close_folder(self.internal)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out of this run while it is being made.

        The lock is the system's, on the open file: it goes with its process, however that ends.
        """
        from filelock import lock_descriptor

        self._open_internal()
        with os.fdopen(open_own(self.internal / "lock", os.O_RDWR | os.O_CREAT), "r+b") as lock:
            if not lock_descriptor(lock.fileno(), blocking=False):
                raise RunError(f"{self.path}: another process is at work on this run")
            yield

    def begin(
        self, *, config_digest: str, data_digest: str, key: RunKey
    ) -> tuple[RunFacts, RunKey]:
        """Bind the run to its data, config and key; or take up the run that is here.

        The key is on disk before the facts are: a run with facts always has its key.
        """
        facts = self._begun(data_digest)
        if facts is None:
            if self.key.exists():  # a crash between the key and the facts: nothing was drawn
                if self.key.stat().st_nlink != 1:
                    raise RunError(
                        f"{self.key}: found a file with a second name (hard link) elsewhere, "
                        f"expected a key of this run: both names would be overwritten"
                    )
                destroy_run_key(self.key)
            save_run_key(key, self.key)
            return self._bind(config_digest, data_digest, key.kind), key
        if not self.key.exists():
            raise RunError(
                f"{self.key}: found no key for the unfinished run {facts.run_id}, expected one: "
                f"its noise cannot be drawn again, and a spend on a ledger stands; use a new "
                f"directory"
            )
        return facts, load_run_key(self.key)

    def begin_without_key(self, *, config_digest: str, data_digest: str) -> RunFacts:
        """Bind a run that draws no noise to its data and config; or take up the run that is here.

        ``data_digest`` is of what was published before: no data are read.
        """
        return self._begun(data_digest) or self._bind(config_digest, data_digest, "none")

    def _begun(self, data_digest: str) -> RunFacts | None:
        """The run that is here, if it was begun on the same data."""
        facts = self.facts()
        self.refusal.unlink(missing_ok=True)  # of an earlier try
        if facts is not None and facts.data_digest != data_digest:
            raise RunError(
                f"{self.path}: found run {facts.run_id} begun on other data, expected the same "
                f"data (to resume it) or a new directory"
            )
        return facts

    def _bind(self, config_digest: str, data_digest: str, key_kind: str) -> RunFacts:
        facts = RunFacts(
            run_id=secrets.token_hex(8),
            config_digest=config_digest,
            data_digest=data_digest,
            key_kind=key_kind,
            meaning=MEANING,
        )
        write_text_atomic(self._facts, json.dumps(asdict(facts), indent=2) + "\n")
        return facts

    def note_cut(self, *, people: int, digest: str) -> None:
        """Write down how many people were cut out of large households, and who everybody was."""
        cut = {CUT_PEOPLE: people, CUT_FROM: digest}
        write_text_atomic(self._cut, json.dumps(cut, indent=2) + "\n")

    def whole_digest(self) -> str:
        """Digest of the data before households were cut: two runs on one file have the same."""
        if (text := self._read(self._cut)) is None:
            return self.require_facts().data_digest
        try:
            cut = from_json(text)
            return str(cut[CUT_FROM])
        except (KeyError, ValueError, TypeError, RecursionError):
            raise RunError(f"{self._cut}: found a damaged file, expected what was cut") from None

    def workspace(self, place: str | None, run_id: str) -> Storage:
        """Where the run keeps its files until it is whole: here, or below a place of its own.

        The place is written down first, so that what is left there is found again.
        """
        if place is None:
            return Storage(self.levels.absolute())  # for workers in other folders
        noted = self._noted()
        if (place, run_id) not in noted:
            write_text_atomic(self._workspaces, json.dumps([*noted, (place, run_id)]) + "\n")
        return storage_at(place).below(run_id)

    def _noted(self) -> list[tuple[str, str]]:
        """Places of their own that the run was given, and its folder in each."""
        if (text := self._read(self._workspaces)) is None:
            return []
        try:
            return [(str(place), str(folder)) for place, folder in from_json(text)]
        except (ValueError, TypeError, RecursionError):
            raise RunError(
                f"{self._workspaces}: found a damaged file, expected where files of the run are"
            ) from None

    def closed(self) -> str | None:
        """Why the run here was closed; None unless it was."""
        if (text := self._read(self._closed)) is None:
            return None
        try:
            return str(from_json(text)["why"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise RunError(
                f"{self._closed}: found a damaged file, expected why a run was closed"
            ) from None

    def close(self, why: str) -> str:
        """Say for good that the run here will not complete; returns the reason first given."""
        if (before := self.closed()) is not None:
            return before
        write_text_atomic(self._closed, json.dumps({"why": why}, ensure_ascii=False) + "\n")
        return why

    def finish(self) -> None:
        """Destroy key and recorded noise: with the measurements they are the truth."""
        if self.key.exists():
            destroy_run_key(self.key)
        if self.levels.is_dir():
            shutil.rmtree(self.levels)
        remove_left_behind(self.internal)
        for leftover in self._half_written():
            leftover.unlink()
        for place, run_id in self._noted():
            try:
                storage_at(place).below(run_id).remove()
            except (HeadcountError, OSError) as error:
                raise RunError(
                    f"{error}. The run's key is destroyed, but files of the run are left in folder "
                    f"{run_id!r} there: the same command again removes them"
                ) from None
        self._workspaces.unlink(missing_ok=True)

    def _half_written(self) -> list[Path]:
        """Files of a process that was killed while it wrote.

        Those in a folder that is still handed are of another at work: it rehearses the same run.
        """
        own = [self.internal / n for n in _names(self.internal) if not n.startswith(HANDED)]
        within = [one for one in (*own, self.release) if one.is_dir()]
        found = [path for folder in within for path in folder.rglob(".*.tmp")]
        return [*found, *(one for one in own if one.match(".*.tmp"))]


def release_around(path: Path) -> Path | None:
    """The release that a path is in, of whatever run, or a copy of one; None if it is in none."""
    full = path.resolve()
    for one in (full, *full.parents):
        of_run = one.name == RELEASE and (one.parent / INTERNAL / FACTS).is_file()
        if of_run or all((one / name).is_file() for name in (MANIFEST, RECEIPT)):
            return one
    return None


def refuse_unsafe(path: Path) -> None:
    """Refuse a run directory in which, or beside which, others could put things of theirs.

    All that is there must be plain files and folders of this user's: a link would be followed, and
    a key or a file of somebody else's would be used. On Windows only links are found.
    """
    refuse_open(path)
    if not _there(path):
        return
    for folder, *names in os.walk(path):
        for name in chain(*names):
            _refuse_stranger(Path(folder, name))


def refuse_open(path: Path) -> None:
    """Refuse a folder that is not this user's own, or into which, or beside which, all can write.

    Where it is not there yet, the one in which it will be made counts. A sticky bit, as temporary
    folders have, keeps names safe.
    """
    parent = next(one for one in path.absolute().parents if one.exists())
    for folder, info in ((parent, parent.stat()), *((p, p.lstat()) for p in (path,) if _there(p))):
        mode = mode_of(info)
        if mode is None or mode & stat.S_ISVTX or stat.S_ISLNK(info.st_mode):
            continue
        if mode & stat.S_IWOTH:
            raise RunError(
                f"{folder}: found a folder that anyone can write to (mode "
                f"{mode:04o}), expected one of your own: others could put links "
                f"in the place of the run's files"
            )
        if mode & stat.S_IWGRP:
            log.warning(
                "%s: its group can write there (mode %04o), and so could replace the run's files; "
                "`chmod g-w` prevents it",
                folder,
                mode,
            )
    if _there(path):
        _refuse_stranger(path)


def _refuse_stranger(path: Path) -> None:
    try:
        why = stranger(path.lstat())
    except FileNotFoundError:  # a temporary file of a process at work here
        return
    if why:
        raise RunError(
            f"{path}: found {why}, expected plain files and folders of your own in a run directory"
        )


def _there(path: Path) -> bool:
    return os.path.lexists(path)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


AT_ONCE = 1 << 20
"""Bytes that are copied at a time."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def write_zip(directory: RunDirectory, to: IO[bytes]) -> None:
    """The files of ``release/`` that the manifest lists, and no others; always the same bytes."""
    folder = directory.release
    with ZipFile(to, "w", ZIP_DEFLATED) as archive, _opened(folder) as root:
        with _below(folder, root, MANIFEST) as source:
            whole = source.read()
        with archive.open(_entry(MANIFEST), "w") as target:
            target.write(whole)
        for name, digest in manifest_in(whole, folder / MANIFEST)["files"].items():
            found = sha256()
            with (
                _below(folder, root, name) as source,
                archive.open(_entry(name), "w") as target,
            ):
                while part := source.read(AT_ONCE):
                    found.update(part)
                    target.write(part)
            if found.hexdigest() != digest:
                raise RunError(f"{folder / name}: found a changed file, expected sha256 {digest}")


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(f"{RELEASE}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """A folder by a number of the system, so that nobody can put another in its place."""
    if os.open not in os.supports_dir_fd:  # Windows: names are looked at instead
        yield None
        return
    try:
        handle = os.open(folder, _FOLDER)
    except OSError:
        raise RunError(
            f"{folder}: found no folder or a link, expected a finished release"
        ) from None
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _below(folder: Path, root: int | None, name: str) -> Iterator[BinaryIO]:
    """A plain file of this user's below an opened folder, reached through no link."""
    steps = PurePosixPath(name).parts
    if not steps or steps[0] == "/" or ".." in steps:
        raise RunError(f"{folder}: found {name!r} in the manifest, expected names inside")
    inside, opened = root, []
    try:
        if root is not None:
            for step in steps[:-1]:
                opened.append(os.open(step, _FOLDER, dir_fd=inside))
                inside = opened[-1]
        with os.fdopen(open_own(folder / name, within=inside), "rb") as file:
            yield file
    except OSError as error:
        raise RunError(
            f"{folder / name}: found no plain file ({error.strerror}), expected one of the release"
        ) from None
    finally:
        for handle in opened:
            os.close(handle)
