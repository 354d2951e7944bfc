"""The ledger's file: what it hands out, how it is kept, and rows of its tables to records and back.

It is created private, opened with care, and written in whole transactions; functions that are given
a connection work within the caller's transaction.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Literal

from headcount.errors import PrivacyError, brief
from headcount.fields import RECORDED_DIGITS
from headcount.files import POSIX, UNCHECKED, from_json, mode_of
from headcount.noise.source import KeyKind
from headcount.privacy.guarantee import SEEDED, WITHOUT_NOISE
from headcount.privacy.loss import (
    ApproximateLoss,
    Loss,
    decimal,
    exact,
    figure,
    from_record,
    to_record,
)

CANNOT_SEE = (
    "other datasets about the same people: their losses add to these",
    "what invariants show: they are released exactly, and no epsilon or rho bounds that",
    "releases made without this ledger, with another one, or with an older copy of this one",
)
"""What a ledger cannot know; shown with every balance."""


class SpendState(StrEnum):
    """How far the run behind a spend has come."""

    RECORDED = "recorded"
    """Counted; no noise drawn yet. The only state that may be voided."""

    DRAWN = "drawn"
    """Noise may have been drawn, something may have been written. Final unless completed."""

    COMPLETE = "complete"
    """The release is written and its key destroyed."""

    VOID = "void"
    """Withdrawn before any noise was drawn; not counted, and kept with the reason."""

    CLOSED = "closed"
    """Given up for good before it was complete, and its key destroyed; counted all the same."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A name declared by the owner of the data, with the most that may ever be lost on it."""

    name: str
    total: Loss
    declared_at: str


@dataclass(frozen=True, kw_only=True)
class SpendEvent:
    """One step in the life of a spend."""

    state: SpendState
    at: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One release drawn on a dataset.

    where
        loss           what the release states; None for a method without a guarantee
        charge         what it takes from the sum held against the total (epsilon for a total in
                       epsilon, else rho); None for a run that is not private and in no sum
        charge_method  how the loss became the charge, where a conversion was needed
        data_digest    the publishable digest of the content, an HMAC under the ledger's secret
    """

    run_id: str
    dataset: str
    loss: Loss | None
    charge: Fraction | None
    charge_method: str
    data_digest: str
    config_digest: str
    key_kind: KeyKind
    invariants: tuple[str, ...]
    events: tuple[SpendEvent, ...]

    @property
    def state(self) -> SpendState:
        """How far the run has come."""
        return self.events[-1].state

    @property
    def not_private_because(self) -> str:
        """Why no loss bounds this run, or nothing if one does."""
        if self.loss is None:
            return "the method has no differential-privacy guarantee"
        return SEEDED if self.key_kind is KeyKind.SEED else ""

    @property
    def counts(self) -> bool:
        """Whether the spend is held against the total."""
        return self.charge is not None and self.state is not SpendState.VOID


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What is left of a dataset's total.

    where
        spent, remaining    in the total's currency (epsilon at its delta, for such a total)
        charged             the sum that ``spent`` was worked out from (rho, for such a total)
        method              how, where the sum had to be converted
        runs                number of spends in the sum
        not_private         number of runs in no sum, because nothing bounds what they show
        invariants          what counted runs released exactly
    """

    dataset: Dataset
    spent: Fraction
    remaining: Fraction
    charged: Fraction
    method: str
    runs: int
    not_private: int
    voided: int
    closed: int
    invariants: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        """The balance in plain words, with what it cannot know."""
        total = self.dataset.total
        what = _denomination(total)
        how = f"; {self.method}" if self.method else ""
        said = []
        if self.not_private:
            said.append(
                f"NOT PRIVATE: no loss bounds what was drawn by further runs on this dataset "
                f"(runs: {self.not_private}). If any of them was published, the total no longer "
                f"says what was lost."
            )
        said += [
            f"{self.dataset.name}: {what} when {total.unit.phrase}.",
            f"Total {figure(total.amount)}, spent {figure(self.spent)} (runs: {self.runs}{how}), "
            f"remaining {figure(self.remaining)}.",
        ]
        if self.voided:
            said.append(f"Voided before any noise was drawn (runs: {self.voided}).")
        if self.closed:
            said.append(f"Closed without a release; their spends stand (runs: {self.closed}).")
        said += [f"{WITHOUT_NOISE}: {one}." for one in self.invariants]
        said += [f"The ledger cannot see {one}." for one in CANNOT_SEE]
        return tuple(said)


