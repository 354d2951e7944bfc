"""Kill -9 at any point: the resumed release is the uninterrupted one, and is spent once.

A run is resumed from every state that its files pass through: between two changes of its files a
kill leaves the same files wherever it comes, those that a copy has. Other tests really kill.
``make bench NAME=resume`` and ``make kills`` do many more, at random.

Key and run id of a private release are fresh each time, so "the uninterrupted one" is made from a
copy of the same directory, taken when the run had bound itself to its key and drawn nothing.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.privacy import Ledger, SpendState
from headcount.release.directory import RunDirectory
from headcount.release.store import read_release
from tests.run import crash_driver
from tests.run.town import (
    LEDGER,
    MICRODATA,
    contents,
    make_ledger,
    write_config,
    write_town,
)

RAKED = 'name = "raked"\nepsilon = 0.5'


class Driver:
    """The warm process that runs, and kills, children."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, crash_driver.__file__],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "OPENBLAS_NUM_THREADS": "1",  # no threads before the fork
                "POLARS_MAX_THREADS": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, home: Path, **job: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"config": str(home / "config.toml"), **job}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate()


@pytest.fixture(scope="module")
def drive() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


@dataclass(frozen=True)
class Start:
    """A run that has begun and drawn nothing, and what it becomes when nothing disturbs it."""

    home: Path
    whole: dict[str, bytes]
    lines: int
    changes: list[tuple[int, list[str]]]

    def states(self, part: str = "") -> list[int]:
        """A line for each state of the files of the run; of those in a folder, if one is named."""
        changed = [line for line, paths in self.changes if any(part in path for path in paths)]
        return changed if part else [1, *changed]

    def copy(self, home: Path) -> Path:
        """The begun run once more, its ledger included, under the same key."""
        shutil.copytree(self.home, home)
        return home


Begin = Callable[..., Start]


def begun(
    drive: Driver,
    folder: Path,
    *,
    run: str = "",
    at: str = "_spend",
    mechanism: str = RAKED,
    population: str = MICRODATA,
    look: bool = True,
) -> Start:
    home = folder / "start"
    home.mkdir()
    write_town(home)
    make_ledger(home, total="100")
    write_config(home, population=population, mechanism=mechanism, run=f"{LEDGER}\n{run}")
    assert drive(home, at=at)["ended"] == "killed"
    undisturbed = folder / "undisturbed"
    shutil.copytree(home, undisturbed)
    answer = drive(undisturbed, **({"look": str(undisturbed)} if look else {"count": True}))
    assert answer["ended"] == "finished"
    assert faults(undisturbed, contents(undisturbed / "out/release")) == []
    whole = contents(undisturbed / "out/release")
    return Start(home, whole, answer["lines"], answer["changes"])


@pytest.fixture(scope="module")
def begin(drive: Driver, tmp_path_factory: pytest.TempPathFactory) -> Begin:
    """A begun run of some settings; tests copy it, so that one is enough for all of them."""

    @cache
    def made(**settings: Any) -> Start:
        return begun(drive, tmp_path_factory.mktemp("begun"), **settings)

    return made


def unpaid(home: Path) -> list[str]:
    """What a killed run must not show: anything from noise without a spend on the books."""
    written = RunDirectory(home / "out").written()
    spends = Ledger.open(home / "ledger.db").history("town")
    drawn = [spend for spend in spends if spend.state in (SpendState.DRAWN, SpendState.COMPLETE)]
    return [f"{path.name} is written and nothing is spent" for path in written if not drawn]


def faults(home: Path, whole: dict[str, bytes]) -> list[str]:
    """How a run that was resumed to its end differs from what it should be; none if it is right."""
    found = []
    ledger = Ledger.open(home / "ledger.db")
    states = [spend.state for spend in ledger.history("town")]
    if states != [SpendState.COMPLETE]:
        found.append(f"spends: {states}")
    release = contents(home / "out/release")
    if release.keys() != whole.keys():
        found.append(f"files: {sorted(release)}")
    found += [f"{name} differs" for name in whole if release.get(name) != whole[name]]
    inside = {path.name for path in (home / "out/internal").iterdir()}
    secret = {"run.key", "levels"} | {name for name in inside if name.endswith(".tmp")}
    if inside & secret or not inside >= {"config.json", "lock", "run.json"}:
        found.append(f"internal: {inside}")
    return found


@pytest.mark.slow
def test_a_kill_in_each_state_of_the_files_leaves_one_spend_and_the_same_release(
    drive: Driver, begin: Begin, tmp_path: Path
):
    start = begin()
    assert len(start.whole) == 6  # three levels, data dictionary, receipt, manifest
    spends, files = set(), set()
    whole = start.copy(tmp_path / "whole")
    kept = tmp_path / "kept"
    changes = drive(whole, look=str(whole), kept=str(kept))["changes"]
    start.copy(kept / "1")
    left = sorted(kept.iterdir(), key=lambda home: int(home.name))
    assert len(left) == 1 + len(changes) > 60
    for home in left:
        history = Ledger.open(home / "ledger.db").history("town")
        spends.add(tuple(spend.state for spend in history))
        files.add(len(contents(home / "out/release")))
        assert unpaid(home) == []
        assert drive(home)["ended"] == "finished"
        assert faults(home, start.whole) == [], home
        shutil.rmtree(home)
    # Before the spend and in each of its states; with none to all files written.
    assert spends == {(), *((SpendState(one),) for one in ("recorded", "drawn", "complete"))}
    assert files == set(range(7))


