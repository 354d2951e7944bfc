"""Full disks, read-only folders and other processes: a clear refusal, and the last good state."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import headcount.run.protect
from headcount.engines import handed_folder
from headcount.errors import PrivacyError, RunError
from headcount.privacy import SpendState
from headcount.release.directory import RunDirectory
from headcount.release.store import read_release
from headcount.run.protect import protect_run
from tests.run.test_crash import TOPDOWN
from tests.run.town import LEDGER, contents, make_ledger, write_config, write_town

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
SEEDED = "seed = 3"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


class FullDisk:
    """``fsync`` on a disk that is full at one of the calls."""

    def __init__(self, *, at: int) -> None:
        self._left = at
        self._real = os.fsync

    def __call__(self, handle: int) -> None:
        self._left -= 1
        if self._left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._real(handle)


GEOMETRIC = 'name = "geometric"\nepsilon = 0.5'


@pytest.mark.parametrize("mechanism", [GEOMETRIC, TOPDOWN], ids=["geometric", "topdown"])
def test_a_disk_that_is_full_at_any_write_leaves_a_run_that_resumes(
    town: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
):
    """TopDown writes files for every level as well."""
    ledger = make_ledger(town)
    made = partial(write_config, town, mechanism=mechanism, run=f"{LEDGER}\n{SEEDED}")
    whole = read_release(protect_run(made(out="whole")) / "release")
    config = made()
    failures = 0
    while not (town / "out/release/manifest.json").exists():
        failures += 1
        before = contents(town / "out")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", FullDisk(at=failures))
            with pytest.raises(OSError, match="No space left on device") as caught:
                protect_run(config)
            assert str(town) in caught.value.filename
        after = contents(town / "out")
        before.pop("internal/run.key", None)  # replaced as long as the run has not begun
        before.pop("internal/seconds.json", None)  # how long levels took, added up as they go on
        assert before.items() <= after.items()  # nothing that was good has changed
        assert not [name for name in after if name.endswith(".tmp")]
    assert failures > 5
    protect_run(config)
    found = read_release(town / "out/release")
    for level, table in whole.as_counts().tables.items():
        np.testing.assert_array_equal(found.as_counts().tables[level], table)
    assert [spend.state for spend in ledger.history("town")] == [SpendState.COMPLETE] * 2


LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # it would be cut off at the limit, and read again by others
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from headcount.cli.app import main
main()
"""
UNREHEARSED = """
import headcount.run.protect
headcount.run.protect.rehearse = lambda *_arguments, **_named: None
"""


def limited(script: str, config: Path) -> str:
    """What ``protect`` says where no file may have more than 1000 bytes."""
    command = [sys.executable, "-c", script, "1000", "protect", str(config)]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert ended.returncode == 3
    return ended.stderr


def test_a_real_limit_on_files_ends_the_rehearsal_and_nothing_is_spent(town: Path):
    ledger = make_ledger(town)
    config = write_config(town, run=LEDGER)
    before = contents(town)
    scratch = rf"{re.escape(str(town))}/out/internal/handed-\w+/release"
    assert re.fullmatch(rf"error: {scratch}: File too large\n", limited(LIMITED, config))
    assert contents(town) == before
    assert not (town / "out").exists()
    assert ledger.history("town") == ()
    protect_run(config)
    assert RunDirectory(town / "out").is_complete


def test_a_real_limit_on_files_ends_in_one_line_and_exit_code_3(town: Path):
    """The same limit, met only once the run has begun."""
    config = write_config(town)
    stopped = town / "out/internal/config.json"
    assert limited(UNREHEARSED + LIMITED, config) == f"error: {stopped}: File too large\n"
    assert not list(town.rglob("*.tmp"))
    # Bound to its key, nothing published; the same command without the limit finishes it.
    directory = RunDirectory(town / "out")
    facts = directory.require_facts()
    assert directory.key.is_file()
    assert contents(directory.release) == {}
    protect_run(config)
    assert directory.require_facts() == facts
    assert directory.is_complete


def test_a_read_only_folder_is_named_and_nothing_is_spent(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = make_ledger(town)

    def refuse(path: Path, *_mode: object, **_named: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "mkdir", refuse)  # a mode would not stop a test that runs as root
    with pytest.raises(OSError, match="Read-only file system") as caught:
        protect_run(write_config(town, run=LEDGER))
    assert caught.value.filename == str(town / "out")
    assert not (town / "out").exists()
    assert ledger.history("town") == ()


def test_a_ledger_that_cannot_be_written_stops_the_run_before_noise(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    make_ledger(town)

    def refuse(*_arguments: object) -> None:
        import sqlite3

        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("headcount.privacy._ledger_file.insert_spend", refuse)
    with pytest.raises(PrivacyError, match="the step was not recorded: database or disk is full"):
        protect_run(write_config(town, run=LEDGER))
    assert RunDirectory(town / "out").written() == []


def test_a_run_at_work_refuses_a_second(town: Path):
    directory = RunDirectory(town / "out")
    with directory.held(), pytest.raises(RunError, match="another process is at work on this run"):
        protect_run(write_config(town))
    assert directory.facts() is None


def test_two_commands_at_once_make_one_release(town: Path):
    ledger = make_ledger(town)
    config = write_config(town, run=LEDGER)
    command = [sys.executable, "-m", "headcount", "protect", str(config)]
    racers = [
        subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [racer.communicate()[1] for racer in racers]
    codes = [racer.returncode for racer in racers]
    assert 0 in codes, said
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or (code == 2 and "another process is at work on this run" in text)
    (spend,) = ledger.history("town")
    assert spend.state is SpendState.COMPLETE
    read_release(town / "out/release")


def test_a_run_that_ends_leaves_what_another_process_rehearses_alone(town: Path):
    config = write_config(town)
    directory = RunDirectory(protect_run(config))
    left = [folder / ".some.0123.tmp" for folder in (directory.internal, directory.release)]
    with handed_folder(directory.internal) as rehearsed:
        half = rehearsed / "release/.county.parquet.0123.tmp"
        half.parent.mkdir()
        for path in (half, *left):
            path.write_bytes(b"half")
        protect_run(config)
        assert half.exists()
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize("same", [True, False])
def test_what_another_process_did_in_between_is_seen(
    same: bool, town: Path, monkeypatch: pytest.MonkeyPatch
):
    """Between the first look at the folder and its lock, another run may come and go."""
    mine = write_config(town)
    epsilon = "0.5" if same else "7"
    mechanism = f'name = "geometric"\nepsilon = {epsilon}'
    theirs = write_config(town, mechanism=mechanism, name="theirs.toml")
    prepare = headcount.run.protect.prepare_run

    def slowly(config):
        planned = prepare(config)
        monkeypatch.setattr("headcount.run.protect.prepare_run", prepare)
        protect_run(theirs)
        return planned

    monkeypatch.setattr("headcount.run.protect.prepare_run", slowly)
    if same:
        protect_run(mine)
    else:
        with pytest.raises(RunError, match="made with a different config"):
            protect_run(mine)
    assert repr(read_release(town / "out/release")).startswith(
        f"<Release by Geometric(epsilon=Fraction({'1, 2' if same else '7, 1'}), unit="
    )
