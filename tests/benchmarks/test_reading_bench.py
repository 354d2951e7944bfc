"""The benchmark of reading: what is compared counts the same people, and limits hold of all."""

from __future__ import annotations

import polars as pl
import pytest

from benchmarks import reading, run_benchmark
from headcount.errors import ConfigError, InputError
from headcount.init import Told, draft
from headcount.init.proposal import Proposal, people_of


def test_a_small_file_is_timed_and_limits_are_those_of_the_whole():
    result = run_benchmark("reading", share=0.001)
    assert result.passed
    assert [one.what.strip() for one in result.readings] == [
        "polars",
        *("init", "of polars", "peak memory"),
        *("check", "of polars", "peak memory"),
        "init of a folder",
    ]
    assert {one.what.strip(): one.at_most for one in result.readings}["of polars"] is None
    assert all(one.value > 0 for one in result.readings)


def test_the_people_are_nearly_all_different(tmp_path):
    path = tmp_path / "people.csv"
    assert reading.write_people(path, 0.002) == 6000
    frame = pl.read_csv(path)
    assert frame.n_unique() == 6000
    assert frame.drop("record", "income").n_unique() > 5000
    made = draft(path)
    assert Proposal(made, people_of(made, Told())).size == (6000, frame["geoid"].n_unique())


def test_the_tables_have_totals(tmp_path):
    (path,) = reading.write_tables(tmp_path, 1)
    counts = pl.read_csv(path).group_by("sex").agg(pl.col("people").sum()).rows_by_key("sex")
    assert counts["total"][0][0] == counts["male"][0][0] + counts["female"][0][0]


def test_a_command_that_is_refused_stops_the_benchmark(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        reading.run_commands([["init", str(tmp_path / "none.csv"), "--yes"]])
    with pytest.raises(ConfigError, match="part of 3 million people"):
        run_benchmark("reading", share=2)
