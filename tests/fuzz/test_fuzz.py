"""Some cases of the fuzzer, and faults planted to see that it would find them."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headcount.population.people_table import Placed, placed
from tests.fuzz import base, cases, mutate, named, tally
from tests.fuzz.cases import KINDS, Verdict, judge
from tests.fuzz.files import named_files
from tests.fuzz.runner import run, summary

SEED = 20261115
CASES = 60


@pytest.fixture(scope="module", autouse=True)
def stock(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADCOUNT_FUZZ_STOCK", str(tmp_path_factory.mktemp("stock")))
        cases.make_stock()
        yield


def test_damaged_input_is_refused_or_released_rightly(tmp_path: Path):
    ends: Counter[tuple[str, str]] = Counter()
    for number in range(CASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        verdict = judge(number, seed=SEED, folder=folder)
        assert not verdict.fault, verdict
        ends[verdict.kind, verdict.end] += 1
    assert {kind for kind, _ in ends} == set(KINDS)
    for kind in KINDS:  # neither all sound nor all damaged beyond use
        assert ends[kind, "released"]
        assert ends[kind, "refused"]


WRITTEN = {
    *("OutputSettings.out", "OutputSettings.workspace", "RunSettings.out", "RunSettings.workspace"),
    *("attack difference --out", "attack link --out", "attack reconstruct --out"),
    *("attack reidentify --out", "compare --out"),
    *(
        "compare --progress_file",
        "demo --out",
        "evaluate --out",
        "explain --out",
        "init --out",
        "errors --out",
        "plan --out",
    ),
    *("protect --progress_file", "ledger init --ledger"),
}
"""What is made, not read."""
ELSEWHERE = {
    "compare --config": "read by the reader of check and protect, and then by none for hours",
    "studio --folder": "a folder whose files the other commands read",
}
BY_KIND = {
    "config": {"check --config", "protect --config"},
    "csv": {
        *("Microdata.file", "Microdata.units", "CountsTable.file", "CountsTable.units"),
        *("HouseholdTables.persons", "HouseholdTables.dwellings", "HouseholdTables.units"),
    },
    "ledger": {
        *("RunSettings.ledger", "ledger show --ledger", "ledger history --ledger"),
        *("ledger void --ledger", "ledger void --run", "close --ledger"),
    },
}


def test_every_file_that_a_key_or_an_option_names_is_damaged():
    covered = {one for scene in named.SCENES for one in scene.covers.split(", ")}
    covered |= {one for those in BY_KIND.values() for one in those}
    assert named_files() == covered | WRITTEN | ELSEWHERE.keys()


@pytest.mark.parametrize("number", range(len(named.SCENES)))
def test_every_scene_is_sound_and_one_damaged_file_is_refused_or_read(number: int, tmp_path: Path):
    scene = named.SCENES[number]
    cases._copy(f"scene {number}", tmp_path)
    with contextlib.chdir(tmp_path):
        for command in scene.commands:
            answer = cases.headcount(*command.split())
            assert not answer.code or command.startswith("close "), answer.err


def sound(folder: Path, population: base.Tree = base.MICRODATA) -> Verdict:
    """A case without damage."""
    for path in base.CORPUS.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    try:
        end = cases._run_tables(folder, base.tree(population, base.IDENTITY))
    except cases.Fault as fault:
        return Verdict(0, "csv", "fault", fault.what, fault.seen)
    return Verdict(0, "csv", end)


@pytest.mark.parametrize("population", cases.DATA, ids=lambda one: str(one["kind"]))
def test_sound_input_is_released_and_tallied(population: base.Tree, tmp_path: Path):
    assert sound(tmp_path, population) == Verdict(0, "csv", "released")
    assert sum(tally.expected(population, tmp_path).values()) > 20


def test_a_lost_row_is_a_wrong_tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def careless(*arguments: Any) -> Placed:
        found = placed(*arguments)
        many = None if found.many is None else found.many[:-1]
        return replace(found, unit=found.unit[:-1], cell=found.cell[:-1], many=many)

    monkeypatch.setattr("headcount.population.microdata.placed", careless)
    verdict = sound(tmp_path)
    assert verdict.fault == "wrong tally"
    assert "too few {" in verdict.seen


def test_an_exception_is_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setattr("headcount.population.microdata.placed", broken)
    verdict = sound(tmp_path)
    assert verdict.fault == "traceback"
    assert "KeyError: 'x'" in verdict.seen


def test_a_loop_is_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def forever(*_: Any) -> Any:
        while True:
            pass

    monkeypatch.setattr("tests.fuzz.cases.headcount", forever)
    verdict = judge(1, seed=SEED, folder=tmp_path, seconds=0.2)
    assert (verdict.kind, verdict.fault) == ("csv", "hang")


def test_a_release_that_breaks_off_is_partial_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def breaks_off(*_given: object, folder: Path, **_: object) -> None:
        folder.mkdir(parents=True)
        (folder / "tract.parquet").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headcount.run.protect.make_release", breaks_off)
    monkeypatch.setattr("headcount.run.protect.prepare_run", _refuse_only_check())
    verdict = sound(tmp_path)
    assert verdict.fault == "partial output"
    assert "tract.parquet" in verdict.seen


def _refuse_only_check() -> Any:
    """``prepare_run`` that refuses once, so that check and protect agree in their exit codes."""
    from headcount.errors import ConfigError
    from headcount.run.protect import prepare_run

    asked = []

    def wrong(config: Any) -> Any:
        asked.append(config)
        if len(asked) == 1:
            raise ConfigError("x", found="y", expected="z")
        return prepare_run(config)

    return wrong


def test_a_spend_that_is_not_in_the_rows_is_a_wrong_tally(tmp_path: Path):
    cases._copy("ledger", tmp_path)
    shown = cases.headcount("ledger", "show", tmp_path / "ledger.db").out
    cases._compare_ledger(tmp_path / "ledger.db", shown)
    with pytest.raises(cases.Fault, match="wrong tally"):
        cases._compare_ledger(tmp_path / "ledger.db", shown.replace("spent 1", "spent 2"))


def test_a_case_is_the_same_every_time_and_in_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEADCOUNT_FUZZ_STOCK", "")  # it is set anew, and put back
    numbers = [1, 2, 6]
    there = {one.number: one for one in run(numbers, seed=3, workers=1, keep=tmp_path / "keep")}
    for number in numbers:
        (folder := tmp_path / str(number)).mkdir()
        assert judge(number, seed=3, folder=folder) == there[number]
    assert summary(list(there.values()), seconds=1)[0] == "3 cases in 1 s"
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in (first, second):
        path.write_bytes((base.CORPUS / "people.csv").read_bytes())
        mutate.change_csv(path, Random(5))
    assert first.read_bytes() == second.read_bytes()
