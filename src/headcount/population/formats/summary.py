"""Redistricting summary files of the Census Bureau (P.L. 94-171), 2010 and 2020.

A geographic header with a line for each place of each level, and tables in segments whose lines
belong to it by a number. A level of places is a sheet: others are sums of the lowest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import polars as pl

from headcount.errors import InputError, one_of
from headcount.population.formats.content import Content, Stated
from headcount.population.formats.kinds import GEO, Stored, damaged, members, refuse_too_many

LOWEST = ("750", "150", "140", "050", "040")
"""Blocks, block groups, tracts, counties and states: the levels that nest, from below."""

GEO_2020 = {
    "SUMLEV": 2,
    "LOGRECNO": 7,
    "GEOCODE": 9,
    "STATE": 12,
    "COUNTY": 14,
    "TRACT": 32,
    "BLKGRP": 33,
    "BLOCK": 34,
    "NAME": 87,
    "POP100": 90,
    "HU100": 91,
}
"""Where fields stand among the 97 of a line."""

GEO_2010 = {
    "SUMLEV": (8, 3),
    "LOGRECNO": (18, 7),
    "STATE": (27, 2),
    "COUNTY": (29, 3),
    "TRACT": (54, 6),
    "BLKGRP": (60, 1),
    "BLOCK": (61, 4),
    "NAME": (226, 90),
    "POP100": (318, 9),
    "HU100": (327, 9),
}
"""Where fields begin, and how long they are."""

KEYS = 5
"""Fields of a segment before its counts, of which the last is the number of the line."""

TABLES = {1: (("P001", 71), ("P002", 73)), 2: (("P003", 71), ("P004", 73), ("H001", 3))}
LATER = {3: (("P005", 10),)}
_SEGMENT = re.compile(r"[a-z]{2}0000([1-3])20[0-9]{2}\.u?pl$", re.IGNORECASE)
PARTS = ("STATE", "COUNTY", "TRACT", "BLKGRP", "BLOCK")


def levels(stored: Stored) -> list[str]:
    """The levels of places that a summary file has, the lowest first."""
    found = set(_header(*_files(stored))["SUMLEV"].unique())
    return [one for one in LOWEST if one in found]


def read_summary(stored: Stored, sheet: str) -> Content:
    """The places of a level with all tables: of the one that is named, or the lowest."""
    geo, segments = _files(stored)
    header = _header(geo, segments)
    known = [one for one in LOWEST if one in set(header["SUMLEV"])]
    if not known or (sheet and sheet not in known):
        raise InputError(
            geo.name, place="sheet", found=repr(sheet or "no level"), expected=one_of(LOWEST)
        )
    level = sheet or known[0]
    parts = list(PARTS[: 1 + LOWEST[::-1].index(level)])
    frame = header.filter(header["SUMLEV"] == level)
    for segment in segments:
        tables = _segment(segment)
        frame = frame.join(tables, on="LOGRECNO", how="left", maintain_order="left")
        if frame[tables.columns[1]].null_count():
            raise InputError(
                segment.name,
                place="LOGRECNO",
                found="no line for some places of the geographic header",
                expected="segments and header of the same state and edition",
            )
    _refuse_others(frame, geo)
    own = [one for one in ("GEOCODE", *parts, "NAME") if one in frame.columns]
    counts = [one for one in frame.columns if one[:2] in ("P0", "H0")]
    return Content(
        frame=frame.select(*own, *counts),
        header=[*own, *counts],
        column_labels={one: _label(one) for one in counts if one.endswith("0001")},
        stated=Stated(places=tuple(parts), title="P.L. 94-171 redistricting summary file"),
    )


def _label(column: str) -> str:
    adults = "of 18 years and over" if column[:4] in ("P003", "P004") else ""
    what = "housing units" if column.startswith("H") else "people in group quarters"
    return what if column[:4] in ("H001", "P005") else f"people {adults}".strip()


def _refuse_others(frame: pl.DataFrame, geo: Stored) -> None:
    """Refuse a header and segments that do not agree on how many people live where."""
    if "P0010001" in frame.columns:
        stated = frame["POP100"].cast(pl.Int64, strict=False)
        counted = frame["P0010001"].cast(pl.Int64, strict=False)
        if not (stated == counted).fill_null(False).all():
            raise InputError(
                geo.name,
                place="POP100",
                found="other numbers of people than P0010001 in the first segment",
                expected="the same: a header and segments of one state and edition",
            )


def _files(stored: Stored) -> tuple[Stored, list[Stored]]:
    """The geographic header and the segments that are beside it."""
    path = stored.path
    if stored.ending == ".zip":
        names = members(path)
        every = [Stored(path, one) for one in names]
    else:
        every = [Stored(one) for one in sorted(path.parent.iterdir()) if one.is_file()]
    geo = [one for one in every if GEO.search(_file_name(one))]
    if stored.ending != ".zip" and len(geo) > 1:
        geo = [one for one in geo if _file_name(one)[:2].lower() == path.name[:2].lower()]
    if len(geo) != 1:
        raise InputError(
            str(path),
            found=f"{len(geo)} geographic headers",
            expected="one (such as rigeo2020.pl), beside its segments or in a zip with them",
        )
    start, year = _file_name(geo[0])[:2].lower(), _file_name(geo[0]).lower()[5:]
    segments = [
        one
        for one in every
        if (name := _file_name(one).lower()).startswith(start)
        and name.endswith(year)
        and _SEGMENT.search(name)
    ]
    if not segments:
        raise InputError(
            geo[0].name,
            found="a geographic header without segments",
            expected="the segments beside it (such as ri000012020.pl)",
        )
    return geo[0], segments


def _file_name(stored: Stored) -> str:
    return PurePosixPath(stored.member or stored.path.name).name


def _lines(stored: Stored) -> pl.Series:
    raw = stored.content(larger=8)
    lines = pl.Series("line", raw.decode("latin-1").split("\n"), dtype=pl.String)
    lines = lines.str.strip_chars_end("\r")
    return lines.filter(lines != "")


def _header(geo: Stored, _: Sequence[Stored] = ()) -> pl.DataFrame:
    lines = _lines(geo)
    if lines.is_empty():
        raise InputError(geo.name, found="an empty file", expected="a geographic header")
    refuse_too_many(geo.name, len(lines), 100)
    if "|" in lines[0]:
        fields = lines.str.split("|")
        _refuse_width(fields.list.len(), 97, geo)
        found = {name: fields.list.get(at) for name, at in GEO_2020.items()}
    else:
        if (short := (lines.str.len_chars() < 336).arg_true()).len():
            raise damaged(geo.name, f"line {int(short[0]) + 1} is too short", "a header of 2010")
        found = {name: lines.str.slice(*at).str.strip_chars() for name, at in GEO_2010.items()}
    frame = pl.DataFrame({name: values.alias(name) for name, values in found.items()})
    if "GEOCODE" not in frame.columns:
        frame = frame.with_columns(pl.concat_str(PARTS[:3]).alias("GEOCODE")).with_columns(
            pl.when(pl.col("BLOCK") != "")
            .then(pl.concat_str("GEOCODE", "BLOCK"))
            .otherwise(pl.concat_str("GEOCODE", "BLKGRP"))
            .alias("GEOCODE")
        )
    return frame


def _refuse_width(sizes: pl.Series, width: int, stored: Stored) -> None:
    wrong = (sizes != width).arg_true()
    if len(wrong):
        raise InputError(
            stored.name,
            place=f"line {int(wrong[0]) + 1}",
            found=f"{int(sizes[int(wrong[0])])} fields",
            expected=f"{width}",
        )


def _segment(stored: Stored) -> pl.DataFrame:
    """The counts of a segment under their names, by the number of the line."""
    lines = _lines(stored)
    sign = "|" if len(lines) and "|" in lines[0] else ","
    found = _SEGMENT.search(_file_name(stored).lower())
    assert found is not None
    number = int(found[1])
    names = [
        f"{table}{n:04}"
        for table, size in ({**TABLES, **LATER}.get(number) or ())
        for n in range(1, size + 1)
    ]
    refuse_too_many(stored.name, len(lines), len(names) + KEYS)
    fields = lines.str.split(sign)
    _refuse_width(fields.list.len(), KEYS + len(names), stored)
    columns = [fields.list.get(KEYS - 1).alias("LOGRECNO")]
    columns += [fields.list.get(KEYS + n).alias(name) for n, name in enumerate(names)]
    frame = pl.DataFrame(columns)
    if frame["LOGRECNO"].n_unique() < frame.height:
        raise damaged(stored.name, "a number of a line twice", "each LOGRECNO once")
    return frame
