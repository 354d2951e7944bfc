"""Noisy measurements that were published: answers, variances and constraints, by ranges of units.

All that looks at them alone (an estimate, intervals, a plan) starts here. Nothing of it is true
but what is published exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from headcount.arrays import Ends, Flags, Floats, Ints
from headcount.errors import InputError, one_of
from headcount.geography import Geography
from headcount.release.layout import stem_of
from headcount.release.store import schema_from_json
from headcount.schema import Recode, Schema
from headcount.storage import Storage
from headcount.tabulate import CELLS, Query, every_cell
from headcount.topdown.measurements._rows import MISSING, RowKind, TableRows, index_rows
from headcount.topdown.measurements.form import (
    ANSWERS,
    CONSTRAINTS,
    EXACT,
    LEAST,
    MOST,
    NURSING_MINORS,
    TOGETHER,
    WITHOUT_ROWS,
    QueryNames,
    codes_in,
    described_places,
    description,
    folder_of,
    in_parts,
    level_folders,
    opened,
    refuse_two_runs,
    table_files,
    tabulated,
    tree_of_codes,
)
from headcount.topdown.solve.batch import NO_BOUND

UNITS_AT_ONCE = 1 << 14
"""Units that are looked at together when all are."""
NUMBERS_AT_ONCE = 1 << 22
"""Answers that are read together."""


@dataclass(frozen=True, eq=False)
class _LevelRows:
    """The tables of one level."""

    answers: TableRows
    constraints: TableRows


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyMeasurements:
    """Published measurements and constraints. Can be sent to other processes.

    It holds where the files are, not what is in them.

    where
        folder      where the files are
        schema      what is counted
        queries     every query that is measured or bounded, by name; "cells" asks for every cell
        levels      for each level of the measured tree where its rows are
        bounded     for each level the queries with constraints, in their order
        said        what the files say of themselves: settings, guarantee; empty for others' files
        geography   the places that are published, with the tree that was measured if that is
                    another; not sent to other processes, since it grows with the number of places
        tree        the measured tree by the codes of the files, likewise
    """

    folder: Path
    schema: Schema
    queries: Mapping[str, Query]
    levels: Mapping[str, _LevelRows]
    bounded: Mapping[str, tuple[str, ...]]
    said: Mapping[str, Any] = field(repr=False)
    geography: Geography = field(repr=False)
    tree: Geography = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        places = ("geography", "tree", "said")
        return {name: value for name, value in self.__dict__.items() if name not in places}

    def measured(self, level: str) -> tuple[str, ...]:
        """The queries that are measured at a level."""
        return tuple(str(name) for name in self.levels[level].answers.rows)

    def values(self, level: str, query: str, units: range) -> Ints:
        """Noisy answers of some units: units x groups; 0 where there are none."""
        table = self.levels[level].answers
        if query not in table.rows:
            size = self.queries[query].size(self.schema)
            return np.zeros((len(units), size), dtype=np.int64)
        return table.numbers(query, units)

    def picker(self, level: str, unit: Ints) -> Callable[[str, Ints, Ints], Ints]:
        """What gives the answers of some (unit, answer) pairs, read some units at a time."""
        del unit  # nothing is kept open

        def picked(query: str, unit: Ints, group: Ints) -> Ints:
            found = np.zeros(len(unit), dtype=np.int64)
            if not len(unit):
                return found
            step = max(1, NUMBERS_AT_ONCE // self.queries[query].size(self.schema))
            for first in range(int(unit.min()), int(unit.max()) + 1, step):
                some = range(first, min(first + step, int(unit.max()) + 1))
                own = np.flatnonzero((unit >= some.start) & (unit < some.stop))
                if len(own):
                    found[own] = self.values(level, query, some)[unit[own] - first, group[own]]
            return found

        return picked

    def variances(self, level: str, query: str, units: range) -> Floats:
        """The variance of each of these answers; NaN for units without any."""
        table = self.levels[level].answers
        if query not in table.rows:
            return np.full(len(units), np.nan)
        return table.floats(query, units, "variance")

    def bounds(self, level: str, query: str, units: range) -> Ends:
        """The least and the most that is known of each group; no bound where nothing is."""
        table, size = self.levels[level].constraints, self.queries[query].size(self.schema)
        low = np.full((len(units), size), -NO_BOUND, dtype=np.int64)
        high = np.full((len(units), size), NO_BOUND, dtype=np.int64)
        for sign, sides in ((EXACT, (low, high)), (LEAST, (low,)), (MOST, (high,))):
            if (query, sign) not in table.rows:
                continue
            there = table.there((query, sign), units)[:, None]
            found = table.numbers((query, sign), units, missing=MISSING)
            for side in sides:
                np.copyto(side, found, where=there & (found != MISSING))
        return low, high

    def totals_together(self, level: str) -> dict[str, int]:
        """Exact totals of published units that the measured tree has in parts, by their codes."""
        folder = self.folder / f"{stem_of(level)}.parquet"
        found: dict[str, int] = {}
        for path in table_files(folder, TOGETHER):
            with opened(path) as file:
                for row in file.read(columns=["geocode", "value"]).to_pylist():
                    found[row["geocode"]] = int(row["value"][0])
        return found

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all files: their names, in order, and what is in them."""
        whole = sha256()
        for path in sorted(self.folder.rglob("*.parquet")):
            if path.is_file():
                whole.update(path.relative_to(self.folder).as_posix().encode() + b"\0")
                with path.open("rb") as file:
                    while data := file.read(1 << 20):
                        whole.update(data)
        return whole.hexdigest()


