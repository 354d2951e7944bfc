"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headcount import files
from headcount.files import from_json, write_bytes_atomic, write_text_atomic


def test_text_and_bytes_are_written_as_given(tmp_path: Path):
    write_text_atomic(tmp_path / "a.txt", "ε = 1\r\nend")
    write_bytes_atomic(tmp_path / "b.bin", b"\x00\xff")
    assert (tmp_path / "a.txt").read_bytes() == "ε = 1\r\nend".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"


def test_an_old_file_is_replaced(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old and longer")
    write_text_atomic(path, "new")
    assert path.read_text() == "new"


def test_a_failure_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full_disk(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_text_atomic(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_the_file_has_the_permissions_of_any_other_file_of_an_open_folder(tmp_path: Path):
    tmp_path.chmod(0o755)
    (tmp_path / "plain.txt").write_text("x")
    write_text_atomic(tmp_path / "atomic.txt", "x")
    modes = {(tmp_path / name).stat().st_mode for name in ("plain.txt", "atomic.txt")}
    assert len(modes) == 1


def test_a_missing_directory_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        write_text_atomic(tmp_path / "none" / "a.txt", "x")


def test_large_temporary_files_are_on_a_disk_unless_a_folder_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Path | None] = []
    monkeypatch.setattr(files, "TemporaryFile", lambda dir: asked.append(dir))
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    for folder in (tmp_path, tmp_path / "none"):
        monkeypatch.setattr(files, "ON_DISK", folder)
        files.scratch_file()
    monkeypatch.setattr(files, "ON_DISK", tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "chosen"))
    files.scratch_file()
    assert asked == [tmp_path, None, None]


def test_json_that_is_nested_too_deeply_is_damage_like_any_other():
    assert from_json('{"a": [1]}') == {"a": [1]}
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json("[" * 100_000)
    with pytest.raises(ValueError, match="Expecting"):
        from_json("{")
