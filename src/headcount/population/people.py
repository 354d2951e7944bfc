"""People from a table: one by one, or counted while the table is read, however large it is.

What exists in a table is found first, then who is where; both look at a batch of rows at a time,
with the same checks. Read for its records, a table is one batch that stays in memory. Counted, it
is read in pieces, and all that remains of a piece is how many people are in which unit and cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.engines.protocol import Engine, InOrder
from headcount.errors import InputError, Noted
from headcount.population._placed import STAGES, KnownDomain, placed, refuse_too_many
from headcount.population._seen import SeenTable
from headcount.population._sums import SumsByKey
from headcount.population.people_table import TableOfPeople
from headcount.population.pieces import TablePiece, pieces_of
from headcount.population.population import Population
from headcount.population.record_keys import RecordKeys
from headcount.population.tables import TooLargeError, header_of, present, read_rows


def read_people(table: TableOfPeople) -> Population:
    """One entry for each row that is read."""
    columns = [*table.columns, *table.suspects]
    with _saying_what_fits():
        rows = read_rows(table.path, columns, optional=set(table.suspects), form=table.form)
    seen = SeenTable.of(rows, table)
    seen.refuse(table)
    domain = KnownDomain.of(seen, table)
    found = placed(rows, table, domain)
    domain.refuse(seen, table, [found.noted])
    keys = None if table.keys is None else table.keys.read(found.rows)
    return _population(table, seen, domain, found.unit, found.cell, found.many, keys)


def count_people(table: TableOfPeople, *, engine: Engine | None = None) -> Population:
    """One entry for each unit and cell with people; equal to ``read_people``, counted.

    Record keys belong to people one by one, so with these there is an entry for each of them.
    """
    if table.keys is not None:
        return read_people(table)
    pieces = pieces_of(table.path, table.form)
    present(table.name, table.columns, set(), header_of(table.path, table.form))
    on = engine if engine is not None and len(pieces) > 1 else InOrder()
    with _saying_what_fits():
        seen = SeenTable.together(on.map(partial(_look, table), pieces))
    seen.refuse(table)
    domain = KnownDomain.of(seen, table)
    sums, noted = SumsByKey(), []
    for part in on.map(partial(_count, table, domain), pieces):
        noted.append(part.noted)
        sums.add(part.key, part.many)
        refuse_too_many(table.name, sums.people)
    domain.refuse(seen, table, noted)
    key, many = sums.result()
    unit, cell = np.divmod(key, domain.schema.size)
    return _population(
        table, seen, domain, unit.astype(np.int32), cell.astype(np.int32), many, None
    )


@contextmanager
def _saying_what_fits() -> Iterator[None]:
    """Say of a table that does not fit into memory which ones need not."""
    try:
        yield
    except TooLargeError as error:
        raise InputError(
            error.source,
            found=error.found,
            expected=f"{error.expected}; or methods that change no records, without person_id or "
            "record_keys: for these headcount protect counts Parquet, and UTF-8 text that is not "
            "packed, of any size",
        ) from None


class Counted(NamedTuple):
    """What remains of a piece: what is wrong by stage, and people by unit and cell."""

    noted: tuple[Noted, ...]
    key: Ints
    many: Ints


def _look(table: TableOfPeople, piece: TablePiece) -> SeenTable:
    """What exists in a piece; where rows are noted it is looked at row by row, to name them all."""
    for together in (True, False):
        batches = piece.batches(
            [*table.telling, *table.suspects],
            set(table.suspects),
            together=together,
            numbers=table.suspects,
        )
        seen = SeenTable.together(SeenTable.of(rows, table) for rows in batches)
        if not seen.noted:
            break
    return seen


def _count(table: TableOfPeople, domain: KnownDomain, piece: TablePiece) -> Counted:
    """The people of a piece, counted; where one is wrong, row by row as well."""
    for together in (True, False):
        sums, noted = SumsByKey(), []
        for rows in piece.batches(table.columns, set(), together=together, numbers=table.numbers):
            found = placed(rows, table, domain)
            noted.append(found.noted)
            if found.sound:
                key = found.unit.astype(np.int64) * domain.schema.size + found.cell
                sums.add(
                    key, np.ones(len(key), dtype=np.int64) if found.many is None else found.many
                )
                refuse_too_many(table.name, sums.people)
        wrong = _together(noted)
        if not any(number for number, _ in wrong):
            break
    return Counted(wrong, *sums.result())


def _together(noted: list[tuple[Noted, ...]]) -> tuple[Noted, ...]:
    """What several batches noted, by stage."""
    return tuple(
        (sum(one[stage][0] for one in noted), tuple(f for one in noted for f in one[stage][1]))
        for stage in range(STAGES)
    )


def _population(
    table: TableOfPeople,
    seen: SeenTable,
    domain: KnownDomain,
    unit: Ints32,
    cell: Ints32,
    many: Ints | None,
    keys: RecordKeys | None,
) -> Population:
    assert domain.geography is not None  # or refused
    return Population(
        table.name,
        domain.schema,
        domain.geography,
        unit,
        cell,
        many,
        public=table.public,
        read_off=domain.read_off,
        reading=seen.summary(table),
        record_keys=keys,
        one_person=table.one_person,
    )
