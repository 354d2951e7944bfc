"""Measurements as two tables: noisy answers, and what the release keeps exactly or within bounds.

The form is that of the noisy measurement files of the 2020 census: a row for each unit and query,
with all answers of the query in one list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.schema import Recode, Schema
from headcount.tabulate import TOTAL, Query
from headcount.topdown._joint import JointTotals
from headcount.topdown.measurements.form import (
    ABOUT,
    ANSWERS,
    CONSTRAINTS,
    EXACT,
    KEPT,
    LEAST,
    MEASURED,
    MOST,
)
from headcount.topdown.planned import PlannedNoise
from headcount.topdown.restrict import Restriction
from headcount.topdown.solve.batch import NO_BOUND

SUMMED_OVER = "*"
"""What stands in the column of an attribute that a query does not tell apart."""

_NUMBERS = pa.list_(pa.field("element", pa.int64(), nullable=False))
_SHAPE = pa.list_(pa.field("element", pa.int32(), nullable=False))
_ABOUT_QUERY = (("geocode", pa.string()), ("query_name", pa.string()), ("query_shape", _SHAPE))


def columns_of(table: str, schema: Schema) -> pa.Schema:
    """The columns of one of the tables; the last are the attributes."""
    own: tuple[pa.Field, ...]
    if table == ANSWERS:
        own = (
            pa.field("value", _NUMBERS, nullable=False),
            pa.field("variance", pa.float64(), nullable=False),
            pa.field("plb", pa.float64()),
        )
    else:
        own = (
            pa.field("sign", pa.string(), nullable=False),
            pa.field("value", pa.list_(pa.int64()), nullable=False),
        )
    first = (pa.field(name, kind, nullable=False) for name, kind in _ABOUT_QUERY)
    attributes = (pa.field(name, pa.string(), nullable=False) for name in schema.names)
    return pa.schema([*first, *own, *attributes])


@dataclass(frozen=True)
class MeasuredQuery:
    """A query at a level, and its noise."""

    query: Query
    noise: PlannedNoise


def answer_rows(
    one: MeasuredQuery, codes: NDArray[np.str_], answers: Ints, schema: Schema
) -> pa.Table:
    """Rows of noisy answers to one query (units x groups) in some units."""
    law, loss = one.noise.law, one.noise.loss
    columns = _about(one.query, f"{one.query.name}{MEASURED}", codes, schema)
    columns["value"] = _lists(pa.array(answers.reshape(-1)), answers.shape)
    columns["variance"] = np.full(len(codes), 0.0 if law is None else law.variance)
    plb = None if loss is None else float(loss.amount)
    columns["plb"] = pa.repeat(pa.scalar(plb, pa.float64()), len(codes))
    return _table(columns, columns_of(ANSWERS, schema))


def constraint_rows(
    one: Restriction, codes: NDArray[np.str_], units: range, schema: Schema
) -> Iterator[pa.Table]:
    """Rows of what one query keeps in some units: exactly, or no less and no more than.

    A group without a bound has no value. A unit with no bound at all has a row without values, so
    that every unit has one.
    """
    low, high = (np.asarray(side[units.start : units.stop]) for side in (one.low, one.high))
    exact = (low == high).all(axis=1)
    most = high < NO_BOUND
    for name, sign, values, bounded, chosen in (
        ("", EXACT, low, np.ones_like(low, dtype=bool), exact),
        ("_lb", LEAST, low, low > -NO_BOUND, ~exact),
        ("_ub", MOST, high, most, ~exact & most.any(axis=1)),
    ):
        rows = np.flatnonzero(chosen)
        if not len(rows):
            continue
        some = values[rows]
        columns = _about(one.query, f"{one.query.name}{name}{KEPT}", codes[rows], schema)
        columns["sign"] = pa.repeat(sign, len(rows))
        flat = pa.array(some.reshape(-1), mask=~bounded[rows].reshape(-1))
        columns["value"] = _lists(flat, some.shape)
        yield _table(columns, columns_of(CONSTRAINTS, schema))


def described(
    level: str, measured: list[MeasuredQuery], bounded: list[Query], schema: Schema, *, run: str
) -> dict[bytes, bytes]:
    """What a file says about itself: its level, and each query with its groups, law and loss.

    Where units have shares of their own, laws and losses are those of each share. ``run`` is a mark
    that all files of a run have in common.
    """
    queries: dict[str, dict[str, Any]] = {}
    for one in measured:
        classes = one.noise.classes
        noise = (
            {"shares": [_noise(own) for own in classes if own is not None]}
            if classes
            else _noise(one.noise)
        )
        queries[one.query.name] = {"by": _axes(one.query, schema), **noise}
    for query in bounded:
        queries.setdefault(query.name, {"by": _axes(query, schema)})
    kept = [query.name for query in bounded]
    return stated({"run": run, "level": level, "queries": queries, "bounded": kept})


def stated(about: Mapping[str, Any]) -> dict[bytes, bytes]:
    """What a file says about itself, as its metadata."""
    return {ABOUT: json.dumps(about, ensure_ascii=False).encode()}


def together_rows(joint: JointTotals, codes: NDArray[np.str_], schema: Schema) -> pa.Table:
    """Exact totals of published units of which the measured tree has parts."""
    columns = _about(TOTAL, f"{TOTAL.name}{KEPT}", codes, schema)
    columns["sign"] = pa.repeat(EXACT, len(codes))
    columns["value"] = _lists(pa.array(joint.total), (len(codes), 1))
    return _table(columns, columns_of(CONSTRAINTS, schema))


def _noise(noise: PlannedNoise) -> dict[str, Any]:
    law, loss = noise.law, noise.loss
    return {
        "law": None if law is None else str(law),
        "loss": None if loss is None else {str(loss.currency): str(loss.amount)},
    }


def _axes(query: Query, schema: Schema) -> list[str | dict[str, Any]]:
    """The attributes of a query, in the order of its answers; of a recode its groups."""
    return [
        {"recode": axis.name, "of": axis.source.name, "groups": dict(axis.groups)}
        if isinstance(axis, Recode)
        else axis
        for axis in query.on(schema).by
    ]


def _about(query: Query, name: str, codes: NDArray[np.str_], schema: Schema) -> dict[str, Any]:
    """The columns that are the same for all units, and the units."""
    rows = len(codes)
    shape = [attribute.size for attribute in query.attributes(schema)] or [1]
    asked: dict[str, list[str]] = {attribute: [] for attribute in schema.names}
    for axis in query.on(schema).by:
        source, own = (axis.source.name, axis.name) if isinstance(axis, Recode) else (axis, axis)
        asked[source].append(own)
    return {
        "geocode": pa.array(codes, pa.string()),
        "query_name": pa.repeat(name, rows),
        "query_shape": _lists(
            pa.array(np.tile(np.array(shape, dtype=np.int32), rows)), (rows, len(shape))
        ),
        **{
            attribute: pa.repeat(" x ".join(names) or SUMMED_OVER, rows)
            for attribute, names in asked.items()
        },
    }


def _lists(flat: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    """A list of as many numbers in each row."""
    rows, length = shape
    return pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * length, flat)


def _table(columns: dict[str, Any], form: pa.Schema) -> pa.Table:
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in form]
    return pa.Table.from_arrays(arrays, schema=form)