@pytest.mark.slow
def test_kills_by_the_clock(drive: Driver, begin: Begin, tmp_path: Path):
    """At no particular line: also within a system call or inside SQLite."""
    start = begin()
    generator = random.Random(2)
    killed = 0
    for number in range(6):
        home = start.copy(tmp_path / f"clock-{number}")
        while drive(home, seconds=generator.uniform(0.01, 0.12))["ended"] == "killed":
            killed += 1
            assert unpaid(home) == []
            if generator.random() < 0.5:
                break  # half of them are killed again and again
        drive(home)
        assert faults(home, start.whole) == []
        shutil.rmtree(home)
    assert killed > 0


def test_one_run_killed_over_and_over(drive: Driver, begin: Begin, tmp_path: Path):
    start = begin()
    home = start.copy(tmp_path / "again")
    generator = random.Random(3)
    for _ in range(12):
        ended = drive(home, line=generator.randrange(1, start.lines))["ended"]
        assert ended in (
            "killed",
            "finished",
        )  # finished: a run that is nearly done has fewer lines
    assert drive(home)["ended"] == "finished"
    assert faults(home, start.whole) == []


@pytest.mark.slow
def test_kills_from_the_very_first_line(drive: Driver, tmp_path: Path):
    """A run that has not begun may still change its key; with a seed its tables may not change."""
    home = tmp_path / "seeded"
    home.mkdir()
    write_town(home)
    make_ledger(home)
    write_config(home, mechanism=RAKED, run=f"{LEDGER}\nseed = 5")
    whole = tmp_path / "whole"
    shutil.copytree(home, whole)
    changes = drive(whole, look=str(whole))["changes"]
    tables = read_release(whole / "out/release").as_counts().tables
    for line in [1, *(line for line, _ in changes[::5])]:
        copy = tmp_path / f"line-{line}"
        shutil.copytree(home, copy)
        assert drive(copy, line=line)["ended"] == "killed"
        assert unpaid(copy) == []
        assert drive(copy)["ended"] == "finished"
        (spend,) = Ledger.open(copy / "ledger.db").history("town")
        assert spend.state is SpendState.COMPLETE
        assert spend.not_private_because
        for level, table in read_release(copy / "out/release").as_counts().tables.items():
            np.testing.assert_array_equal(table, tables[level])
        shutil.rmtree(copy)


TOPDOWN = """name = "topdown"
epsilon = 1
unit = "add-remove"
queries = { cells = { share = "1/2" }, by_age = { by = ["age"], share = "1/2" } }"""


@pytest.mark.parametrize(
    ("run", "folder", "step", "files"),
    [
        ("", "internal/levels/run-", 1, 3),
        ("", "internal/levels/truth", 4, None),
        ('publish = ["measurements"]', "release/measurements", 4, 4),
        ("", "internal/levels/pooled-", 3, None),
    ],
)
def test_topdown_killed_in_states_of_what_it_alone_writes(
    drive: Driver, begin: Begin, tmp_path: Path, run: str, folder: str, step: int, files: int | None
):
    """Level by level; the receipt too is the same to the byte.

    Files of the truth pass through the same three states each, so one in four shows them all;
    published measurements through nine, and one in four does so too.
    """
    pool = "\npool = true" if "pooled" in folder else ""
    start = begin(run=run, mechanism=TOPDOWN + pool)
    written = set()
    for line in start.states(folder)[::step]:
        home = start.copy(tmp_path / f"line-{line}")
        assert drive(home, line=line)["ended"] == "killed"
        there = [name for name in contents(home / "out") if name.startswith(folder)]
        written.add(sum(not name.endswith(".tmp") for name in there))
        assert drive(home)["ended"] == "finished"
        assert faults(home, start.whole) == [], line
        shutil.rmtree(home)
    assert len(written) > 3  # with no file, one, and so on for each of the three levels
    assert files is None or written == set(range(files + 1))


@pytest.mark.parametrize(
    ("broken", "fault"),
    [("another key", "tract.parquet differs"), ("no memory", "spends: ")],
)
def test_a_broken_resume_is_noticed(
    broken: str, fault: str, drive: Driver, begin: Begin, tmp_path: Path
):
    start = begin()
    home = start.copy(tmp_path / "broken")
    assert drive(home, at="finished_receipt", broken=broken)["ended"] == "killed"
    assert drive(home, broken=broken)["ended"] == "finished"
    assert any(one.startswith(fault) for one in faults(home, start.whole))


def test_a_spend_after_the_noise_is_noticed(drive: Driver, begin: Begin, tmp_path: Path):
    start = begin()
    home = start.copy(tmp_path / "broken")
    assert drive(home, at="_digest", broken="late spend")["ended"] == "killed"
    assert "tract.parquet is written and nothing is spent" in unpaid(home)


@pytest.mark.slow
def test_a_few_kills_of_every_mechanism(drive: Driver):
    """``make kills CASES=300`` runs many of them."""
    from tests.run.kills import CASES, kill_runs

    assert kill_runs(drive, 2 * len(CASES), seed=8) == dict.fromkeys(CASES, 2)
