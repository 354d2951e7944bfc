"""What kind of file something is: its first bytes decide, its ending is a hint."""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

from headcount.errors import InputError, one_of
from headcount.population.text_files import ENDINGS, PACKED, TooLarge, is_packed, unpacked
from headcount.processes import SETTING, gib, memory_limit

Kind = Literal[
    "text",
    "excel",
    "parquet",
    "arrow",
    "stata",
    "spss",
    "sas",
    "r",
    "px",
    "json-stat",
    "summary",
    "zip",
]

EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")

BY_ENDING: dict[str, Kind] = {
    ".parquet": "parquet",
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys(EXCEL, "excel"),
    ".dta": "stata",
    **dict.fromkeys((".sav", ".zsav", ".por"), "spss"),
    **dict.fromkeys((".sas7bdat", ".xpt"), "sas"),
    **dict.fromkeys((".rds", ".rda", ".rdata"), "r"),
    ".px": "px",
    **dict.fromkeys((".json", ".jsonstat"), "json-stat"),
    ".zip": "zip",
    ".pl": "summary",
    **dict.fromkeys(ENDINGS, "text"),
}

KNOWN = (
    *(".parquet", ".csv", ".tsv", ".txt"),
    *(one for one in BY_ENDING if one not in (".parquet", ".csv", ".tsv", ".txt")),
    *(f"{one}{PACKED}" for one in ENDINGS),
)
"""Endings of the files that can be read."""

SAS = bytes(12) + bytes.fromhex("c2ea8160b31411cfbd92080009c7318c181f1011")
_FIRST: tuple[tuple[bytes, Kind], ...] = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"FEA1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),  # a stream
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "excel"),
    (b"$FL2", "spss"),
    (b"$FL3", "spss"),
    (b"<stata_dta>", "stata"),
    (SAS, "sas"),
    (b"HEADER RECORD*******LIB", "sas"),
    (b"RDX2\n", "r"),
    (b"RDX3\n", "r"),
    (b"X\n\0\0\0\2", "r"),
    (b"X\n\0\0\0\3", "r"),
    (b"PK\3\4", "zip"),
    (b"PK\5\6", "zip"),
)
_BIG_STATA = re.compile(rb"[\x69-\x73][\x01\x02]\x01\x00")
_PX = re.compile(rb"\s*(CHARSET|AXIS-VERSION|CODEPAGE|LANGUAGE|CREATION-DATE|MATRIX)\s*=\s*[\"\d]")
_PAGE = re.compile(rb"\s*(<\?xml|<!doctype html|<html|<table|<meta|<head)", re.IGNORECASE)
_LINES = re.compile(rb"[,;\t|][^\n]*\r?\n")

START = 512


