"""Protected people, or housing units, as text in the two layouts of the redistricting product of
2020 (MDF).

One line a record, fields between bars, a header; the places are those of tabulation. People are not
placed in housing units. Lines are in the order of state, county, tract and block. What was written
is read again and checked (mdf_2020_check.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError, RunError
from headcount.files import whole_files
from headcount.geography import Geography
from headcount.population.population import Quarters
from headcount.processes import Progress, silent
from headcount.release._mdf import bars, comments, places, refuse_other_lengths
from headcount.release.mdf_2020_check import faults_of_persons, faults_of_units
from headcount.schema import Schema
from headcount.schema.load import load_schema

if TYPE_CHECKING:
    from headcount.release._tidy import LeafCounts

PERSONS_2020, UNITS_2020 = "MDF_PER_2020.txt", "MDF_UNIT_2020.txt"
PERSONS_LAYOUT, UNITS_LAYOUT = "MDFPL942020", "MDF2020H1"
BUILD = "1.1.0"
PLACE = ("SCHEMA_TYPE_CODE", "SCHEMA_BUILD_ID")
BLOCK = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")
PERSON_FIELDS = (
    *(*PLACE, *BLOCK),
    *("EPNUM", "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"),
)
UNIT_FIELDS = (*PLACE, *BLOCK, "RTYPE", "HH_STATUS")
LAYOUT = "MDF layout of 2020"
BLOCK_CODE = {"state": 2, "county": 3, "tract": 6, "block": 4}
HOME, FACILITY = ("3", "2"), ("5", "4")
"""Record types of people and of units: those of homes, and of group quarters."""
OCCUPIED, VACANT, NO_STATUS = "1", "2", "0"
LEAVES_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class ExactTotals:
    """How many people, or housing units, each unit of a level has: published without noise."""

    level: str
    totals: Ints


def write_checked_2020(
    counts: LeafCounts,
    *,
    persons: bool,
    geography: Geography,
    quarters: Quarters,
    folder: Path,
    exact: ExactTotals | None = None,
    progress: Progress = silent,
) -> tuple[Path]:
    """Write the file of people or of units, read it again and refuse what breaks a rule.

    where
        counts     protected people, or housing units, of each block
        quarters   the living quarters that are published exactly; for units the facilities among
                   them
        exact      totals that the file must have; where none are known for every state, or for
                   every block of a file of units, it must have those of the counts
    """
    from scipy.sparse import csr_array

    blocks, stand = geography.units[-1], quarters.occupied.astype(np.int64)
    records = np.asarray(csr_array(counts).sum(axis=1), dtype=np.int64)
    if persons:
        (path,) = _write_persons_2020(counts, geography=geography, folder=folder, progress=progress)
        stand[:, 0] += quarters.vacant
        states = _of_states(records, geography, exact)
        faults = faults_of_persons(path, blocks=blocks, quarters=stand, states=states)
    else:
        facilities = stand[:, 1:].sum(axis=1)
        homes = records
        if exact is not None and exact.level == geography.leaf:
            homes = exact.totals
        (path,) = _write_units_2020(
            counts, geography=geography, facilities=facilities, folder=folder, progress=progress
        )
        faults = faults_of_units(path, blocks=blocks, homes=homes, facilities=facilities)
    if faults:
        more = f" (and {len(faults) - 1:,} more faults)" if len(faults) > 1 else ""
        raise RunError(
            f"{path}: found {faults[0]}{more}, expected a file that keeps every rule of its layout"
        )
    return (path,)


def _of_states(people: Ints, geography: Geography, exact: ExactTotals | None) -> dict[str, int]:
    """People by code of state: from exact totals, where every unit of these is in one state.

    where
        people   those of each block that the release has
    """
    codes, state = np.unique(geography.units[-1].astype("<U2"), return_inverse=True)
    number = np.zeros(len(codes), dtype=np.int64)
    if exact is not None:
        of_block = geography.ancestors(exact.level)
        of_unit = np.zeros(len(exact.totals), dtype=np.int64)
        of_unit[of_block] = state
        if (of_unit[of_block] == state).all():
            np.add.at(number, of_unit, exact.totals)
            return dict(zip(codes.tolist(), number.tolist(), strict=True))
    np.add.at(number, state, people)
    return dict(zip(codes.tolist(), number.tolist(), strict=True))


def _write_persons_2020(
    counts: LeafCounts,
    *,
    geography: Geography,
    folder: Path,
    metadata: Sequence[str] = (),
    progress: Progress = silent,
) -> tuple[Path]:
    """Write a line for each protected person; EPNUM numbers all of them from 0."""
    schema = load_schema("redistricting-2020")
    refuse_other_records(schema, geography)
    traits = pl.Series([_traits(*levels) for levels in np.ndindex(*schema.shape)])
    place, number = _place(PERSONS_LAYOUT), 0
    with whole_files(folder / PERSONS_2020) as (file,):
        file.write(comments(metadata) + _header(PERSON_FIELDS))
        for leaf, cell in _records(counts, "writing people", progress):
            rows = pl.Series(np.arange(number, number + len(leaf)))
            file.write(bars(places(geography, leaf, place), rows, traits.gather(cell)))
            number += len(leaf)
    return (folder / PERSONS_2020,)


def _write_units_2020(
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

    refuse_other_records(load_schema("h1-2020"), geography)
    status = pl.Series(
        [f"{HOME[1]}|{VACANT}", f"{HOME[1]}|{OCCUPIED}", f"{FACILITY[1]}|{NO_STATUS}"]
    )
    place = _place(UNITS_LAYOUT)
    units = hstack([csr_array(counts), csr_array(facilities[:, None])], format="csr")
    with whole_files(folder / UNITS_2020) as (file,):
        file.write(comments(metadata) + _header(UNIT_FIELDS))
        for leaf, cell in _records(units, "writing units", progress):
            file.write(bars(places(geography, leaf, place), status.gather(cell)))
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


def refuse_other_records(schema: Schema, geography: Geography) -> None:
    """Refuse people or units that these layouts have no fields for."""
    if layout_of(schema) is None:
        raise InputError(
            LAYOUT,
            found=f"attributes {list(schema.names)}",
            expected="the attributes and levels of schema 'redistricting-2020' or 'h1-2020'",
        )
    if (
        layout_of(schema) == PERSONS_LAYOUT
        and (schema.possible & ~load_schema("redistricting-2020").possible).any()
    ):
        raise InputError(
            LAYOUT,
            place="structural zeros",
            found="a schema that allows people under 18 in nursing homes",
            expected="the structural zero of schema 'redistricting-2020'",
        )
    refuse_other_lengths(geography, LAYOUT, BLOCK_CODE)
    codes = geography.units[-1]
    wrong = ~np.char.isdecimal(codes)
    wrong[1:] |= codes[1:] < codes[:-1]
    if wrong.any():
        raise InputError(
            LAYOUT,
            place=f"{geography.leaf} {str(codes[wrong][0])!r}",
            found="a code with other characters than digits, or not in the order of its tract's",
            expected="codes of digits that begin with those of their tracts",
        )


def layout_of(schema: Schema) -> str | None:
    """The layout of 2020 that has fields for a schema, if one has."""
    for name, layout in (("redistricting-2020", PERSONS_LAYOUT), ("h1-2020", UNITS_LAYOUT)):
        if schema.attributes == load_schema(name).attributes:
            return layout
    return None


def _header(fields: Sequence[str]) -> bytes:
    return ("|".join(fields) + "\n").encode()


def _traits(kind: int, adult: int, hispanic: int, race: int) -> str:
    record = HOME[0] if kind == 0 else FACILITY[0]
    return f"{record}|{kind}|{adult + 1}|{hispanic + 1}|{race + 1:02}"


def _place(layout: str) -> Callable[[str], str]:
    """The fields of the place, from the code of a block; its first digit is the block group."""
    return lambda code: (
        f"{layout}|{BUILD}|{code[:2]}|{code[2:5]}|{code[5:11]}|{code[11]}|{code[11:]}"
    )
