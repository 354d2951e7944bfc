"""In which files a release is written: formats, rows or columns, totals and margins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.release.frames import COUNT, is_large, refuse_clash
from headcount.schema import Schema
from headcount.schema.schema import is_pattern

FileFormat = Literal["parquet", "csv"]
MarginNames = tuple[str, ...]

UNITS = "units"
"""The file of the leaf's codes, beside tables that list counts."""

AREAS = "areas"
"""The same as text, where places were made for the release."""

LONGEST_NAME = 200
"""Bytes of a file name: what file systems allow, with room for a temporary file's ending."""


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """The files of a release; each table is there in every format.

    where
        formats   of every table; headcount reads the first again
        tidy      one row for each count, not one for each unit
        margins   attributes (none: the total) by which published counts are added up besides
    """

    formats: tuple[FileFormat, ...] = ("parquet",)
    tidy: bool = False
    margins: tuple[MarginNames, ...] = ()

    def __post_init__(self) -> None:
        if not self.formats or len(set(self.formats)) < len(self.formats):
            raise ConfigError(
                "run",
                place="format",
                found=str(list(self.formats)),
                expected='"parquet", "csv" or both, each once',
            )

    def check(self, domain: Domain) -> None:
        """Refuse a domain without distinct columns or files: before noise is drawn, not after."""
        schema, geography = domain.schema, domain.geography
        refuse_clash(geography.levels, schema.cell_names, "cell")
        wide = not self.tidy and not is_large(schema, geography.size(geography.leaf))
        sums = [marginal(schema, margin) for margin in self.margins]
        _refuse_names(schema, geography, cells=[schema, *sums] if wide else [])
        if self.tidy or is_large(schema, geography.size(geography.leaf)):
            refuse_clash(geography.levels, [*schema.names, COUNT, UNITS], "column or file")
            if COUNT in schema.names:
                raise InputError(
                    "release",
                    place=f"attribute {COUNT!r}",
                    found="the name of the column of counts, in tables with a row for each count",
                    expected="another name for the attribute"
                    + (", or tidy = false" if self.tidy else ""),
                )
        stems: dict[str, str] = {}
        for each in (None, *self.margins):
            for level in geography.levels:
                _new_name(stems, level, each)

    def least_bytes(self, domain: Domain) -> int:
        """What the text of the lowest level takes at least; 0 where that depends on its counts."""
        schema, geography = domain.schema, domain.geography
        if "csv" not in self.formats or is_large(schema, geography.size(geography.leaf)):
            return 0
        counts = int(schema.possible.sum())
        codes = np.char.str_len(geography.units[-1])
        per_count = codes.sum() + 5 * len(codes) if self.tidy else 2 * len(codes)
        return counts * int(per_count)


def _refuse_names(schema: Schema, geography: Geography, *, cells: Sequence[Schema]) -> None:
    """Refuse what no column can be called: the character 0, and what polars takes for a pattern.

    where
        cells   schemas whose cells are columns, which must have names
    """
    named = [("level of the geography", name) for name in geography.levels]
    named += [("attribute", name) for name in schema.names]
    named += [(f"level of {one.name!r}", text) for one in schema.attributes for text in one.levels]
    named += [("cell", name) for one in cells for name in one.cell_names]
    for what, text in named:
        if "\0" in text:
            found = "the character 0 in it"
        elif what == "cell" and not text:
            found = "a column without a name"
        elif is_pattern(text) and not what.startswith("level of '"):
            found = "a pattern for names of columns"
        else:
            continue
        raise InputError(
            "release",
            place=f"{what} {text!r}",
            found=found,
            expected="a name that a column can have" + ", or tidy = true" * (what == "cell"),
        )


def _new_name(stems: dict[str, str], level: str, margin: MarginNames | None) -> None:
    stem = stem_of(level, margin)
    what = f"level {level!r}" if margin is None else f"margin {list(margin)} of level {level!r}"
    if len(f"{stem}.parquet".encode()) > LONGEST_NAME:
        raise InputError(
            "release",
            place=what,
            found=f"a name of {len(stem)} characters",
            expected=f"one that fits a file name of {LONGEST_NAME} bytes",
        )
    other = stems.get(stem.casefold())
    stems[stem.casefold()] = what
    if other is None:
        return
    if margin is None:
        raise InputError(
            "release",
            place=what,
            found=f"{other} too, and on Windows and macOS their files would be one",
            expected="names that differ by more than capitals",
        )
    raise ConfigError(
        "run",
        place="margins",
        found=f"one file, {stem!r}, for {other} and for {what}",
        expected="each margin once, and files with names of their own",
    )


def marginal(schema: Schema, margin: MarginNames) -> Schema:
    """The schema of a margin: some attributes, and the structural zeros that concern only them."""
    unknown = [name for name in margin if name not in schema.names]
    if unknown or len(set(margin)) < len(margin):
        raise ConfigError(
            "run",
            place="margins",
            found=f"attribute {unknown[0]!r}" if unknown else f"an attribute twice in {[*margin]}",
            expected=f"some of {list(schema.names)}, each once",
        )
    zeros = tuple(
        zero for zero in schema.structural_zeros if {name for name, _ in zero} <= {*margin}
    )
    return Schema(tuple(schema.attribute(name) for name in margin), zeros)


def stem_of(level: str, margin: MarginNames | None = None) -> str:
    """The file of a level, or of a margin of it, without its ending.

    What a file name cannot hold is written as %2F and so on. What Windows does not allow in a name
    (signs, names of devices) is written so on every system, so that a release can be copied to any.
    """
    stem = _NO_FILE_NAME.sub(_escaped, level)
    if margin is None:
        return stem
    return f"{stem}.{_NO_FILE_NAME.sub(_escaped, '-'.join(margin) or 'total')}"


_NO_FILE_NAME = re.compile(
    r'[\x00-\x1f%/\\:*?"<>|]|^\.|^(?:C(?=ON$|OM\d$)|P(?=RN$)|A(?=UX$)|N(?=UL$)|L(?=PT\d$))', re.I
)


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def published_stem(table: str, level: str) -> str:
    """The file of a published table at a level, without its ending."""
    return f"{table}@{stem_of(level)}"
