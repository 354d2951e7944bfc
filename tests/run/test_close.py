"""A run that can never complete is closed: ledger and directory say so, and the key is gone."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from headcount.engines import handed_folder
from headcount.errors import PrivacyError, RunError
from headcount.privacy import Ledger, SpendState
from headcount.release.directory import RunDirectory
from headcount.run.close import close_run
from headcount.run.protect import protect_run
from tests.run.town import (
    LEDGER,
    Stop,
    contents,
    interrupted,
    make_ledger,
    write_config,
    write_town,
)

WHY = "the solver fails on these data"


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run that has spent and drawn, and was not finished."""
    write_town(tmp_path)
    make_ledger(tmp_path, total="10")
    interrupted(write_config(tmp_path, run=LEDGER), monkeypatch, at="write_release")
    assert (tmp_path / "out/internal/run.key").exists()
    return tmp_path


def spend_of(town: Path):
    (spend,) = Ledger.open(town / "ledger.db").history("town")
    return spend


def test_a_closed_run_keeps_its_spend_and_loses_its_key(stuck: Path):
    before = Ledger.open(stuck / "ledger.db").balance("town")
    facts = close_run(stuck / "out", why=WHY)
    spend, balance = spend_of(stuck), Ledger.open(stuck / "ledger.db").balance("town")
    assert (spend.run_id, spend.state) == (facts.run_id, SpendState.CLOSED)
    assert spend.events[-1].why == WHY
    assert balance.spent == before.spent > 0
    assert balance.closed == 1
    assert "Closed without a release; their spends stand (runs: 1)." in balance.sentences()
    assert sorted(contents(stuck / "out/internal")) == [
        "closed.json",
        "config.json",
        "lock",
        "run.json",
    ]


def test_a_closed_run_cannot_go_on(stuck: Path):
    close_run(stuck / "out", why=WHY)
    with pytest.raises(RunError, match=rf"found a run that was closed \({WHY}\), expected a new"):
        protect_run(write_config(stuck, run=LEDGER))
    (stuck / "out/internal/closed.json").unlink()  # the ledger knows it too
    with pytest.raises(RunError, match="found no key for the unfinished run"):
        protect_run(write_config(stuck, run=LEDGER))
    ledger = Ledger.open(stuck / "ledger.db")
    with pytest.raises(PrivacyError, match="found state closed, expected one from which"):
        ledger.mark(spend_of(stuck).run_id, SpendState.COMPLETE)
    protect_run(write_config(stuck, run=LEDGER, out="another"))