class OverspendError(PrivacyError):
    """A release that would take a dataset beyond its declared total; nothing was recorded.

    where
        begun   whether something was before, so that the total can never change
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        requested: Fraction,
        remaining: Fraction,
        begun: bool,
        method: str = "",
    ) -> None:
        self.dataset = dataset
        self.requested = requested
        self.remaining = remaining
        self.difference = requested - remaining
        self.begun = begun
        self.method = method
        how = f" ({method})" if method else ""
        super().__init__(
            f"dataset {dataset.name!r}: the release would exceed the declared total. "
            f"{_denomination(dataset.total)} requested {figure(requested)}, remaining "
            f"{figure(remaining)}, difference {figure(self.difference)}{how}, "
            f"when {dataset.total.unit.phrase}"
            + (
                ""
                if begun
                else ". Nothing is recorded on it yet: 'headcount ledger init' may still declare "
                "another total"
            )
        )


def _denomination(total: Loss) -> str:
    """The currency of a total, with its delta where it has one."""
    if isinstance(total, ApproximateLoss):
        return f"epsilon at delta {decimal(total.delta)}"
    return str(total.currency)


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


def _has_closings(connection: sqlite3.Connection) -> bool:
    """Whether the ledger has the table of closed runs, which the first version did not have."""
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'closing'"
    return connection.execute(query).fetchone() is not None


def _add_closings(connection: sqlite3.Connection) -> None:
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


def insert_spend(connection: sqlite3.Connection, spend: Spend) -> None:
    """Add a spend with its first event."""
    loss = to_record(spend.loss) if spend.loss is not None else {}
    connection.execute(
        "INSERT INTO spend (run_id, dataset, currency, amount, delta, unit, charge, charge_method,"
        " digest, config_digest, key_kind, invariants) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            spend.run_id,
            spend.dataset,
            *(loss.get(column) for column in ("currency", "amount", "delta", "unit")),
            None if spend.charge is None else str(spend.charge),
            spend.charge_method,
            spend.data_digest,
            spend.config_digest,
            str(spend.key_kind),
            json.dumps(spend.invariants),
        ),
    )
    insert_event(connection, spend.run_id, spend.events[0])


def insert_event(connection: sqlite3.Connection, run_id: str, event: SpendEvent) -> None:
    """Add a step in the life of a spend."""
    connection.execute(
        "INSERT INTO event (run_id, state, at, why) VALUES (?, ?, ?, ?)",
        (run_id, str(event.state), event.at, event.why),
    )


def insert_closing(connection: sqlite3.Connection, run_id: str, *, at: str, why: str) -> None:
    """Say that a run will never complete."""
    if not _has_closings(connection):
        _add_closings(connection)
    connection.execute("INSERT INTO closing VALUES (?, ?, ?)", (run_id, at, why))


def insert_dataset(connection: sqlite3.Connection, dataset: Dataset) -> None:
    """Add a declared dataset."""
    connection.execute(
        "INSERT INTO dataset VALUES (:name, :currency, :amount, :delta, :unit, :at)",
        {
            "delta": None,
            **to_record(dataset.total),
            "name": dataset.name,
            "at": dataset.declared_at,
        },
    )


def replace_dataset(connection: sqlite3.Connection, dataset: Dataset) -> None:
    """Another total of a dataset on which nothing was ever recorded, in one transaction."""
    for verb in ("update", "delete"):
        connection.execute(f"DROP TRIGGER dataset_no_{verb}")
    connection.execute("DELETE FROM dataset WHERE name = ?", (dataset.name,))
    insert_dataset(connection, dataset)
    for guard in _guards("dataset"):
        connection.execute(guard)


def all_datasets(connection: sqlite3.Connection) -> dict[str, Dataset]:
    """Every declared dataset, in order of name."""
    with _as_written("dataset"):
        rows = connection.execute("SELECT * FROM dataset ORDER BY name").fetchall()
        return {
            row["name"]: Dataset(
                name=row["name"], total=from_record(dict(row)), declared_at=row["declared_at"]
            )
            for row in rows
        }


def get_dataset(connection: sqlite3.Connection, name: str) -> Dataset:
    """One declared dataset, or a refusal that lists the names there are."""
    known = all_datasets(connection)
    if name not in known:
        names = ", ".join(repr(one) for one in known) or "none yet"
        raise PrivacyError(
            f"dataset: found {name!r}, expected a declared name ({names}): the owner of the data "
            f"declares its total first"
        )
    return known[name]


def spends_on(connection: sqlite3.Connection, dataset: str) -> tuple[Spend, ...]:
    """Every spend on a dataset, oldest first."""
    return _select(connection, "dataset", dataset)


def find_spend(connection: sqlite3.Connection, run_id: str) -> Spend | None:
    """The spend of a run, if the ledger has one."""
    return next(iter(_select(connection, "run_id", run_id)), None)


def get_spend(connection: sqlite3.Connection, run_id: str) -> Spend:
    """The spend of a run, or a refusal."""
    found = find_spend(connection, run_id)
    if found is None:
        raise PrivacyError(f"run {run_id!r}: found no such run, expected one in this ledger")
    return found


def _select(
    connection: sqlite3.Connection, column: Literal["dataset", "run_id"], value: str
) -> tuple[Spend, ...]:
    events: dict[str, list[SpendEvent]] = {}
    with _as_written("spend"):
        for row in connection.execute(
            f"SELECT event.* FROM event JOIN spend USING (run_id) WHERE spend.{column} = ? "
            f"ORDER BY event.number",
            (value,),
        ):
            event = SpendEvent(state=SpendState(row["state"]), at=row["at"], why=row["why"])
            events.setdefault(row["run_id"], []).append(event)
        for row in _closings(connection, column, value):  # a run is closed last of all
            event = SpendEvent(state=SpendState.CLOSED, at=row["at"], why=row["why"])
            events[row["run_id"]].append(event)
        found = connection.execute(
            f"SELECT * FROM spend WHERE {column} = ? ORDER BY number", (value,)
        )
        return tuple(_spend(row, events=tuple(events[row["run_id"]])) for row in found)


def _closings(connection: sqlite3.Connection, column: str, value: str) -> list[sqlite3.Row]:
    """Which of some runs were closed."""
    if not _has_closings(connection):
        return []
    query = f"SELECT closing.* FROM closing JOIN spend USING (run_id) WHERE spend.{column} = ?"
    return connection.execute(query, (value,)).fetchall()


@contextmanager
def _as_written(table: str) -> Iterator[None]:
    """Rows that headcount cannot have written: refused, never guessed at."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, PrivacyError) as error:
        raise PrivacyError(
            f"ledger, table {table!r}: found a damaged row ({brief(str(error))}), expected rows as "
            f"headcount writes them: put a sound copy of the ledger in its place"
        ) from None


def _spend(row: sqlite3.Row, *, events: tuple[SpendEvent, ...]) -> Spend:
    return Spend(
        run_id=row["run_id"],
        dataset=row["dataset"],
        loss=None if row["currency"] is None else from_record(dict(row)),
        charge=None if row["charge"] is None else _charge(row["charge"]),
        charge_method=row["charge_method"],
        data_digest=row["digest"],
        config_digest=row["config_digest"],
        key_kind=KeyKind(row["key_kind"]),
        invariants=_sentences(row["invariants"]),
        events=events,
    )


def _charge(text: str) -> Fraction:
    charge = exact(text, name="charge", digits=RECORDED_DIGITS)
    if charge < 0:
        raise ValueError(f"charge: {text}")
    return charge


def _sentences(text: str) -> tuple[str, ...]:
    said = from_json(text)
    if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
        raise ValueError(f"invariants: {text}")
    return tuple(said)
