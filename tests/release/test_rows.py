"""Long tables are read a row group at a time, into the table that was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from headcount.errors import InputError, RunError
from headcount.geography import Geography, regular
from headcount.release.layout import counted_rows
from headcount.release.store import _from_rows, _geography_in_order, _read_rows, geography_of_units
from headcount.schema import Attribute, Schema
from headcount.testing.strategies import geographies

SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", tuple(map(str, range(200))))))


def drawn(geography: Geography, *, seed: int, kind: Any = np.int64) -> Any:
    """A table in which most counts, and all of some units, are 0."""
    chance = np.random.default_rng(seed)
    shape = (geography.size(geography.leaf), SCHEMA.size)
    counts = chance.integers(-3, 9, shape) * (chance.random(shape) < 0.02)
    counts[chance.random(shape[0]) < 0.4] = 0
    return csr_array(counts.astype(kind))


def write(
    path: Path, geography: Geography, table: Any, *, step: int, group: int | None = None
) -> None:
    """As a release is written, so many units at once, in row groups of at most so many rows."""
    leaf = geography.leaf
    form = counted_rows(geography, leaf, range(0), SCHEMA, table[:0]).schema
    with pq.ParquetWriter(path, form, store_schema=False) as writer:
        for first in range(0, table.shape[0], step):
            units = range(first, min(first + step, table.shape[0]))
            some = table[units.start : units.stop]
            writer.write_table(counted_rows(geography, leaf, units, SCHEMA, some), group)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize(("step", "group"), [(1, None), (7, None), (1000, None), (50, 11)])
def test_a_long_table_is_read_as_the_frame_of_all_its_rows(
    tmp_path: Path, kind: Any, step: int, group: int | None
):
    """Row groups of one writing share their list of codes: it has those of other rows."""
    geography = regular(children=5, depth=3)
    table = drawn(geography, seed=step, kind=kind)
    write(tmp_path / "leaf.parquet", geography, table, step=step, group=group)
    found: Any = _read_rows(tmp_path / "leaf.parquet", geography.leaf, SCHEMA, geography)
    frame = pl.read_parquet(tmp_path / "leaf.parquet")
    oracle: Any = _from_rows(frame, geography.leaf, SCHEMA, geography, sparse=True)
    assert found.dtype == oracle.dtype == kind
    for whole in (oracle, table):
        assert found.shape == whole.shape
        assert (found != whole).nnz == 0
    assert found.nnz == np.count_nonzero(table.toarray())


def test_nobody_at_all_is_read(tmp_path: Path):
    geography = regular(children=2, depth=2)
    empty = csr_array((geography.size(geography.leaf), SCHEMA.size), dtype=np.int64)
    write(tmp_path / "leaf.parquet", geography, empty, step=2)
    found: Any = _read_rows(tmp_path / "leaf.parquet", geography.leaf, SCHEMA, geography)
    assert (found.shape, found.nnz) == (empty.shape, 0)


def test_rows_out_of_order_and_unknown_units_are_refused(tmp_path: Path):
    geography = regular(children=5, depth=3)
    path, leaf = tmp_path / "leaf.parquet", geography.leaf
    write(path, geography, drawn(geography, seed=1), step=1000)
    frame = pl.read_parquet(path)
    frame.reverse().write_parquet(path)
    with pytest.raises(RunError, match=r"leaf\.parquet: found units out of the order of the tree"):
        _read_rows(path, leaf, SCHEMA, geography)
    frame.with_columns(pl.lit("nowhere").alias(leaf)).write_parquet(path)
    with pytest.raises(RunError, match="found unit 'nowhere' where it cannot be"):
        _read_rows(path, leaf, SCHEMA, geography)
    frame.reverse().write_parquet(path, row_group_size=50)
    with pytest.raises(RunError, match="of the tree"):
        _read_rows(path, leaf, SCHEMA, geography)


@settings(max_examples=60, deadline=None)
@given(geographies(max_depth=4, max_children=3))
def test_the_geography_of_leaves_is_the_one_that_was_written(place: Geography):
    columns = {
        level: place.units[depth][place.ancestors(level)]
        for depth, level in enumerate(place.levels)
    }
    found = _geography_in_order(place.levels, (pl.Series(columns[one]) for one in place.levels[1:]))
    for one, other in zip(found.units[1:], place.units[1:], strict=True):
        assert one.tolist() == other.tolist()
    for mine, theirs in zip(found.parents, place.parents, strict=True):
        assert mine.tolist() == theirs.tolist()
    if len(set(columns[place.levels[1]])) == len(columns[place.leaf]):
        return
    # Not in the order of the tree.
    frame = pl.DataFrame(columns)
    apart = pl.concat([frame, frame.head(1)])
    with pytest.raises(InputError, match="the unit twice"):
        geography_of_units(apart, list(place.levels))