@dataclass(frozen=True)
class Stored:
    """A file, or a file within a zip."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.path}/{self.member}" if self.member else str(self.path)

    @property
    def ending(self) -> str:
        """The end of its name, in small letters; that before ``.gz``."""
        inner = PurePosixPath((self.member or self.path.name).lower())
        return PurePosixPath(inner.stem).suffix if inner.suffix == PACKED else inner.suffix

    def start(self) -> bytes:
        """Its first bytes, unpacked."""
        with self.opened() as file:
            start = file.read(START)
            file.seek(0)
            return unpacked(file, START) if is_packed(start) else start

    def content(self, *, larger: int = 4) -> bytes:
        """All of it, unpacked, if it fits into memory; it may take ``larger`` times its size."""
        most = memory_limit() // larger
        with self.opened() as file:
            packed = is_packed(file.read(8))
            size = file.seek(0, 2)
            file.seek(0)
            if size > most:
                raise too_large(self.name)(size, larger * size)
            found = unpacked(file, most + 1, name=self.name) if packed else file.read()
        if len(found) > most:
            raise too_large(self.name)(len(found), larger * len(found))
        return found

    def opened(self) -> BinaryIO:
        """The file, or what stands under its name in the zip."""
        if not self.member:
            return self.path.open("rb")
        try:
            with zipped(self.path) as archive:
                return BytesIO(archive.read(_member_of(self.path, self.member)))
        except DAMAGE as error:
            raise damaged(self.name, error) from None


DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError),
    *(RuntimeError, ValueError, TypeError, KeyError, OverflowError, MemoryError),
)
"""What readers stumble over in damaged files."""
GEO = re.compile(r"(^|/)[a-z]{2}geo20[0-9]{2}\.u?pl$", re.IGNORECASE)
"""The geographic header of a summary file."""


def damaged(name: str, error: BaseException | str, expected: str = "a table") -> InputError:
    """The error about content that cannot be read, with what its reader said of it."""
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return InputError(name, found=f"content that cannot be read ({first})", expected=expected)


class TooLargeError(InputError):
    """A table that does not fit into memory."""


def too_large(name: str) -> TooLarge:
    """What refuses a file that does not fit into memory."""

    def error(size: int, need: int) -> InputError:
        return TooLargeError(
            name, found=f"a file of {gib(size)}", expected=fitting(memory_limit(), need)
        )

    return error


def fitting(most: int, need: int) -> str:
    """What would fit into memory."""
    return (
        f"what fits into the {gib(most)} of memory here (this takes about {gib(need)}; if that is "
        f"too careful, set {SETTING} to the GiB that may be used)"
    )


def refuse_too_many(name: str, rows: int, columns: int, *, row: int = 64, value: int = 40) -> None:
    """Refuse a table that takes more than there is, by the bytes of a row and of a value."""
    need = rows * (row + columns * value)
    if need > (most := memory_limit()):
        raise TooLargeError(
            name, found=f"{rows:,} rows of {columns} columns", expected=fitting(most, need)
        )


def kind_of(file: Path | Stored) -> Kind:
    """What a file is."""
    stored = file if isinstance(file, Stored) else Stored(file)
    start = stored.start()
    by_ending = BY_ENDING.get(stored.ending, "text")
    for first, kind in _FIRST:
        if start.startswith(first):
            return _in_zip(stored) if kind == "zip" else kind
    if _BIG_STATA.match(start) and by_ending == "stata":
        return "stata"
    if _PX.match(start.removeprefix(b"\xef\xbb\xbf")):
        return "px"
    if by_ending == "excel" and _PAGE.match(start):
        raise InputError(
            stored.name,
            found="a web page or other markup under the ending of a sheet",
            expected="a sheet: open the file in an office program and save it as .xlsx or .csv",
        )
    if by_ending in ("excel", "r") and b"\0" not in start and _LINES.search(start):
        return "text"  # offices name texts so; a tau-Argus .rda is one
    return by_ending


def is_text(path: Path) -> bool:
    """Whether a file is text with delimiters, packed or not."""
    return kind_of(path) == "text"


def _in_zip(stored: Stored) -> Kind:
    """A sheet if it is packed like one, else a folder."""
    names = [one.filename for one in _entries(stored)]
    sheet = any(one.startswith("xl/") or one == "content.xml" for one in names)
    if any(map(GEO.search, names)) and not stored.member:
        return "summary"
    return "excel" if sheet else "zip"


def _entries(stored: Stored) -> list[zipfile.ZipInfo]:
    source = BytesIO(stored.content()) if stored.member else stored.path
    try:
        with zipfile.ZipFile(source) as archive:
            return archive.infolist()
    except DAMAGE as error:
        raise damaged(stored.name, error, "a zip file or a sheet") from None


def zipped(path: Path) -> zipfile.ZipFile:
    """A zip file; damage is an error."""
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise damaged(str(path), error, "a zip file") from None


def members(path: Path) -> list[str]:
    """The files in a zip, without those that systems add."""
    names = [one.filename for one in _entries(Stored(path)) if not one.is_dir()]
    own = [one for one in names if not one.startswith("__MACOSX/")]
    return sorted(one for one in own if not PurePosixPath(one).name.startswith("."))


def _member_of(path: Path, name: str) -> zipfile.ZipInfo:
    """What a zip says of a file in it."""
    known = {one.filename: one for one in _entries(Stored(path))}
    if name not in known:
        raise InputError(str(path), place="sheet", found=repr(name), expected=one_of(known))
    if (one := known[name]).flag_bits & 1:
        raise InputError(f"{path}/{name}", found="an encrypted file", expected="one without")
    if one.file_size > memory_limit() // 2:
        raise too_large(f"{path}/{name}")(one.file_size, 2 * one.file_size)
    return one
