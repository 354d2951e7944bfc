"""The one folder that the studio may see: paths inside it, and no link that leads elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from headcount.errors import InputError
from headcount.files import stranger

if TYPE_CHECKING:
    from headcount.config.settings import Config

DEEPEST, MOST_FILES = 4, 2_000
"""Folders below the first that are looked through, and files that are listed."""

TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".xlsx", ".xls", ".dta", ".sav", ".zsav")
"""Endings of files that ``headcount init`` can look at."""

LEDGERS = (".sqlite", ".ledger", ".db")


@dataclass(frozen=True)
class Folder:
    """A folder by its true path."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> Folder:
        """The folder of a path, which must be there."""
        if not path.is_dir():
            raise InputError(str(path), found="no folder", expected="a folder to work in")
        return cls(path.resolve())

    def inside(self, name: str) -> Path:
        """The path of a name inside the folder; links, and names that lead out, are refused."""
        parts = PurePosixPath(name).parts
        odd = not parts or name.startswith("/") or "\0" in name or "\\" in name or ":" in name
        if odd or any(part in ("..", ".") for part in parts):
            raise self._refused(name, "a path that leads elsewhere")
        return self._plain(self.root.joinpath(*parts), name)

    def name_of(self, path: Path) -> str:
        """The name of a path inside the folder; one outside, or behind a link, is refused."""
        whole = Path(os.path.normpath(self.root / path))
        if not whole.is_relative_to(self.root):
            raise self._refused(str(path), "a path outside")
        self._plain(whole, str(path))
        return whole.relative_to(self.root).as_posix()

    def _plain(self, path: Path, name: str) -> Path:
        """The same path, when neither it nor a folder on the way to it is a link."""
        steps = path.relative_to(self.root).parts
        for number in range(1, len(steps) + 1):
            step = self.root.joinpath(*steps[:number])
            if not os.path.lexists(step):
                break
            if why := stranger(step.lstat()):
                raise self._refused(name, why)
        return path

    def _refused(self, name: str, why: str) -> InputError:
        return InputError(
            name or "file",
            found=why,
            expected="a file of your own inside the folder of the studio, without links",
        )

    def confine(self, config: Config) -> Config:
        """The same config, when every file that it names is inside the folder."""
        if "://" in (config.run.workspace or ""):
            raise self._refused(str(config.run.workspace), "a path outside")
        from headcount.config.files import paths_in

        for path in paths_in(config):
            self.name_of(path)
        return config

    def files(self) -> Iterator[tuple[str, Path]]:
        """Names and paths of plain files, in order; what is hidden or behind a link is left out."""
        left = MOST_FILES
        for top, folders, names in os.walk(self.root):
            depth = len(Path(top).relative_to(self.root).parts)
            folders[:] = sorted(
                one for one in folders if depth < DEEPEST and _listed(Path(top, one))
            )
            for path in (Path(top, name) for name in sorted(names)):
                if left and _listed(path):
                    left -= 1
                    yield path.relative_to(self.root).as_posix(), path


def _listed(path: Path) -> bool:
    """Whether a file or folder is shown: hidden ones, internal halves and links are not."""
    try:
        return not path.name.startswith(".") and not stranger(path.lstat())
    except OSError:  # gone since
        return False
