"""The benchmark of counting microdata: its check finds a wrong count, and its file is a nation."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from benchmarks import run_benchmark, tabulate
from headcount.errors import ConfigError
from headcount.population import pieces


def people(path: Path) -> Path:
    rows = [
        ("0100100001", "household", "under_18", "not_hispanic", "white"),
        ("0100100002", "household", "18_and_over", "hispanic", "other"),
        ("0100100001", "household", "under_18", "not_hispanic", "white"),
        ("0200100001", "military", "18_and_over", "not_hispanic", "black"),
        ("0100100001", "household", "under_18", "not_hispanic", "black"),
    ]
    names = [tabulate.CODE, "hhgq", "voting_age", "hispanic", "race"]
    columns = zip(names, zip(*rows, strict=True), strict=True)
    write_table(pa.table({name: list(values) for name, values in columns}), path)
    return path


def test_the_check_of_the_benchmark_finds_counts_that_are_wrong(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(pieces, "ROWS", 2)
    path, counts = people(tmp_path / "people.parquet"), tmp_path / "counts.parquet"
    ran = tabulate.count_file(path, counts)
    assert (ran["people"], ran["entries"]) == (5, 4)
    assert tabulate.differences(path, counts) == 0
    true = pl.read_parquet(counts)
    true.with_columns(many=pl.col("many") + (pl.col("race") == "other")).write_parquet(counts)
    assert tabulate.differences(path, counts) == 1
    true.head(3).write_parquet(counts)
    assert tabulate.differences(path, counts) == 1


def test_the_file_of_the_benchmark_has_a_row_for_each_person(monkeypatch):
    batch = next(iter(tabulate.people(0.001)))
    assert batch.num_rows > 1000
    assert set(batch.column_names) == {tabulate.CODE, "hhgq", "voting_age", "hispanic", "race"}
    codes = batch[tabulate.CODE].cast(pa.string()).to_pylist()
    assert {len(code) for code in codes} == {10}
    assert codes != sorted(codes)


@pytest.mark.parametrize(("share", "limits"), [(1.0, [300, 4, 0]), (0.5, [0])])
def test_limits_of_the_whole_nation_are_not_those_of_a_part(share, limits, monkeypatch):
    def apart(work, path, *_given):
        if work is tabulate.write_people:
            return path.write_bytes(b"")
        times = dict.fromkeys(("wall", "cpu", "digest_wall", "levels_wall", "peak"), 1.0)
        return 0 if work is tabulate.differences else {"people": 1, "entries": 1, **times}

    monkeypatch.setattr(tabulate, "apart", apart)
    readings = tabulate.measure(share=share)
    assert [one.at_most for one in readings if one.at_most is not None] == limits


def test_a_share_beyond_the_nation_is_refused():
    with pytest.raises(ConfigError, match=r"--share: found 2\.0, expected the part of the nation"):
        run_benchmark("tabulate", share=2.0)
