"""Files of somebody else's release, read on the domain of a truth: tables of counts, or records.

Nothing of the truth but its schema and its units is used. What is missing stays missing, counts
below 0 and fractions stay as they are: they are to be scored, not to be refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Flags, Ints
from headcount.domain import CountsOf, Domain
from headcount.errors import InputError, did_you_mean
from headcount.geography import Geography
from headcount.population.tables import Rows, header_of, read_rows
from headcount.privacy.guarantee import UnknownGuarantee
from headcount.processes import gib, memory_limit
from headcount.release.foreign_files import (
    Entries,
    is_mdf,
    is_ppmf,
    plain_codes,
    read_counts,
    read_mdf,
    read_ppmf,
)
from headcount.release.layout import ForeignFiles, LevelTable, is_large, marginal
from headcount.release.release import CountsRelease, Release
from headcount.schema import Schema

WHY_UNKNOWN = "the files were not made here, and do not say how they were made"


def read_foreign(
    source: Any,
    schema: Schema,
    geography: Geography,
    *,
    how: ForeignFiles | None = None,
    aliases: Mapping[str, str] | None = None,
    counted: CountsOf = CountsOf.PEOPLE,
) -> CountsRelease:
    """A release from files, or from a data frame, of a truth's schema and units.

    where
        source    a path, several, or a frame of polars (or of anything that it can be made from)
        aliases   other names of levels and attributes, for columns that have no name of ``how``

    Each file is known by what is in it: the records of the Bureau's MDF of 1940 or of a PPMF; else
    a table with columns named like levels of the geography, and like attributes or cells. The
    result has the attributes that all files have, and the levels down to the lowest one of them.
    """
    how = how or ForeignFiles()
    found = list(_read(source, schema, geography, how, aliases or {}, counted))
    names = {one.names for one in found}
    if len(names) > 1:
        raise InputError(
            "release",
            found=f"files by {' and by '.join(str(list(one)) for one in sorted(names))}",
            expected="files by the same attributes, one for each level",
        )
    kept = marginal(schema, next(iter(names)))
    lowest = max(geography.depth(one.level) for one in found)
    places = Geography(
        geography.levels[: lowest + 1],
        geography.units[: lowest + 1],
        geography.parents[: lowest + 1],
    )
    tables: dict[str, LevelTable] = {}
    missing: dict[str, Flags] = {}
    for level in places.levels:
        if mine := [one for one in found if one.level == level]:
            tables[level], gone = _table(mine, kept, places.size(level), how)
            missing |= {} if gone is None or not gone.any() else {level: gone}
    return CountsRelease(
        domain=Domain(kept, places, counted=counted),
        mechanism=f"somebody else ({', '.join(dict.fromkeys(one.source for one in found))})",
        guarantee=UnknownGuarantee(why_none=WHY_UNKNOWN),
        key_kind="none",
        backend="none",
        notes={f"{one.source}": one.words for one in found},
        tables=tables,
        missing=missing,
    )


def is_foreign(source: object) -> bool:
    """Whether something can be read as somebody else's release: paths, or a data frame."""
    if isinstance(source, (str, Path)) or _are_paths(source):
        return True
    return not isinstance(source, Release) and hasattr(source, "__arrow_c_stream__")


def _read(
    source: Any,
    schema: Schema,
    geography: Geography,
    how: ForeignFiles,
    aliases: Mapping[str, str],
    counted: CountsOf,
) -> Iterable[Entries]:
    if not isinstance(source, (str, Path)) and not _are_paths(source):
        frame = source if isinstance(source, pl.DataFrame) else pl.DataFrame(source)
        rows = Rows(Path("data frame"), how.format, frame)
        _refuse_strange_columns([("data frame", frame.columns)], how)
        return [_counted(rows, schema, geography, how, aliases)]
    paths = [Path(source)] if isinstance(source, (str, Path)) else [Path(one) for one in source]
    if not paths:
        raise InputError("release", found="no file", expected="at least one")
    mdf = [path for path in paths if is_mdf(path)]
    found = [read_mdf(mdf, schema, geography)] if mdf else []
    headers = {path: header_of(path, how.format) for path in paths if path not in mdf}
    _refuse_strange_columns([(str(path), header) for path, header in headers.items()], how)
    for path, header in headers.items():
        if is_ppmf(header):
            found.append(read_ppmf(path, header, schema, geography, how, counted))
            continue
        rows = read_rows(path, header, form=how.format)
        found.append(_counted(rows, schema, geography, how, aliases))
    return found


