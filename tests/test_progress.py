"""How far work is, noted in a file for programs."""

import json
from pathlib import Path

from headcount.progress import ToFile


def test_a_file_notes_how_far_work_is(tmp_path: Path) -> None:
    path = tmp_path / "far.json"
    seen = [json.loads(path.read_text()) for _ in ToFile(path)(range(3), what="levels")]
    assert seen[0] == {"what": "levels", "done": 0, "total": 3}
    assert json.loads(path.read_text()) == {"what": "levels", "done": 3, "total": 3}


def test_a_total_that_is_not_known_is_null_and_one_that_is_given_stands(tmp_path: Path) -> None:
    path = tmp_path / "far.json"
    assert list(ToFile(path)(iter("ab"), what="pieces")) == ["a", "b"]
    assert json.loads(path.read_text()) == {"what": "pieces", "done": 2, "total": None}
    assert list(ToFile(path)(iter(()), what="none", total=0)) == []
    assert json.loads(path.read_text()) == {"what": "none", "done": 0, "total": 0}
