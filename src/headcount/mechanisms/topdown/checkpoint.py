"""Finished levels on disk: one Parquet file each, written whole or not at all."""

from __future__ import annotations

import io
import json
import logging
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headcount.files import write_bytes_atomic
from headcount.mechanisms.topdown._estimate import SparseRows
from headcount.release.layout import stem_of

_log = logging.getLogger(__name__)


class FinishedLevels:
    """The finished levels of one run below a workspace folder.

    They hold noisy estimates, nothing of the truth; a resumed run reads them instead of
    estimating again, and would get the same counts if they were lost. So a damaged file is
    reported and not used, and so is a level of another run in the same folder: ``made_from`` names
    the data and the settings (None to read whatever is there).
    """

    def __init__(self, folder: Path, run: int, *, made_from: bytes | None = None) -> None:
        self._folder = folder / f"run-{run}"
        self._made_from = sha256(made_from).hexdigest() if made_from is not None else None
        self._folder.mkdir(parents=True, exist_ok=True)

    def load(self, level: str) -> tuple[SparseRows, dict[str, float]] | None:
        """A finished level, or None."""
        path = self._path(level)
        if not path.is_file():
            return None
        try:
            table = pq.read_table(path)
            about = json.loads(table.schema.metadata[b"headcount"])
            unit = table["unit"].to_numpy()
            start = np.searchsorted(unit, np.arange(about["units"] + 1))
            rows = SparseRows(start, table["cell"].to_numpy(), table["count"].to_numpy())
            if about["level"] != level or about["digest"] != _digest(rows, about):
                raise ValueError("its digest or its level does not match")
            if self._made_from not in (None, about["made_from"]):
                raise ValueError("it was made from other data or with other settings")
        # A damaged file fails in whatever way the reader happens to stumble.
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
            _log.warning("%s cannot be used (%s): the level is estimated again", path, error)
            return None
        return rows, about["notes"]

    def save(self, level: str, rows: SparseRows, notes: dict[str, float]) -> None:
        """Keep a finished level."""
        unit = np.repeat(np.arange(rows.units), np.diff(rows.start)).astype(np.int64)
        about: dict[str, Any] = {"level": level, "units": rows.units, "notes": notes}
        about["made_from"] = self._made_from
        about["digest"] = _digest(rows, about)
        columns = {"unit": unit, "cell": rows.cell, "count": rows.value}
        metadata = {b"headcount": json.dumps(about).encode()}
        table = pa.table(columns).replace_schema_metadata(metadata)
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        write_bytes_atomic(self._path(level), buffer.getvalue())

    def _path(self, level: str) -> Path:
        return self._folder / f"{stem_of(level)}.parquet"


def _digest(rows: SparseRows, about: dict[str, Any]) -> str:
    """SHA-256 of the counts and of what is said about them."""
    said = {key: about[key] for key in ("level", "units", "notes", "made_from")}
    hasher = sha256(json.dumps(said, sort_keys=True).encode())
    for part in (rows.start, rows.cell, rows.value):
        hasher.update(np.ascontiguousarray(part, dtype="<i8").tobytes())
    return hasher.hexdigest()
