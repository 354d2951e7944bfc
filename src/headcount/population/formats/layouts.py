"""Codebooks beside data: DDI (IPUMS), NHGIS, and what tau-Argus calls metadata; fixed width."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl

from headcount.errors import InputError
from headcount.population.formats.content import Content, Stated
from headcount.population.formats.kinds import Stored, damaged
from headcount.population.text_files import Format, likely_encoding_of

log = logging.getLogger(__name__)

_TAG = re.compile(r"^\s*<([A-Z_]+)>\s*(.*?)\s*$")
_QUOTED = re.compile(r'"([^"]*)"')
_NHGIS = re.compile(r"^\s+([A-Z][A-Z0-9_]*):\s+(\S.*?)\s*$")
_TABLE = re.compile(r"^\s*(?:Table )?\d+[:.]\s+(\S.*?)\s*$")


@dataclass(frozen=True, kw_only=True)
class Field:
    """A column of a text by its layout.

    where
        start, stop   characters, from 0; none where signs part the fields
        decimals      how many of the last digits are decimals, though no point says so
        labels        what its codes are
        hierarchy     its codes in their order, each with its depth
    """

    name: str
    start: int = 0
    stop: int = 0
    decimals: int = 0
    label: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    weight: bool = False
    count: bool = False
    hierarchy: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a codebook says of a text; ``separator`` is nothing for columns of fixed width."""

    fields: tuple[Field, ...]
    separator: str = ""
    encoding: str = ""

    @property
    def fixed(self) -> bool:
        """Whether fields are known by their places."""
        return any(one.stop for one in self.fields)

    def is_needed(self, stored: Stored) -> bool:
        """Whether a text can be read by this layout only: it has no line of the names."""
        if not self.fixed and not self.separator:
            return False
        start = stored.start().decode("latin-1").partition("\n")[0]
        names = {one.strip('" \r') for one in re.split(r"[,;\t|]", start)}
        return not {one.name for one in self.fields} <= names

    def of(self, frame: pl.DataFrame, header: Sequence[str]) -> Content:
        """A table with what is said of its columns."""
        known = [one for one in self.fields if one.name in header]
        return Content(
            frame=frame,
            header=header,
            column_labels={one.name: one.label for one in known if one.label},
            value_labels={one.name: one.labels for one in known if one.labels},
            stated=Stated(
                weights=tuple(one.name for one in known if one.weight),
                counts=tuple(one.name for one in known if one.count),
            ),
            hierarchies={one.name: one.hierarchy for one in known if one.hierarchy},
        )


Codebook = tuple[Path, "Layout"]

MOST_BOOKS = 20
"""Codebooks in a folder that are tried."""


def codebook_of(path: Path, beside: Sequence[Path] = ()) -> Codebook | None:
    """The codebook of a text: one that was named with it, or one beside it under its name."""
    stem = path.name
    for ending in (".gz", ".bz2", ".xz", *path.suffixes[::-1]):
        stem = stem.removesuffix(ending)
    for one in beside:
        return one, read_layout(one)
    for ending in (".xml", "_codebook.txt", ".rda"):
        book = path.with_name(stem + ending)
        if book != path and book.is_file() and not Stored(book).start().startswith(_BINARY):
            try:
                return book, read_layout(book)
            except InputError:  # nobody said that it is one: it may be anything of that name
                log.info("%s is no codebook of %s", book.name, path.name)
    return _by_its_columns(path)


def _by_its_columns(path: Path) -> Codebook | None:
    """A codebook of NHGIS under another name, that has the very columns of a text."""
    names: set[str] | None = None
    for book in sorted(path.parent.glob("*_codebook.txt"))[:MOST_BOOKS]:
        if names is None:
            start = Stored(path).start().decode("latin-1").partition("\n")[0]
            names = {one.strip('" \r\xef\xbb\xbf') for one in re.split(r"[,;\t|]", start)}
        with suppress(InputError):  # nobody said that it is one
            layout = read_layout(book)
            if {one.name for one in layout.fields} == names:
                return book, layout
    return None


_BINARY = (b"RDX", b"RDA", b"X\n", b"PK")


