"""How far work is, noted in a file for programs."""

import json
from pathlib import Path

import pytest

from headcount.errors import InputError
from headcount.processes import fault_noted, progress_of


def test_a_file_notes_how_far_work_is(tmp_path: Path) -> None:
    path = tmp_path / "far.json"
    seen = [
        json.loads(path.read_text())
        for _ in progress_of(quiet=False, file=path)(range(3), what="levels")
    ]
    assert seen[0] == {"what": "levels", "done": 0, "total": 3}
    assert json.loads(path.read_text()) == {"what": "levels", "done": 3, "total": 3}


def test_a_total_that_is_not_known_is_null_and_one_that_is_given_stands(tmp_path: Path) -> None:
    path = tmp_path / "far.json"
    assert list(progress_of(quiet=False, file=path)(iter("ab"), what="pieces")) == ["a", "b"]
    assert json.loads(path.read_text()) == {"what": "pieces", "done": 2, "total": None}
    assert list(progress_of(quiet=False, file=path)(iter(()), what="none", total=0)) == []
    assert json.loads(path.read_text()) == {"what": "none", "done": 0, "total": 0}


def test_why_work_failed_is_noted_without_values_of_the_data(tmp_path: Path) -> None:
    error = InputError("a.csv", place="line 7", found="'4711'", expected="a number")
    for path in (tmp_path / "far.json", None):
        with pytest.raises(InputError, match="4711"), fault_noted(path):
            raise error
    note = json.loads((tmp_path / "far.json").read_text())
    assert note == {"fault": "a.csv: line 7: found ..., expected a number"}
