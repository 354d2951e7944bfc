"""Text files with delimiters: how they are written, packed by gzip or not, in any encoding."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import lzma
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedReader, BytesIO, StringIO, TextIOWrapper
from itertools import islice, takewhile
from math import inf
from pathlib import Path
from typing import BinaryIO, Literal, TextIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.compiled import kernel
from headcount.errors import InputError, Problems
from headcount.fields import FilePath
from headcount.processes import memory_limit

SPACES = "\u0020\u00a0\u2009\u202f"
"""Blanks that stand between thousands."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A table that says more of the rows of another, found by a key.

    where
        file        the table: a row for each value of the key
        key         the column of the key in the table of people
        other_key   that in this table, if it has another name
        columns     those that are added; left out, all that the table of people does not have
        encoding    that of the file, and
        sheet       its sheet, if they are not those of the table of people
    """

    file: FilePath
    key: str
    other_key: str = ""
    columns: tuple[str, ...] = ()
    encoding: str = ""
    sheet: str = ""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How the files of a population are written.

    where
        delimiter   the sign between the fields of a text file; left out, the one of comma,
                    semicolon, tab and bar that splits the header into most fields
        encoding    that of a text file; a byte order mark at its start is believed first
        decimal     the sign before decimals of counts and years
        thousands   the sign between thousands of counts
        sheet       the sheet of an Excel file, the file of a zip, the level of a summary file or
                    the table of an R file; left out, the first
        sheets      sheets of an Excel file that are parts of one table, with the same heading; a
                    column called "sheet" has their names
        lines_above the lines of a text, or the rows of a sheet, above the names of columns
        heading_lines   how many lines name the columns; with none they are numbered
        lines_after_heading   lines between these and the first row
        lines_below lines below the last row
        number_names    whether a name that stands twice gets a number, the second time on
        fill_down   columns in which nothing means what stands above
        layout      the codebook that says where in a line the columns stand
        beside      tables that say more of the rows
    """

    delimiter: str = ""
    encoding: str = "utf-8"
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    sheet: str = ""
    sheets: tuple[str, ...] = ()
    lines_above: int = 0
    heading_lines: int = 1
    lines_after_heading: int = 0
    lines_below: int = 0
    number_names: bool = False
    fill_down: tuple[str, ...] = ()
    layout: FilePath | None = None
    beside: tuple[Beside, ...] = ()

    def __post_init__(self) -> None:
        for name in ("lines_above", "heading_lines", "lines_after_heading", "lines_below"):
            if getattr(self, name) < 0:
                raise InputError(
                    "format",
                    place=name,
                    found=str(getattr(self, name)),
                    expected="a number of lines: 0 or more",
                )
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

    @property
    def cut(self) -> bool:
        """Whether it says where in the file the table stands."""
        lines = (self.lines_above, self.lines_after_heading, self.lines_below)
        return any(lines) or self.heading_lines != 1 or self.number_names or bool(self.sheets)

    def of_table(self, one: Beside) -> Format:
        """How a table beside is written."""
        others = self.of_others
        return replace(
            others, encoding=one.encoding or others.encoding, sheet=one.sheet or others.sheet
        )

    @property
    def of_others(self) -> Format:
        """How files beside the table are written: what is said of its own lines is not of theirs"""
        return Format(
            delimiter=self.delimiter,
            encoding=self.encoding,
            decimal=self.decimal,
            thousands=self.thousands,
            sheet=self.sheet,
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


ENDINGS = (".csv", ".tsv", ".txt", ".tab", ".psv", ".dat", ".asc")
"""Endings of texts."""
PACKED = ".gz"
DELIMITERS = (",", ";", "\t", "|")

SAMPLE = 1 << 20
"""Bytes by which an encoding is judged."""

LARGER_AS_TEXT = 3
"""Memory that a text file takes, in sizes of the file."""

_PACKERS: dict[bytes, Callable[[BinaryIO], BinaryIO]] = {
    b"\x1f\x8b": gzip.open,  # type: ignore[dict-item]
    b"BZh": bz2.open,  # type: ignore[dict-item]
    b"\xfd7zXZ\0": lzma.open,  # type: ignore[dict-item]
}

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"\x78\x9c", b"\x78\xda")
"""How gzip, zstd and zlib begin: polars would unpack such a file unasked, whatever its size."""

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
"""Byte order marks, and what they mark."""

