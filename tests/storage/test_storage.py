"""Files of an unfinished run, in a folder."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from headcount.errors import ConfigError
from headcount.storage import Storage, storage_at

LARGE = bytes(range(256)) * 40_000


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return storage_at(tmp_path / "work").below("of a test")


def test_what_was_put_is_read_whole_and_by_ranges(storage: Storage):
    storage.put("state/0-5.arrow", LARGE)
    assert storage.read("state/0-5.arrow").to_pybytes() == LARGE
    assert storage.read("state/0-5.arrow", 300, 7).to_pybytes() == LARGE[300:307]
    assert storage.read("state/0-5.arrow", len(LARGE) - 3).to_pybytes() == LARGE[-3:]
    assert storage.read("state/0-5.arrow", len(LARGE) - 3, 10).to_pybytes() == LARGE[-3:]
    assert storage.read("state/0-5.arrow", len(LARGE) + 1).to_pybytes() == b""


def test_an_empty_file_is_a_file(storage: Storage):
    storage.put("none", b"")
    assert storage.read("none").to_pybytes() == b""
    assert storage.names() == ["none"]


@pytest.mark.parametrize("data", [memoryview(b"abc"), pa.py_buffer(b"abc")])
def test_any_bytes_in_memory_can_be_put(storage: Storage, data: memoryview):
    storage.put("a", data)
    assert storage.put_if_absent("b", data)
    assert [storage.read(name).to_pybytes() for name in ("a", "b")] == [b"abc"] * 2


def test_a_put_replaces_what_was_there(storage: Storage):
    storage.put("a", b"old and longer")
    storage.put("a", b"new")
    assert storage.read("a").to_pybytes() == b"new"


def test_a_put_if_absent_leaves_what_was_there(storage: Storage):
    assert storage.put_if_absent("x/a", b"first")
    assert not storage.put_if_absent("x/a", b"second")
    assert storage.read("x/a").to_pybytes() == b"first"
    assert storage.names() == ["x/a"]


def test_of_many_attempts_at_once_one_is_written_and_whole(storage: Storage):
    data = [bytes([one]) * 100_000 for one in range(16)]
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda one: storage.put_if_absent("a", one), data))
    assert sum(written) == 1
    assert storage.read("a").to_pybytes() == data[written.index(True)]
    assert storage.names() == ["a"]


def test_a_scratch_file_is_put_whole_and_goes(storage: Storage):
    for name, put in (("a", storage.put), ("b", storage.put_if_absent)):
        with storage.scratch() as file:
            for first in range(0, len(LARGE), 1 << 20):
                file.write(LARGE[first : first + (1 << 20)])
            put(name, file)
        assert storage.read(name).to_pybytes() == LARGE
    with storage.scratch() as file:
        file.write(b"abandoned")
    assert storage.names() == ["a", "b"]


def test_a_file_that_is_not_there_is_named(storage: Storage):
    with pytest.raises(FileNotFoundError) as caught:
        storage.read("state/none")
    assert str(caught.value.filename) == f"{storage.folder}/state/none"


def test_files_are_listed_in_order_and_removed_together(storage: Storage):
    for name in ("b/2", "a", "b/1"):
        storage.put(name, b"x")
    assert storage.names() == ["a", "b/1", "b/2"]
    assert storage.below("b").names() == ["1", "2"]
    assert storage.below("b").read("2").to_pybytes() == b"x"
    storage.below("b").remove()
    assert storage.names() == ["a"]
    storage.remove()
    storage.remove()
    assert storage.names() == []


def test_a_folder_whose_name_begins_alike_is_another(storage: Storage):
    storage.put("run-1/a", b"x")
    storage.put("run-10/a", b"x")
    storage.below("run-1").remove()
    assert storage.names() == ["run-10/a"]


def test_a_good_place_passes_its_check_and_nothing_stays(storage: Storage):
    storage.check()
    assert storage.names() == []


def test_a_storage_travels(storage: Storage):
    storage.put("a", b"x")
    assert pickle.loads(pickle.dumps(storage)).read("a").to_pybytes() == b"x"


def test_pages_stay_mapped_when_the_file_is_replaced(tmp_path: Path):
    storage = Storage(tmp_path)
    storage.put("a", LARGE)
    mapped = storage.read("a")
    storage.put("a", b"new")
    assert mapped.to_pybytes() == LARGE


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_folders_and_files_are_the_owners_alone(tmp_path: Path):
    Storage(tmp_path / "a/b").put("c/d", b"x")
    made = [tmp_path / name for name in ("a", "a/b", "a/b/c", "a/b/c/d")]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o700, 0o700, 0o600]


def test_the_check_of_a_folder_makes_none_and_finds_one_that_cannot_be_made(tmp_path: Path):
    Storage(tmp_path / "a/b").check()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").write_text("a file")
    with pytest.raises(NotADirectoryError):
        Storage(tmp_path / "a/b").check()


KILLED = """
import os, pickle, signal, sys
storage = pickle.load(sys.stdin.buffer)
def die(*_arguments, **_named): os.kill(os.getpid(), signal.SIGKILL)
os.link = die
with storage.scratch() as file:
    file.write(b"half of a part")
    storage.put_if_absent("a", file)
"""


def test_a_writer_killed_between_scratch_and_put_leaves_no_file(storage: Storage):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], input=pickle.dumps(storage), check=False
    )
    assert killed.returncode == -9
    assert storage.names() == []
    assert storage.put_if_absent("a", b"whole")
    storage.remove()
    assert storage.names() == []


def test_a_disk_without_second_names_still_puts_if_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    storage = Storage(tmp_path)
    assert storage.put_if_absent("a", b"first")
    assert not storage.put_if_absent("a", b"second")
    assert storage.read("a").to_pybytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        Storage(tmp_path).put_if_absent("a", b"x")
    assert list(tmp_path.iterdir()) == []


# --- places ----------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["s3://me:secret@town/a", "file:///a", "hdfs://a/b"])
def test_an_address_is_refused_and_a_secret_in_it_not_repeated(address: str):
    with pytest.raises(
        ConfigError, match="found an address, expected a folder: a bucket"
    ) as caught:
        storage_at(address)
    assert "secret" not in str(caught.value)
