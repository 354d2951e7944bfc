"""The command line: exit codes, one clear line for an error, an example in every help."""

from __future__ import annotations

import json
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from headcount.cli.app import main
from headcount.privacy import Ledger, SpendState
from headcount.report.model import CONFIDENTIAL_BANNER
from tests.run.town import (
    LEDGER,
    MICRODATA,
    interrupted,
    make_ledger,
    people,
    write_config,
    write_town,
)


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


Headcount = Callable[..., Answer]


@pytest.fixture
def headcount(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Headcount:
    # The command sets the level of the whole package; leave other tests as they were.
    monkeypatch.setattr(logging.getLogger("headcount"), "setLevel", lambda _level: None)

    def run(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["headcount", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else -1
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


STUDIES = ("study flaxman-2019", "study petti-flaxman-2020")
VERBS = ("demo", "init", "protect", "check", "close", "evaluate", *STUDIES)
BOOK = ("ledger init", "ledger show", "ledger history", "ledger void")


@pytest.mark.parametrize("verb", [*VERBS, *BOOK])
def test_every_verb_has_a_help_with_an_example(verb: str, headcount: Headcount):
    answer = headcount(*verb.split(), "--help")
    assert answer.code == 0
    example = answer.out.split("Example")[1]
    name = verb.split()[0]
    assert f"headcount {verb}" in example or (name == "protect" and "[population]" in example)
    assert headcount(*verb.split(), "-h").out == answer.out


def test_the_help_of_all_names_every_verb_with_an_example(headcount: Headcount):
    for arguments in (("--help",), ("-h",)):
        answer = headcount(*arguments)
        assert answer.code == 0
        for verb in ("demo", "protect", "check", "evaluate", "study", "ledger"):
            assert f"headcount {verb}" in answer.out


def test_a_command_that_does_not_exist(headcount: Headcount):
    answer = headcount("protct")
    assert answer.code == 2
    assert "No such command 'protct'" in answer.err


def test_protect_says_where_the_release_is_and_what_it_promises(town: Path, headcount: Headcount):
    answer = headcount("protect", write_config(town))
    assert answer.code == 0
    assert answer.out.startswith(f"release: {town / 'out' / 'release'}\n")
    assert "Differential privacy: epsilon 0.5 when one person's record changes." in answer.out
    assert "Differential privacy: epsilon 0.25 when one person is added or removed." in answer.out


def test_the_second_protect_says_complete(town: Path):
    config = write_config(town)
    command = [sys.executable, "-m", "headcount", "protect", str(config)]
    answers = [subprocess.run(command, capture_output=True, text=True) for _ in range(2)]
    assert [answer.returncode for answer in answers] == [0, 0]
    assert answers[0].stdout == answers[1].stdout
    assert answers[0].stderr == ""
    assert answers[1].stderr == (
        f"INFO: {town / 'out'}: the release is complete; nothing was drawn or spent again\n"
    )


def test_an_expected_error_is_one_line_and_exit_code_2(town: Path, headcount: Headcount):
    config = write_config(town, mechanism='name = "geometric"\nepsilon = 0')
    for verb in ("protect", "check"):
        answer = headcount(verb, config)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == (
            f"error: {config}: mechanism.epsilon: found 0, expected a number above 0\n"
        )
    assert headcount("evaluate", town / "none").code == 2
    assert headcount("protect", town / "none.toml").code == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "/x"), "error: /x: Permission denied\n"),
        (OSError(28, "No space left on device"), "error: file system: No space left on device\n"),
        (OSError("odd"), "error: file system: odd\n"),
    ],
)
def test_an_error_of_the_file_system_is_one_line_and_exit_code_3(
    error: OSError, said: str, town: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_config: Path, **_options: object) -> Path:
        raise error

    monkeypatch.setattr("headcount.run.protect.protect_run", refuse)
    assert headcount("protect", write_config(town)) == Answer(3, "", said)


def test_check_promises_and_writes_nothing(town: Path, headcount: Headcount):
    make_ledger(town)
    answer = headcount("check", write_config(town, run=LEDGER))
    assert answer.code == 0
    assert "6 cells" in answer.out
    assert "mechanism:  Geometric(epsilon=1/2, unit=change-one)\n" in answer.out
    said = [line.split() for line in answer.out.splitlines()]
    assert ["tract", "cells", "25", "epsilon", "0.5"] in said
    assert ["tract", "every", "cell", "2.4", "5.64", "12", "not", "usable"] in said
    assert "  tract: about 12 people, off by 12.6, 19 of 20 within 25: not usable." in answer.out
    assert "read from your data: for you alone" in answer.out
    assert "epsilon 0.5 when one person's record changes" in answer.out
    assert answer.out.endswith("all right: nothing was drawn, written or spent\n")
    assert not (town / "out").exists()
    assert Ledger.open(town / "ledger.db").history("town") == ()