_LIKELY = (
    *("cp1252", "cp1250", "cp1251", "iso8859-2", "cp1253", "cp1254"),
    *("shift_jis", "cp949", "gb18030", "big5"),
)
_ASIAN = {
    "shift_jis": ("shift_jis", 0x97),
    "cp949": ("euc_kr", 0xC8),
    "gb18030": ("gb2312", 0xD7),
    "big5": ("big5", 0xC6),
}
"""For each the codec of its common characters, and the first byte of the last of these."""

TooLarge = Callable[[int, int], InputError]
"""The error about a file of so many bytes that takes so many."""


@dataclass(frozen=True)
class TextFile:
    """A text file that was found to be readable, and its header.

    ``content`` is its text in UTF-8, where the file itself is packed or in another encoding. Where
    a format says what stands above and below the table, ``begin`` and ``end`` are the bytes between
    which its rows are, ``above`` the lines before them, and ``header`` is made of the heading.
    """

    path: Path
    delimiter: str
    encoding: str
    header: tuple[str, ...]
    content: bytes | None = field(default=None, repr=False)
    begin: int = 0
    end: int | None = None
    above: int = 0

    @property
    def cut(self) -> bool:
        """Whether the table is a part of the file."""
        return self.begin > 0 or self.end is not None

    def scan(self) -> pl.LazyFrame:
        """The table, everything as text: codes keep their leading zeros."""
        source: Path | BytesIO = self.path if self.content is None else BytesIO(self.content)
        if self.cut:
            source = BytesIO(self._bytes(self.begin, self.end))
        return pl.scan_csv(source, infer_schema=False, separator=self.delimiter, glob=False)

    def part(self, start: int, stop: int) -> TextFile:
        """Some whole records of the file, given by their bytes, as a text with the same header."""
        some = self._bytes(start, stop if self.end is None else min(stop, self.end))
        return replace(self, content=some, begin=0, end=None)

    def _bytes(self, start: int, stop: int | None) -> bytes:
        """Some records, below the header."""
        with self._raw() as file:
            file.seek(start)
            some = file.read() if stop is None else file.read(max(stop - start, 0))
        if not start and not self.cut:
            return some
        header = StringIO()
        csv.writer(header, delimiter=self.delimiter, lineterminator="\n").writerow(self.header)
        return header.getvalue().encode() + some

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
            line, begun = 1, self.cut
            if self.cut:
                yield self.above, list(self.header)
            for fields in reader:
                begun = begun or bool(fields)  # blank lines before the header are no records
                if begun and (fields or not self.cut):
                    yield self.above + line, fields
                line = reader.line_num + 1

    def _raw(self) -> BytesIO | BufferedReader:
        return self.path.open("rb") if self.content is None else BytesIO(self.content)

    def _open(self) -> TextIO:
        """The text, or the rows of the table where it is a part of it."""
        file: BytesIO | BufferedReader = self._raw()
        if self.cut:
            file.seek(self.begin)
            if self.end is not None:
                file = BytesIO(file.read(self.end - self.begin))
        return TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")


def is_packed(start: bytes) -> bool:
    """Whether a file that begins so is packed by gzip, bzip2 or xz."""
    return any(start.startswith(first) for first in _PACKERS)


def unpacked(file: BinaryIO, most: int, *, name: str = "") -> bytes:
    """The first bytes of a packed file; with a name, damage is an error."""
    start = file.read(8)
    file.seek(0)
    opener = next((one for first, one in _PACKERS.items() if start.startswith(first)), gzip.open)
    parts, left = [], most
    try:
        with opener(file) as content:
            while left > 0 and (some := content.read(min(left, 1 << 20))):
                parts.append(some)
                left -= len(some)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        if name:
            raise InputError(
                name,
                found=f"content that cannot be unpacked ({error})",
                expected="a file packed by gzip, bzip2 or xz",
            ) from None
    return b"".join(parts)


def open_text(path: Path, form: Format, too_large: TooLarge, *, whole: bool = True) -> TextFile:
    """Open a text file: unpacked and decoded if need be, with its delimiter and header.

    One that is to be read whole, or that must be unpacked or decoded, has to fit into memory.
    """
    name = str(path)
    with path.open("rb") as file:  # a file that may not be read is the system's error, not damage
        start = file.read(8)
    packed = is_packed(start) or path.suffix.lower() == PACKED
    most = memory_limit() // LARGER_AS_TEXT
    if not packed and start.startswith(_COMPRESSED):
        raise InputError(
            name,
            found="compressed content",
            expected="plain text, or text packed by gzip, bzip2 or xz",
        )
    size = path.stat().st_size
    if size > most and (whole or packed):
        raise too_large(size, LARGER_AS_TEXT * size)
    raw = None
    if packed:
        with path.open("rb") as file:
            raw = unpacked(file, most + 1, name=name)
        if len(raw) > most:
            raise too_large(len(raw), LARGER_AS_TEXT * len(raw))
    return text_of(raw, path, form, too_large, start=start if raw is None else raw[:4])


