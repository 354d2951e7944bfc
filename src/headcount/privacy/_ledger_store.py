"""The ledger's file: created private, opened with care, written in whole transactions."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from headcount.errors import PrivacyError, brief
from headcount.files import POSIX, UNCHECKED, mode_of

APPLICATION_ID = 0x48436C67  # "HClg", so that `file` and we can tell a ledger from other databases
VERSION = 1
WAIT_SECONDS = 60.0
log = logging.getLogger(__name__)
_TABLES = ("secret", "dataset", "content", "spend", "event", "closing")


def create(path: Path) -> None:
    """Make an empty ledger, readable by its owner only, with a fresh 256-bit secret."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        raise PrivacyError(
            f"{path}: found a file, expected none: a ledger is never overwritten"
        ) from None
    except OSError as error:
        raise PrivacyError(f"{path}: cannot create a ledger here: {error.strerror}") from None
    if not POSIX:
        log.warning(UNCHECKED, path)
    schema = Path(__file__).with_name("ledger_schema.sql").read_text("utf-8")
    guards = "".join(one for table in _TABLES for one in _guards(table))
    with closing(_connect(path)) as connection:
        connection.executescript(f"BEGIN IMMEDIATE;\n{schema}\n{guards}")
        connection.execute("INSERT INTO secret VALUES (1, ?)", (secrets.token_bytes(32),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _guards(table: str) -> list[str]:
    return [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;\n"
        for verb in ("UPDATE", "DELETE")
    ]


def has_closings(connection: sqlite3.Connection) -> bool:
    """Whether the ledger has the table of closed runs, which the first version did not have."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'closing'"
    return connection.execute(query).fetchone() is not None


def add_closings(connection: sqlite3.Connection) -> None:
    """Give a ledger of the first version the table of closed runs."""
    schema = Path(__file__).with_name("ledger_schema.sql").read_text("utf-8")
    start = schema.index("CREATE TABLE closing")
    connection.execute(schema[start : schema.index(";", start)])
    for guard in _guards("closing"):
        connection.execute(guard)


def is_ledger(path: Path) -> bool:
    """Whether a file says in its first bytes that it is a ledger, sound or not."""
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head[:16] == b"SQLite format 3\0" and head[68:] == APPLICATION_ID.to_bytes(4, "big")


def check(path: Path) -> None:
    """Refuse a file that is missing, not a ledger, of another version, or open to others."""
    if not path.is_file():
        raise PrivacyError(
            f"{path}: found no file, expected a ledger; `headcount ledger init` makes one"
        )
    if (mode := mode_of(path.stat())) is not None and mode & 0o077:
        raise PrivacyError(
            f"{path}: found mode {mode:04o}, expected 0600: the ledger holds a secret. "
            f"Run `chmod 600` on it, and ask who may have read it"
        )
    if path.stat().st_size == 0:
        raise PrivacyError(
            f"{path}: found an empty file, expected a ledger: creating it was interrupted before "
            f"anything was recorded. Delete it and run `headcount ledger init` again"
        )
    with reading(path) as connection:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        found = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise PrivacyError(f"{path}: found some other database, expected a headcount ledger")
    if found != VERSION:
        raise PrivacyError(f"{path}: found ledger version {found}, expected {VERSION}")
    _refuse_damaged(path)


def _refuse_damaged(path: Path) -> None:
    """Read every page: a ledger is small, and a balance from half of it would be wrong."""
    with reading(path) as connection:
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if connection.execute("SELECT count(*) FROM secret").fetchone()[0] != 1:
            found = "its secret is gone"
        if lost := connection.execute("PRAGMA foreign_key_check").fetchone():
            found = f"a row of {lost[0]!r} belongs to none of {lost[2]!r}"
    if found != "ok":
        raise PrivacyError(
            f"{path}: found a damaged ledger ({brief(str(found))}), expected it as headcount wrote "
            f"it: put a sound copy in its place, the latest there is"
        )


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """One consistent view of the ledger."""
    with _session(path, begin="BEGIN") as connection:
        yield connection


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction that no other process can interleave with: all of it is kept, or nothing."""
    with _session(path, begin="BEGIN IMMEDIATE") as connection:
        yield connection


@contextmanager
def _session(path: Path, *, begin: str) -> Iterator[sqlite3.Connection]:
    # A connection per transaction: nothing to close, nothing shared over threads or forks.
    try:
        with closing(_connect(path)) as connection:
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
    except (sqlite3.Error, UnicodeDecodeError) as error:  # sqlite3 decodes text as it comes
        raise PrivacyError(
            f"{path}: the ledger could not be used, and the step was not recorded: "
            f"{brief(str(error))}"
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode=rw"  # never create a ledger by opening one
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        # A rollback journal, not WAL: one file to protect and to copy. EXTRA also syncs the
        # folder, so that a spend which was reported as recorded survives a power cut.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: a sync by itself may stay in the drive
    except BaseException:  # a damaged file: an open connection would keep its lock
        connection.close()
        raise
    return connection
