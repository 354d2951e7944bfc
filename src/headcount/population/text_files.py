"""Text files with delimiters: how they are written, packed by gzip or not, in any encoding."""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BufferedReader, BytesIO, StringIO
from itertools import islice, takewhile
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.compiled import kernel
from headcount.errors import InputError, Problems
from headcount.processes import memory_limit

SPACES = "\u0020\u00a0\u2009\u202f"
"""Blanks that stand between thousands."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How the files of a population are written.

    where
        delimiter   the sign between the fields of a text file; left out, the one of comma,
                    semicolon, tab and bar that splits the header into most fields
        encoding    that of a text file; a byte order mark at its start is believed first
        decimal     the sign before decimals of counts and years
        thousands   the sign between thousands of counts
        sheet       the sheet of an Excel file; left out, the first
    """

    delimiter: str = ""
    encoding: str = "utf-8"
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    sheet: str = ""

    def __post_init__(self) -> None:
        if len(self.delimiter.encode()) > 1 or self.delimiter in ('"', "\n", "\r"):
            raise InputError(
                "format",
                place="delimiter",
                found=repr(self.delimiter),
                expected=r'one sign such as ";" or "\t", no quotation mark',
            )
        try:
            codecs.lookup(self.encoding)
        except (LookupError, ValueError):
            raise InputError(
                "format",
                place="encoding",
                found=repr(self.encoding),
                expected='the name of an encoding such as "utf-8", "cp1252" or "latin-1"',
            ) from None
        if self.thousands == self.decimal:
            raise InputError(
                "format",
                place="thousands",
                found=f"{self.thousands!r}, which is the decimal sign too",
                expected="two different signs",
            )

    def plain(self, numbers: pl.Series) -> pl.Series:
        """Numbers as text, written without signs between thousands and with a decimal point."""
        text = numbers.str.strip_chars()
        if self.thousands:
            # Only where they part groups of three digits: "1,23" is not 123.
            signs = f"[{SPACES}]" if self.thousands == " " else f"[{self.thousands}]"
            grouped = text.str.contains(rf"^\d{{1,3}}({signs}\d{{3}})+([.,]\d*)?$")
            text = pl.select(
                pl.when(grouped.fill_null(False))
                .then(text.str.replace_all(signs, ""))
                .otherwise(text)
            ).to_series()
        if self.decimal == ",":
            # A point is then no decimal sign: "1.234" is refused, not read as 1.
            text = text.str.replace_all(".", "?", literal=True).str.replace(",", ".", literal=True)
        return text.alias(numbers.name)


PLAIN = Format()


SUFFIXES = (".csv", ".tsv", ".txt")
PACKED = ".gz"
DELIMITERS = (",", ";", "\t", "|")

SAMPLE = 1 << 20
"""Bytes by which an encoding is judged."""

LARGER_AS_TEXT = 3
"""Memory that a text file takes, in sizes of the file."""

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")
"""How gzip, zstd and zlib begin: polars would unpack such a file unasked, whatever its size."""

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
"""Byte order marks, and what they mark."""

_LIKELY = ("cp1252", "cp1250", "cp1251", "iso8859-2", "cp1253", "cp1254", "shift_jis", "gb18030")

TooLarge = Callable[[int, int], InputError]
"""The error about a file of so many bytes that takes so many."""


