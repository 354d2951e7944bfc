"""Folders by which work is handed over: private, gone in the end, and known when left behind."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headcount import engines
from headcount.engines import handed_folder, left_behind, remove_left_behind
from headcount.engines.spark import _HandedWork, _libraries, _PiecePlace, _refuse_others, lacking
from headcount.errors import ConfigError, RunError
from headcount.files import removing

KILLED = """
import os, signal, sys
from pathlib import Path
from headcount.engines import handed_folder
with handed_folder(Path(sys.argv[1])) as own:
    (own / "pieces-0").write_text("counts")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def doubled(number: int) -> int:
    return 2 * number


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_a_folder_is_its_owners_alone_and_so_are_those_made_above_it(tmp_path: Path):
    before = os.umask(0o002)
    try:
        with handed_folder(tmp_path / "run" / "internal") as own:
            (own / "function").write_bytes(b"x")
            made = [own, *own.parents][:3]
            assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o700] * 3
    finally:
        os.umask(before)
    assert list((tmp_path / "run" / "internal").iterdir()) == []


def test_a_folder_of_a_process_that_was_killed_is_left_behind_and_one_in_use_is_not(tmp_path: Path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, check=False)
    (tmp_path / "handed-new").mkdir()  # just being made, by another process
    (tmp_path / "handed-new" / "lock.new").touch()
    (tmp_path / "handed-old").mkdir()  # as an older version left it
    (tmp_path / "handed-old" / "pieces-0").touch()
    with handed_folder(tmp_path) as own:
        left = left_behind(tmp_path)
        assert len(left) == 2
        assert {own, tmp_path / "handed-new"}.isdisjoint(left)
        assert any((one / "lock").exists() for one in left)
        remove_left_behind(tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted([own, tmp_path / "handed-new"])
    assert list(tmp_path.iterdir()) == [tmp_path / "handed-new"]


def test_a_file_that_is_written_while_a_folder_goes_goes_too(tmp_path: Path, monkeypatch):
    real, tried = shutil.rmtree, []

    def first_too_early(folder: Path) -> None:
        tried.append(folder)
        if len(tried) == 1:
            raise OSError(39, "Directory not empty", str(folder))
        real(folder)

    monkeypatch.setattr(engines, "PAUSE", 0)
    monkeypatch.setattr(shutil, "rmtree", first_too_early)
    with handed_folder(tmp_path):
        pass
    assert (len(tried), list(tmp_path.iterdir())) == (2, [])


def test_a_folder_that_cannot_be_removed_is_an_error(tmp_path: Path, monkeypatch):
    def never(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(engines, "PAUSE", 0)
    monkeypatch.setattr(shutil, "rmtree", never)
    with pytest.raises(PermissionError, match="handed-"), handed_folder(tmp_path):
        pass


def test_the_first_error_is_raised_and_that_files_are_left_is_logged(caplog):
    def fails() -> None:
        raise RunError("s3://a: found 1 objects that cannot be removed")

    with pytest.raises(ZeroDivisionError), removing(fails, "s3://a"):
        raise ZeroDivisionError
    assert "s3://a: confidential files are left there (s3://a: found 1 objects" in caplog.text
    with pytest.raises(RunError, match="cannot be removed"), removing(fails, "s3://a"):
        pass


def test_java_is_looked_for_where_spark_does(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert lacking()[:1] == ["Java"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    assert "Java" not in lacking()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Java" not in lacking()


@pytest.mark.parametrize("name", ["numba", "polars", "pyarrow"])
def test_a_worker_with_another_version_of_what_makes_numbers_is_refused(name: str):
    with pytest.raises(ConfigError, match=rf"found {name} \S+, expected 0\.0, as on the driver"):
        _refuse_others({**_libraries(), name: "0.0"})


@pytest.fixture
def work(tmp_path: Path) -> tuple[_HandedWork[int, int], _PiecePlace]:
    """Two pieces that are handed out; the place of the second."""
    made = _HandedWork[int, int](tmp_path)
    made.put_function(doubled)
    _, second = made.put_pieces(0, [4, 5])
    return made, second


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["function", "pieces-0", "result-0-1"])
def test_a_wrong_bit_in_what_is_handed_over_is_found_before_it_is_unpickled(work, name, tmp_path):
    made, second = work
    if name.startswith("result"):
        made.do(second)
    flip(tmp_path / name)
    if not name.startswith("result"):
        made.do(second)
    with pytest.raises(RunError, match=f"{name}: this file is not as it was written"):
        made.take(second)


def test_a_result_that_is_not_there_is_named(work):
    made, second = work
    with pytest.raises(RunError, match="result-0-1: the result of a piece of work is gone"):
        made.take(second)
    made.do(second)
    assert made.take(second) == 10
