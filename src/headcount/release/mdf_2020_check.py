"""Is a file of the redistricting product of 2020 what it must be? Asked of the written lines alone.

The rules, for every block b and type k of living quarters, with u = how many of that type stand
there (all housing units, vacant ones too, count as type 0):

    l_k u_k <= people of type k in b <= 99,999 u_k,    l = (0, 1, 1, 1, 1, 1, 1, 1)
    nobody under 18 in nursing homes
    people of each state, or homes and facilities of each block, as published
    people numbered from 0; records in the order of their places

This reads what a stranger would read, once and some lines at a time: it shares no code with what
writes or estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints

CAP = 99_999
FLOORS = (0, 1, 1, 1, 1, 1, 1, 1)
NURSING = 3
CODE = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
PLACE = (*CODE, "TABBLKGRPCE")
VALUES = {
    "RTYPE": {"3", "5"},
    "GQTYPE_PL": {str(kind) for kind in range(8)},
    "VOTING_AGE": {"1", "2"},
    "CENHISP": {"1", "2"},
    "CENRACE": {f"{race:02}" for race in range(1, 64)},
}
STATUS = {("2", "1"): 0, ("2", "2"): 0, ("4", "0"): 1}
"""Record type and status of a unit, and whether it is a home (0) or a facility (1)."""
BYTES_AT_ONCE = 1 << 25


class _UnreadableError(Exception):
    """A file that does not have the lines of a layout."""


def faults_of_persons(
    path: Path, *, blocks: NDArray[np.str_], quarters: Ints | None, states: Mapping[str, int]
) -> list[str]:
    """What is wrong with a file of people, one sentence each; none for a good file.

    where
        blocks     codes of all blocks, in order
        quarters   of each block, how many living quarters of each type; None if nothing is known
        states     people of each state
    """
    many: Counter[str] = Counter()
    values: set[tuple[str, str]] = set()
    people: Counter[str] = Counter()
    living = np.zeros((len(blocks), len(FLOORS)), dtype=np.int64)
    elsewhere: Counter[str] = Counter()
    try:
        for first, table in _pieces(path, ("EPNUM", *VALUES), many):
            many["people whose EPNUM is not their row"] += _misnumbered(table, first)
            values |= _strange(table)
            kind, adult = pl.col("GQTYPE_PL"), pl.col("VOTING_AGE")
            mixed = (kind == "0") != (pl.col("RTYPE") == "3")
            many["people whose RTYPE is not that of their GQTYPE_PL"] += _number(table, mixed)
            young = (kind == str(NURSING)) & (adult == "1")
            many["people under 18 in nursing homes"] += _number(table, young)
            people.update(dict(table.group_by("TABBLKST").len().iter_rows()))
            if not values:
                elsewhere.update(_added(table, kind.cast(pl.Int64), blocks, living))
    except _UnreadableError as error:
        return [str(error)]
    found = _said(many) + [
        f"{name} {value!r} is no value of the layout" for name, value in sorted(values)
    ]
    found += [
        f"state {code}: {people[code]:,} people, published {states.get(code, 0):,}"
        for code in sorted({*people, *states})
        if people[code] != states.get(code, 0)
    ]
    found += _unknown(elsewhere, "people")
    if values or quarters is None:
        return found
    return found + _outside(blocks, living, quarters)


def faults_of_units(
    path: Path, *, blocks: NDArray[np.str_], homes: Ints, facilities: Ints
) -> list[str]:
    """What is wrong with a file of units: every block has its housing units and facilities."""
    many: Counter[str] = Counter()
    standing = np.zeros((len(blocks), 2), dtype=np.int64)
    elsewhere: Counter[str] = Counter()
    try:
        for _, table in _pieces(path, ("RTYPE", "HH_STATUS"), many):
            pairs = table.group_by("RTYPE", "HH_STATUS").len().sort("RTYPE", "HH_STATUS")
            for record, status, number in pairs.iter_rows():
                if (record, status) not in STATUS:
                    many[f"units of RTYPE {record!r} with HH_STATUS {status!r}"] += number
            kind = pl.col("RTYPE") == "4"
            known = table.filter(pl.col("RTYPE").is_in(["2", "4"]))
            elsewhere.update(_added(known, kind.cast(pl.Int64), blocks, standing))
    except _UnreadableError as error:
        return [str(error)]
    found = _said(many) + _unknown(elsewhere, "units")
    expected = np.stack([homes, facilities], axis=1)
    for block, kind in zip(*np.nonzero(standing != expected), strict=True):
        what = ("housing units", "facilities")[kind]
        found.append(
            f"block {blocks[block]}: {standing[block, kind]:,} {what}, published "
            f"{expected[block, kind]:,}"
        )
    return found


def _pieces(
    path: Path, fields: Iterable[str], many: Counter[str]
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Records some at a time, all fields as text, with the code of the block and the first's row.

    Notes what is wrong with their order.
    """
    first, last = 0, ""
    for table in _tables(path, (*PLACE, *fields)):
        table = table.with_columns(pl.concat_str(CODE).alias("code"))
        before = pl.col("code").shift(1, fill_value=last)
        many["records stand after one of a later block"] += _number(table, pl.col("code") < before)
        group = pl.col("TABBLK").str.slice(0, 1) != pl.col("TABBLKGRPCE")
        many["records whose block is not in their block group"] += _number(table, group)
        yield first, table
        first, last = first + table.height, table["code"][-1]


