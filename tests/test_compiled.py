"""Compiled code is kept for exactly the sources it was made from."""

import shutil
from pathlib import Path

import headcount
from headcount import compiled

PACKAGE = Path(headcount.__file__).parent


def test_the_cache_changes_with_any_source(tmp_path, monkeypatch):
    copy = tmp_path / "headcount"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = compiled.cache_folder(copy)
    assert before.parent == tmp_path / "cache" / "headcount"
    assert compiled.cache_folder(copy) == before
    kernel = copy / "solve" / "_paths.py"
    kernel.write_text(kernel.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    assert compiled.cache_folder(copy) != before


def test_every_kernel_goes_through_the_one_cache():
    direct = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "from numba import" in path.read_text(encoding="utf-8") and path.name != "compiled.py"
    ]
    assert direct == []
