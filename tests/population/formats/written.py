"""The same people in every format, written by libraries or, where there is none, by hand."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyreadstat
from pyarrow import feather, ipc

PEOPLE = pl.DataFrame(
    {
        "region": ["Nord", "Nord", "Sued", "Sued", "Sued"],
        "ort": ["001", "002", "003", "003", "004"],
        "sex": ["f", "m", "f", "f", None],
        "n": ["3", "12", "7", "0", "5"],
    }
)

Writer = Callable[[Path, pl.DataFrame], None]


def text(delimiter: str, encoding: str, pack: Callable[[bytes], bytes] = bytes) -> Writer:
    def write(path: Path, frame: pl.DataFrame) -> None:
        path.write_bytes(pack(frame.write_csv(separator=delimiter).encode(encoding)))

    return write


def stream(path: Path, frame: pl.DataFrame) -> None:
    table = frame.to_arrow()
    with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def zipped(path: Path, frame: pl.DataFrame) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/people.csv", frame.write_csv(separator=";"))
        archive.writestr("__MACOSX/folder/._people.csv", b"\0\1")
        archive.writestr("folder/people_codebook.txt", "what is what")


def ods(path: Path, frame: pl.DataFrame) -> None:
    rows = [frame.columns, *frame.rows()]
    cells = "".join(
        "<table:table-row>"
        + "".join(
            "<table:table-cell/>"
            if one is None
            else '<table:table-cell office:value-type="string">'
            f"<text:p>{one}</text:p></table:table-cell>"
            for one in row
        )
        + "</table:table-row>"
        for row in rows
    )
    names = "urn:oasis:names:tc:opendocument:xmlns"
    content = (
        '<?xml version="1.0"?><office:document-content '
        f'xmlns:office="{names}:office:1.0" xmlns:table="{names}:table:1.0" '
        f'xmlns:text="{names}:text:1.0"><office:body><office:spreadsheet>'
        f'<table:table table:name="People">{cells}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr("content.xml", content)


# --- R: a writer of what saveRDS and save write ----------------------------------------------


def r_chars(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">ii", 9, -1)
    raw = value.encode()
    return struct.pack(">ii", 9 | (1 << 3) << 12, len(raw)) + raw


def r_texts(values: Sequence[str | None], attributes: bytes = b"") -> bytes:
    flags = 16 | (0x200 if attributes else 0)
    return struct.pack(">ii", flags, len(values)) + b"".join(map(r_chars, values)) + attributes


def r_numbers(values: Sequence[float | None]) -> bytes:
    missing = struct.pack(">Q", 0x7FF00000000007A2)
    raw = b"".join(missing if one is None else struct.pack(">d", one) for one in values)
    return struct.pack(">ii", 14, len(values)) + raw


def r_pairs(named: Mapping[str, bytes]) -> bytes:
    parts = [
        struct.pack(">i", 2 | 0x400) + struct.pack(">i", 1) + r_chars(name) + value
        for name, value in named.items()
    ]
    return b"".join(parts) + struct.pack(">i", 254)


def r_factor(values: Sequence[str | None]) -> bytes:
    levels = sorted({one for one in values if one is not None})
    codes = [-(1 << 31) if one is None else levels.index(one) + 1 for one in values]
    return (
        struct.pack(">ii", 13 | 0x200 | 0x100, len(codes))
        + struct.pack(f">{len(codes)}i", *codes)
        + r_pairs({"levels": r_texts(levels), "class": r_texts(["factor"])})
    )


def r_frame(frame: pl.DataFrame) -> bytes:
    columns = [
        r_factor(frame[name].to_list())
        if name == "sex"
        else r_numbers([None if one is None else float(one) for one in frame[name]])
        if name == "n"
        else r_texts(frame[name].to_list())
        for name in frame.columns
    ]
    # Row names as R writes them: a compact sequence, which is an alternative vector.
    state = r_numbers([frame.height, 1, 1])
    symbol = struct.pack(">i", 1)
    names = r_pairs(
        {
            "x": symbol + r_chars("compact_intseq"),
            "y": symbol + r_chars("base"),
            "z": struct.pack(">iii", 13, 1, 13),
        }
    )
    rows = struct.pack(">i", 238) + names + state + struct.pack(">i", 254)
    attributes = r_pairs(
        {
            "names": r_texts(frame.columns),
            "class": r_texts(["tbl_df", "data.frame"]),
            "row.names": rows,
        }
    )
    return struct.pack(">ii", 19 | 0x200 | 0x100, len(columns)) + b"".join(columns) + attributes


R_HEAD = b"X\n" + struct.pack(">iiii", 3, 0x40300, 0x30500, 5) + b"UTF-8"


def rds(pack: Callable[[bytes], bytes]) -> Writer:
    def write(path: Path, frame: pl.DataFrame) -> None:
        path.write_bytes(pack(R_HEAD + r_frame(frame)))

    return write


def rda(path: Path, frame: pl.DataFrame) -> None:
    saved = r_pairs({"other": r_numbers([1, 2]), "people": r_frame(frame)})
    path.write_bytes(bz2.compress(b"RDX3\n" + R_HEAD + saved))


# --- cubes -----------------------------------------------------------------------------------

COUNTS = {
    (place, sex): 10 * p + s + 1 for p, place in enumerate("ABC") for s, sex in enumerate("fm")
}
"""A count for each of three places and two sexes."""


def px(path: Path, *, encoding: str = "cp1252", data: str = "") -> None:
    values = data or "\n".join(" ".join(str(COUNTS[place, sex]) for sex in "fm") for place in "ABC")
    said = f"""CHARSET="ANSI";
