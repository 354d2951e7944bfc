"""Two divisions of the same leaf units: in which unit of each a leaf lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population.tables import read_table

COLUMNS = ("leaf", "first", "second")
"""Of a file: the code of a leaf unit, and those of its units in the first and second release."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Division:
    """The units of one level of a release.

    where
        name        which release it is, for messages
        geography   of the release
        level       the level; units are numbered as they stand in it
    """

    name: str
    geography: Geography
    level: str

    @property
    def codes(self) -> NDArray[np.str_]:
        """Codes of the units."""
        return self.geography.units[self.geography.depth(self.level)]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Crosswalk:
    """For each leaf unit its unit of the first and of the second division."""

    leaf: NDArray[np.str_]
    first: Ints
    second: Ints


def by_leaf_codes(first: Division, second: Division) -> Crosswalk:
    """From two releases that name the same leaf units."""
    codes = [one.geography.units[-1] for one in (first, second)]
    other = {str(code): n for n, code in enumerate(codes[1])}
    if set(map(str, codes[0])) != set(other):
        missing = next((c for c in map(str, codes[0]) if c not in other), "")
        raise InputError(
            second.name,
            place=f"level {second.geography.leaf!r}",
            found=f"no unit {missing!r}" if missing else "units that the first release lacks",
            expected=f"the leaf units of {first.name}, or a file that says in which units of both "
            "each leaf lies (--crosswalk)",
        )
    place = np.array([other[str(code)] for code in codes[0]], dtype=np.int64)
    return Crosswalk(
        leaf=codes[0],
        first=first.geography.ancestors(first.level).astype(np.int64),
        second=second.geography.ancestors(second.level)[place].astype(np.int64),
    )


def read_crosswalk(path: Path, first: Division, second: Division) -> Crosswalk:
    """From a file with the columns leaf, first and second."""
    frame = read_table(path, COLUMNS)
    text = {name: frame[name].cast(pl.String) for name in COLUMNS}
    again = text["leaf"].is_duplicated() | text["leaf"].is_null()
    if again.any():
        row = int(again.arg_max() or 0)
        leaf = text["leaf"][row]
        raise InputError(
            str(path),
            place=f"column 'leaf', row {row + 1}",
            found="no code" if leaf is None else f"{leaf!r} more than once",
            expected="each leaf unit once",
        )
    return Crosswalk(
        leaf=text["leaf"].to_numpy().astype(str),
        first=_numbers(path, "first", text["first"], first),
        second=_numbers(path, "second", text["second"], second),
    )


def _numbers(path: Path, column: str, codes: pl.Series, division: Division) -> Ints:
    """Units by their codes; all units of the division must be there, for people are in each."""
    numbers = {str(code): n for n, code in enumerate(division.codes)}
    for row, code in enumerate(codes.to_list()):
        if code not in numbers:
            raise InputError(
                str(path),
                place=f"column {column!r}, row {row + 1}",
                found="no code" if code is None else f"{code!r}",
                expected=f"a code of level {division.level!r} of {division.name}, such as "
                f"{str(division.codes[0])!r}",
            )
    found = np.array([numbers[code] for code in codes.to_list()], dtype=np.int64)
    without = np.setdiff1d(np.arange(len(numbers)), found)
    if len(without):
        raise InputError(
            str(path),
            place=f"column {column!r}",
            found=f"no leaf in {division.level} {str(division.codes[without[0]])!r}",
            expected=f"every {division.level} of {division.name}",
        )
    return found