@dataclass(frozen=True, eq=False)
class PublishedBounds:
    """One side of the bounds of a query, read where they are asked for."""

    measurements: NoisyMeasurements
    level: str
    query: str
    side: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Units x groups."""
        size = self.measurements.queries[self.query].size(self.measurements.schema)
        return self.measurements.tree.size(self.level), size

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, units: slice | Ints) -> Ints:
        if isinstance(units, slice):
            first, last, _ = units.indices(len(self))
            return self._read(range(first, max(first, last)))
        if not len(units):
            return self._read(range(0))
        first = int(units.min())
        return self._read(range(first, int(units.max()) + 1))[units - first]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)

    def _read(self, units: range) -> Ints:
        return self.measurements.bounds(self.level, self.query, units)[self.side]


def read_measurements(
    folder: Path | str,
    *,
    schema: Schema | None = None,
    queries: Iterable[Query] = (),
    levels: Sequence[str] = (),
    spine: bool = False,
    workspace: Storage | None = None,
) -> NoisyMeasurements:
    """Look through published measurements, so that they can be read by ranges.

    Files made here describe themselves. Of others, as the Bureau publishes them, say

    where
        schema      what is counted
        queries     the marginals that were asked; the query of every cell is always known
        levels      the levels from the whole down, all of them or the upper ones alone
        spine       whether blocks are to be published by the last 16 digits of their codes
        workspace   where numbers of rows are put, to be read by tasks; None to keep them here
    """
    folder = Path(folder).absolute()
    folders = level_folders(folder)
    if (places := described_places(folder)) is not None:
        published, about = places
        tree = published.spine or published
        schema = schema_from_json(about["schema"])
        source = _Source(folder, folders, tree.levels, about)
    else:
        if schema is None or not levels:
            raise InputError(
                str(folder),
                found="files that do not say what is counted, and at which levels",
                expected="a schema, and the levels from the whole down",
            )
        source = _Source(folder, folders, tuple(levels), {})
        tree = tree_of_codes(source.codes(), source=folder)
        published = tabulated(tree) if spine else tree
    refuse_two_runs([path for level in source.levels for path in source.files(level)])
    names = QueryNames([every_cell(schema), *queries, *source.queries(schema)])
    found = {
        level: _indexed(source, level, tree, schema, names, workspace) for level in source.levels
    }
    made = NoisyMeasurements(
        folder=folder,
        schema=schema,
        queries=names.queries,
        levels=found,
        bounded={level: source.bounded(level, found[level]) for level in source.levels},
        said=source.said,
        geography=published,
        tree=tree,
    )
    for level in source.levels:
        if made.said:
            _refuse_unbounded(made, level)
        else:
            _refuse_gaps(made, level, spine=spine)
    return made


@dataclass(frozen=True)
class _Source:
    """The folders of levels, and what files say."""

    folder: Path
    folders: dict[str, Path]
    levels: tuple[str, ...]
    said: dict[str, Any]

    def tables(self, level: str) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """The parts of both tables of a level."""
        if level in self.said.get(WITHOUT_ROWS, ()):
            return (), ()
        place = folder_of(level, self.folders, source=self.folder)
        return table_files(place, ANSWERS), table_files(place, CONSTRAINTS)

    def files(self, level: str) -> tuple[Path, ...]:
        """All parts of a level."""
        answers, constraints = self.tables(level)
        return (*answers, *constraints)

    def about(self, level: str) -> dict[str, Any]:
        """What the files of a level say of it."""
        return description(self.files(level)[0]) if self.files(level) else {}

    def codes(self) -> dict[str, Any]:
        """The units of each level: those that have constraints."""
        found = {}
        for level in self.levels:
            _, constraints = self.tables(level)
            found[level] = codes_in(constraints)
            if not len(found[level]):
                raise InputError(
                    str(self.folder),
                    place=f"level {level!r}",
                    found=f"no rows in {CONSTRAINTS}",
                    expected="the constraints of every geounit, which are the list of geounits",
                )
        return found

    def queries(self, schema: Schema) -> list[Query]:
        """Queries that the files describe themselves."""
        found: dict[str, Query] = {}
        for level in self.levels:
            for name, one in self.about(level).get("queries", {}).items():
                if name != CELLS:
                    found[name] = Query(name, tuple(_axis(axis, schema) for axis in one["by"]))
        return list(found.values())

    def bounded(self, level: str, found: _LevelRows) -> tuple[str, ...]:
        """The queries with constraints, in the order that the files say or that they stand in."""
        there = dict.fromkeys(key[0] for key in found.constraints.rows if isinstance(key, tuple))
        return tuple(self.about(level).get("bounded", there))


def _axis(said: Any, schema: Schema) -> str | Recode:
    if isinstance(said, str):
        return said
    groups = tuple((name, tuple(levels)) for name, levels in said["groups"].items())
    return Recode(said["recode"], schema.attribute(said["of"]), groups)


def _indexed(
    source: _Source,
    level: str,
    tree: Geography,
    schema: Schema,
    names: QueryNames,
    workspace: Storage | None,
) -> _LevelRows:
    answers, constraints = source.tables(level)
    kind_of = _RowKinds(source.folder, level, schema, names)
    if not answers and not constraints and level not in source.said.get(WITHOUT_ROWS, ()):
        raise InputError(
            str(source.folder),
            place=f"level {level!r}",
            found="neither answers nor constraints",
            expected=f"Parquet files in {ANSWERS}, and in {CONSTRAINTS} where something is kept",
        )
    known = (
        f"one of the {tree.size(level):,} units of the level"
        if source.said
        else f"a geounit with a row in {CONSTRAINTS}, which is the list of geounits"
    )
    place = None if workspace is None else workspace.below(stem_of(level))
    made = [
        index_rows(
            files,
            level,
            tree,
            kind,
            by=by,
            expected=known,
            storage=None if place is None else place.below(table),
        )
        for table, files, kind, by in (
            (ANSWERS, answers, kind_of.measured, ""),
            (CONSTRAINTS, constraints, kind_of.kept, "sign"),
        )
    ]
    return _LevelRows(*made)


@dataclass(frozen=True)
class _RowKinds:
    """Which kind a row of a level is; what nobody knows is refused."""

    folder: Path
    level: str
    schema: Schema
    names: QueryNames

    def measured(self, name: str, _: str) -> RowKind:
        """An answer to a query."""
        query = self.names.measured(name)
        if query is None:
            raise self._unknown(name)
        return RowKind(query, self._shape(query))

    def kept(self, name: str, sign: str) -> RowKind | None:
        """A constraint; one that the schema keeps already is passed over."""
        if sign not in (EXACT, LEAST, MOST):
            raise InputError(
                str(self.folder),
                place=f"level {self.level!r}, {CONSTRAINTS}, column 'sign'",
                found=repr(sign),
                expected=one_of((EXACT, LEAST, MOST)),
            )
        query = self.names.kept(name)
        if query is not None:
            return RowKind((query, sign), self._shape(query))
        if name.startswith(NURSING_MINORS) and sign == EXACT and self.schema.structural_zeros:
            return None
        raise self._unknown(name)

    def _shape(self, query: str) -> tuple[int, ...]:
        found = self.names.queries[query]
        return tuple(attribute.size for attribute in found.attributes(self.schema))

    def _unknown(self, name: str) -> InputError:
        return InputError(
            str(self.folder),
            place=f"level {self.level!r}, column 'query_name'",
            found=f"{name!r}, an unknown query",
            expected=f"{one_of(self.names.queries)}, with _dpq or _con",
        )


def _refuse_unbounded(made: NoisyMeasurements, level: str) -> None:
    """Refuse units without constraints, where files say that every unit has some."""
    table, units = made.levels[level].constraints, made.tree.size(level)
    for query in made.bounded[level]:
        for first in range(0, units, UNITS_AT_ONCE):
            some = range(first, min(first + UNITS_AT_ONCE, units))
            there: Flags = np.zeros(len(some), dtype=bool)
            for sign in (EXACT, LEAST):
                if (query, sign) in table.rows:
                    there |= table.there((query, sign), some)
            if not there.all():
                code = made.tree.units[made.tree.depth(level)][first + int(np.argmin(there))]
                raise InputError(
                    str(made.folder),
                    place=f"level {level!r}, geounit {str(code)!r}",
                    found=f"no row for {query!r} in {CONSTRAINTS}",
                    expected="the constraints of every geounit",
                )


def _refuse_gaps(made: NoisyMeasurements, level: str, *, spine: bool) -> None:
    """Refuse units of others' files without a bound that other units of the level have.

    A row that is lost would otherwise be no bound. The exact total of a unit that the spine has in
    parts is no constraint of any of them.
    """
    table, codes = made.levels[level].constraints, made.tree.units[made.tree.depth(level)]
    for query in made.bounded[level]:
        for sign in (LEAST, MOST):
            own = [(query, one) for one in (sign, EXACT) if (query, one) in table.rows]
            if not own:
                continue
            gaps = []
            for first in range(0, len(codes), UNITS_AT_ONCE):
                some = range(first, min(first + UNITS_AT_ONCE, len(codes)))
                there = np.logical_or.reduce([table.there(key, some) for key in own])
                gaps.append(first + np.flatnonzero(~there))
            gap = np.concatenate(gaps)
            if len(gap) and spine and not made.queries[query].by:
                gap = gap[~in_parts(codes)[gap]]
            if len(gap):
                raise InputError(
                    str(made.folder),
                    place=f"level {level!r}, geounit {str(codes[gap[0]])!r}",
                    found=f"no row for {query!r} with the sign {sign!r} or {EXACT!r} in "
                    f"{CONSTRAINTS} ({len(gap):,} of {len(codes):,} geounits have none)",
                    expected="the constraints of every geounit, where some have them",
                )