def read_layout(path: Path) -> Layout:
    """The layout that a codebook gives."""
    raw = Stored(path).content(larger=16)
    if raw.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<?xml") or b"<codeBook" in raw[:4096]:
        return _ddi(raw, str(path))
    try:
        text = raw.decode(likely_encoding_of(raw, whole=True))
    except (UnicodeError, LookupError) as error:
        raise damaged(str(path), error, "a codebook") from None
    fields = _nhgis(text) if "NHGIS" in text[:2000] else ()
    layout = Layout(fields=fields) if fields else _argus(text, path)
    if not layout.fields:
        raise InputError(
            str(path),
            place="layout",
            found="no columns",
            expected="a codebook of DDI (.xml), NHGIS (.txt) or tau-Argus (.rda)",
        )
    return layout


def _ddi(raw: bytes, name: str) -> Layout:
    if b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
        raise InputError(name, found="declarations of entities", expected="DDI without any")
    try:
        tree = ElementTree.fromstring(raw)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise damaged(name, error, "a DDI codebook") from None
    kinds = [one.get("type", "") for one in tree.iterfind(".//{*}fileStrc")]
    if any(kind == "hierarchical" for kind in kinds):
        raise InputError(
            name,
            place="fileStrc",
            found="a hierarchical file, with lines of different kinds",
            expected="a rectangular one, a line for each person",
        )
    charset = next((one.get("charset", "") for one in tree.iterfind(".//{*}fileType")), "")
    fields = tuple(_ddi_field(one, name) for one in tree.iterfind(".//{*}var"))
    return Layout(fields=fields, encoding=charset)


def _ddi_field(one: ElementTree.Element, file: str) -> Field:
    name, place = one.get("name", ""), one.find("{*}location")
    said = place.attrib if place is not None else {}
    try:
        start, stop = int(said.get("StartPos", 1)) - 1, int(said.get("EndPos", 0))
        decimals = int(one.get("dcml") or 0)
    except ValueError as error:
        raise damaged(file, f"variable {name!r}: {error}", "a DDI codebook") from None
    labels = {
        (code.text or "").strip(): (label.text or "").strip()
        for known in one.iterfind("{*}catgry")
        if (code := known.find("{*}catValu")) is not None
        and (label := known.find("{*}labl")) is not None
    }
    label = one.find("{*}labl")
    return Field(
        name=name,
        start=start,
        stop=stop,
        decimals=decimals,
        label=(label.text or "").strip() if label is not None else "",
        labels=labels,
        weight=bool(one.get("wgt")),
    )


def _nhgis(text: str) -> tuple[Field, ...]:
    """Columns with what they are: of tables with the name of the table."""
    fields, table = [], ""
    _, _, dictionary = text.partition("Data Dictionary")
    for line in dictionary.splitlines():
        if (found := _TABLE.match(line)) is not None:
            table = f"{found[1]}: "
        elif (found := _NHGIS.match(line)) is not None:
            fields.append(Field(name=found[1], label=table + found[2]))
    return tuple(fields)


def _argus(text: str, path: Path) -> Layout:
    separator, fields = "", list[Field]()
    lead = "@"
    for line in text.splitlines():
        tag = _TAG.match(line)
        if tag is None:
            parts = line.split()
            if parts and separator and parts[1:2] and parts[1].isdigit():
                fields.append(Field(name=parts[0]))
            elif len(parts) > 2 and parts[1].isdigit() and parts[2].isdigit():
                start = int(parts[1]) - 1
                fields.append(Field(name=parts[0], start=start, stop=start + int(parts[2])))
            elif parts:
                return Layout(fields=())
            continue
        key, said = tag[1], "".join(_QUOTED.findall(tag[2])[:1])
        if key == "SEPARATOR":
            separator = said
        elif fields:
            lead = said if key == "HIERLEADSTRING" and said else lead
            fields[-1] = _tagged(fields[-1], key, said, path)
    done = [
        replace(one, hierarchy=tuple(_levels(one.hierarchy, lead))) if one.hierarchy else one
        for one in fields
    ]
    return Layout(fields=tuple(done), separator=separator)