def test_on_a_narrow_screen_check_still_says_how_far_off_answers_are(
    town: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "40")
    said = " ".join(headcount("check", "-q", write_config(town)).out.split())
    assert "tract, every cell: off by 5.64, 19 of 20 within 12 " in said


def test_check_refuses_what_protect_would_refuse(town: Path, headcount: Headcount):
    make_ledger(town, total="0.3")
    answer = headcount("check", write_config(town, run=LEDGER))
    assert answer.code == 2
    assert "requested 0.5, remaining 0.3, difference 0.2" in answer.err
    (town / "out").mkdir()
    (town / "out" / "notes.txt").touch()
    assert (
        "'notes.txt', which is not part of a headcount run"
        in headcount("check", write_config(town)).err
    )


@pytest.mark.parametrize("public", [True, False])
def test_evaluate_shows_errors_with_the_banner_unless_public(
    public: bool, town: Path, headcount: Headcount
):
    population = MICRODATA + f"public = {str(public).lower()}\n"
    headcount("protect", write_config(town, population=population))
    answer = headcount("evaluate", town / "out")
    assert answer.code == 0
    assert (CONFIDENTIAL_BANNER in answer.out) == (not public)
    assert "errors of the totals, in people" in answer.out
    for level in ("whole", "county", "tract"):
        assert level in answer.out
    report = town / "out/internal/evaluation/report.html"
    assert f"report: {report}" in answer.out.replace("\n", "")
    assert (CONFIDENTIAL_BANNER in report.read_text(encoding="utf-8")) == (not public)
    table = (report.parent / "errors.csv").read_text()
    assert table.startswith("level,query,cells,n,mean_count,median_count,median_absolute")
    groups = (report.parent / "groups.csv").read_text()
    assert groups.startswith("level,attribute,group,cells,n,mean_count")
    said = " ".join(answer.out.split())
    assert "counts: every count that is possible, empty or not." in said
    assert "errors at 'tract', in people" in answer.out
    answer = headcount("evaluate", town / "out", "--cells", "truth")
    assert "counts: counts that are not zero in truth." in " ".join(answer.out.split())
    assert (report.parent / "errors.csv").read_text() != table
    assert headcount("evaluate", town / "out", "--cells", "either").code == 0


def test_evaluate_refuses_a_set_that_it_does_not_know(town: Path, headcount: Headcount):
    answer = headcount("evaluate", town / "out", "--cells", "some")
    assert answer.code == 2
    assert "evaluation: cells: found 'some', expected 'all' or 'truth' or 'either'" in answer.err


def test_several_runs_are_compared_on_the_same_counts(
    town: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
):
    runs = []
    for name, mechanism in (("one", ""), ("two", 'name = "identity"')):
        given = {"mechanism": mechanism} if mechanism else {}
        headcount("protect", write_config(town, out=name, name=f"{name}.toml", **given))
        runs.append(town / name)
    answer = headcount("evaluate", *runs)
    assert answer.code == 0
    assert "mean error, in people, of the same counts" in answer.out
    answer = headcount("evaluate", *runs, "--metrics", "error", "--attacks", "none")
    assert "rows of other levels" not in answer.out
    monkeypatch.setattr("headcount.cli.evaluate.MOST_ROWS", 2)
    said = " ".join(headcount("evaluate", *runs, "--metrics", "error").out.split())
    assert "rows of other levels: see the tables of each run" in said
    answer = headcount("evaluate", *runs, "--cells", "either")
    assert answer.code == 2
    assert "found 'either', expected 'all' or 'truth': the set must not depend" in answer.err
    write_town(town, rows=people(seed=9))
    headcount("protect", write_config(town, out="three"))
    answer = headcount("evaluate", runs[0], town / "three")
    assert answer.code == 2
    assert "found data different from those of" in answer.err


def test_protect_says_how_many_counts_are_negative(town: Path, headcount: Headcount):
    noisy = 'name = "geometric"\nepsilon = "1/100"'
    answer = headcount("protect", write_config(town, mechanism=noisy))
    table = pl.read_parquet(town / "out/release/tract.parquet").select(pl.exclude(pl.String))
    negative = sum((table[name] < 0).sum() for name in table.columns)
    assert negative > 0
    # five tracts, six cells of which one is impossible
    assert f"Below 0: {negative} of 25 counts at 'tract'." in answer.out
    assert "Do not replace such counts with 0: totals would become too high." in answer.out
    receipt = json.loads((town / "out/release/receipt.json").read_text())
    assert receipt["negative_counts"] == {"tract": {"counts": 25, "negative": negative}}
    answer = headcount("protect", write_config(town, mechanism='name = "identity"', out="same"))
    assert "Below 0" not in answer.out


