"""Writes the noisy measurements (the noisy measurement file), for uncertainty or for new estimates.

Below the folder of each level (``LEVEL.parquet``) two tables, each in parts: ``DPQuery``, a row for
each unit and measured query, and ``Constraint``, a row for each unit and query that is exact or
bounded; and ``Together`` where the spine has published units in parts, with their exact totals. A
level that is neither measured nor bounded has no folder. ``units.parquet`` has the places that each
leaf lies in, schema and settings; ``spine.parquet`` the same leaves in the tree that was measured,
where that is another. ``headcount.topdown.measurements`` reads all of it again.

The form is that of the noisy measurement files of the 2020 census: a row for each unit and query,
with all answers of the query in one list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.engines import Engine
from headcount.errors import InputError
from headcount.files import ROWS_AT_ONCE, whole_files
from headcount.geography import Geography
from headcount.population import Population
from headcount.population.population import Quarters
from headcount.processes import Progress, silent
from headcount.release import Release
from headcount.release.layout import UNITS, stem_of, units_frame
from headcount.release.publication import Publication
from headcount.release.store import guarantee_to_json, schema_to_json
from headcount.schema import Recode, Schema
from headcount.schema.schema import first_repeated
from headcount.tabulate import CELLS, TOTAL, Query, every_cell
from headcount.topdown.answers import Answers
from headcount.topdown.measurements import level_folders
from headcount.topdown.measurements.form import (
    ABOUT,
    ANSWERS,
    CONSTRAINTS,
    EXACT,
    KEPT,
    LEAST,
    MEASURED,
    MOST,
    SPINE,
    TOGETHER,
    WITHOUT_ROWS,
)
from headcount.topdown.parts import WrittenFiles
from headcount.topdown.restrict import JointTotals, Restriction, Restrictions
from headcount.topdown.settings import PlannedNoise, TopDownSettings
from headcount.topdown.solve.batch import NO_BOUND
from headcount.typed import to_table

SUMMED_OVER = "*"
"""What stands in the column of an attribute that a query does not tell apart."""

_NUMBERS = pa.list_(pa.field("element", pa.int64(), nullable=False))
_SHAPE = pa.list_(pa.field("element", pa.int32(), nullable=False))
_ABOUT_QUERY = (("geocode", pa.string()), ("query_name", pa.string()), ("query_shape", _SHAPE))


def _columns_of(table: str, schema: Schema) -> pa.Schema:
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
class _MeasuredQuery:
    """A query at a level, and its noise."""

    query: Query
    noise: PlannedNoise


def _answer_rows(
    one: _MeasuredQuery, codes: NDArray[np.str_], answers: Ints, schema: Schema
) -> pa.Table:
    """Rows of noisy answers to one query (units x groups) in some units."""
    law, loss = one.noise.law, one.noise.loss
    columns = _about(one.query, f"{one.query.name}{MEASURED}", codes, schema)
    columns["value"] = _lists(pa.array(answers.reshape(-1)), answers.shape)
    columns["variance"] = np.full(len(codes), 0.0 if law is None else law.variance)
    plb = None if loss is None else float(loss.amount)
    columns["plb"] = pa.repeat(pa.scalar(plb, pa.float64()), len(codes))
    return _table(columns, _columns_of(ANSWERS, schema))


def _constraint_rows(
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
        yield _table(columns, _columns_of(CONSTRAINTS, schema))


def described(
    level: str, measured: list[_MeasuredQuery], bounded: list[Query], schema: Schema, *, run: str
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


def _together_rows(joint: JointTotals, codes: NDArray[np.str_], schema: Schema) -> pa.Table:
    """Exact totals of published units of which the measured tree has parts."""
    columns = _about(TOTAL, f"{TOTAL.name}{KEPT}", codes, schema)
    columns["sign"] = pa.repeat(EXACT, len(codes))
    columns["value"] = _lists(pa.array(joint.total), (len(codes), 1))
    return _table(columns, _columns_of(CONSTRAINTS, schema))


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


UNITS_A_PART, VALUES_AT_ONCE = 1 << 14, 1 << 21
"""Units of one part file, and answers that are drawn and written together (a row group)."""


def write_measurements(
    measurements: Answers,
    restrictions: Restrictions,
    settings: TopDownSettings,
    schema: Schema,
    geography: Geography,
    folder: Path,
    *,
    engine: Engine,
    run: str = "",
    progress: Progress = silent,
    written: WrittenFiles | None = None,
) -> None:
    """Draw every measurement in full and write it, a part for each run of units.

    The estimate uses the same draws: noise is a function of its address. So a part that is written
    twice is the same, whoever writes it, and one that is ``written`` is left as it is. ``run`` is a
    mark that all parts of this run have.
    """
    for level in geography.levels:
        measured = [
            _MeasuredQuery(every_cell(schema) if name == CELLS else settings.query(name), noise)
            for (at, name), noise in measurements.planned.items()
            if at == level
        ]
        task = _PartTask(
            level=level,
            measured=measured,
            bounded=restrictions[level],
            measurements=measurements,
            schema=schema,
            run=run,
            folder=folder.absolute() / f"{stem_of(level)}.parquet",
            written=written,
        )
        if not task.wanted:  # the level has neither a share nor a bound, and so no folder
            continue
        codes = geography.units[geography.depth(level)]
        starts = range(0, len(codes), UNITS_A_PART)
        parts = (_Units(first, codes[first : first + UNITS_A_PART]) for first in starts)
        made = engine.map(task.write, parts)
        for _ in progress(made, what=f"measurements of {level}", total=len(starts)):
            pass


@dataclass(frozen=True, eq=False)
class _Units:
    """A run of units: the number of the first, and their codes."""

    first: int
    codes: NDArray[np.str_]


@dataclass(frozen=True, eq=False, kw_only=True)
class _PartTask:
    """Writes both tables of some units of one level, each as one file."""

    level: str
    measured: list[_MeasuredQuery]
    bounded: Sequence[Restriction]
    measurements: Answers
    schema: Schema
    run: str
    folder: Path
    written: WrittenFiles | None = None

    @property
    def wanted(self) -> list[str]:
        """The tables that the level has rows for."""
        tables = ((ANSWERS, self.measured), (CONSTRAINTS, self.bounded))
        return [name for name, rows in tables if rows]

    def write(self, units: _Units) -> None:
        """Write the parts of some units, whole or not at all, unless that is done."""
        import pyarrow.parquet as pq

        tables = {ANSWERS: self._answers, CONSTRAINTS: self._constraints}
        wanted = self.wanted
        bounded = [one.query for one in self.bounded]
        about = described(self.level, self.measured, bounded, self.schema, run=self.run)
        part = f"part-{units.first // UNITS_A_PART:05d}.parquet"
        paths, note = [self.folder / name / part for name in wanted], f"{self.folder.stem}/{part}"
        if self.written is not None and self.written.sound(note, paths):
            return
        with whole_files(*paths) as streams, ExitStack() as stack:
            for name, stream in zip(wanted, streams, strict=True):
                form = _columns_of(name, self.schema).with_metadata(about)
                options: dict[str, Any] = {"compression": "zstd"}
                # Ranges of the answers say nothing; those of names let a reader skip row groups.
                options["write_statistics"] = ["geocode", "query_name"]
                writer = stack.enter_context(pq.ParquetWriter(stream, form, **options))
                for rows in tables[name](units):
                    writer.write_table(rows)
        if self.written is not None:
            self.written.note(note, paths)

    def _answers(self, units: _Units) -> Iterator[pa.Table]:
        for one in self.measured:
            step = max(1, VALUES_AT_ONCE // one.query.size(self.schema))
            for first in range(0, len(units.codes), step):
                codes = units.codes[first : first + step]
                start = units.first + first
                some = range(start, start + len(codes))
                answers = self.measurements.source.values(self.level, one.query.name, some)
                if (classes := self.measurements.classes.get(self.level)) is None:
                    yield _answer_rows(one, codes, answers, self.schema)
                    continue
                for number, noise in enumerate(one.noise.classes):
                    own = np.flatnonzero(classes[some.start : some.stop] == number)
                    if noise is not None and len(own):  # no row where there is no share
                        apart = _MeasuredQuery(one.query, noise)
                        yield _answer_rows(apart, codes[own], answers[own], self.schema)

    def _constraints(self, units: _Units) -> Iterator[pa.Table]:
        some = range(units.first, units.first + len(units.codes))
        for one in self.bounded:
            yield from _constraint_rows(one, units.codes, some, self.schema)


def write_together(
    joint: Mapping[str, JointTotals], published: Geography, schema: Schema, folder: Path
) -> None:
    """Write the exact totals of published units that the spine has in parts, where it does."""
    import pyarrow.parquet as pq

    for level, totals in joint.items():
        rows = _together_rows(totals, published.units[published.depth(level)], schema)
        path = folder / f"{stem_of(level)}.parquet" / TOGETHER / "part-00000.parquet"
        with whole_files(path) as (stream,):
            pq.write_table(rows, stream, compression="zstd")


def refuse_same_names(schema: Schema, geography: Geography) -> None:
    """Refuse measurements whose tables would have two columns, or two files, of one name."""
    for file in (UNITS, SPINE):
        if file in map(str.casefold, geography.levels):
            raise InputError(
                "measurements",
                place=f"level {file!r}",
                found="the name of the file of all places",
                expected="another name for the level",
            )
    for table in (ANSWERS, CONSTRAINTS):
        if twice := first_repeated(_columns_of(table, schema).names):
            raise InputError(
                "measurements",
                place=f"column {twice!r}",
                found="an attribute of that name",
                expected="attributes with other names than the columns of every measurement",
            )


@dataclass(frozen=True)
class PublishedMeasurements(Publication):
    """The noisy measurements, written as they are drawn, with the settings that they are of."""

    settings: TopDownSettings

    def check(self, population: Population) -> None:
        """Refuse two columns, or two files, of one name."""
        refuse_same_names(population.schema, population.geography)

    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """The places; the measurements are there already."""
        geography, tree = release.geography, self.settings.tree(release.geography)
        # What bounds the counts is in the tables: no table of bounds is named.
        settings = replace(self.settings.completed(release.schema, tree), bounds=())
        there = level_folders(folder)
        bare = [level for level in tree.levels if stem_of(level) not in there]
        about = {
            **_levels(geography),
            **({WITHOUT_ROWS: bare} if bare else {}),
            "schema": schema_to_json(release.schema),
            "mechanism": to_table(settings),
            "guarantee": guarantee_to_json(replace(release.guarantee, method="")),
        }
        _write_units(geography, folder / f"{UNITS}.parquet", about)
        if tree is not geography:
            _write_units(tree, folder / f"{SPINE}.parquet", _levels(tree))
        return sorted(path for path in folder.rglob("*.parquet") if path.is_file())


def _levels(geography: Geography) -> dict[str, Any]:
    """What a table of leaves does not show: levels in their order, and the code of the whole."""
    return {"levels": geography.levels, "root": str(geography.units[0][0])}


def _write_units(geography: Geography, path: Path, about: Mapping[str, Any]) -> None:
    """Every leaf with the places that it lies in, in the order of the tree."""
    import pyarrow.parquet as pq

    leaf, size = geography.leaf, geography.size(geography.leaf)
    form = units_frame(geography, leaf, range(0)).to_arrow().schema.with_metadata(stated(about))
    with whole_files(path) as (file,), pq.ParquetWriter(file, form, compression="zstd") as writer:
        for first in range(0, size, ROWS_AT_ONCE):
            some = range(first, min(first + ROWS_AT_ONCE, size))
            writer.write_table(units_frame(geography, leaf, some).to_arrow().cast(form))
