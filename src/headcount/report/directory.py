"""A study on disk: report, tables and figures, and a manifest written last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from headcount._version import __version__
from headcount.errors import RunError
from headcount.files import from_json, make_folder, write_text_atomic
from headcount.report.html import save_figures, write_report
from headcount.report.model import Report

MANIFEST = "manifest.json"
NOT_PRIVATE = (
    "A study's noise comes from a seed, so that it can be repeated, and its tables compare with "
    "exact counts: nothing here is a private release."
)
SettingsTable = Mapping[str, Any]


def study_is_there(out: Path, *, study: str, settings: SettingsTable) -> bool:
    """Whether ``out`` holds this very study, finished; refuse a folder that holds anything else."""
    if not out.exists():
        return False
    if not out.is_dir():
        raise RunError(f"{out}: found a file, expected a new or empty directory")
    manifest = out / MANIFEST
    if not manifest.is_file():
        strange = sorted(path.name for path in out.iterdir() if not _ours(path))
        if strange:
            raise RunError(f"{out}: found {strange[0]!r}, expected a new or empty directory")
        return False
    try:
        found = dict(from_json(manifest.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise RunError(f"{manifest}: found a damaged file, expected a study's manifest") from None
    wanted = _identity(study, settings)
    if {key: found.get(key) for key in wanted} != wanted:
        raise RunError(
            f"{out}: found another run ({found.get('study')} {found.get('settings')}, headcount "
            f"{found.get('headcount')}), expected a new directory or the same settings"
        )
    return True


def write_study(
    out: Path,
    *,
    study: str,
    settings: SettingsTable,
    tables: Mapping[str, pl.DataFrame],
    report: Report,
    not_private: str = NOT_PRIVATE,
) -> Path:
    """Write ``report.html``, ``tables/*.csv``, ``figures/*`` and, last, ``manifest.json``.

    ``not_private`` is what the manifest says about why this is no release.
    """
    make_folder(out / "tables")
    make_folder(out / "figures")
    (out / MANIFEST).unlink(missing_ok=True)
    # What an unfinished study left may have been made from other settings.
    for leftover in (*out.rglob(".*.tmp"), *out.glob("tables/*.csv"), *out.glob("figures/*")):
        leftover.unlink(missing_ok=True)
    for name, table in tables.items():
        write_text_atomic(out / "tables" / f"{name}.csv", table.write_csv())
    save_figures(report, out / "figures")
    write_report(report, out / "report.html")
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != MANIFEST)
    digests = {str(p.relative_to(out)): sha256(p.read_bytes()).hexdigest() for p in files}
    manifest = {**_identity(study, settings), "not_private": not_private, "files": digests}
    write_text_atomic(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    return out / "report.html"


def _ours(path: Path) -> bool:
    """Whether an unfinished study may have left this behind."""
    leftover = path.name.startswith(".") and path.name.endswith(".tmp")
    return leftover or path.name in ("tables", "figures", "report.html")


def _identity(study: str, settings: SettingsTable) -> dict[str, Any]:
    # Through JSON and back, so that tuples compare equal to what a manifest holds.
    plain: dict[str, Any] = json.loads(json.dumps(dict(settings)))
    return {"study": study, "settings": plain, "headcount": __version__}
