"""What ``make bench NAME=resume`` finds: sound runs, and faults that it must notice."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from benchmarks import resume
from benchmarks.nation_files import write_nation
from headcount.config.load import load_config
from headcount.run.protect import protect_run
from headcount.topdown.mechanism import TopDown
from tests.run.town import interrupted, make_ledger, write_config, write_town

RUN = 'ledger = "ledger.db"\ndataset = "town"\nseed = 3'


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small town takes the place of the nation."""
    monkeypatch.setattr(resume, "DATASET", "town")
    write_town(tmp_path)
    make_ledger(tmp_path, total="9")
    write_config(tmp_path, run=RUN)
    return tmp_path


def test_a_run_that_was_broken_off_and_resumed_has_no_faults(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    found = resume.Noticed()
    assert resume._stage(town, found) == "nothing spent"
    interrupted(town / "config.toml", monkeypatch, at="protect")
    assert resume._stage(town, found) == "spent, nothing estimated"
    interrupted(town / "config.toml", monkeypatch, at="finished_receipt")
    protect_run(town / "config.toml")
    assert resume._stage(town, found) == "complete"
    whole = resume.Undisturbed(resume._tables(town), 0.0, 1.0, 0)
    resume._compare(town, whole, found)
    readings = resume._described(found, whole, kills=1, engine="local")
    assert len([one for one in readings if one.at_most == 0]) == 4
    assert all(one.passed for one in readings)


def test_other_tables_second_spends_and_what_is_left_behind_are_noticed(town: Path):
    protect_run(town / "config.toml")
    write_config(town, run=RUN, out="again")
    protect_run(town / "config.toml")  # spends a second time
    (town / "out/internal/run.key").write_bytes(b"")
    found = resume.Noticed()
    resume._compare(town, resume.Undisturbed({"tract.parquet": "other"}, 0.0, 1.0, 0), found)
    assert dict(found.faults) == {
        "releases that differ": 1,
        "ledgers without exactly one finished spend": 1,
        "keys or parts left behind": 1,
    }
    whole = resume.Undisturbed({}, 0.0, 1.0, 0)
    readings = resume._described(found, whole, kills=1, engine="local")
    assert len([one for one in readings if not one.passed]) == 3


@pytest.mark.parametrize("name", ["handed-x", "workspaces.json", "levels", ".a.1f.tmp"])
def test_whatever_a_run_leaves_behind_is_noticed(town: Path, name: str):
    protect_run(town / "config.toml")
    whole = resume.Undisturbed(resume._tables(town), 0.0, 1.0, 0)
    for faults in (0, 1):
        found = resume.Noticed()
        resume._compare(town, whole, found)
        assert found.faults.total() == found.faults["keys or parts left behind"] == faults
        (town / "out/internal" / name).touch()


def test_a_file_that_goes_while_its_size_is_asked_for_counts_nothing(tmp_path, monkeypatch):
    for name in ("gone", "there"):
        (tmp_path / name).write_bytes(b"12345")
    real = Path.stat

    def stat(path: Path, **named: bool) -> os.stat_result:
        if path.name == "gone":
            raise FileNotFoundError(path)
        return real(path, **named)

    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(Path, "stat", stat)
    assert resume._bytes(tmp_path) == 5


def test_a_release_that_can_be_read_before_its_run_is_complete_is_noticed(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(resume, "read_release", lambda _folder: None)
    found = resume.Noticed()
    resume._stage(town, found)
    assert found.faults == {"unfinished releases that could be read": 1}


def test_the_nation_as_files_is_a_config_that_can_be_checked(tmp_path: Path):
    write_nation(tmp_path, 0.001, ledger="ledger.db", dataset="nation")
    config = load_config(tmp_path / "config.toml")
    (mechanism,) = config.mechanism
    assert isinstance(mechanism, TopDown)
    assert tomllib.loads((tmp_path / "config.toml").read_text("utf-8"))["run"]["seed"] == 2020
    people = config.population.read()
    assert people.quarters is not None
    assert people.geography.size("block") == 8_100
    assert people.count is not None
    assert int(people.count.sum()) == pytest.approx(331_000, rel=0.01)
