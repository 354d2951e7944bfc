"""A peer's population and releases: files of another system that ran TopDown on made-up people.

``NAME_truth_cells.csv``  geocode, a column of codes from 0 for each attribute, count; the first
                          attribute is the type of living quarters
``NAME_units.csv``        geocode, living quarters of each type, vacant ones; lists every leaf
``NAME_ed_totals.csv``    eps, rep, geocode, true, dp: the total of every leaf in every replicate
``NAME_counts.csv.gz``    optional: level, geocode, eps, rep, ..., and a column such as a1_s0_r5
                          for each cell of the attributes after the first
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.peer_tree import find_levels
from headcount.arrays import Ints
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.geography.geography import Prefixes, build_geography, place_rows
from headcount.population import Population
from headcount.population.population import Quarters
from headcount.schema import Attribute, Schema

CODE = "geocode"
_CELL = re.compile(r"[a-z]+\d+(_[a-z]+\d+)*")
_REPLICATE = ("eps", "rep", CODE)


@dataclass(frozen=True, eq=False, kw_only=True)
class Releases:
    """Releases of one population at one epsilon, as far as they are compared.

    where
        totals   replicates x leaves
        cells    replicates x leaves x cells of the attributes after the first; None if unknown
    """

    totals: Ints
    cells: Ints | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Peer:
    """A population, and what the peer released of it at each epsilon."""

    population: Population
    releases: Mapping[Fraction, Releases]


def read_peer(directory: Path, name: str) -> Peer:
    """Read the files of one population; schema and levels are found from them."""
    truth = _read(directory / f"{name}_truth_cells.csv")
    units = _read(directory / f"{name}_units.csv")
    totals_file = directory / f"{name}_ed_totals.csv"
    counts_file = directory / f"{name}_counts.csv.gz"
    counts = _read(counts_file) if counts_file.is_file() else None
    schema = _schema(truth, units, counts, source=f"{directory / name}_truth_cells.csv")
    codes = sorted(units[CODE].to_list())
    dp, true = _totals(_read(totals_file), codes, source=str(totals_file))
    off = np.concatenate([released - true for released in dp.values()])
    lengths = find_levels(codes, off, source=str(totals_file))
    geography, _ = build_geography(
        units, Prefixes(column=CODE, prefixes=lengths), name=f"{name}_units.csv", distinct=True
    )
    population = _population(name, schema, geography, truth, units)
    _refuse_other_truth(population, true, source=str(totals_file))
    cells = {} if counts is None else _cells(counts, schema, codes, source=str(counts_file))
    return Peer(
        population=population,
        releases={
            epsilon: Releases(totals=totals, cells=cells.get(epsilon))
            for epsilon, totals in dp.items()
        },
    )


def _read(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a file of the peer")
    table = pl.read_csv(path, infer_schema=False)
    if CODE not in table.columns or table.is_empty():
        raise InputError(
            str(path), found=f"columns {table.columns[:8]}", expected=f"{CODE!r} and some rows"
        )
    return table


def _numbers(table: pl.DataFrame, columns: list[str]) -> Ints:
    """Some columns as integers, rows x columns."""
    return table.select(pl.col(columns).cast(pl.Int64)).to_numpy()


def _schema(
    truth: pl.DataFrame, units: pl.DataFrame, counts: pl.DataFrame | None, *, source: str
) -> Schema:
    """Attributes by their columns; the types of quarters by the columns of the units.

    Sizes of the others are read off the columns of the counts file, or else are one more than the
    largest code that someone has.
    """
    names = [column for column in truth.columns if column not in (CODE, "count")]
    if len(names) < 2 or "count" not in truth.columns or len(units.columns) < 3:
        raise InputError(
            source,
            found=f"columns {truth.columns}",
            expected=f"{CODE!r}, two or more attributes, 'count'",
        )
    seen = [int(largest) + 1 for largest in _numbers(truth, names).max(axis=0)]
    sizes = [len(units.columns) - 2, *seen[1:]]
    if counts is not None and (columns := _cell_columns(counts, len(names) - 1)):
        codes = [re.findall(r"\d+", column) for column in columns]
        sizes[1:] = [1 + max(map(int, axis)) for axis in zip(*codes, strict=True)]
    for name, largest, size in zip(names, seen, sizes, strict=True):
        if largest > size:
            raise InputError(
                source,
                place=f"column {name!r}",
                found=f"code {largest - 1}",
                expected=f"codes from 0 to {size - 1}",
            )
    return Schema(
        tuple(
            Attribute(name, tuple(map(str, range(size))))
            for name, size in zip(names, sizes, strict=True)
        )
    )


def _cell_columns(counts: pl.DataFrame, axes: int) -> list[str]:
    """The columns such as a1_s0_r5: after the total, one part for each attribute.

    With a single attribute after the first they look like those of the types (h0, h1), which stand
    before them; then the last letter counts.
    """
    fitting = [
        column
        for column in counts.columns
        if _CELL.fullmatch(column) and column.count("_") == axes - 1
    ]
    letters = [re.sub(r"\d+", "", column) for column in fitting]
    return [column for column, kind in zip(fitting, letters, strict=True) if kind == letters[-1]]


def _population(
    name: str, schema: Schema, geography: Geography, truth: pl.DataFrame, units: pl.DataFrame
) -> Population:
    codes = _numbers(truth, list(schema.names))
    order = np.argsort(place_rows(units[CODE], geography, name=f"{name}_units.csv"))
    quarters = _numbers(units, units.columns[1:])[order]
    population = Population(
        name=name,
        domain=Domain(schema, geography),
        unit=place_rows(truth[CODE], geography, name=f"{name}_truth_cells.csv"),
        cell=np.ravel_multi_index(tuple(codes.T), schema.shape).astype(np.int32),
        count=_numbers(truth, ["count"])[:, 0],
        public=True,
    )
    made = Quarters(geography, schema.names[0], quarters[:, :-1], quarters[:, -1])
    return replace(population, quarters=made)


def _by_replicate(
    table: pl.DataFrame, codes: list[str], *, source: str
) -> dict[Fraction, pl.DataFrame]:
    """The rows of each epsilon by replicate and leaf, whole replicates only."""
    keyed = table.with_columns(pl.col("rep").cast(pl.Int64)).sort("rep", CODE)
    made = {}
    for text in sorted(set(table["eps"]), key=Fraction):
        rows = keyed.filter(pl.col("eps") == text)
        if rows[CODE].to_list() != codes * rows["rep"].n_unique():
            raise InputError(
                source,
                place=f"eps {text}",
                found="a replicate with other units",
                expected=f"each of the {len(codes)} leaf units once in each replicate",
            )
        made[Fraction(text)] = rows
    return made


def _totals(
    table: pl.DataFrame, codes: list[str], *, source: str
) -> tuple[dict[Fraction, Ints], Ints]:
    """Released totals by epsilon, replicates x leaves, and the true ones."""
    missing = [column for column in (*_REPLICATE, "true", "dp") if column not in table.columns]
    if missing:
        raise InputError(source, found=f"no column {missing[0]!r}", expected="eps, rep, true, dp")
    by_epsilon = _by_replicate(table, codes, source=source)
    shaped = {
        epsilon: _numbers(rows, ["true", "dp"]).reshape(-1, len(codes), 2)
        for epsilon, rows in by_epsilon.items()
    }
    true = next(iter(shaped.values()))[0, :, 0]
    return {epsilon: both[:, :, 1] for epsilon, both in shaped.items()}, true


def _cells(
    counts: pl.DataFrame, schema: Schema, codes: list[str], *, source: str
) -> dict[Fraction, Ints]:
    """Released cells of the attributes after the first, by epsilon."""
    columns = _cell_columns(counts, len(schema.names) - 1)
    if len(columns) != (size := prod(schema.shape[1:])):
        raise InputError(
            source,
            found=f"{len(columns)} columns of cells",
            expected=f"{size}, one for each cell of {', '.join(schema.names[1:])}",
        )
    leaves = counts.filter(pl.col(CODE).is_in(codes) & (pl.col("eps") != "true"))
    return {
        epsilon: _numbers(rows, columns).reshape(-1, len(codes), len(columns))
        for epsilon, rows in _by_replicate(leaves, codes, source=source).items()
    }


def _refuse_other_truth(population: Population, true: Ints, *, source: str) -> None:
    assert population.count is not None
    people = np.bincount(population.unit, weights=population.count, minlength=len(true))
    if not np.array_equal(people.astype(np.int64), true):
        leaf = int(np.flatnonzero(people != true)[0])
        raise InputError(
            source,
            place=f"{CODE} {str(population.geography.units[-1][leaf])!r}",
            found="a different true total",
            expected="that of the truth file",
        )