def text_of(
    raw: bytes | None, path: Path, form: Format, too_large: TooLarge, *, start: bytes = b""
) -> TextFile:
    """A text file, or one whose content was already read from where ``path`` says."""
    start, size = (start, path.stat().st_size) if raw is None else (raw[:4], len(raw))
    most = memory_limit() // LARGER_AS_TEXT
    marked = next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "")
    encoding = marked or form.encoding
    content = raw
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "ascii", "utf-8-sig"):
        if size > most:
            raise too_large(size, LARGER_AS_TEXT * size)
        content = _decoded(path.read_bytes() if raw is None else raw, encoding, str(path))
    made = TextFile(path, form.delimiter or ",", encoding, (), content)
    if form.cut:
        return _cut(made, form)
    delimiter = form.delimiter or max(DELIMITERS, key=lambda one: len(_header(made, one)))
    return TextFile(path, delimiter, encoding, tuple(_header(made, delimiter)), content)


def _cut(file: TextFile, form: Format) -> TextFile:
    """The part of a file that is a table, by what its format says."""
    with file._raw() as raw:
        above = [raw.readline() for _ in range(form.lines_above)]
        at = raw.tell()
        heading = [raw.readline() for _ in range(max(form.heading_lines, 1))]
        raw.seek(at)
        split = partial(_first_records, [_decoded_line(one) for one in heading])
        delimiter = form.delimiter or max(
            DELIMITERS, key=lambda one: max(map(len, split(one)), default=0)
        )
        used, records = 0, []
        if form.heading_lines:
            taken: list[bytes] = []
            reader = csv.reader(_taking(raw, taken), delimiter=delimiter)
            with suppress(csv.Error):
                records = list(islice(reader, form.heading_lines))
            raw.seek(at + sum(map(len, taken[: reader.line_num])))
            used = reader.line_num
        skipped = [raw.readline() for _ in range(form.lines_after_heading)]
        begin = raw.tell()
        end = _end(raw, form.lines_below)
    if not form.heading_lines:
        records = [[f"column {1 + n}" for n in range(max(map(len, split(delimiter)), default=0))]]
    if not any(records) or (end is not None and end < begin):
        raise InputError(
            str(file.path),
            place="format",
            found=f"no rows below line {len(above) + used + len(skipped)}",
            expected="a heading and rows: fewer lines_above, heading_lines, lines_after_heading or "
            "lines_below",
        )
    return replace(
        file,
        delimiter=delimiter,
        header=heading_names(records),
        begin=begin,
        end=end,
        above=len(above) + used + len(skipped),
    )


def _taking(raw: BinaryIO, taken: list[bytes]) -> Iterator[str]:
    for line in raw:
        taken.append(line)
        yield _decoded_line(line)


def _decoded_line(line: bytes) -> str:
    return line.decode("utf-8-sig", errors="replace")


