"""Parts of a level in either storage: sound ones are taken, whoever made them, and no others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from headcount.storage import Storage, storage_at
from headcount.topdown.parts import LevelPart, PartFiles, SparseRows
from tests.topdown.small import dense, pure, run, same, settings, village

LEVEL, UNITS, NAME = "state", range(3, 5), "run-0/state/3-5.arrow"
MADE_FROM = b"these data, these settings"


def part(count: int = 200) -> LevelPart:
    start, cell = np.array([0, 1, 3]), np.array([3, 0, 2], dtype=np.int32)
    return LevelPart(SparseRows(start, cell, np.array([count, 1, 2])), {"parents": 1})


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return storage_at(tmp_path).below("parts")


def files(storage: Storage, made_from: bytes = MADE_FROM) -> PartFiles:
    return PartFiles(storage, 0, made_from=made_from)


def test_a_part_is_taken_by_whoever_has_its_data_and_settings(storage: Storage):
    files(storage).save(LEVEL, UNITS, part())
    found = files(storage).load(LEVEL, UNITS)
    assert found is not None
    assert found.rows.value.tolist() == [200, 1, 2]
    assert files(storage).load(LEVEL, range(3, 6)) is None
    assert storage.names() == [NAME]


@pytest.mark.parametrize("damage", ["torn", "empty", "flipped", "of other units", "of other data"])
def test_a_part_that_is_not_sound_is_reported_not_used_and_made_again(
    storage: Storage, damage: str, caplog: pytest.LogCaptureFixture
):
    files(storage).save(LEVEL, UNITS, part())
    good = storage.read(NAME).to_pybytes()
    if damage == "of other units":
        files(storage).save(LEVEL, range(5, 7), part())
        storage.put(NAME, storage.read("run-0/state/5-7.arrow").to_pybytes())
    elif damage == "of other data":
        storage.remove()
        files(storage, b"other data").save(LEVEL, UNITS, part(9))
    else:
        flipped = good.replace(b"\xc8\1\2", b"\xc9\1\2")
        storage.put(NAME, {"torn": good[:-100], "empty": b"", "flipped": flipped}[damage])
    assert files(storage).load(LEVEL, UNITS) is None
    assert f"{storage.folder}/{NAME} cannot be used" in caplog.text
    files(storage).save(LEVEL, UNITS, part())
    assert storage.read(NAME).to_pybytes() == good


def test_the_second_of_two_attempts_is_harmless(storage: Storage):
    """What the first wrote stays: tasks that read it meanwhile see one part."""
    first = LevelPart(part().rows, {"parents": 1, "of": 1})
    files(storage).save(LEVEL, UNITS, first)
    files(storage).save(LEVEL, UNITS, LevelPart(part().rows, {"parents": 1, "of": 2}))
    found = files(storage).load(LEVEL, UNITS)
    assert found is not None
    assert found.notes == first.notes


def test_attempts_at_once_leave_one_sound_part(storage: Storage):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: files(storage).save(LEVEL, UNITS, part()), range(16)))
    assert storage.names() == [NAME]
    assert files(storage).load(LEVEL, UNITS) is not None


def test_a_run_gives_the_same_counts_wherever_its_parts_are(storage: Storage):
    counts, mechanism = village(), settings(pure("1/2"))
    expected = dense(run(mechanism, counts))
    assert same(dense(run(mechanism, counts, workspace=storage)), expected)
    made = storage.names()
    assert made
    storage.put(made[0], b"torn")
    assert same(dense(run(mechanism, counts, workspace=storage)), expected)
    assert storage.names() == made


def test_parts_of_other_noise_are_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """A second release in the same place would be the first one again."""
    counts, mechanism, work = village(), settings(pure("1/2")), storage_at(tmp_path)
    first = dense(run(mechanism, counts, seed=1, workspace=work))
    expected = dense(run(mechanism, counts, seed=2))
    assert not same(first, expected)
    assert same(dense(run(mechanism, counts, seed=2, workspace=work)), expected)
    assert "made from other data, or with other noise or settings" in caplog.text
