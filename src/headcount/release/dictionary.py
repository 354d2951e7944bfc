"""The data dictionary beside a release: what each file and each column is, for people and programs.

A descriptor by the Data Package standard, version 1 (https://specs.frictionlessdata.io): programs
that know it read the tables with codes as text and levels in their order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headcount.numbers import in_plain_numbers
from headcount.release._sheets import Sheet, SheetField

DICTIONARY = "datapackage.json"

_MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "txt": "text/plain",
}

_BESIDES = {
    "microdata": "Records of people, made from the protected counts.",
    "mdf": "Records of people, housing units or living quarters, in layouts of the Census Bureau.",
    "measurements": "Noisy answers, before they were made to add up, and what is kept exactly or "
    "within bounds.",
}


def described(
    files: Sequence[tuple[str, Sheet | None]],
    *,
    mechanism: str,
    promises: Sequence[str],
    facts: Mapping[str, tuple[int, str]],
    geography: Mapping[str, Any],
) -> dict[str, Any]:
    """The descriptor of a release.

    where
        files      name of each file, and the table in it; None where it is described elsewhere
        promises   the sentences of the guarantee
        facts      bytes and SHA-256 of each file
        geography  the places of the tables and those that were measured, as in the receipt
    """
    names: set[str] = set()
    return {
        "profile": "data-package",
        "name": "release",
        "title": f"Protected counts by {in_plain_numbers(mechanism)}",
        "description": "\n".join([*promises, *_places_in_words(geography)]),
        **({"geography": dict(geography)} if geography else {}),
        "resources": [_resource(name, sheet, *facts[name], names) for name, sheet in files],
    }


def _places_in_words(geography: Mapping[str, Any]) -> list[str]:
    """Both geographies in a sentence each, where they differ."""
    if "measured" not in geography:
        return []

    def sizes(which: str) -> str:
        return ", ".join(f"{level} {n:,}" for level, n in geography[which]["units"].items())

    return [
        f"Tables have the places of tabulation (units of each level: {sizes('published')}).",
        f"Noise was put on units of another tree over the same leaves, the spine "
        f"({sizes('measured')}).",
    ]


def _resource(
    path: str, sheet: Sheet | None, size: int, digest: str, names: set[str]
) -> dict[str, Any]:
    ending = path.rsplit(".", 1)[-1]
    resource: dict[str, Any] = {
        "name": _identifier(path, names),
        "path": path,
        "format": ending,
        "mediatype": _MEDIA.get(ending, "application/octet-stream"),
    }
    if ending != "parquet":  # of which frictionless counts no bytes: the manifest has its digest
        resource |= {"bytes": size, "hash": f"sha256:{digest}"}
    if sheet is None:
        return {**resource, "description": _BESIDES.get(path.split("/")[0], "")}
    if ending == "csv":
        resource |= {"profile": "tabular-data-resource", "encoding": "utf-8"}
    # A code may be the empty text: only where counts are withheld is nothing a missing value.
    missing = [] if all(field.required for field in sheet.fields) else [""]
    return {
        **resource,
        "description": sheet.words,
        "schema": {
            "fields": [_field(field) for field in sheet.fields],
            "primaryKey": list(sheet.key),
            "missingValues": missing,
        },
    }


def _field(field: SheetField) -> dict[str, Any]:
    constraints: dict[str, Any] = {"required": True} if field.required else {}
    if field.levels:
        constraints["enum"] = list(field.levels)
    return {
        "name": field.name,
        "type": field.type,
        "description": field.words,
        **({"constraints": constraints} if constraints else {}),
    }


def _identifier(path: str, taken: set[str]) -> str:
    """A name as the standard wants it: small letters, digits, and ``.-_``; each once."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", path.lower()).strip("-") or "table"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name