AXIS-VERSION="2000";
CODEPAGE="{encoding}";
LANGUAGE="sv";
LANGUAGES="sv","en";
TITLE="Folkmängd efter "
"ort; och kön";
UNITS="personer";
CONTENTS="Folkmängd";
STUB="ort";
HEADING="kön";
VALUES("ort")="Åmål",
"Växjö","Malmö";
CODES("ort")="A","B","C";
VALUES("kön")="kvinnor","män";
CODES("kön")="f","m";
STUB[en]="place";
HEADING[en]="sex";
VALUES[en]("place")="Amal","Vaxjo","Malmo";
MAP("ort")="Sweden";
DATA=
{values}
;
"""
    path.write_bytes(said.encode(encoding))


def json_stat(path: Path, *, version: int = 2) -> None:
    dimension = {
        "ort": {"label": "Ort", "category": {"index": ["A", "B", "C"], "label": {"A": "Åmål"}}},
        "sex": {"label": "Sex", "category": {"index": {"m": 1, "f": 0}}},
    }
    values = list(COUNTS.values())
    data: dict[str, object] = {"version": "2.0", "class": "dataset", "id": ["ort", "sex"]}
    data |= {"size": [3, 2], "dimension": dimension, "role": {"geo": ["ort"]}}
    data |= {"value": {str(n): one for n, one in enumerate(values) if n != 3}, "status": {"3": "c"}}
    if version == 1:
        older = {**dimension, "id": ["ort", "sex"], "size": [3, 2]}
        data = {"dataset": {"label": "People", "dimension": older, "value": values}}
    path.write_text(json.dumps(data), encoding="utf-8")


WRITERS: dict[str, Writer] = {
    "people.csv": text(",", "utf-8"),
    "people.psv": text("|", "utf-8"),
    "people.tab": text("\t", "utf-16"),
    "people.csv.gz": text(";", "utf-8", gzip.compress),
    "packed.csv": text(",", "utf-8", gzip.compress),  # the ending does not say so
    "people.txt": text("\t", "utf-8", lzma.compress),
    "people.dat": text(",", "utf-8", bz2.compress),
    "really-text.xls": text("\t", "utf-8"),
    "people.xlsx": lambda path, frame: frame.write_excel(path, worksheet="People") and None,
    "workbook.csv": lambda path, frame: frame.write_excel(path, worksheet="People") and None,
    "people.ods": ods,
    "people.parquet": lambda path, frame: frame.write_parquet(path),
    "people.arrow": lambda path, frame: frame.write_ipc(path),
    "people.feather": lambda path, frame: feather.write_feather(
        frame.to_arrow(), str(path), compression="lz4"
    ),
    "stream.ipc": stream,
    "people.dta": lambda path, frame: pyreadstat.write_dta(frame, path),
    "people.sav": lambda path, frame: pyreadstat.write_sav(frame, path),
    "people.zsav": lambda path, frame: pyreadstat.write_sav(frame, path, compress=True),
    "people.por": lambda path, frame: pyreadstat.write_por(frame, path),
    "people.xpt": lambda path, frame: pyreadstat.write_xport(frame, path, file_format_version=8),
    "people.rds": rds(gzip.compress),
    "people.RDS": rds(lzma.compress),
    "plain.rds": rds(bytes),
    "people.rda": rda,
    "people.zip": zipped,
}
