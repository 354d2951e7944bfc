"""What stands in a sheet of whatever format: its table, and what the format itself says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import polars as pl

from headcount.errors import InputError
from headcount.population.formats.kinds import refuse_too_many
from headcount.population.text_files import distinct

EXACT = 1 << 53
"""From here on a float may have been another whole number before it was stored."""

ValueLabels = Mapping[str, Mapping[str, str]]
"""For a column the label of each value."""


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a format states: columns of counts, times, places, flags and weights; unit and title."""

    counts: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    units: str = ""
    title: str = ""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Content:
    """The table of a sheet.

    where
        frame           its columns, under names of which none stands twice
        header          the names as they are written
        column_labels   what a column is
        value_labels    what a code is, by column
        stated          what the format states
        hierarchies     the codes of a column in their order, each with its depth
    """

    frame: pl.DataFrame
    header: Sequence[str]
    column_labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: ValueLabels = field(default_factory=dict)
    stated: Stated = field(default_factory=Stated)
    hierarchies: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A dimension of a cube: its codes in their order, and what each of them is."""

    name: str
    codes: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)


def cube(
    name: str,
    dimensions: Sequence[Dimension],
    values: pl.Series,
    *,
    flags: pl.Series | None = None,
    stated: Stated | None = None,
    column_labels: Mapping[str, str] | None = None,
) -> Content:
    """A cube as a table: a row for each cell, in the order of a book, the last dimension first."""
    sizes = [len(one.codes) for one in dimensions]
    if prod(sizes) != len(values):
        raise InputError(
            name,
            place="data",
            found=f"{len(values):,} values",
            expected=f"{prod(sizes):,}, the product of {', '.join(map(str, sizes))}",
        )
    refuse_too_many(name, len(values), len(sizes) + 1)
    own = [one.name for one in dimensions]
    *names, value = distinct([*own, "value"])
    columns, inner = [], prod(sizes)
    for given, one in zip(names, dimensions, strict=True):
        inner //= max(len(one.codes), 1)
        at = np.arange(len(values)) // max(inner, 1) % max(len(one.codes), 1)
        columns.append(pl.Series(one.codes, dtype=pl.String).gather(at).alias(given))
    columns.append(values.cast(pl.String).alias(value))
    if flags is not None:
        columns.append(flags.alias(distinct([*names, value, "status"])[-1]))
    frame = pl.DataFrame(columns)
    said = stated or Stated()
    return Content(
        frame=frame,
        header=frame.columns,
        column_labels=column_labels or {},
        value_labels={
            given: one.labels for given, one in zip(names, dimensions, strict=True) if one.labels
        },
        stated=Stated(
            counts=(value,),
            times=said.times,
            places=said.places,
            flags=() if flags is None else (frame.columns[-1],),
            units=said.units,
            title=said.title,
        ),
    )


def as_text(values: pl.Series, name: str) -> pl.Series:
    """Values as text: 3.0 is "3", and an empty text is nothing."""
    if values.dtype == pl.String:
        return values.str.strip_chars_end().replace("", None)
    if not values.dtype.is_float():
        return values.cast(pl.String)
    near = values.fill_nan(None)  # which polars takes for the largest number of all
    large = (near.abs() >= EXACT).fill_null(False)
    if large.any():
        row = int(large.arg_true()[0])
        raise InputError(
            name,
            place=f"column {values.name!r}, row {row + 1}",
            found="a number of more than 15 digits, some of which a file of this kind rounds",
            expected="text, or shorter numbers",
        )
    whole = (near == near.round()).fill_null(False)
    text = pl.select(
        pl.when(whole)
        .then(near.cast(pl.Int64, strict=False).cast(pl.String))
        .otherwise(near.cast(pl.String))
    )
    return text.to_series().alias(values.name)


def whole_text(value: object) -> str:
    """A number as a code: 3.0 is "3"."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
