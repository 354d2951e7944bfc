"""A run directory keeps strangers, other runs and other processes out, and its secrets in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headcount.errors import RunError
from headcount.noise import RunKey
from headcount.release.directory import RunDirectory


def begin(directory: RunDirectory, **changes: str) -> RunKey:
    digests = {"config_digest": "config", "data_digest": "data", **changes}
    return directory.begin(**digests, key=RunKey.from_os())[1]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "deep" / "run")


def test_the_secret_half_is_closed_and_the_key_gone_when_finished(directory: RunDirectory):
    with directory.held():
        key = begin(directory)
        assert mode(directory.internal) == 0o700
        assert mode(directory.key) == 0o600
        assert key.material.hex().encode() in directory.key.read_bytes()
        directory.finish()
        assert not directory.key.exists()
        directory.finish()  # harmless when done twice


def test_a_folder_that_was_open_to_others_is_closed(directory: RunDirectory):
    directory.internal.mkdir(parents=True)
    directory.internal.chmod(0o755)
    with directory.held():
        assert mode(directory.internal) == 0o700


def test_a_run_that_has_begun_goes_on_with_its_own_key(directory: RunDirectory):
    with directory.held():
        key = begin(directory)
    with directory.held():
        again, same = directory.begin(
            config_digest="config", data_digest="data", key=RunKey.from_os()
        )
    assert same.material == key.material
    assert again == directory.facts()


def test_a_key_without_facts_was_never_used_and_is_replaced(directory: RunDirectory):
    with directory.held():
        key = begin(directory)
        (directory.internal / "run.json").unlink()
        directory.refuse_other(config_digest="config")
        assert begin(directory).material != key.material


def test_other_data_is_refused(directory: RunDirectory):
    with directory.held():
        begin(directory)
        with pytest.raises(RunError, match="begun on other data, expected the same data"):
            begin(directory, data_digest="other")


def test_another_config_is_refused(directory: RunDirectory):
    with directory.held():
        begin(directory)
    directory.refuse_other(config_digest="config")
    with pytest.raises(RunError, match=r"made with a different config, expected another run\.out"):
        directory.refuse_other(config_digest="other")


def test_a_run_that_lost_its_key_cannot_go_on(directory: RunDirectory):
    with directory.held():
        begin(directory)
        directory.key.unlink()
        with pytest.raises(RunError, match=r"run\.key: found no key for the unfinished run"):
            begin(directory)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"run_id": "x", "more": 1}'])
def test_damaged_facts_are_found(text: str, directory: RunDirectory):
    with directory.held():
        begin(directory)
    (directory.internal / "run.json").write_text(text)
    with pytest.raises(RunError, match=r"run\.json: found a damaged file, expected a run's facts"):
        directory.facts()


def test_a_folder_without_a_run_has_no_facts(directory: RunDirectory):
    assert directory.facts() is None
    with pytest.raises(RunError, match="found no run, expected a directory made by headcount"):
        directory.require_facts()


@pytest.mark.parametrize("name", ["notes.txt", "release/x.parquet", "internal/diary.txt"])
def test_a_folder_with_anything_else_in_it_is_refused(name: str, directory: RunDirectory):
    stranger = directory.path / name
    stranger.parent.mkdir(parents=True)
    stranger.write_text("mine")
    with pytest.raises(
        RunError, match="is not part of a headcount run, expected a new or empty"
    ) as caught:
        directory.refuse_other(config_digest="config")
    assert repr(name if name.startswith("internal") else name.split("/")[0]) in str(caught.value)
    assert stranger.read_text() == "mine"


def test_a_file_in_the_place_of_the_folder_is_refused(directory: RunDirectory):
    directory.path.parent.mkdir()
    directory.path.write_text("mine")
    with pytest.raises(RunError, match="found a file, expected a new or empty directory"):
        directory.refuse_other(config_digest="config")


def test_a_new_an_empty_and_a_barely_begun_folder_are_accepted(directory: RunDirectory):
    directory.refuse_other(config_digest="config")
    directory.path.mkdir(parents=True)
    directory.refuse_other(config_digest="config")
    with directory.held():
        (directory.internal / ".run.json.0123456789ab.tmp").touch()
        directory.refuse_other(config_digest="config")


def test_work_handed_out_by_a_run_that_was_killed_while_it_read_goes_with_the_next(
    directory: RunDirectory,
):
    handed = directory.internal / "handed-x1"
    handed.mkdir(parents=True)
    (handed / "result-0-0").write_bytes(b"true counts")
    directory.refuse_other(config_digest="config")
    with directory.held():
        begin(directory)
        directory.finish()
    assert not handed.exists()


def test_another_process_is_kept_out(directory: RunDirectory):
    script = """
import sys
from pathlib import Path
from headcount.release.directory import RunDirectory
with RunDirectory(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(directory.path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(RunError, match="another process is at work on this run"),
            directory.held(),
        ):
            pytest.fail("two processes hold one run")
        other.communicate("go\n")
    with directory.held():
        pass


def test_what_a_killed_writer_left_behind_is_swept(directory: RunDirectory):
    with directory.held():
        begin(directory)
        directory.release.mkdir()
        left = [
            directory.release / ".whole.parquet.0123456789ab.tmp",
            directory.internal / ".run.json.0123456789ab.tmp",
        ]
        for path in left:
            path.write_text("part")
        assert directory.written() == left[:1]
        directory.finish()
        assert not [path for path in left if path.exists()]
        assert sorted(p.name for p in directory.internal.iterdir()) == ["lock", "run.json"]