@dataclass(frozen=True)
class TextFile:
    """A text file that was found to be readable, and its header.

    ``content`` is its text in UTF-8, where the file itself is packed or in another encoding.
    """

    path: Path
    delimiter: str
    encoding: str
    header: tuple[str, ...]
    content: bytes | None = field(default=None, repr=False)

    def scan(self) -> pl.LazyFrame:
        """The table, everything as text: codes keep their leading zeros."""
        source = self.path if self.content is None else BytesIO(self.content)
        return pl.scan_csv(source, infer_schema=False, separator=self.delimiter, glob=False)

    def part(self, start: int, stop: int) -> TextFile:
        """Some whole records of the file, given by their bytes, as a text with the same header."""
        with self.path.open("rb") as file:
            file.seek(start)
            some = file.read(stop - start)
        if not start:
            return replace(self, content=some)
        header = StringIO()
        csv.writer(header, delimiter=self.delimiter, lineterminator="\n").writerow(self.header)
        return replace(self, content=header.getvalue().encode() + some)

    def lines(self, rows: Sequence[int]) -> list[str]:
        """The lines on which rows begin, by their positions; a quoted field may hold several."""
        wanted, found = set(rows), {}
        try:
            for row, (line, _) in enumerate(self._records(), start=-1):
                if row in wanted:
                    found[row] = line
                    if len(found) == len(wanted):
                        break
        except csv.Error:  # a field of more than 131,072 characters
            pass
        return [f"line {found[row]}" if row in found else f"row {row + 1}" for row in rows]

    def lines_before_header(self) -> int:
        """Blank lines at the top."""
        with self._open() as text:
            return sum(1 for _ in takewhile(lambda line: not line.strip("\r\n"), text))

    def parted_below(self, *, sample: int = 200) -> bool:
        """Whether most lines below the first have a delimiter: then a title may be above them."""
        with self._open() as text:
            lines = [line for line in islice(text, sample) if line.strip()][1:]
        return 2 * sum(any(one in line for one in DELIMITERS) for line in lines) > len(lines)

    def rows_below(self, number: int) -> list[list[str]]:
        """The fields of the first rows below the header, as far as they can be read."""
        found: list[list[str]] = []
        with suppress(csv.Error):  # a field of more than 131,072 characters
            for _, fields in islice(self._records(), 1, 1 + number):
                found.append(fields)
        return found

    def refuse_longer(self) -> None:
        """Refuse rows with more fields than the header has."""
        problems = Problems(str(self.path), self.lines)
        width = len(self.header)
        try:
            sizes = {
                row: len(fields)
                for row, (_, fields) in enumerate(self._records(), start=-1)
                if len(fields) > width
            }
        except csv.Error:
            return
        problems.add(
            list(sizes),
            found=lambda row: f"{sizes[row]} fields",
            expected=f"{width} at most, as in the header (is the delimiter {self.delimiter!r}?)",
        )
        problems.refuse()

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Each record from the header on, and the line on which it begins."""
        with self._open() as text:
            reader = csv.reader(text, delimiter=self.delimiter)
            line, begun = 1, False
            for fields in reader:
                begun = begun or bool(fields)  # blank lines before the header are no records
                if begun:
                    yield line, fields
                line = reader.line_num + 1

    def _open(self) -> TextIO:
        if self.content is not None:
            return StringIO(self.content.decode("utf-8-sig", errors="replace"), newline="")
        return self.path.open(encoding="utf-8-sig", errors="replace", newline="")


def is_text(path: Path) -> bool:
    """Whether a file's name says that it is text, packed or not."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [PACKED]:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in SUFFIXES


def open_text(path: Path, form: Format, too_large: TooLarge, *, whole: bool = True) -> TextFile:
    """Open a text file: unpacked and decoded if need be, with its delimiter and header.

    One that is to be read whole, or that must be unpacked or decoded, has to fit into memory.
    """
    name, packed = str(path), path.suffix.lower() == PACKED
    most = memory_limit() // LARGER_AS_TEXT
    with path.open("rb") as file:  # a file that may not be read is the system's error, not damage
        start = file.read(4)
    if not packed and start.startswith(_COMPRESSED):
        raise InputError(
            name,
            found="compressed content",
            expected="plain text (a file that ends in .gz is unpacked)",
        )
    size = path.stat().st_size
    if size > most and (whole or packed):
        raise too_large(size, LARGER_AS_TEXT * size)
    raw = _unpacked(path, most, too_large) if packed else None
    start = start if raw is None else raw[:4]
    marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "")
    encoding = marked or form.encoding
    content = raw
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "ascii", "utf-8-sig"):
        if size > most:
            raise too_large(size, LARGER_AS_TEXT * size)
        content = _decoded(path.read_bytes() if raw is None else raw, encoding, name)
    made = TextFile(path, form.delimiter or ",", encoding, (), content)
    delimiter = form.delimiter or max(DELIMITERS, key=lambda one: len(_header(made, one)))
    return TextFile(path, delimiter, encoding, tuple(_header(made, delimiter)), content)


