"""Finished levels on disk: one Parquet file each, written whole or not at all."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headcount.files import write_bytes_atomic
from headcount.mechanisms.topdown.estimate import Rows


class FinishedLevels:
    """The finished levels of one run below a workspace folder.

    They hold noisy estimates, nothing of the truth; a resumed run reads them instead of
    estimating again, and would get the same counts if they were lost.
    """

    def __init__(self, folder: Path, run: int) -> None:
        self._folder = folder / f"run-{run}"
        self._folder.mkdir(parents=True, exist_ok=True)

    def load(self, level: str) -> tuple[Rows, dict[str, float]] | None:
        """A finished level, or None."""
        path = self._path(level)
        if not path.is_file():
            return None
        table = pq.read_table(path)
        about = json.loads(table.schema.metadata[b"headcount"])
        unit = table["unit"].to_numpy()
        start = np.searchsorted(unit, np.arange(about["units"] + 1))
        rows = Rows(start, table["cell"].to_numpy(), table["count"].to_numpy())
        return rows, about["notes"]

    def save(self, level: str, rows: Rows, notes: dict[str, float]) -> None:
        """Keep a finished level."""
        unit = np.repeat(np.arange(rows.units), np.diff(rows.start)).astype(np.int64)
        about = json.dumps({"units": rows.units, "notes": notes}).encode()
        columns = {"unit": unit, "cell": rows.cell, "count": rows.value}
        table = pa.table(columns).replace_schema_metadata({b"headcount": about})
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        write_bytes_atomic(self._path(level), buffer.getvalue())

    def _path(self, level: str) -> Path:
        return self._folder / f"{level}.parquet"
