"""Columns of counts: which of them are cells, and what their names say of the cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod

import numpy as np
import polars as pl

from headcount.arrays import Ints
from headcount.init.sums import Table, sums_of_columns
from headcount.population.adding_up import sort_of
from headcount.population.text_files import Format

_CALLED = re.compile(
    r"(?i)(^|[\s._\-])(total\w*|tot|all|sum|gesamt|insgesamt|ensemble|totale|totaal|suma|celkem"
    r"|ogółem|both|yhteensä|kokku|i alt|alle)([\s._\-]|\d*$)"
)


@dataclass(frozen=True, kw_only=True)
class WideCells:
    """Cells of a wide table.

    where
        attributes   names with their levels, in order
        levels_of    for each column the levels of its cell
        totals       columns that add up others
    """

    attributes: tuple[tuple[str, tuple[str, ...]], ...]
    levels_of: Mapping[str, tuple[str, ...]]
    totals: tuple[str, ...] = ()


def find_cells(frame: pl.DataFrame, names: Sequence[str], form: Format) -> WideCells:
    """The cells among columns of whole numbers; columns that add up others are none."""
    counts = numbers_of(frame, names, form)
    sums = sums_of_columns(Table(counts, np.ones(counts.shape, dtype=bool)))
    found = {one.total for one in sums if not one.wrong}
    totals = [name for k, name in enumerate(names) if k in found]
    cells = [name for name in names if name not in totals]
    attributes, levels_of = taken_apart(cells)
    return WideCells(attributes=attributes, levels_of=levels_of, totals=tuple(totals))


def calls_itself_total(name: str) -> bool:
    """Whether a column is called a total."""
    return bool(_CALLED.search(name))


def numbers_of(frame: pl.DataFrame, names: Sequence[str], form: Format) -> Ints:
    """The counts, rows x columns; what is not there counts as nobody."""
    columns = [
        form.plain(frame[name]).cast(pl.Float64, strict=False).fill_null(0).to_numpy()
        for name in names
    ]
    return np.column_stack(columns).astype(np.int64)


def taken_apart(
    columns: Sequence[str],
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], dict[str, tuple[str, ...]]]:
    """Attributes whose combinations the names of columns are; one attribute if there are none."""
    for sign in ("_", " ", ".", "-", ":", "/"):
        split = {name: name.split(sign) for name in columns}
        for parts in _groupings(split, sign):
            levels = [
                tuple(dict.fromkeys(parts[name][place] for name in columns))
                for place in range(len(parts[columns[0]]))
            ]
            distinct = len(set(parts.values())) == len(columns)
            if distinct and min(map(len, levels)) > 1 and prod(map(len, levels)) == len(columns):
                return tuple(zip(_names(levels), levels, strict=True)), parts
    levels = [tuple(columns)]
    if len(columns) == 1:
        return (), {columns[0]: ()}
    return ((_names(levels)[0], levels[0]),), {name: (name,) for name in columns}


def _groupings(split: Mapping[str, list[str]], sign: str) -> list[dict[str, tuple[str, ...]]]:
    """Ways to take names apart at a sign: at all of them, at some, at the first or last."""
    lengths = {len(parts) for parts in split.values()}
    if min(lengths) < 2:
        return []
    found: list[dict[str, tuple[str, ...]]] = []
    if len(lengths) == 1:
        (length,) = lengths
        for number in range(length - 1, 0, -1):
            for cuts in combinations(range(1, length), number):
                ends = (0, *cuts, length)
                found.append(
                    {
                        name: tuple(sign.join(parts[a:b]) for a, b in pairwise(ends))
                        for name, parts in split.items()
                    }
                )
    found.append({name: (p[0], sign.join(p[1:])) for name, p in split.items()})
    found.append({name: (sign.join(p[:-1]), p[-1]) for name, p in split.items()})
    return found


def _names(levels: Sequence[tuple[str, ...]]) -> list[str]:
    """Names of attributes, by the look of their levels."""
    names: list[str] = []
    for one in levels:
        name = sort_of(one)
        while name in names:
            name += "_2"
        names.append(name)
    return names
