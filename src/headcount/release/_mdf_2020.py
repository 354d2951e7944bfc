"""Protected people, or housing units, as text in the two layouts of the redistricting product of
2020 (MDF).

One line a record, fields between bars, a header; the places are those of tabulation. People are not
placed in housing units. Lines are in the order of state, county, tract and block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.progress import Progress, silent
from headcount.release._mdf import bars, comments
from headcount.release.streamed import whole_files
from headcount.schema import Schema
from headcount.schema.load import load_schema

if TYPE_CHECKING:
    from headcount.release._placement import LeafCounts

PERSONS_2020, UNITS_2020 = "MDF_PER_2020.txt", "MDF_UNIT_2020.txt"
PERSONS_LAYOUT, UNITS_LAYOUT = "MDFPL942020", "MDF2020H1"
BUILD = "1.1.0"
PLACE = ("SCHEMA_TYPE_CODE", "SCHEMA_BUILD_ID")
BLOCK = {"TABBLKST": 2, "TABBLKCOU": 3, "TABTRACTCE": 6, "TABBLKGRPCE": 1, "TABBLK": 4}
"""The parts of a block's code; the block group is the first digit of the block, which has four."""
PERSON_FIELDS = (
    *(*PLACE, *BLOCK),
    *("EPNUM", "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"),
)
UNIT_FIELDS = (*PLACE, *BLOCK, "RTYPE", "HH_STATUS")
BLOCK_CODE = 15
HOME, FACILITY = ("3", "2"), ("5", "4")
"""Record types of people and of units: those of homes, and of group quarters."""
OCCUPIED, VACANT, NO_STATUS = "1", "2", "0"
LEAVES_AT_ONCE = 1 << 14


def write_persons_2020(
    counts: LeafCounts,
    *,
    geography: Geography,
    folder: Path,
    metadata: Sequence[str] = (),
    progress: Progress = silent,
) -> tuple[Path]:
    """Write a line for each protected person; EPNUM numbers all of them from 0."""
    schema = load_schema("redistricting-2020")
    refuse_other_codes(schema, geography)
    places = _places(PERSONS_LAYOUT, geography)
    traits = pl.Series([_traits(*levels) for levels in np.ndindex(*schema.shape)])
    number = 0
    with whole_files(folder / PERSONS_2020) as (file,):
        file.write(comments(metadata) + _header(PERSON_FIELDS))
        for leaf, cell in _records(counts, "writing people", progress):
            rows = pl.Series(np.arange(number, number + len(leaf)))
            file.write(bars(places.gather(leaf), rows, traits.gather(cell)))
            number += len(leaf)
    return (folder / PERSONS_2020,)


def write_units_2020(
    counts: LeafCounts,
    *,
    geography: Geography,
    facilities: Ints,
    folder: Path,
    metadata: Sequence[str] = (),
    progress: Progress = silent,
) -> tuple[Path]:
    """Write a line for each housing unit, and one for each of the ``facilities`` of every block."""
    from scipy.sparse import csr_array, hstack

    refuse_other_codes(load_schema("h1-2020"), geography)
    places = _places(UNITS_LAYOUT, geography)
    status = pl.Series(
        [f"{HOME[1]}|{VACANT}", f"{HOME[1]}|{OCCUPIED}", f"{FACILITY[1]}|{NO_STATUS}"]
    )
    units = hstack([csr_array(counts), csr_array(facilities[:, None])], format="csr")
    with whole_files(folder / UNITS_2020) as (file,):
        file.write(comments(metadata) + _header(UNIT_FIELDS))
        for leaf, cell in _records(units, "writing units", progress):
            file.write(bars(places.gather(leaf), status.gather(cell)))
    return (folder / UNITS_2020,)


def _records(counts: LeafCounts, what: str, progress: Progress) -> Iterator[tuple[Ints, Ints]]:
    """Leaf and cell of every record, in their order, some leaves at a time."""
    from scipy.sparse import csr_array

    matrix = csr_array(counts)
    matrix.sort_indices()
    starts = range(0, matrix.shape[0], LEAVES_AT_ONCE)
    for start in progress(starts, what=what, total=len(starts)):
        some = matrix[start : start + LEAVES_AT_ONCE]
        leaf = np.repeat(np.arange(start, start + some.shape[0]), np.diff(some.indptr))
        people = some.data.astype(np.int64)
        if len(people) and people.min() < 0:
            raise InputError("MDF of 2020", found="a negative count", expected="0 or more")
        yield np.repeat(leaf, people), np.repeat(some.indices.astype(np.int64), people)


def refuse_other_codes(schema: Schema, geography: Geography) -> None:
    """Refuse people or units that these layouts have no fields for."""
    known = [load_schema(name).attributes for name in ("redistricting-2020", "h1-2020")]
    if schema.attributes not in known:
        raise InputError(
            "MDF layout of 2020",
            found=f"attributes {list(schema.names)}",
            expected="the attributes and levels of schema 'redistricting-2020' or 'h1-2020'",
        )
    codes = geography.units[-1]
    bad = np.flatnonzero(np.char.str_len(codes) != BLOCK_CODE)
    if len(bad):
        raise InputError(
            "MDF layout of 2020",
            place=f"{geography.leaf} {str(codes[bad[0]])!r}",
            found="a code of a different length",
            expected=f"{BLOCK_CODE} characters: state 2, county 3, tract 6, block 4",
        )


def _header(fields: Sequence[str]) -> bytes:
    return ("|".join(fields) + "\n").encode()


def _traits(kind: int, adult: int, hispanic: int, race: int) -> str:
    record = HOME[0] if kind == 0 else FACILITY[0]
    return f"{record}|{kind}|{adult + 1}|{hispanic + 1}|{race + 1:02}"


def _places(layout: str, geography: Geography) -> pl.Series:
    """The fields of the place, for each block."""
    code = pl.Series(geography.units[-1].tolist(), dtype=pl.String)
    parts, at = [], 0
    for name, length in BLOCK.items():
        first = at - 1 if name == "TABBLK" else at  # the block group is part of the block
        parts.append(code.str.slice(first, length).alias(name))
        at = first + length
    joined = pl.DataFrame(parts).select(pl.concat_str(pl.all(), separator="|"))
    return f"{layout}|{BUILD}|" + joined.to_series()
