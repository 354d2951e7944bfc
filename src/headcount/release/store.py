"""A release on disk: one Parquet file per level, a receipt, and a manifest written last."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import singledispatch
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.errors import InputError, RunError
from headcount.files import write_bytes_atomic
from headcount.geography.geography import Geography
from headcount.release.frames import (
    COUNT,
    MOST_COLUMNS,
    LevelTable,
    only_counted,
    refuse_clash,
    tidy_frame,
    units_frame,
    wide_frame,
)
from headcount.release.published import (
    definition_of,
    published_frame,
    read_published,
    rules_from_json,
    rules_to_json,
)
from headcount.release.receipt import guarantee_from_json
from headcount.release.release import CountsRelease, Release, TablesRelease
from headcount.schema import Attribute, Schema, impossible

MANIFEST = "manifest.json"
RECEIPT = "receipt.json"
UNITS = "units.parquet"
OLDER_COUNT = "count"
"""What older versions called the column of counts."""

LONGEST_NAME = 200
"""Bytes of a file name: what file systems allow, with room for a temporary file's ending."""


def write_release(
    release: Release, folder: Path, *, receipt: Mapping[str, Any], more: Sequence[Path] = ()
) -> None:
    """Write a release so that it is whole or visibly unfinished: the manifest comes last.

    ``more`` are files below ``folder`` that are written already and belong to the release.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for name, frame in _frames(release):
        names.append(name)
        _write_frame(folder / name, frame)
    _write_json(folder / RECEIPT, dict(receipt))
    names += [RECEIPT, *(str(path.relative_to(folder)) for path in more)]
    files = {name: _digest(folder / name) for name in names}
    manifest = {"domain": _domain(release), "files": files}
    _write_json(folder / MANIFEST, {**manifest, "sha256": _content_digest(manifest)})


@singledispatch
def _frames(release: Release) -> Iterator[tuple[str, pl.DataFrame]]:
    """The files of a kind of release: names and tables."""
    raise NotImplementedError(f"{type(release).__name__} has no form on disk")


@_frames.register
def _(release: CountsRelease) -> Iterator[tuple[str, pl.DataFrame]]:
    geography, schema = release.geography, release.schema
    for level, table in release.tables.items():
        form = tidy_frame if only_counted(schema, table) else wide_frame
        yield table_file(level), form(geography, schema, level, table).cast({pl.Enum: pl.String})
    if long_levels(release):
        yield UNITS, units_frame(geography, geography.leaf)


@_frames.register
def _(release: TablesRelease) -> Iterator[tuple[str, pl.DataFrame]]:
    yield UNITS, units_frame(release.geography, release.geography.leaf)
    for one in release.published:
        yield published_file(one.name, one.level), published_frame(one, release.geography)


def read_release(folder: Path) -> Release:
    """Read a release back, after checking every file against the manifest."""
    manifest = check_files(folder)
    receipt = read_receipt(folder)
    domain = manifest["domain"]
    schema = schema_from_json(domain)
    read = _read_published if "tables" in domain else _read_counts
    return read(
        folder,
        domain,
        schema=schema,
        mechanism=receipt["mechanism"],
        guarantee=guarantee_from_json(receipt["guarantee"]),
        key_kind=receipt["key_kind"],
        backend=receipt["noise_backend"],
        notes=receipt["notes"],
    )


def refuse_study(folder: Path) -> None:
    """Refuse the folder of a comparison or of a study: it is scored and seeded, never a release."""
    for path in (folder / MANIFEST, folder / "internal" / MANIFEST):
        if path.is_file() and "study" in _read_json(path):
            raise RunError(
                f"{folder}: found a comparison or a study, which is made with seeded noise and "
                f"can never become a release, expected a run made by headcount protect"
            )


def check_files(folder: Path) -> dict[str, Any]:
    """The manifest of a finished release, after checking that every file is as it was written."""
    refuse_study(folder)
    path = folder / MANIFEST
    if not path.is_file():
        raise RunError(f"{path}: found no manifest, expected a finished release")
    manifest = _read_json(path)
    if set(manifest) != {"domain", "files", "sha256"}:
        raise RunError(f"{path}: found keys {sorted(manifest)}, expected domain, files and sha256")
    if manifest.pop("sha256") != _content_digest(manifest):
        raise RunError(f"{path}: found a changed manifest, expected it as it was written")
    for name, digest in manifest["files"].items():
        path = folder / name
        if not path.is_file() or _digest(path) != digest:
            raise RunError(f"{path}: found a missing or changed file, expected sha256 {digest}")
    return manifest


def read_receipt(folder: Path) -> dict[str, Any]:
    """How a finished release was made."""
    check_files(folder)
    return _read_json(folder / RECEIPT)


_NO_FILE_NAME = re.compile(
    r'[\x00-\x1f%/\\:*?"<>|]|^\.|^(?:C(?=ON$|OM\d$)|P(?=RN$)|A(?=UX$)|N(?=UL$)|L(?=PT\d$))', re.I
)


def table_file(level: str) -> str:
    """The file of a level: its name, with what a file name cannot hold written as %2F and so on.

    What Windows does not allow in a name (signs, names of devices) is written so on every system,
    so that a release can be copied to any.
    """
    safe = _NO_FILE_NAME.sub(lambda found: f"%{ord(found[0]):02X}", level)
    return f"{safe}.parquet"


def published_file(table: str, level: str) -> str:
    """The file of a published table at a level."""
    return f"{table}@{table_file(level)}"


def check_publishable(schema: Schema, geography: Geography) -> None:
    """Refuse a domain that has no distinct columns or files: before noise is drawn, not after."""
    refuse_clash(geography, schema.cell_names, "cell")
    if schema.size > MOST_COLUMNS:
        refuse_clash(geography, [*schema.names, COUNT, Path(UNITS).stem], "column or file")
    folded: dict[str, str] = {}
    for level in geography.levels:
        if (other := folded.setdefault(level.casefold(), level)) != level:
            raise InputError(
                "release",
                place=f"level {level!r}",
                found=f"a level {other!r} too, and on Windows and macOS their files would be one",
                expected="names that differ by more than capitals",
            )
        if len(table_file(level).encode()) > LONGEST_NAME:
            raise InputError(
                "release",
                place=f"level {level!r}",
                found=f"a name of {len(level)} characters",
                expected=f"one that fits a file name of {LONGEST_NAME} bytes",
            )


def rehearse(schema: Schema, geography: Geography) -> None:
    """Make the first row of every table, to see that all of them can be made.

    Cells beyond the first stand for none that is other: their names are checked by themselves.
    """
    some = schema.cell_names[:1]
    for level in geography.levels:
        units = units_frame(geography, level)
        if units.height != geography.size(level):
            raise InputError(
                "release",
                place=f"level {level!r}",
                found=f"{units.height} rows",
                expected=f"one for each of {geography.size(level)} units",
            )
        row = units[:1].with_columns(pl.Series(name, [0]) for name in some)
        row.write_parquet(io.BytesIO(), compression="zstd")


def long_levels(release: CountsRelease) -> list[str]:
    """Levels with a row for each count that is not zero: 63 races by years are 20,000 columns."""
    return [level for level, one in release.tables.items() if only_counted(release.schema, one)]


def _from_long(frame: pl.DataFrame, level: str, schema: Schema, geography: Geography) -> LevelTable:
    """The sparse table that ``tidy_frame`` wrote."""
    from scipy.sparse import csr_array

    cell = np.zeros(frame.height, dtype=np.int64)
    for attribute in schema.attributes:
        numbers = pl.Enum(attribute.levels)
        code = frame[attribute.name].cast(numbers).to_physical().to_numpy()
        cell = cell * attribute.size + code
    codes = geography.units[geography.depth(level)].tolist()
    unit = frame[level].cast(pl.Enum(codes)).to_physical().to_numpy()
    shape = (len(codes), schema.size)
    count = frame[COUNT if COUNT in frame.columns else OLDER_COUNT].to_numpy()
    table: LevelTable = csr_array((count, (unit, cell)), shape=shape)
    return table


def _read_published(
    folder: Path, domain: dict[str, Any], *, schema: Schema, **made: Any
) -> TablesRelease:
    if "rules" not in domain:
        raise RunError(
            f"{folder}: found tables with withheld cells and no rules for them, as an older "
            f"version of headcount wrote them, expected a release that states its rules"
        )
    geography = geography_of_units(pl.read_parquet(folder / UNITS), domain["levels"])
    published = tuple(
        read_published(
            pl.read_parquet(folder / published_file(one["table"]["name"], one["level"])),
            one,
            schema,
            geography,
        )
        for one in domain["tables"]
    )
    rules = rules_from_json(domain["rules"])
    return TablesRelease(
        schema=schema, geography=geography, published=published, rules=rules, **made
    )


def _read_counts(
    folder: Path, domain: dict[str, Any], *, schema: Schema, **made: Any
) -> CountsRelease:
    frames = {level: pl.read_parquet(folder / table_file(level)) for level in domain["published"]}
    leaf, long = domain["levels"][-1], domain.get("long", ())
    units = pl.read_parquet(folder / UNITS) if long else frames[leaf]
    geography = geography_of_units(units, domain["levels"])
    tables: dict[str, LevelTable] = {}
    for level, frame in frames.items():
        if level in long:
            tables[level] = _from_long(frame, level, schema, geography)
            continue
        columns = [
            frame[name].to_numpy() if possible else np.zeros(frame.height, dtype=np.int64)
            for name, possible in zip(schema.cell_names, schema.possible, strict=True)
        ]
        tables[level] = np.column_stack(columns)
    weight = Fraction(domain.get("weight", 1))
    return CountsRelease(schema=schema, geography=geography, tables=tables, weight=weight, **made)


def geography_of_units(leaf: pl.DataFrame, levels: list[str]) -> Geography:
    """The geography in the order in which it was written: rows of tables stay where they are."""
    root, *below = levels
    units, parents = [np.array([root])], [np.empty(0, dtype=np.int32)]
    number = np.zeros(leaf.height, dtype=np.int32)  # of each leaf's ancestor at the level above
    for level in below:
        codes = leaf[level].to_numpy().astype(np.str_)
        _, first, group = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        units.append(codes[first[order]])
        parents.append(number[first[order]])
        number = np.argsort(order).astype(np.int32)[group]
    return Geography(tuple(levels), tuple(units), tuple(parents))


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """A schema as JSON."""
    return {
        "attributes": [[a.name, list(a.levels)] for a in schema.attributes],
        "structural_zeros": [
            {name: list(levels) for name, levels in zero} for zero in schema.structural_zeros
        ],
    }


def schema_from_json(data: Mapping[str, Any]) -> Schema:
    """The schema that ``schema_to_json`` wrote."""
    return Schema(
        tuple(Attribute(name, tuple(levels)) for name, levels in data["attributes"]),
        tuple(impossible(zero) for zero in data["structural_zeros"]),
    )


@singledispatch
def _domain(release: Release) -> dict[str, Any]:
    """What is needed to read a kind of release again, beside its files."""
    raise NotImplementedError(f"{type(release).__name__} has no form on disk")


@_domain.register
def _(release: CountsRelease) -> dict[str, Any]:
    long = long_levels(release)
    return {
        **({"long": long} if long else {}),
        **({"weight": str(release.weight)} if release.weight != 1 else {}),
        **schema_to_json(release.schema),
        "levels": list(release.geography.levels),
        "published": list(release.tables),
    }


@_domain.register
def _(release: TablesRelease) -> dict[str, Any]:
    return {
        "tables": [definition_of(one) for one in release.published],
        "rules": rules_to_json(release.rules),
        **schema_to_json(release.schema),
        "levels": list(release.geography.levels),
        "published": [],
    }


def _write_frame(path: Path, frame: pl.DataFrame) -> None:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    write_bytes_atomic(path, buffer.getvalue())


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_bytes_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise RunError(f"{path}: found a damaged file, expected JSON written by headcount")
    return content


def _content_digest(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
