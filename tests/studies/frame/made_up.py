"""A study of a few files, found as every study is: by its package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import headcount.studies

NAME = "some-2000"
PACKAGE = "headcount.studies.some_2000"


@contextmanager
def made_up_study(folder: Path, files: dict[str, str]) -> Iterator[Path]:
    """Put a package with these files beside the studies that are shipped."""
    package = folder / "some_2000"
    package.mkdir()
    for name, text in {"__init__.py": "", **files}.items():
        (package / name).write_text(text, encoding="utf-8")
    headcount.studies.__path__.append(str(folder))
    try:
        yield package
    finally:
        headcount.studies.__path__.remove(str(folder))
        for name in [one for one in sys.modules if one.startswith(PACKAGE)]:
            del sys.modules[name]
