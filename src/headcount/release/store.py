"""A release on disk: one Parquet file per level, a receipt, and a manifest written last."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from headcount.errors import InputError, RunError
from headcount.files import write_bytes_atomic
from headcount.geography.build import CodeColumns, build_geography
from headcount.geography.geography import Geography
from headcount.release.receipt import guarantee_from_json
from headcount.release.release import Release, Table
from headcount.schema import Attribute, Schema, impossible

MANIFEST = "manifest.json"
RECEIPT = "receipt.json"


def write_release(release: Release, folder: Path, *, receipt: Mapping[str, Any]) -> None:
    """Write a release so that it is whole or visibly unfinished: the manifest comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for level, table in release.tables.items():
        frame = level_frame(release.geography, release.schema, level, table)
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd")
        names.append(f"{level}.parquet")
        write_bytes_atomic(folder / names[-1], buffer.getvalue())
    _write_json(folder / RECEIPT, dict(receipt))
    files = {name: _digest(folder / name) for name in [*names, RECEIPT]}
    _write_json(folder / MANIFEST, {"domain": _domain(release), "files": files})


def read_release(folder: Path) -> Release:
    """Read a release back, after checking every file against the manifest."""
    manifest = read_manifest(folder)
    for name, digest in manifest["files"].items():
        path = folder / name
        if not path.is_file() or _digest(path) != digest:
            raise RunError(f"{path}: found a missing or changed file, expected sha256 {digest}")
    receipt = read_receipt(folder)
    domain = manifest["domain"]
    schema = Schema(
        tuple(Attribute(name, tuple(levels)) for name, levels in domain["attributes"]),
        tuple(impossible(zero) for zero in domain["structural_zeros"]),
    )
    geography, tables = _read_tables(folder, schema, domain)
    return Release(
        schema=schema,
        geography=geography,
        mechanism=receipt["mechanism"],
        tables=tables,
        guarantee=guarantee_from_json(receipt["guarantee"]),
        key_kind=receipt["key_kind"],
        backend=receipt["noise_backend"],
        notes=receipt["notes"],
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished release; a folder without one holds no release."""
    path = folder / MANIFEST
    if not path.is_file():
        raise RunError(f"{path}: found no manifest, expected a finished release")
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return manifest


def read_receipt(folder: Path) -> dict[str, Any]:
    """How a finished release was made."""
    read_manifest(folder)
    receipt: dict[str, Any] = json.loads((folder / RECEIPT).read_text(encoding="utf-8"))
    return receipt


def level_frame(geography: Geography, schema: Schema, level: str, table: Table) -> pl.DataFrame:
    """One level as a wide table: the codes from the top to the unit, then one column a cell."""
    depth = geography.depth(level)
    above = [level] if depth == 0 else geography.levels[1 : depth + 1]
    codes = {
        name: geography.units[geography.depth(name)][geography.ancestors(name, of=level)]
        for name in above
    }
    cells = {name: table[:, i] for i, name in enumerate(schema.cell_names) if schema.possible[i]}
    if clash := sorted(set(codes) & set(cells)):
        raise InputError(
            "release",
            place=f"column {clash[0]!r}",
            found="a geography level and a cell of that name",
            expected="distinct names",
        )
    strings = {
        name: pl.Series(name, code.tolist(), dtype=pl.String) for name, code in codes.items()
    }
    return pl.DataFrame({**strings, **cells})


def _read_tables(
    folder: Path, schema: Schema, domain: dict[str, Any]
) -> tuple[Geography, dict[str, Table]]:
    root, *levels = domain["levels"]
    leaf = pl.read_parquet(folder / f"{(levels or [root])[-1]}.parquet")
    source = CodeColumns(columns=tuple(levels or [root]), root=root)
    geography, _ = (
        build_geography(leaf, source, name=str(folder)) if levels else (_alone(root), None)
    )
    tables: dict[str, Table] = {}
    for level in domain["published"]:
        frame = pl.read_parquet(folder / f"{level}.parquet")
        units = geography.units[geography.depth(level)]
        order = np.argsort(frame[level].to_numpy().astype(np.str_))[np.argsort(np.argsort(units))]
        columns = [
            frame[name].to_numpy() if possible else np.zeros(frame.height, dtype=np.int64)
            for name, possible in zip(schema.cell_names, schema.possible)
        ]
        tables[level] = np.column_stack(columns)[order]
    return geography, tables


def _alone(root: str) -> Geography:
    return Geography((root,), (np.array([root]),), (np.empty(0, dtype=np.int32),))


def _domain(release: Release) -> dict[str, Any]:
    return {
        "attributes": [[a.name, list(a.levels)] for a in release.schema.attributes],
        "structural_zeros": [
            {name: list(levels) for name, levels in zero}
            for zero in release.schema.structural_zeros
        ],
        "levels": list(release.geography.levels),
        "published": list(release.tables),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_bytes_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
