"""TopDown where its levels are unlike others: shuffled, of one unit, of nobody, of many files."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.errors import InputError, RunError
from headcount.release.directory import RunDirectory
from headcount.release.store import read_release
from headcount.run.protect import protect_run
from headcount.topdown import descend
from headcount.topdown.parts import chunks
from tests.run.test_crash import TOPDOWN
from tests.run.town import LEDGER, MICRODATA, UNITS, make_ledger, people, write_config, write_town

RUN = "seed = 5"


def released(folder: Path, **config: Any) -> Mapping[str, Any]:
    """The counts of every level of a release of the town that stands in a folder."""
    chosen = {"mechanism": TOPDOWN, "run": RUN} | config
    run = protect_run(write_config(folder, **chosen))
    return read_release(run / "release").as_counts().tables


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def test_units_and_people_in_any_order_make_the_same_release(tmp_path: Path):
    write_town(tmp_path)
    expected = released(tmp_path, out="in-order")
    shuffled = [UNITS[i] for i in (4, 0, 3, 1, 2)]
    lines = ["county,tract", *(",".join(unit) for unit in shuffled)]
    (tmp_path / "tracts.csv").write_text("\n".join(lines) + "\n")
    write_rows(tmp_path, people()[::-1])
    assert same(released(tmp_path), expected)


def write_rows(folder: Path, rows: list[tuple[str, str, str, str]]) -> None:
    lines = ["county,tract,sex,age", *(",".join(row) for row in rows)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")


def test_a_table_without_people_is_refused_and_one_of_zeros_released_at_every_level(tmp_path: Path):
    write_town(tmp_path)
    write_rows(tmp_path, [])
    with pytest.raises(InputError, match=r"people\.csv: found no rows, expected at least one"):
        released(tmp_path)
    (tmp_path / "people.csv").write_text("county,tract,sex,age,people\na,a1,f,old,0\n")
    exact = f'{TOPDOWN}\ninvariant = [{{ query = "total", level = "whole" }}]\n'
    exact = exact.replace("queries = {", "queries = { total = { by = [] },")
    exact = exact.replace("add-remove", "change-one")
    counted = f'{MICRODATA}count = "people"\n'
    tables = released(tmp_path, population=counted, mechanism=exact)
    assert {level: table.shape for level, table in tables.items()} == {
        "whole": (1, 6),
        "county": (2, 6),
        "tract": (5, 6),
    }
    assert not any(table.sum() for table in tables.values())  # the total, 0, is exact


def test_levels_of_one_unit_have_the_counts_of_the_unit_above(tmp_path: Path):
    write_town(tmp_path, rows=[row for row in people() if row[0] == "a"])
    (tmp_path / "tracts.csv").write_text("county,tract\na,a1\na,a2\n")
    tables = released(tmp_path)
    assert tables["county"].shape == (1, 6)
    np.testing.assert_array_equal(tables["county"], tables["whole"])
    np.testing.assert_array_equal(tables["tract"].sum(axis=0), tables["county"][0])
    (tmp_path / "tracts.csv").write_text("county,tract\na,a1\n")
    write_rows(tmp_path, [row for row in people() if row[1] == "a1"])
    lone = released(tmp_path, out="lone")
    np.testing.assert_array_equal(lone["tract"], lone["whole"])


def test_more_files_of_a_level_than_may_be_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each parent has a file of its own; its pages stay mapped while no file is open."""
    write_town(tmp_path)
    units = [(f"c{i:03}", f"t{i:03}{k}") for i in range(150) for k in "ab"]
    lines = ["county,tract", *(",".join(unit) for unit in units)]
    (tmp_path / "tracts.csv").write_text("\n".join(lines) + "\n")
    write_rows(tmp_path, [(*units[7 * k % 300], "f", "adult") for k in range(400)])
    expected = released(tmp_path, out="whole")
    monkeypatch.setattr(descend, "chunks", partial(chunks, children_at_once=1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
    try:
        made = released(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert same(made, expected)


def test_two_engines_on_one_run_directory(tmp_path: Path):
    """While one is at work the other is refused; when it has stopped, the other goes on."""
    write_town(tmp_path)
    make_ledger(tmp_path)
    config = write_config(tmp_path, mechanism=TOPDOWN, run=f"{LEDGER}\n{RUN}")
    directory = RunDirectory(tmp_path / "out")
    with directory.held(), pytest.raises(RunError, match="another process is at work on this run"):
        protect_run(config, engine="spark")
    protect_run(config, engine="local")
    assert protect_run(config, engine="spark") == directory.path  # complete: nothing to do
