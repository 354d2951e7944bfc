"""One cache for all studies: a piece is named by its inputs and by the code that makes it.

That code is the source of headcount that the piece's maker imports, and the versions of Python and
of the libraries that these sources import.
"""

from __future__ import annotations

import ast
import io
import json
import logging
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, Generic, TypeVar
from zipfile import BadZipFile, ZipFile

import polars as pl

from headcount.engines import remove_left_behind
from headcount.errors import InputError
from headcount.files import close_folder, make_private, write_bytes_atomic
from headcount.registry import STUDIES, entry_points

T = TypeVar("T")
Frames = dict[str, pl.DataFrame]
_PARSING = Lock()
"""Python 3.11 fails now and then when two threads parse at once."""

_log = logging.getLogger(__name__)
_HOME = Path(__file__).parents[1]
_AFTERWARDS = ("published.toml", "report.toml")
"""Files of a study's package that its pieces cannot depend on: they are read after all is made."""
DAMAGE = (BadZipFile, EOFError, InputError, KeyError, ValueError, pl.exceptions.PolarsError)


@dataclass(frozen=True, kw_only=True)
class Codec(Generic[T]):
    """How one kind of piece is written to a file and read back."""

    ending: str
    to_bytes: Callable[[T], bytes]
    from_bytes: Callable[[bytes], T]


@dataclass(frozen=True)
class Cache:
    """A folder of finished pieces; ``None`` keeps nothing.

    Pieces may tell exact counts: the folder is as confidential as the population.
    """

    folder: Path | None = None

    @classmethod
    def opened(cls, folder: Path | None) -> Cache:
        """The folder for a command that begins, or begins again after it was killed.

        Its owner alone can read it, and what a killed command had in it besides pieces goes.
        """
        if folder is not None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            if folder.is_dir():  # otherwise the first piece makes it
                close_folder(folder)
                remove_left_behind(folder)
        return cls(folder)

    def get(
        self, make: Callable[[], T], *, name: str, inputs: str, made_by: str, codec: Codec[T]
    ) -> T:
        """Read a piece, or make it and write it.

        where
            name      the first part of the file's name, for people
            inputs    all data and settings that the piece depends on
            made_by   the module that makes it, ``__name__``: its code and all that it imports
                      are part of the key, libraries by their versions

        A damaged file is named in a warning and made again: it only saves time.
        """
        if self.folder is None:
            return make()
        code = f"{source_digest(made_by)} {_library_versions(made_by)}"
        key = sha256(f"{code} {inputs}".encode()).hexdigest()[:24]
        path = self.folder / f"{name}-{key}.{codec.ending}"
        if path.is_file():
            try:
                return codec.from_bytes(path.read_bytes())
            except DAMAGE as error:
                _log.warning("%s: the file is damaged (%s) and is made again", path, error)
        made = make()
        make_private(path.parent)
        write_bytes_atomic(path, codec.to_bytes(made), mode=0o600)
        return made


def _frames_to_bytes(frames: Frames) -> bytes:
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        for name, frame in frames.items():
            content = io.BytesIO()
            frame.write_parquet(content)
            archive.writestr(name, content.getvalue())
    return stream.getvalue()


def _frames_from_bytes(data: bytes) -> Frames:
    with ZipFile(io.BytesIO(data)) as archive:
        return {name: pl.read_parquet(archive.read(name)) for name in archive.namelist()}


FRAMES: Codec[Frames] = Codec(
    ending="frames", to_bytes=_frames_to_bytes, from_bytes=_frames_from_bytes
)
"""Several tables by name."""
JSON: Codec[Any] = Codec(
    ending="json", to_bytes=lambda value: json.dumps(value).encode(), from_bytes=json.loads
)
"""Plain values."""


Homes = tuple[Path, ...]
"""Folders of the packages whose sources count, each of its package's name."""


def _homes(module: str) -> Homes:
    """Those of headcount, and of the package that a module is of, if that brings studies."""
    root = module.partition(".")[0]
    studies = {point.value.partition(".")[0] for point in entry_points(STUDIES)}
    spec = find_spec(root) if root in studies else None
    return (_HOME,) if spec is None or spec.origin is None else (_HOME, Path(spec.origin).parent)


@cache
def source_digest(module: str, homes: Homes = ()) -> str:
    """Digest of the source of a module and of all that it imports of headcount and its own package.

    Imports inside functions count, and the data files in the folders of all these modules. What
    is imported by a name put together at run time is not seen: a piece's maker imports the
    mechanisms that it uses by name.
    """
    homes = homes or _homes(module)
    if _file(module, homes) is None:
        raise InputError(
            "cache", place="made_by", found=repr(module), expected="a module of headcount"
        )
    found = sha256()
    for home in homes:
        own = (file for file in _imported_by(module, homes) if file.is_relative_to(home))
        for file in sorted(_files(frozenset(own))):
            found.update(str(file.relative_to(home)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


@cache
def _library_versions(module: str, homes: Homes = ()) -> str:
    """Python and the libraries that a module and all it imports of ours name, with versions.

    Imports inside functions count here too, and so a library that only draws figures. What these
    libraries rest on in turn does not, and one that is not installed has no version.
    """
    homes = homes or _homes(module)
    named = {
        name.split(".")[0]
        for file in _imported_by(module, homes)
        for name in _imports(file.read_text(encoding="utf-8"))
    }
    of_module = _distributions()
    found = {
        distribution: version(distribution)
        for name in named - {home.name for home in homes} - sys.stdlib_module_names
        for distribution in of_module.get(name, ())
    }
    listed = [f"python {platform.python_version()}"]
    return ", ".join(listed + [f"{name} {found[name]}" for name in sorted(found)])


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def _imported_by(module: str, homes: Homes = ()) -> frozenset[Path]:
    """The source files that a module needs: its own, those it imports, theirs, and so on."""
    homes = homes or _homes(module)
    found: set[Path] = set()
    names: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in names:
            continue
        names.add(name)
        file = _file(name, homes)
        if file is not None:
            found.add(file)
            waiting += _imports(file.read_text(encoding="utf-8"))
        if "." in name:  # a package's __init__ runs before its modules do
            waiting.append(name.rpartition(".")[0])
    return frozenset(found)


@cache
def _imports(source: str) -> tuple[str, ...]:
    """What a source may import when it runs: all but what is there for type checkers alone."""
    found: list[str] = []
    with _PARSING:
        waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.expr):
            waiting += ast.iter_child_nodes(node)
    return tuple(found)


@cache
def _file(module: str, homes: Homes) -> Path | None:
    """The file of a module of ours, or None: another library's, or a name in a module."""
    root, *parts = module.split(".")
    for home in homes:
        if home.name == root:
            place = home.joinpath(*parts)
            both = (place / "__init__.py", place.with_suffix(".py"))
            return next((file for file in both if file.is_file()), None)
    return None


def _files(sources: frozenset[Path]) -> Iterator[Path]:
    """The sources, and the data beside them and in folders without modules of their own."""
    yield from sources
    for folder in {file.parent for file in sources}:
        places = [folder, *(p for p in folder.iterdir() if p.is_dir() and not _has_modules(p))]
        for file in (file for place in places for file in place.iterdir()):
            later = file.parent == folder and file.name in _AFTERWARDS
            if file.is_file() and file.suffix not in (".py", ".pyc", ".md") and not later:
                yield file


def _has_modules(folder: Path) -> bool:
    """A package of presets has none but its ``__init__``: nobody imports it, it holds data."""
    modules = {file.name for file in folder.glob("*.py")} - {"__init__.py"}
    return folder.name == "__pycache__" or bool(modules)
