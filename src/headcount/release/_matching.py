"""Codes of somebody else's files, matched to the units and levels of a truth's domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.errors import Problems
from headcount.geography import Geography
from headcount.schema import Attribute


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Entries:
    """The counts of one file.

    where
        level      of its units
        names      its attributes, in the order of the schema
        unit       number of the unit of each count
        cell       number of the cell, of these attributes
        value      the count; NaN where it is left blank
        whole      whether counts are written as whole numbers
        complete   whether what is not there is nobody: of records, not of tables
        row        where each count stands in the file
        words      how the file was understood
    """

    source: str
    level: str
    names: tuple[str, ...]
    unit: Ints
    cell: Ints
    value: Any
    whole: bool
    complete: bool
    row: Ints
    problems: Callable[[], Problems]
    words: str

    def added(self) -> Entries:
        """One count for each unit and cell; a sum of which a part is missing is missing too."""
        one = pl.DataFrame(
            {"unit": self.unit, "cell": self.cell, "value": self.value, "row": self.row}
        )
        both = one.group_by("unit", "cell").agg(pl.col("value").sum(), pl.col("row").min())
        both = both.sort("row", "cell")
        columns: dict[str, Any] = {name: both[name].to_numpy() for name in both.columns}
        return replace(self, **columns)


def unit_numbers(
    frame: pl.DataFrame, level: str, geography: Geography, problems: Problems, row: Ints
) -> Ints:
    """The number of each row's unit.

    A unit is known by its code; else by the codes above it and its own, as in "county/tract"; else
    by its code with the zeros that it lost at the front.
    """
    own = frame[level].cast(pl.String).str.strip_chars()
    known = geography.units[geography.depth(level)].tolist()
    tries = [own]
    above = geography.levels[1 : geography.depth(level) + 1]
    if len(above) > 1 and set(above) <= set(frame.columns):
        path = frame.select(
            pl.concat_str([pl.col(name).cast(pl.String) for name in above], separator="/")
        )
        tries.append(path.to_series())
    lengths = {len(code) for code in known}
    if len(lengths) == 1:
        tries.append(own.str.zfill(lengths.pop()))
    numbers = pl.DataFrame({"code": known}).with_row_index("number")
    first = None
    for codes in tries:
        found = codes.to_frame("code").join(numbers, on="code", how="left", maintain_order="left")[
            "number"
        ]
        if not found.null_count():
            return found.to_numpy().astype(np.int64)
        first = found if first is None else first
    assert first is not None
    expected = f"one of the {len(known):,} units of level {level!r}"
    note_strange(problems, row, first, f"column {level!r}", "unit", own, expected)
    return first.fill_null(0).to_numpy().astype(np.int64)


def level_numbers(
    column: pl.Series,
    attribute: Attribute,
    values: Mapping[str, str],
    problems: Problems,
    row: Ints,
) -> Ints:
    """The number of each row's level of an attribute, after the map of its values."""
    text = column.cast(pl.String).str.strip_chars()
    numbers = {level: number for number, level in enumerate(attribute.levels)}
    numbers |= {value: numbers[level] for value, level in values.items() if level in numbers}
    found = text.replace_strict(list(numbers), list(numbers.values()), default=None)
    expected = f"one of {', '.join(map(repr, numbers))}"
    note_strange(problems, row, found, f"column {attribute.name!r}", "level", text, expected)
    return found.fill_null(0).to_numpy().astype(np.int64)


def note_strange(
    problems: Problems,
    row: Ints,
    number: pl.Series,
    place: str,
    what: str,
    written: pl.Series,
    expected: str,
) -> None:
    """Note the rows without a number, each with what is written there."""
    bad = number.is_null().arg_true().to_numpy()
    at = dict(zip(row[bad].tolist(), bad.tolist(), strict=True))
    problems.add(
        row[bad],
        place=place,
        found=lambda one: f"{what} {written[at[one]]!r}".lstrip(),
        expected=expected,
    )
