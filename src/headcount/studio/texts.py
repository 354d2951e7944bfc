"""Configs as texts that are edited here and elsewhere: nothing is lost, all can be undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.exceptions import TOMLKitError

from headcount.errors import ConfigError, InputError
from headcount.files import write_text_atomic
from headcount.studio.folder import Folder
from headcount.toml_files import MOST_BYTES, parse_toml
from headcount.typed import located

if TYPE_CHECKING:
    from headcount.config.settings import Config

MOST_UNDO = 200


@dataclass(frozen=True)
class Text:
    """The text of a config as it was read, by which an edit says what it is based on."""

    name: str
    path: Path
    text: str

    @property
    def version(self) -> str:
        """Which text it is."""
        return sha256(self.text.encode()).hexdigest()[:20]


@dataclass
class Texts:
    """The configs of a folder, with what they were before each edit made here."""

    folder: Folder
    _before: dict[Path, list[str]] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def read(self, name: str) -> Text:
        """The text of a config, whether or not it is a good one."""
        path = self.folder.inside(name)
        if path.suffix != ".toml" or not path.is_file():
            raise InputError(name, found="no such config", expected="a .toml file in the folder")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(name, found="a large file", expected=f"at most {MOST_BYTES:,} bytes")
        try:
            return Text(name, path, path.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError:
            raise InputError(name, found="a file that is not UTF-8", expected="TOML") from None

    def load(self, name: str, *, only_if: str = "") -> Config:
        """The config of a name, whose files are all inside the folder; ``only_if`` a SHA-256."""
        from headcount.config.load import load_config  # with all methods: not for the first screen

        return self.folder.confine(load_config(self.read(name).path, only_if=only_if))

    def can_undo(self, text: Text) -> bool:
        """Whether there is an edit to take back."""
        return bool(self._before.get(text.path))

    def save(self, name: str, new: str, *, based_on: str) -> Text:
        """Replace a text by another that is a good config; refused if it has changed meanwhile."""
        with self._lock:
            old = self._same(name, based_on)
            if new == old.text:
                return old
            self._check(new, old)
            kept = self._before.setdefault(old.path, [])
            kept.append(old.text)
            del kept[:-MOST_UNDO]
            write_text_atomic(old.path, new)
            return self.read(name)

    def edit(
        self, name: str, change: Callable[[tomlkit.TOMLDocument], None], *, based_on: str
    ) -> Text:
        """Change values of a config; comments and order stay as they are."""
        with self._lock:
            old = self._same(name, based_on)
            parse_toml(old.text, source=name)  # refuses what would take tomlkit long
            try:
                document = tomlkit.parse(old.text)
            except TOMLKitError as error:
                raise ConfigError(name, found=f"no TOML ({error})", expected="TOML") from None
            change(document)
            return self.save(name, tomlkit.dumps(document), based_on=based_on)

    def undo(self, name: str, *, based_on: str) -> Text:
        """Take back the last edit."""
        with self._lock:
            old = self._same(name, based_on)
            kept = self._before.get(old.path)
            if not kept:
                raise InputError(name, found="no edit", expected="one to undo")
            write_text_atomic(old.path, kept.pop())
            return self.read(name)

    def _same(self, name: str, based_on: str) -> Text:
        old = self.read(name)
        if old.version != based_on:
            raise InputError(
                name,
                found="another text than the one that this edit began with (another tab or an "
                "editor has changed it)",
                expected="the same: load the page again and repeat the edit",
            )
        return old

    def _check(self, new: str, old: Text) -> None:
        """Refuse a text that is no config, or names files outside."""
        from headcount.config.load import read_config

        read = read_config(parse_toml(new, source=old.name), source=old.name)
        self.folder.confine(located(read, old.path.absolute().parent))