def _refuse_strange_columns(
    headers: Sequence[tuple[str, Sequence[str]]], how: ForeignFiles
) -> None:
    """Refuse columns of ``[release]`` that no file has."""
    named = [(name, "columns") for name, _ in how.columns]
    for name, key in named:
        if headers and not any(name in header for _, header in headers):
            raise InputError(
                ", ".join(source for source, _ in headers),
                place=f"release.{key}",
                found=f"no column {name!r}",
                expected=did_you_mean(name, [one for _, header in headers for one in header]),
            )


def _are_paths(source: Any) -> bool:
    return isinstance(source, Sequence) and all(isinstance(one, (str, Path)) for one in source)


def _counted(
    rows: Rows,
    schema: Schema,
    geography: Geography,
    how: ForeignFiles,
    aliases: Mapping[str, str],
) -> Entries:
    """The counts of a table, added up over the columns that are not read."""
    gone = any(not ours and name in rows.frame.columns for name, ours in how.columns)
    return read_counts(_renamed(rows, how, aliases), schema, geography, how, added_up=gone)


def _renamed(rows: Rows, how: ForeignFiles, aliases: Mapping[str, str]) -> Rows:
    """The columns by what they are here, without those and the rows that are not read."""
    for column, values in how.leave_out.items():
        if column in rows.frame.columns:
            rows = rows.only(~plain_codes(rows.frame[column]).is_in(list(values)), without="")
    names = {name: ours for name, ours in how.columns if name in rows.frame.columns}
    frame = rows.frame.drop([name for name, ours in names.items() if not ours])
    frame = frame.rename({name: ours for name, ours in names.items() if ours})
    known = {
        alias: name
        for alias, name in aliases.items()
        if alias in frame.columns and name not in frame.columns
    }
    return replace(rows, frame=frame.rename(known))


def _table(
    parts: list[Entries], schema: Schema, units: int, how: ForeignFiles
) -> tuple[LevelTable, Flags | None]:
    """One level: its counts, and which are missing."""
    unit, cell = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("unit", "cell")
    )
    value = np.concatenate([one.value for one in parts])
    complete = how.missing == "zero" or all(one.complete for one in parts)
    _refuse_twice(parts, unit, cell, schema)
    there = np.isfinite(value)
    if there.all() and np.array_equal(value, np.rint(value)) and all(one.whole for one in parts):
        value = value.astype(np.int64)
    shape = (units, schema.size)
    if complete and is_large(schema, units):
        from scipy.sparse import csr_array

        return csr_array((value[there], (unit[there], cell[there])), shape=shape), None
    if (need := units * schema.size * 9) > memory_limit():
        raise InputError(
            parts[0].source,
            found=f"counts that need {gib(need)} at once",
            expected='fewer units or attributes, or missing = "zero"',
        )
    full = np.zeros(shape, dtype=value.dtype)
    full[unit[there], cell[there]] = value[there]
    if complete:
        return full, None
    gone = np.ones(shape, dtype=bool) & schema.possible
    gone[unit[there], cell[there]] = False
    return full, gone


def _refuse_twice(parts: list[Entries], unit: Ints, cell: Ints, schema: Schema) -> None:
    """Refuse a count that is there twice, in one file or in two."""
    place = unit * schema.size + cell
    _, first, times = np.unique(place, return_index=True, return_counts=True)
    if (times == 1).all():
        return
    again = np.setdiff1d(np.arange(len(place)), first)
    starts = np.cumsum([0, *(len(one.unit) for one in parts)])
    for one, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        rows = again[(again >= start) & (again < stop)] - start
        problems = one.problems()
        problems.add(
            one.row[rows],
            found=lambda row: "a count that was there before",
            expected="each count of a unit once",
        )
        problems.refuse()
