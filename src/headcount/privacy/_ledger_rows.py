"""Rows of the ledger to records and back; every function works within the caller's transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Literal

from headcount.errors import PrivacyError, brief
from headcount.files import from_json
from headcount.noise.source import KeyKind
from headcount.numbers import RECORDED_DIGITS
from headcount.privacy._ledger_records import Dataset, Spend, SpendEvent, SpendState
from headcount.privacy._ledger_store import add_closings, has_closings
from headcount.privacy.loss import exact, from_record, to_record


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
    if not has_closings(connection):
        add_closings(connection)
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
    if not has_closings(connection):
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