def test_closing_that_breaks_off_anywhere_is_finished_by_the_same_command(
    stuck: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_arguments: object, **_named: object) -> None:
        raise Stop

    for owner, name in (
        (RunDirectory, "close"),
        (Ledger, "close"),
        (RunDirectory, "finish"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, stop)
            with pytest.raises(Stop):
                close_run(stuck / "out", why=WHY)
        if (owner, name) != (RunDirectory, "close"):
            with pytest.raises(RunError, match="found a run that was closed"):
                protect_run(write_config(stuck, run=LEDGER))
    close_run(stuck / "out", why="another reason")
    assert spend_of(stuck).events[-1].why == WHY  # the first one stands
    assert not (stuck / "out/internal/run.key").exists()
    close_run(stuck / "out", why=WHY)  # harmless when done twice
    assert [event.state for event in spend_of(stuck).events].count(SpendState.CLOSED) == 1


def test_what_is_finished_or_never_began_is_not_closed(tmp_path: Path):
    write_town(tmp_path)
    make_ledger(tmp_path)
    out = protect_run(write_config(tmp_path, run=LEDGER))
    with pytest.raises(RunError, match="found a finished release, expected an unfinished run"):
        close_run(out, why=WHY)
    with pytest.raises(RunError, match="found no run, expected a directory made by headcount"):
        close_run(tmp_path / "nowhere", why=WHY)
    assert not (tmp_path / "nowhere").exists()
    ledger = Ledger.open(tmp_path / "ledger.db")
    with pytest.raises(PrivacyError, match="found state complete, expected a run that is not"):
        ledger.close(spend_of(tmp_path).run_id, why=WHY)
    with pytest.raises(PrivacyError, match="reason for closing: found none"):
        ledger.close(spend_of(tmp_path).run_id, why=" ")


def test_what_a_run_left_that_was_killed_while_it_read_is_removed(tmp_path: Path):
    internal = tmp_path / "out/internal"
    with handed_folder(internal) as own:
        (own / "pieces-0").write_bytes(b"counts")
        with pytest.raises(RunError, match="found no run, expected a directory made by headcount"):
            close_run(tmp_path / "out", why=WHY)  # it is still at work
        copy = shutil.copytree(own, internal / "handed-killed")
        assert RunDirectory(tmp_path / "out").left_of_reading()
    with pytest.raises(RunError, match=r"before it had an id or spent anything\. Leave out"):
        close_run(tmp_path / "out", why=WHY, run_id="0" * 16)
    said = close_run(tmp_path / "out", why=WHY).sentence()
    assert said.startswith("no run had begun: nothing was spent or drawn. Files that were left")
    assert not copy.exists()
    write_town(tmp_path)
    make_ledger(tmp_path)
    protect_run(write_config(tmp_path, run=LEDGER))  # the directory is as good as new


def test_a_run_that_ends_leaves_the_work_of_another_process_alone(stuck: Path):
    with handed_folder(stuck / "out/internal") as own:  # which prepares the same run, or evaluates
        protect_run(write_config(stuck, run=LEDGER))
        assert own.exists()
    assert not own.exists()


def test_a_reason_is_needed(stuck: Path):
    with pytest.raises(RunError, match="say why the run is closed"):
        close_run(stuck / "out", why=" ")
    assert spend_of(stuck).state is SpendState.DRAWN


def test_a_run_that_never_spent_or_has_no_ledger_is_closed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_town(tmp_path)
    interrupted(write_config(tmp_path), monkeypatch, at="write_release")
    closed = close_run(tmp_path / "out", why=WHY)
    assert not (tmp_path / "out/internal/run.key").exists()
    assert closed.sentence().endswith(
        "closed; its key is destroyed; it has no ledger, and none was marked"
    )
    ledger = make_ledger(tmp_path)
    interrupted(write_config(tmp_path, run=LEDGER, out="two"), monkeypatch, at="_spend")
    closed = close_run(tmp_path / "two", why=WHY)
    assert closed.sentence().endswith(f"it spent nothing on {tmp_path / 'ledger.db'}")
    assert ledger.history("town") == ()
    assert RunDirectory(tmp_path / "two").closed() == WHY


def test_a_ledger_that_does_not_know_the_run_is_not_the_one(stuck: Path):
    Ledger.create(stuck / "other.db")
    with pytest.raises(PrivacyError, match="found no such run, expected one in this ledger"):
        close_run(stuck / "out", why=WHY, ledger=stuck / "other.db")
    assert RunDirectory(stuck / "out").closed() is None
    assert (stuck / "out/internal/run.key").exists()
    close_run(stuck / "out", why=WHY, ledger=stuck / "ledger.db")
    assert spend_of(stuck).state is SpendState.CLOSED


def test_a_ledger_of_the_first_version_can_close(stuck: Path):
    with sqlite3.connect(stuck / "ledger.db") as connection:
        connection.execute("DROP TABLE closing")
    assert spend_of(stuck).state is SpendState.DRAWN
    close_run(stuck / "out", why=WHY)
    assert spend_of(stuck).state is SpendState.CLOSED
    with (
        sqlite3.connect(stuck / "ledger.db") as connection,
        pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"),
    ):
        connection.execute("DELETE FROM closing")


@pytest.fixture
def damaged(stuck: Path) -> Path:
    (stuck / "out/internal/run.json").write_text('{"run_id": ')
    return stuck


def test_a_run_whose_facts_are_damaged_loses_its_key_and_the_ledger_is_left(damaged: Path):
    said = close_run(damaged / "out", why=WHY).sentence()
    assert not (damaged / "out/internal/run.key").exists()
    assert RunDirectory(damaged / "out").closed() == WHY
    assert spend_of(damaged).state is SpendState.DRAWN
    assert said == (
        "a run whose facts (internal/run.json) cannot be read: closed; its key is destroyed. No "
        "ledger was marked: if the run spent, the spend stands and the run stays unfinished "
        "there, until the same command is given its --run-id"
    )
    run_id = spend_of(damaged).run_id
    closed = close_run(damaged / "out", why=WHY, run_id=run_id)  # later, as it was told
    assert closed.sentence().endswith(f"its spend on {damaged / 'ledger.db'} stands")
    assert spend_of(damaged).state is SpendState.CLOSED
    with pytest.raises(RunError, match="found a run that was closed"):
        protect_run(write_config(damaged, run=LEDGER))


def test_facts_that_are_lost_beside_a_key_are_like_damaged_ones(stuck: Path):
    (stuck / "out/internal/run.json").unlink()
    assert close_run(stuck / "out", why=WHY).run_id is None
    assert not (stuck / "out/internal/run.key").exists()
    assert RunDirectory(stuck / "out").closed() == WHY


def test_a_run_named_by_hand_must_be_on_the_ledger_and_of_this_config(
    damaged: Path, monkeypatch: pytest.MonkeyPatch
):
    other = write_config(damaged, run=LEDGER, out="two", mechanism='name = "raked"\nepsilon = 0.5')
    interrupted(other, monkeypatch, at="write_release")
    first, second = Ledger.open(damaged / "ledger.db").history("town")
    out, ledger = damaged / "out", damaged / "ledger.db"
    with pytest.raises(RunError, match="found the config of a run other than"):
        close_run(out, why=WHY, run_id=second.run_id)
    with pytest.raises(PrivacyError, match="found no such run, expected one in this ledger"):
        close_run(out, why=WHY, run_id="0" * 16)
    with pytest.raises(RunError, match="Say with --run-id which run of the ledger this is"):
        close_run(out, why=WHY, ledger=ledger)
    with pytest.raises(RunError, match=f"found run {second.run_id}, expected run {first.run_id}"):
        close_run(damaged / "two", why=WHY, run_id=first.run_id)
    assert RunDirectory(out).closed() is None
    assert (out / "internal/run.key").exists()
    close_run(out, why=WHY, ledger=ledger, run_id=first.run_id)
    states = [one.state for one in Ledger.open(ledger).history("town")]
    assert states == [SpendState.CLOSED, SpendState.DRAWN]


def test_a_run_id_without_any_ledger_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_town(tmp_path)
    interrupted(write_config(tmp_path), monkeypatch, at="write_release")
    (tmp_path / "out/internal/run.json").write_text("")
    with pytest.raises(RunError, match=r"config names no ledger\. Say with --ledger which"):
        close_run(tmp_path / "out", why=WHY, run_id="0" * 16)
    assert (tmp_path / "out/internal/run.key").exists()


def test_the_command(stuck: Path):
    def command(*more: str) -> subprocess.CompletedProcess[str]:
        arguments = ["close", str(stuck / "out"), "--why", WHY, *more]
        return subprocess.run(
            [sys.executable, "-m", "headcount", *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )

    (stuck / "ledger.db").rename(stuck / "moved.db")
    failed = command()
    assert (failed.returncode, "found no file, expected a ledger" in failed.stderr) == (2, True)
    assert (stuck / "out/internal/run.key").exists()
    closed = command("--ledger", str(stuck / "moved.db"))
    assert closed.returncode == 0, closed.stderr
    said = " ".join(closed.stdout.split())
    assert f"closed; its key is destroyed; its spend on {stuck / 'moved.db'} stands" in said