def _first_records(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []


def _end(raw: BinaryIO, below: int) -> int | None:
    """Where the last lines of a file begin."""
    if not below:
        return None
    size = raw.seek(0, 2)
    length = 1 << 16
    while True:
        start = max(size - length, 0)
        raw.seek(start)
        lines = raw.read().splitlines(keepends=True)
        if len(lines) > below or not start:
            return size - sum(map(len, lines[-below:]))
        length *= 4


def heading_names(
    lines: Sequence[Sequence[str]], spans: Sequence[tuple[int, int, int, int]] = ()
) -> tuple[str, ...]:
    """A name for each column from the lines of a heading, upper ones first.

    In upper lines a name reaches over the blanks to its right; where ``spans`` (first row and
    column, last row and column of merged cells) are known, as far as they do.
    """
    width = max(map(len, lines), default=0)
    full = [[one.strip() for one in line] + [""] * (width - len(line)) for line in lines]
    for row, column, last_row, last_column in spans:
        for r in range(row, min(last_row + 1, len(full))):
            for c in range(column, min(last_column + 1, width)):
                full[r][c] = full[row][column]
    if not spans:
        for line in full[:-1]:
            for c in range(1, width):
                line[c] = line[c] or line[c - 1]
    names: list[str] = []
    for c in range(width):
        parts = list(dict.fromkeys(line[c] for line in full if line[c]))
        names.append(" ".join(parts) or f"column {c + 1}")
    return distinct(names)


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, with a number where one would stand twice."""
    found: dict[str, None] = {}
    for name in names:
        number, made = 2, name
        while made in found:
            number, made = number + 1, f"{name} {number}"
        found[made] = None
    return tuple(found)


def _header(file: TextFile, delimiter: str) -> list[str]:
    """The header's fields, were this the delimiter."""
    try:
        with file._open() as text:
            return next((fields for fields in csv.reader(text, delimiter=delimiter) if fields), [])
    except csv.Error:
        return []


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
    return likely_encoding_of(raw, whole=len(raw) < SAMPLE)


def told_encoding(encoding: str) -> str:
    """An encoding for a format: a mark at the start of a file is believed without."""
    return "utf-8" if encoding in ("", "utf-16") else encoding


def likely_encoding_of(raw: bytes, *, whole: bool) -> str:
    """The encoding of a text, or of its beginning."""
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return encoding
    # Every other byte of most texts in UTF-16 is 0, and none of a text in anything else.
    for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if 2 * raw[offset::2].count(0) > len(raw) // 2 > 0:
            return encoding
    # A sample may end within a character.
    if any(_decodes(raw[: len(raw) - cut]) for cut in range(1 if whole else 4)):
        return "utf-8"
    return _other_encoding(raw, whole=whole)


def _opened(path: Path) -> BytesIO | BufferedReader:
    """The beginning of a packed file, or a file."""
    file = path.open("rb")
    start = file.read(8)
    file.seek(0)
    if not is_packed(start) and path.suffix.lower() != PACKED:
        return file
    with file:
        return BytesIO(unpacked(file, 4 * SAMPLE))


def _other_encoding(raw: bytes, *, whole: bool) -> str:
    """The encoding of some lines that are not UTF-8; unless they are whole the last may be cut."""
    from charset_normalizer import from_bytes

    # Only what is not ASCII tells encodings apart.
    lines = [line for line in raw.split(b"\n") if not line.isascii()]
    telling = b"\n".join(lines if whole or len(lines) == 1 else lines[:-1])
    odd = {one: _oddness(telling, one) for one in _LIKELY}
    least = min(odd.values())
    names = [one for one in _LIKELY if odd[one] <= least + 0.02]
    if names[0] == "cp1252" or len(names) == 1:
        return names[0]
    found = from_bytes(telling, cp_isolation=names, threshold=0.5).best()
    return names[0] if found is None or found.encoding not in names else found.encoding


MIXED, RARE = 1.0, 0.5


def _oddness(raw: bytes, encoding: str) -> float:
    """How odd a text would be in an encoding, for each character that is not ASCII.

    Odd are signs within words, capitals after small letters, words in two scripts, two accents in a
    row, and characters that are rare in the language that is written so.
    """
    try:
        text = raw.decode(encoding)
    except UnicodeError:
        return inf
    odd = number = 0.0
    for before, one, after in zip(" " + text, text, text[1:] + " ", strict=False):
        if one.isascii():
            continue
        number += 1
        if encoding in _ASIAN:
            odd += RARE * _is_rare(one, encoding) + MIXED * (before.isascii() and before.isalpha())
        elif not one.isalpha():
            odd += MIXED * (before.isalpha() or after.isalpha()) + RARE * (not one.isprintable())
        else:
            latin = "LATIN" in unicodedata.name(one, "")
            odd += MIXED * (before.islower() and one.isupper())
            odd += MIXED * (
                not latin
                and (before + after).strip(" ").isascii()
                and any(map(str.isalpha, before + after))
            )
            odd += RARE * (latin and not before.isascii() and before.isalpha())
    return odd / max(number, 1)


def _is_rare(one: str, encoding: str) -> bool:
    """Whether a character is none of those that a language's own standard puts first."""
    codec, most = _ASIAN[encoding]
    try:
        lead = one.encode(codec)[0]
    except UnicodeError:
        return True
    return lead > most or (encoding == "cp949" and not "\uac00" <= one <= "\ud7a3")


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
