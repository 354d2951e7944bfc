"""Configs as texts that are edited here and elsewhere: nothing is lost, all can be undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from headcount.errors import ConfigError
from headcount.files import MOST_BYTES, parse_toml, write_bytes_atomic
from headcount.studio.folder import Folder

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from headcount.config.load import Config

MOST_UNDO = 200


@dataclass(frozen=True)
class _Text:
    """A config as it was read, by which an edit says what it is based on."""

    name: str
    path: Path
    content: bytes

    @property
    def text(self) -> str:
        """Its text, with line ends of one kind."""
        text = self.content.decode("utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n")

    @property
    def version(self) -> str:
        """Which text it is."""
        return sha256(self.content).hexdigest()[:20]


@dataclass
class Texts:
    """The configs of a folder, with what they were before and after each edit made here."""

    folder: Folder
    _edits: dict[Path, list[tuple[bytes, bytes]]] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def read(self, name: str) -> _Text:
        """The text of a config, whether or not it is a good one."""
        path = self.folder.inside(name)
        if path.suffix != ".toml" or not path.is_file():
            raise ConfigError(name, found="no such config", expected="a .toml file in the folder")
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(name, found="a large file", expected=f"at most {MOST_BYTES:,} bytes")
        read = _Text(name, path, path.read_bytes())
        try:
            read.text  # noqa: B018 - only whether there is one
        except UnicodeDecodeError:
            raise ConfigError(name, found="a file that is not UTF-8", expected="TOML") from None
        return read

    def load(self, name: str, *, only_if: str = "") -> Config:
        """The config of a name, whose files are all inside the folder; ``only_if`` a SHA-256."""
        from headcount.config.load import load_config  # with all methods: not for the first screen

        return self.folder.confine(load_config(self.read(name).path, only_if=only_if))

    def can_undo(self, text: _Text) -> bool:
        """Whether there is an edit to take back, and the text is still as that edit left it."""
        edits = self._edits.get(text.path, [])
        return bool(edits) and edits[-1][1] == text.content

    def overtaken(self, text: _Text) -> bool:
        """Whether the text was changed elsewhere after an edit made here."""
        return bool(self._edits.get(text.path)) and not self.can_undo(text)

    def save(
        self, name: str, new: str, *, based_on: str, first: Callable[[], object] | None = None
    ) -> _Text:
        """Replace a text by another that is a good config; refused if it has changed meanwhile.

        ``first`` is done before it is replaced, and not for a text that is refused.
        """
        from headcount.config.load import read_config
        from headcount.typed import located

        with self._lock:
            old = self.unchanged(name, based_on)
            if new == old.text and first is None:
                return old
            read = read_config(parse_toml(new, source=name), source=name)
            self.folder.confine(located(read, old.path.absolute().parent))
            if first is not None:
                first()
            if new == old.text:
                return old
            edits = self._edits.setdefault(old.path, [])
            edits.append((old.content, new.encode()))
            del edits[:-MOST_UNDO]
            write_bytes_atomic(old.path, new.encode())
            return self.read(name)

    def edit(
        self,
        name: str,
        change: Callable[[TOMLDocument], None],
        *,
        based_on: str,
        first: Callable[[], object] | None = None,
    ) -> _Text:
        """Change values of a config, as ``save`` does; comments and order stay as they are."""
        from headcount.config.edit import edited

        with self._lock:
            old = self.unchanged(name, based_on)
            new = edited(old.text, change, source=name)
            return self.save(name, new, based_on=based_on, first=first)

    def undo(self, name: str, *, based_on: str) -> _Text:
        """Take back the last edit, unless somebody has changed the file since."""
        with self._lock:
            old = self.unchanged(name, based_on)
            if self.overtaken(old):
                raise ConfigError(
                    name,
                    found="a text that was changed elsewhere after the last edit made here",
                    expected="the text as the studio left it: undo the later change first",
                )
            if not self.can_undo(old):
                raise ConfigError(name, found="no edit", expected="one to undo")
            before, _ = self._edits[old.path].pop()
            write_bytes_atomic(old.path, before)
            return self.read(name)

    def unchanged(self, name: str, based_on: str) -> _Text:
        """The text of a config, which must be the one that a page has shown."""
        old = self.read(name)
        if old.version != based_on:
            raise ConfigError(
                name,
                found="another text than the one that this edit began with (another tab or an "
                "editor has changed it)",
                expected="the same: load the page again and repeat the edit",
            )
        return old
