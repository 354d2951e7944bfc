"""Is a file of the redistricting product of 2020 what it must be? Asked of the written lines alone.

The rules, for every block b and type k of living quarters, with u = how many of that type stand
there (all housing units, vacant ones too, count as type 0):

    l_k u_k <= people of type k in b <= 99,999 u_k,    l = (0, 1, 1, 1, 1, 1, 1, 1)
    nobody under 18 in nursing homes
    people of each state as published; people, or units, numbered and in the order of their places

This reads what a stranger would read: it shares no code with what writes or estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from headcount.arrays import Ints

CAP = 99_999
FLOORS = (0, 1, 1, 1, 1, 1, 1, 1)
NURSING = 3
CODE = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
VALUES = {
    "RTYPE": {"3", "5"},
    "GQTYPE_PL": {str(kind) for kind in range(8)},
    "VOTING_AGE": {"1", "2"},
    "CENHISP": {"1", "2"},
    "CENRACE": {f"{race:02}" for race in range(1, 64)},
}


def faults_of_persons(
    path: Path, *, quarters: Mapping[str, Ints] | None, states: Mapping[str, int]
) -> list[str]:
    """What is wrong with a file of people, one sentence each; none for a good file.

    where
        quarters   of each block, how many living quarters of each type; None if nothing is known
        states     people of each state
    """
    table = _lines(path)
    found = _order(table, numbered=True)
    for column, values in VALUES.items():
        wrong = set(table.select(pl.col(column).unique()).collect()[column]) - values
        found += [f"{column} {value!r} is no value of the layout" for value in sorted(wrong)]
    if found:
        return found
    kind, adult = pl.col("GQTYPE_PL"), pl.col("VOTING_AGE")
    mixed = table.filter((kind == "0") != (pl.col("RTYPE") == "3")).select(pl.len())
    if number := mixed.collect().item():
        found.append(f"{number:,} people whose RTYPE is not that of their GQTYPE_PL")
    young = table.filter((kind == str(NURSING)) & (adult == "1")).select(pl.len()).collect().item()
    if young:
        found.append(f"{young:,} people under 18 in nursing homes")
    people = table.group_by("TABBLKST").len().collect()
    found += _differing("state", people, states, "people")
    return found + ([] if quarters is None else _outside(table, quarters))


def faults_of_units(
    path: Path, *, homes: Mapping[str, int], facilities: Mapping[str, int]
) -> list[str]:
    """What is wrong with a file of units: every block has its housing units and facilities."""
    table = _lines(path)
    found = _order(table, numbered=False)
    status = table.group_by("RTYPE", "HH_STATUS").len().collect()
    for record, value, number in status.sort("RTYPE", "HH_STATUS").iter_rows():
        if (record, value) not in {("2", "1"), ("2", "2"), ("4", "0")}:
            found.append(f"{number:,} units of RTYPE {record!r} with HH_STATUS {value!r}")
    for record, expected, what in (("2", homes, "housing units"), ("4", facilities, "facilities")):
        rows = table.filter(pl.col("RTYPE") == record).group_by("code").len().collect()
        found += _differing("block", rows, expected, what)
    return found


def _differing(unit: str, rows: pl.DataFrame, expected: Mapping[str, int], what: str) -> list[str]:
    """Units with another number of records than was published."""
    there = {code: int(number) for code, number in rows.iter_rows()}
    return [
        f"{unit} {code}: {there.get(code, 0):,} {what}, published {expected.get(code, 0):,}"
        for code in sorted({*there, *expected})
        if there.get(code, 0) != expected.get(code, 0)
    ]


def _lines(path: Path) -> pl.LazyFrame:
    """All fields as text, and the code of the block."""
    table = pl.scan_csv(path, separator="|", comment_prefix="# ", infer_schema=False)
    return table.with_columns(pl.concat_str(CODE).alias("code"))


def _order(table: pl.LazyFrame, *, numbered: bool) -> list[str]:
    """Records in the order of their blocks, and numbered from 0."""
    back = table.select((pl.col("code") < pl.col("code").shift(1)).sum()).collect().item()
    found = [f"{back:,} records stand after one of a later block"] if back else []
    group = pl.col("TABBLK").str.slice(0, 1) != pl.col("TABBLKGRPCE")
    if wrong := table.filter(group).select(pl.len()).collect().item():
        found.append(f"{wrong:,} records whose block is not in their block group")
    if numbered:
        number = pl.col("EPNUM").cast(pl.Int64, strict=False)
        row = pl.int_range(pl.len(), dtype=pl.Int64)
        if wrong := table.select((number.ne_missing(row)).sum()).collect().item():
            found.append(f"{wrong:,} people whose EPNUM is not their row")
    return found


def _outside(table: pl.LazyFrame, quarters: Mapping[str, Ints]) -> list[str]:
    """Blocks with people of a type outside what its living quarters allow."""
    codes = sorted(quarters)
    stand = np.array([quarters[code] for code in codes], dtype=np.int64).reshape(len(codes), -1)
    people = np.zeros_like(stand)
    at = {code: number for number, code in enumerate(codes)}
    found = []
    counted = table.group_by("code", "GQTYPE_PL").len().collect().sort("code", "GQTYPE_PL")
    for code, kind, number in counted.iter_rows():
        if code in at:
            people[at[code], int(kind)] = number
        else:
            found.append(f"block {code}: {number:,} people where nothing stands")
    low, high = np.array(FLOORS) * stand, CAP * stand
    for block, kind in zip(*np.nonzero((people < low) | (people > high)), strict=True):
        found.append(
            f"block {codes[block]}: {people[block, kind]:,} people of type {kind}, expected "
            f"{low[block, kind]:,} to {high[block, kind]:,}"
        )
    return found