def _tagged(one: Field, key: str, said: str, path: Path) -> Field:
    """A field with what a line below it says; lists of codes stand in files beside."""
    if key in ("WEIGHT", "FREQUENCY"):
        return replace(one, weight=key == "WEIGHT", count=key == "FREQUENCY")
    if key not in ("HIERCODELIST", "CODELIST") or not said or Path(said).name != said:
        return one
    file = path.with_name(said)
    if not file.is_file():
        return one
    raw = Stored(file).content()
    lines = raw.decode(likely_encoding_of(raw, whole=True), errors="replace").splitlines()
    if key == "HIERCODELIST":
        return replace(one, hierarchy=tuple((line.rstrip(), 0) for line in lines if line.strip()))
    pairs = (line.partition(",") for line in lines)
    return replace(one, labels={code.strip(): label.strip() for code, _, label in pairs if label})


def _levels(codes: Iterable[tuple[str, int]], lead: str) -> Iterable[tuple[str, int]]:
    """Codes with the number of signs before them."""
    for written, _ in codes:
        depth, code = 0, written.strip()
        while lead and code.startswith(lead):
            depth, code = depth + 1, code[len(lead) :]
        yield code.strip(), depth


def read_laid_out(stored: Stored, form: Format, layout: Layout) -> Content:
    """A text whose columns only its codebook knows: of fixed width, or without a header."""
    raw = stored.content(larger=8)
    encoding = form.encoding if form.encoding != "utf-8" else layout.encoding or "utf-8"
    try:
        text = raw.decode(encoding)
    except (UnicodeError, LookupError):
        text = raw.decode("cp1252", errors="replace")
    lines = pl.Series("line", text.splitlines(), dtype=pl.String)
    lines = lines.filter(lines.str.strip_chars() != "")
    frame = _fixed(lines, layout, stored) if layout.fixed else _parted(lines, layout, stored)
    return layout.of(frame, frame.columns)


def _fixed(lines: pl.Series, layout: Layout, stored: Stored) -> pl.DataFrame:
    """The columns; that lines are as long as the layout says is the proof that both go together."""
    width = max(one.stop for one in layout.fields)
    wrong = (lines.str.len_chars() != width).arg_true()
    if len(wrong):
        raise InputError(
            stored.name,
            place=f"line {int(wrong[0]) + 1}",
            found=f"{len(lines[int(wrong[0])])} characters",
            expected=f"{width}, as its layout says: are they of the same data?",
        )
    return pl.DataFrame(
        _pointed(
            lines.str.slice(one.start, one.stop - one.start).str.strip_chars().replace("", None),
            one,
        )
        for one in layout.fields
    )


def _pointed(values: pl.Series, one: Field) -> pl.Series:
    """Values with the decimal point that the layout implies."""
    if one.decimals <= 0:
        return values.alias(one.name)
    digits = values.str.zfill(one.decimals + 1)
    whole = digits.str.contains(r"^-?\d+$").fill_null(False)
    pointed = digits.str.replace(rf"^(-?\d+)(\d{{{one.decimals}}})$", "${1}.${2}")
    pointed = pointed.str.replace(r"^(-?)0+(\d)", "${1}${2}")
    return pl.select(pl.when(whole).then(pointed).otherwise(values)).to_series().alias(one.name)


def _parted(lines: pl.Series, layout: Layout, stored: Stored) -> pl.DataFrame:
    names = [one.name for one in layout.fields]
    fields = lines.str.split(layout.separator or ",")
    wrong = (fields.list.len() != len(names)).arg_true()
    if len(wrong):
        raise InputError(
            stored.name,
            place=f"line {int(wrong[0]) + 1}",
            found=f"{int(fields[int(wrong[0])].len())} fields",
            expected=f"{len(names)}, as its layout says: {', '.join(names[:12])}",
        )
    frame = pl.DataFrame(
        fields.list.get(n).str.strip_chars().str.strip_chars('"').replace("", None).alias(name)
        for n, name in enumerate(names)
    )
    return frame.slice(1) if frame.height and list(frame.row(0)) == names else frame
