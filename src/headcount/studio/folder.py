"""A folder whose files are named from outside, by a browser: nothing beyond it, and no links.

What a name, a config or a link says cannot lead out of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from headcount.errors import ConfigError
from headcount.files import POSIX, open_own, stranger

if TYPE_CHECKING:
    from headcount.config.load import Config


@dataclass(frozen=True)
class Folder:
    """A folder by its true path."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> Folder:
        """The folder of a path, which must be there."""
        if not path.is_dir():
            raise ConfigError(str(path), found="no folder", expected="a folder to work in")
        return cls(path.resolve())

    def inside(self, name: str) -> Path:
        """The path of a name inside the folder; links, and names that lead out, are refused."""
        parts = PurePosixPath(name).parts
        odd = not name.isprintable() or name.startswith("/") or "\\" in name
        odd = odd or not parts or (":" in name and not POSIX)
        if odd or any(part in ("..", ".") for part in parts):
            raise self._refused(name, "a path that leads elsewhere")
        return self._plain(self.root.joinpath(*parts), name)

    def read(self, name: str) -> str:
        """The text of a file inside the folder, reached through no link; "" where there is none."""
        path = self.inside(name)
        if not path.is_file():
            return ""
        with os.fdopen(open_own(path), encoding="utf-8") as file:
            return file.read()

    def name_of(self, path: Path) -> str:
        """The one name of a path inside the folder; one outside, or behind a link, is refused.

        No name begins with a hyphen, so that no command takes it for an option.
        """
        whole = Path(os.path.normpath(self.root / path))
        if not whole.is_relative_to(self.root):
            raise self._refused(str(path), "a path outside")
        self._plain(whole, str(path))
        name = whole.relative_to(self.root).as_posix()
        return f"./{name}" if name.startswith("-") else name

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

    def _refused(self, name: str, why: str) -> ConfigError:
        return ConfigError(
            name or "file",
            found=why,
            expected=f"a file of your own inside the folder of the studio ({self.root.name}), "
            "without links; the studio can be started in a folder that holds it",
        )

    def confine(self, config: Config) -> Config:
        """The same config, when every file that it names is inside the folder."""
        from headcount.config.load import paths_in

        if "://" in (config.run.workspace or ""):
            raise self._refused(str(config.run.workspace), "a path outside")
        if config.run.ledger is not None:
            self._confine_ledger(config.run.ledger)
        for path in paths_in(config):
            self.name_of(path)
        return config

    def _confine_ledger(self, ledger: Path) -> None:
        try:
            self.name_of(ledger)
        except ConfigError as error:
            raise ConfigError(
                "run",
                place="ledger",
                found=f"{error.found}: {error.source}",
                expected=f"a ledger inside the folder of the studio ({self.root.name}). Start the "
                "studio in a folder that holds both, or run this config by command: "
                "`headcount protect` may use a ledger anywhere",
            ) from None