def _tables(path: Path, fields: Iterable[str]) -> Iterator[pl.DataFrame]:
    """The lines after the comments and the header, as text."""
    from pyarrow import ArrowInvalid, string
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    with path.open("rb") as file:
        lines = 0
        while (line := file.readline()).startswith(b"# "):
            lines += 1
        at_end = not file.read(1)
    names = line.decode().rstrip("\n").split("|")
    if missing := [name for name in fields if name not in names]:
        raise _UnreadableError(f"no field {missing[0]} in the header")
    if at_end:
        return
    try:
        with open_csv(
            path,
            ReadOptions(skip_rows=lines, block_size=BYTES_AT_ONCE),
            ParseOptions(delimiter="|", quote_char=False),
            ConvertOptions(column_types=dict.fromkeys(names, string())),
        ) as pieces:
            for piece in pieces:
                if piece.num_rows:
                    made = pl.from_arrow(piece)
                    assert isinstance(made, pl.DataFrame)
                    yield made
    except ArrowInvalid as error:
        raise _UnreadableError(f"lines that cannot be read: {error}") from None


def _number(table: pl.DataFrame, rows: pl.Expr) -> int:
    return int(table.select(rows.fill_null(True).sum()).item())


def _misnumbered(table: pl.DataFrame, first: int) -> int:
    number = pl.col("EPNUM").cast(pl.Int64, strict=False)
    return _number(table, number.ne_missing(pl.int_range(pl.len(), dtype=pl.Int64) + first))


def _strange(table: pl.DataFrame) -> set[tuple[str, str]]:
    """Values that the layout does not have, with their fields."""
    return {
        (column, value)
        for column, known in VALUES.items()
        for value in set(table[column].unique().to_list()) - known
    }


def _added(
    table: pl.DataFrame, kind: pl.Expr, blocks: NDArray[np.str_], counts: Ints
) -> dict[str, int]:
    """Add the records of each block and kind to its counts; those of unknown blocks are given."""
    rows = table.group_by("code", kind.alias("kind")).len().sort("code")
    code, kinds, number = rows["code"].to_numpy().astype(str), rows["kind"], rows["len"]
    at = np.minimum(np.searchsorted(blocks, code), len(blocks) - 1)
    known = blocks[at] == code
    np.add.at(counts, (at[known], kinds.to_numpy()[known]), number.to_numpy()[known])
    unknown = rows.filter(pl.Series(~known)).group_by("code").agg(pl.col("len").sum()).sort("code")
    return dict(unknown.iter_rows())


def _outside(blocks: NDArray[np.str_], living: Ints, stand: Ints) -> list[str]:
    """Blocks with people of a type outside what its living quarters allow."""
    low, high = np.array(FLOORS) * stand, CAP * stand
    return [
        f"block {blocks[block]}: {living[block, kind]:,} people of type {kind}, expected "
        f"{low[block, kind]:,} to {high[block, kind]:,}"
        for block, kind in zip(*np.nonzero((living < low) | (living > high)), strict=True)
    ]


def _unknown(records: Mapping[str, int], what: str) -> list[str]:
    return [
        f"block {code}: {number:,} {what} in none of the published blocks"
        for code, number in sorted(records.items())
    ]


def _said(many: Counter[str]) -> list[str]:
    return [f"{number:,} {what}" for what, number in many.items() if number]
