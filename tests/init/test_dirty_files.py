"""Made-up files of offices, dirty: read rightly or asked about; and the judge catches who is wrong.

``python -m tests.init.dirty_files --cases 2000 --seed 1`` tries many more.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.init.dirty_files.cases import DIRT_BY_NAME, Plan, make_plan
from tests.init.dirty_files.files import write
from tests.init.dirty_files.judge import (
    FAULTS,
    READERS,
    Attribute,
    Question,
    Reader,
    Reading,
    by_headcount,
    by_summing,
    judge,
)
from tests.init.dirty_files.model import Case, Row
from tests.init.dirty_files.runner import main
from tests.init.dirty_files.shapes import SHAPES, crosstab, long, persons, wide

CASES = range(60)
SEED = 20_260
ROOT = Path(__file__).parents[2]


def cases() -> list[Case]:
    return [make_plan(number, seed=SEED).made() for number in CASES]


def kinds(read: Reader, folder: Path) -> list[str]:
    found = []
    for number, case in enumerate(cases()):
        own = folder / str(number)
        own.mkdir()
        found.append(judge(case, write(case, own), read).kind)
    return found


# --- headcount ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", CASES)
def test_a_dirty_file_is_read_rightly_or_asked_about(tmp_path: Path, number: int) -> None:
    case = make_plan(number, seed=SEED).made()
    verdict = judge(case, write(case, tmp_path), by_headcount)
    assert not verdict.fault, f"{verdict.kind}: {verdict.said} ({case.shape}, {case.dirt})"


# --- the judge ---------------------------------------------------------------------------------


def test_who_adds_up_all_columns_is_caught(tmp_path: Path) -> None:
    """A naive reader, who is right only where there are counts of people and nothing else."""
    found = kinds(by_summing, tmp_path)
    assert sum(kind in FAULTS for kind in found) > 40


def all_right(path: Path, case: Case) -> Reading:
    """Whoever knows the truth."""
    world = case.tables[0]
    tables = []
    for axis, attribute in enumerate(world.attributes, start=1):
        gone = tuple(k for k in range(1, world.counts.ndim) if k != axis)
        by_level = world.counts.sum(axis=gone).T[::-1]  # levels in another order
        if attribute.ages:
            by_level = by_level[::-1]
        tables.append(Attribute(f"x{axis}", tuple(attribute.levels), by_level))
    return Reading(world.people, world.places, tuple(tables))


def more_people(path: Path, case: Case) -> Reading:
    true = all_right(path, case)
    return replace(true, people=true.people + 2)


def fewer_places(path: Path, case: Case) -> Reading:
    true = all_right(path, case)
    return replace(true, places=true.places + 2)


def parted_levels(path: Path, case: Case) -> Reading:
    """The people of two levels are mixed up in half of the places."""
    true = all_right(path, case)
    one = true.attributes[0]
    mixed = one.people.copy()
    half = mixed.shape[1] // 2
    mixed[:2, :half] = mixed[1::-1, :half]
    return replace(true, attributes=(replace(one, people=mixed), *true.attributes[1:]))


def first_names(path: Path, case: Case) -> Reading:
    true = all_right(path, case)
    world = case.tables[0]
    many = np.stack([world.counts.reshape(world.places, -1).sum(axis=1)] * 2)
    named = Attribute("first", ("Ada", "Bo"), np.stack([many[0] // 3, many[0] - many[0] // 3]))
    return replace(true, attributes=(*true.attributes, named))


def refuses(path: Path, case: Case) -> Question:
    return Question("which column says where?")


def fails(path: Path, case: Case) -> Reading:
    raise ZeroDivisionError


def never_ends(path: Path, case: Case) -> Reading:
    while True:
        pass


@pytest.mark.parametrize("shape", [persons, long, crosstab, wide])
@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (all_right, "right"),
        (more_people, "wrong people"),
        (fewer_places, "wrong places"),
        (parted_levels, "wrong attributes"),
        (first_names, "wrong attributes"),
        (refuses, "asked"),
        (fails, "crash"),
    ],
)
def test_every_end_is_known(tmp_path: Path, shape: object, read: Reader, kind: str) -> None:
    case = Plan(shape, (), seed=4).made()  # type: ignore[arg-type]
    verdict = judge(case, write(case, tmp_path), read)
    assert verdict.kind == kind, verdict.said
    assert not verdict.left_out


def test_who_never_ends_is_stopped(tmp_path: Path) -> None:
    case = Plan(wide, (), seed=4).made()
    assert judge(case, tmp_path, never_ends, seconds=0.2).kind == "hang"


def test_ages_may_be_put_together_with_their_neighbours_alone(tmp_path: Path) -> None:
    seed = next(s for s in range(99) if len(Plan(crosstab, (), s).made().tables[0].counts[0]) == 6)
    case = Plan(crosstab, (), seed).made()
    ages = case.tables[0].counts.sum(axis=2).T

    def grouped(*groups: list[int]) -> str:
        people = np.stack([ages[group].sum(axis=0) for group in groups])
        found = Attribute("age", ("a", "b"), people)
        true = case.tables[0]
        reading = Reading(true.people, true.places, (found,))
        return judge(case, tmp_path, lambda path, case: reading).kind

    assert grouped([0, 1], [2, 3, 4, 5]) == "right"
    assert grouped([0, 2], [1, 3, 4, 5]) == "wrong attributes"


def test_a_right_number_without_proof_is_told_apart(tmp_path: Path) -> None:
    case = Plan(long, ("rows_twice",), seed=4).made()
    assert case.ask == "twice"
    assert judge(case, tmp_path, all_right).kind == "unproved"
    said = Question("the same rows stand there twice")
    assert judge(case, tmp_path, lambda path, case: said).cause_named


@pytest.mark.parametrize(("reader", "code"), [("summing", 1), ("refusing", 0)])
def test_the_command_keeps_what_was_read_wrongly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reader: str,
    code: int,
) -> None:
    monkeypatch.setitem(READERS, "refusing", refuses)
    keep = tmp_path / "kept"
    words = f"--cases 30 --seed 2 --only money --workers 1 --reader {reader} --keep {keep}"
    monkeypatch.setattr("sys.argv", ["dirty_files", *words.split()])
    assert main() == code
    said = capsys.readouterr().out
    wrong = re.findall(r"^wrong \w+: seed 2 case (\d+) .*\+money", said, re.MULTILINE)
    assert sorted(folder.name for folder in keep.glob("*")) == sorted(f"2-{k}" for k in wrong)
    assert f"silently wrong {len(wrong)}, crash 0, hang 0" in said
    assert bool(wrong) == bool(code)
    for folder in keep.glob("**/verdict.json"):
        told = json.loads(folder.read_text(encoding="utf-8"))
        assert told["kind"] in FAULTS
        assert len(list(folder.parent.glob("table.*"))) == 1


def test_two_workers_judge_what_one_would(tmp_path: Path) -> None:
    words = f"--cases 2 --seed 1 --workers 2 --keep {tmp_path / 'kept'}"
    program = [sys.executable, "-m", "tests.init.dirty_files", *words.split()]
    around = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, env=around, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "2 files: silently wrong 0, crash 0, hang 0" in done.stdout


# --- the generator -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_the_truth_of_a_shape_is_in_its_table(shape: object) -> None:
    """Added up plainly, rows that are no totals hold as many people as are said to be there."""
    for seed in range(8):
        case = Plan(shape, (), seed).made()  # type: ignore[arg-type]
        counts = case.at("count")
        rows = [row for row in case.rows if not row.total]
        people = sum(int(row.cells[k]) for row in rows for k in counts) if counts else len(rows)
        if case.shape == "two families":
            assert people == 2 * case.tables[0].people
        elif case.ask == "rounded":
            assert not case.right
            numbers = [int(row.cells[k]) for row in rows for k in counts]
            assert any(all(n % base == 0 for n in numbers) for base in (3, 5, 10))
        elif case.ask in ("not people", "shares"):
            assert not case.right
        elif case.ask:  # two dates, below each other or beside each other
            assert people <= 2 * max(one for one, _ in case.right)
            assert {places for _, places in case.right} == {case.tables[0].places}
        else:
            assert case.right == {(people, case.tables[0].places)}
        assert all(world.counts.min() >= 0 for world in case.tables)


@pytest.mark.parametrize("dirt", DIRT_BY_NAME)
def test_every_kind_of_dirt_changes_some_table(dirt: str) -> None:
    made = [Plan(shape, (dirt,), seed=2).made() for shape in SHAPES]
    assert any(case.dirt == (dirt,) for case in made)
    for case in made:
        assert all(len(row.cells) == len(case.columns) for row in case.rows)


def test_the_same_seed_makes_the_same_file(tmp_path: Path) -> None:
    for number in range(0, 60, 7):
        case, again = (make_plan(number, seed=3).made() for _ in range(2))
        if case.style.xlsx:
            continue  # the time of writing is in it
        one, two = tmp_path / f"{number}a", tmp_path / f"{number}b"
        one.mkdir()
        two.mkdir()
        assert write(case, one).read_bytes() == write(again, two).read_bytes()


def test_a_table_is_written_as_its_style_says(tmp_path: Path) -> None:
    plain = Plan(wide, (), seed=4).made()
    style = replace(plain.style, delimiter=";", thousands=".", decimal=",", encoding="cp1252")
    cells = ("Zürich", 1234567, 0.5)
    columns = plain.columns[:3]
    case = replace(plain, columns=columns, rows=(Row(cells),), above=("Titel",), style=style)
    text = write(case, tmp_path).read_bytes().decode("cp1252").splitlines()
    assert text[0] == "Titel"
    assert text[2] == "Zürich;1.234.567;0,5"
