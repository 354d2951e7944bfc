"""Whole numbers of a column, exactly as they are written."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Literal

import polars as pl

from headcount.arrays import Ints
from headcount.errors import InputError, Problems
from headcount.population.population import MOST_PEOPLE
from headcount.population.tables import Rows

NO_COUNT = r"^(|\.{1,2}|[-–]|NA)$"
"""What stands in a table for a count of nobody, beside nothing at all."""

WITHHELD = (
    r"(?i)^(|[.…:*#•]+|[-–—]+|\(?[a-z]{1,2}\)?|n\.?/?a\.?|nan|null|[<≤] ?\d+|\([.…:*#<>\d -]*\))$"
)
"""The same, and what stands for a count that somebody withholds: x, (D), c, :, *, <5."""

BlankCounts = Literal["refuse", "zero", "withheld"]
"""What to do with counts that are not there: nobody, or some that are withheld; both read as 0."""

MARKS: dict[BlankCounts, str] = {"zero": NO_COUNT, "withheld": WITHHELD}


def whole_numbers(
    rows: Rows, column: str, problems: Problems, *, blank: BlankCounts = "refuse"
) -> Ints:
    """The counts of one column; anything but whole numbers from 0 is noted as a problem."""
    values = rows.frame[column]
    if not (values.dtype.is_numeric() or values.dtype in (pl.String, pl.Null)):
        raise InputError(
            rows.name,
            place=f"column {column!r}",
            found=f"values of type {values.dtype}",
            expected="whole numbers, 0 or more",
        )
    given = values
    if values.dtype == pl.String:
        values = rows.form.plain(values)
    if blank in MARKS:
        values = values.fill_null("0" if values.dtype == pl.String else 0)
        if values.dtype == pl.String:
            marks = given.str.strip_chars().str.contains(MARKS[blank]).fill_null(False)
            values = values.set(marks, "0")
    numbers = exact_numbers(values)
    good = (numbers >= 0).fill_null(False)
    if not good.all():
        key = ' (blank_counts = "%s" under [population] reads %s as 0)'
        nothing, withheld = key % ("zero", "nothing"), key % ("withheld", "what is withheld")
        text = given.cast(pl.String).str.strip_chars().fill_null("")
        empty, sign = text.str.contains(NO_COUNT), text.str.contains(WITHHELD)
        for these, more in (
            (~good & empty, nothing),
            (~good & sign & ~empty, withheld),
            (~good & ~sign, ""),
        ):
            problems.add(
                these.arg_true(),
                place=f"column {column!r}",
                found=lambda row: "nothing" if given[row] is None else repr(given[row]),
                expected=f"a whole number, 0 or more{more}",
            )
        numbers = numbers.set(~good, 0)
    return numbers.to_numpy()


def exact_numbers(values: pl.Series) -> pl.Series:
    """Whole numbers as they are written, null where there is none.

    A float tells neighbouring whole numbers apart only below 2^53 (2^24 if it is short), so a
    larger one may have been another number before it was stored.
    """
    if values.dtype.is_integer():
        return values.cast(pl.Int64, strict=False)
    if values.dtype.is_float():
        limit = 1 << (24 if values.dtype == pl.Float32 else 53)
        near = values.cast(pl.Float64)
        whole = (near == near.round()) & (near.abs() < limit)
        return near.set(~whole.fill_null(False), None).cast(pl.Int64, strict=False)
    text = values.cast(pl.String)  # also decimals: "3.0" and "3." are 3 in text as well
    plain = text.str.replace(r"\.0*$", "").cast(pl.Int64, strict=False)
    others = (plain.is_null() & text.is_not_null()).arg_true()
    return plain.scatter(others, [_whole(one) for one in text.gather(others)])


def _whole(text: str) -> int | None:
    """A whole number in any other spelling, such as "1e3", or None."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    # How many digits first: 1e999999999 is a short text of a long number.
    if not number.is_finite() or number.adjusted() > 18 or number != number.to_integral_value():
        return None
    return int(number) if abs(number) <= MOST_PEOPLE else None
