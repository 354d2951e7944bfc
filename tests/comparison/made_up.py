"""A study of a few files, found as every study is: by an entry point of its distribution."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "some-2000"
PACKAGE = "some_2000"


@contextmanager
def made_up_study(folder: Path, files: dict[str, str]) -> Iterator[Path]:
    """Install a package with these files as pip would, where Python looks first."""
    package = folder / PACKAGE
    package.mkdir()
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).write_text(text, encoding="utf-8")
    info = folder / f"{PACKAGE}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-2000\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[headcount.studies]\n{NAME} = {PACKAGE}:STUDY\n")
    sys.path.insert(0, str(folder))
    try:
        yield package
    finally:
        sys.path.remove(str(folder))
        for name in [one for one in sys.modules if one.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