def _header(file: TextFile, delimiter: str) -> list[str]:
    """The header's fields, were this the delimiter."""
    try:
        with file._open() as text:
            return next((fields for fields in csv.reader(text, delimiter=delimiter) if fields), [])
    except csv.Error:
        return []


def _unpacked(path: Path, most: int, too_large: TooLarge) -> bytes:
    try:
        with gzip.open(path) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            str(path),
            found=f"content that cannot be unpacked ({error})",
            expected="a file packed by gzip",
        ) from None
    if len(content) > most:
        raise too_large(len(content), LARGER_AS_TEXT * len(content))
    return content


def _decoded(raw: bytes, encoding: str, name: str) -> bytes:
    try:
        return raw.decode(encoding).encode()
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = raw[:start].count(b"\n") + 1
        raise InputError(
            name,
            place=f"line {line}",
            found=f"bytes that are not {encoding}",
            expected='text in its encoding, such as encoding = "cp1252" under [population.format]',
        ) from None


def not_utf8(path: Path) -> InputError:
    """The error about a file in another encoding than UTF-8, with a guess at which."""
    with _opened(path) as file:
        wrong = next((line for line in file if not _decodes(line)), b"")
        guess = _other_encoding(wrong + file.read(SAMPLE), whole=False)
    return InputError(
        str(path),
        found="bytes that are not UTF-8",
        expected=f'text in UTF-8 (encoding = "{guess}" under [population.format] may be right)',
    )


def likely_encoding(path: Path) -> str:
    """The encoding of a text file, judging by its beginning."""
    with _opened(path) as file:
        raw = file.read(SAMPLE)
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return encoding
    whole = len(raw) < SAMPLE
    # A sample may end within a character.
    if any(_decodes(raw[: len(raw) - cut]) for cut in range(1 if whole else 4)):
        return "utf-8"
    return _other_encoding(raw, whole=whole)


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if path.suffix.lower() == PACKED else path.open("rb")


def _other_encoding(raw: bytes, *, whole: bool) -> str:
    """The encoding of some lines that are not UTF-8; unless they are whole the last may be cut."""
    from charset_normalizer import from_bytes

    # Only what is not ASCII tells encodings apart.
    lines = [line for line in raw.split(b"\n") if not line.isascii()]
    telling = lines if whole or len(lines) == 1 else lines[:-1]
    found = list(from_bytes(b"\n".join(telling), cp_isolation=list(_LIKELY), threshold=0.5))
    best = min((one.chaos for one in found), default=1.0)
    names = [
        name
        for one in found
        if one.chaos <= best + 0.02
        for name in (one.encoding, *one.could_be_from_charset)  # others read it the same way
    ]
    return "cp1252" if "cp1252" in names or not names else names[0]


def _decodes(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


NEWLINE, RETURN, QUOTE = ord("\n"), ord("\r"), ord('"')


@kernel
def last_cut(text: NDArray[np.uint8], delimiter: int) -> tuple[int, int]:
    """The last place between two records, neither of which is a blank line, and records before it.

    A record ends at a line's end outside quotation marks, which open at the start of a field only.
    Nothing but 0 where there is no such place.
    """
    cut = records = before = 0
    quoted, opens, blank = False, True, True
    for at in range(len(text)):
        sign = text[at]
        if sign == QUOTE and (quoted or opens):
            quoted = not quoted  # a doubled mark closes and opens again
            opens, blank = True, False
        elif sign == NEWLINE and not quoted:
            records += 1
            after = text[at + 1] if at + 1 < len(text) else NEWLINE
            if not blank and after != NEWLINE and after != RETURN:
                cut, before = at + 1, records
            opens, blank = True, True
        else:
            opens = sign == delimiter and not quoted
            blank = blank and sign == RETURN
    return cut, before