def test_a_ledger_from_its_first_day(town: Path, headcount: Headcount):
    book = town / "ledger.db"
    answer = headcount("ledger", "init", book, "--dataset", "town", "--epsilon", "0.75")
    assert answer.code == 0
    assert answer.out.startswith(f"{book}: dataset 'town' with epsilon 0.75 when one person")
    again = headcount("ledger", "init", book, "--dataset", "town", "--epsilon", "3/4")
    assert again.code == 0  # the same declaration

    assert headcount("protect", write_config(town, run=LEDGER)).code == 0
    other = headcount("ledger", "init", book, "--dataset", "town", "--epsilon", "3")
    assert other.code == 2
    assert "a total stands once something is recorded on it" in other.err
    shown = headcount("ledger", "show", book).out
    assert "Total 0.75, spent 0.5 (runs: 1), remaining 0.25." in shown
    assert "The ledger cannot see other datasets about the same people" in shown
    refused = headcount("protect", write_config(town, run=LEDGER, out="more"))
    assert refused.code == 2
    assert "requested 0.5, remaining 0.25, difference 0.25" in refused.err

    history = headcount("ledger", "history", book, "--dataset", "town").out
    assert "epsilon 0.5 when one person's record changes" in history
    assert [line.split()[-1] for line in history.splitlines()[1:]] == [
        "recorded",
        "drawn",
        "complete",
    ]
    late = headcount("ledger", "void", book, "--run", town / "out", "--why", "oops")
    assert late.code == 2
    assert "its spend stands" in late.err


def test_void_takes_back_a_run_that_drew_nothing(
    town: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
):
    ledger = make_ledger(town)
    config = write_config(town, run=LEDGER)

    def killed(*_arguments: object) -> None:
        raise sqlite3.Error("pulled the plug")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "mark", killed)
        with pytest.raises(sqlite3.Error):
            headcount("protect", config)
    book = town / "ledger.db"
    answer = headcount("ledger", "void", book, "--run", town / "out", "--why", "wrong file")
    assert answer.code == 0
    assert answer.out.endswith(": voided\n")
    (spend,) = ledger.history("town")
    assert spend.state is SpendState.VOID
    assert "void  wrong file" in headcount("ledger", "history", book, "--dataset", "town").out
    assert headcount("protect", config).code == 2
    nowhere = headcount("ledger", "void", book, "--run", town / "no", "--why", "x")
    assert nowhere.code == 2
    assert "found no run, expected a directory made by headcount" in nowhere.err


def test_a_run_that_may_have_drawn_cannot_be_voided(
    town: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
):
    make_ledger(town)
    interrupted(write_config(town, run=LEDGER), monkeypatch, at="protect")
    answer = headcount("ledger", "void", town / "ledger.db", "--run", town / "out", "--why", "x")
    assert answer.code == 2
    assert "never refunded once noise may have been drawn" in answer.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "expected --epsilon, or --rho, or --epsilon with --delta"),
        (["--epsilon", "1", "--rho", "1"], "expected --epsilon, or --rho"),
        (["--rho", "1", "--delta", "0.1"], "expected --epsilon, or --rho"),
        (["--epsilon", "abc"], "--epsilon: found 'abc', expected a finite number"),
        (["--epsilon", "-1"], "found -1, expected a number above 0"),
        (["--epsilon", "1", "--delta", "2"], "expected a number below 1"),
        (["--epsilon", "1", "--unit", "household"], "--unit: found 'household', expected one of"),
    ],
)
def test_a_total_that_makes_no_sense(
    options: list[str], said: str, tmp_path: Path, headcount: Headcount
):
    book = tmp_path / "ledger.db"
    answer = headcount("ledger", "init", book, "--dataset", "town", *options)
    assert answer.code == 2
    assert said in answer.err
    assert not book.exists()


@pytest.mark.parametrize(
    ("options", "total"),
    [
        (["--rho", "1/8"], "rho 0.125 when one person's record changes"),
        (["--epsilon", "2", "--delta", "1e-10"], "epsilon 2 at delta 1e-10"),
        (
            ["--epsilon", "2", "--unit", "add-remove"],
            "epsilon 2 when one person is added or removed",
        ),
    ],
)
def test_totals_in_every_currency(
    options: list[str], total: str, tmp_path: Path, headcount: Headcount
):
    book = tmp_path / "ledger.db"
    assert total in headcount("ledger", "init", book, "--dataset", "town", *options).out


def test_the_old_way_to_a_benchmark_says_the_new_one(headcount: Headcount):
    for line in ("bench", "bench noise --quick", "bench --help"):
        answer = headcount(*line.split())
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == (
            "error: headcount bench: benchmarks are run from a clone of the repository: "
            "make bench NAME=...\n"
        )


def test_study_refuses_nonsense_before_it_starts(headcount: Headcount, tmp_path: Path):
    for options in (["--replicates", "0"], ["--seed", "-1"]):
        answer = headcount("study", "flaxman-2019", "--out", tmp_path / "s", *options)
        assert answer.code == 2
        assert options[0] in answer.err
    strange = tmp_path / "full"
    strange.mkdir()
    (strange / "notes.txt").touch()
    answer = headcount("study", "flaxman-2019", "--out", strange)
    assert answer.code == 2
    assert "found 'notes.txt', expected a new or empty directory" in answer.err
    assert [path.name for path in strange.iterdir()] == ["notes.txt"]
