"""The ledger under several processes at once, and under kill -9 at any moment."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

import headcount.privacy
from headcount.privacy import Ledger, PureLoss, SpendState, UnitOfPrivacy

SOURCE = str(Path(headcount.privacy.__file__).parents[2])
PRELUDE = """
import os, signal, sys
from fractions import Fraction
from headcount.privacy import Ledger, OverspendError, PureLoss, UnitOfPrivacy
ledger = Ledger.open(sys.argv[1])

def spend(run_id, amount, **more):
    loss = PureLoss(epsilon=Fraction(amount), unit=UnitOfPrivacy.ADD_REMOVE)
    return ledger.spend("town", loss, run_id=run_id, data_digest="data", config_digest="config",
                        key_kind="os", **more)
"""


def start(ledger: Ledger, script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(ledger.path), *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def declared(folder: Path, *, total: str) -> Ledger:
    ledger = Ledger.create(folder / "ledger.db")
    ledger.declare("town", total=PureLoss(epsilon=Fraction(total), unit=UnitOfPrivacy.ADD_REMOVE))
    return ledger


def sound(ledger: Ledger) -> None:
    """The file is whole, and every spend has its first event: nothing is half there."""
    with sqlite3.connect(ledger.path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        spends = connection.execute("SELECT count(*) FROM spend").fetchone()[0]
        firsts = connection.execute("SELECT count(*) FROM event WHERE state = 'recorded'")
        assert firsts.fetchone()[0] == spends


RACE = """
import time
from headcount.privacy import _ledger_file as ledger_file

insert_spend = ledger_file.insert_spend

def slowly(connection, wanted):  # leave the others time to come between the check and the record
    time.sleep(0.02)
    insert_spend(connection, wanted)

ledger_file.insert_spend = slowly
print("ready", flush=True)
sys.stdin.readline()
won = 0
for number in range(5):
    try:
        spend(f"{sys.argv[2]}-{number}", "1/10")
        won += 1
    except OverspendError as refusal:
        assert refusal.remaining == 0
print(won, flush=True)
"""


def test_processes_that_race_for_the_last_of_the_total_never_overspend(tmp_path: Path):
    ledger = declared(tmp_path, total="1")
    racers = [start(ledger, RACE, str(number)) for number in range(4)]
    assert [line(racer) for racer in racers] == ["ready\n"] * 4
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate(timeout=600)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4
    assert sum(won) == 10  # of 20 tries
    assert ledger.balance("town").remaining == 0
    assert ledger.balance("town").runs == 10
    sound(ledger)


def test_processes_that_resume_one_run_share_one_spend(tmp_path: Path):
    ledger = declared(tmp_path, total="1")
    script = 'print("ready", flush=True); sys.stdin.readline(); spend("run", "1")'
    racers = [start(ledger, script) for _ in range(3)]
    assert [line(racer) for racer in racers] == ["ready\n"] * 3
    for racer in racers:
        racer.communicate("go\n", timeout=600)
    assert [racer.returncode for racer in racers] == [0] * 3
    assert ledger.balance("town").runs == 1
    sound(ledger)


def kill(process: subprocess.Popen[str]) -> str:
    """Kill -9, and what the process had still said before it died."""
    os.kill(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    rest = process.stdout.read()  # not communicate: it would skip what readline has read ahead
    assert process.wait(timeout=600) == -signal.SIGKILL
    return rest


def test_a_process_killed_at_random_moments_leaves_whole_spends(tmp_path: Path):
    """Each spend that was reported is there; at most one more is; and the sum is exact."""
    ledger = declared(tmp_path, total="1")
    choose = random.Random(20)
    script = """
for number in range(100_000):
    spend(f"{sys.argv[2]}-{number}", "1/1000000")
    print(number, flush=True)
"""
    expected = 0
    for attempt in range(10):
        process = start(ledger, script, str(attempt))
        said = line(process)
        time.sleep(choose.uniform(0, 0.03))
        reported = len((said + kill(process)).splitlines())
        found = [one for one in ledger.history("town") if one.run_id.startswith(f"{attempt}-")]
        assert reported <= len(found) <= reported + 1
        assert [one.run_id for one in found] == [f"{attempt}-{n}" for n in range(len(found))]
        expected += len(found)
        sound(ledger)
    assert Ledger.open(ledger.path).balance("town").spent == Fraction(expected, 1_000_000)


def test_a_process_killed_inside_the_transaction_has_spent_nothing(tmp_path: Path):
    """The worst moment: half of the spend is in the file, and only the journal undoes it."""
    ledger = declared(tmp_path, total="1")
    script = """
from headcount.privacy import _ledger_file as ledger_file

connect, insert_event = ledger_file._connect, ledger_file.insert_event

def small_cache(path):  # so that pages go to the file before the commit
    connection = connect(path)
    connection.execute("PRAGMA cache_size = 1")
    return connection

def die(connection, run_id, event):
    insert_event(connection, run_id, event)
    os.kill(os.getpid(), signal.SIGKILL)

ledger_file._connect, ledger_file.insert_event = small_cache, die
spend("run", "1", invariants=["x" * 1000] * 1000)
"""
    size = ledger.path.stat().st_size
    process = start(ledger, script)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    journal = ledger.path.with_name(ledger.path.name + "-journal")
    assert journal.stat().st_size > 0
    assert ledger.path.stat().st_size > size, "the test did not reach the moment it is about"

    assert Ledger.open(ledger.path).balance("town").spent == 0
    assert not journal.exists()
    sound(ledger)
    resumed = start(ledger, 'spend("run", "1", invariants=["x" * 1000] * 1000)')
    resumed.communicate(timeout=600)
    assert resumed.returncode == 0
    assert ledger.balance("town").remaining == 0


@pytest.mark.parametrize("moment", ["before the spend", "after the spend", "after the mark"])
def test_a_killed_run_resumes_as_one_spend(tmp_path: Path, moment: str):
    ledger = declared(tmp_path, total="1")
    script = """
from headcount.privacy import SpendState
stop = sys.argv[2]
if stop == "before the spend":
    os.kill(os.getpid(), signal.SIGKILL)
spend("run", "1")
if stop == "after the spend":
    os.kill(os.getpid(), signal.SIGKILL)
ledger.mark("run", SpendState.DRAWN)
if stop == "after the mark":
    os.kill(os.getpid(), signal.SIGKILL)
ledger.mark("run", SpendState.COMPLETE)
"""
    killed = start(ledger, script, moment)
    killed.communicate(timeout=600)
    assert killed.returncode == -signal.SIGKILL
    resumed = start(ledger, script, "never")
    resumed.communicate(timeout=600)
    assert resumed.returncode == 0
    (found,) = ledger.history("town")
    assert found.state is SpendState.COMPLETE
    assert ledger.balance("town").spent == 1
