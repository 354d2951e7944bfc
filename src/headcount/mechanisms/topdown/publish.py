"""The noisy measurements themselves, for whoever wants to work out uncertainty: Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headcount.geography import Geography
from headcount.mechanisms.topdown.measure import Measurements, planned_noise
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.release.store import table_file
from headcount.release.streamed import whole_files
from headcount.schema import Schema
from headcount.tabulate import CELLS, Query, every_cell

_UNITS_AT_ONCE = 20_000


def write_measurements(
    measurements: Measurements,
    settings: TopDownSettings,
    schema: Schema,
    geography: Geography,
    folder: Path,
) -> None:
    """Draw every measurement in full and write one file per level and query.

    A row is a unit, a column a group of the query; the noise's law stands in the file's metadata.
    The estimate uses the same draws: noise is a function of its address.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for (level, name), (noise, _) in planned_noise(settings, schema, geography).items():
        query = every_cell(schema) if name == CELLS else settings.query(name)
        columns = _labels(query, schema)
        law = "discrete Gaussian, sigma2" if noise.gaussian else "two-sided geometric, rate"
        about = {b"headcount": f"{law} {noise.parameter}".encode()}
        form = pa.schema([("unit", pa.string()), *((c, pa.int64()) for c in columns)], about)
        with (
            whole_files(folder / table_file(f"{level}-{name}")) as (file,),
            pq.ParquetWriter(file, form, compression="zstd") as writer,
        ):
            for answers, codes in _pieces(measurements, level, name, schema, geography):
                arrays = [pa.array(codes.tolist()), *(pa.array(a) for a in answers.T)]
                writer.write_table(pa.Table.from_arrays(arrays, schema=form))


def _pieces(
    measurements: Measurements, level: str, name: str, schema: Schema, geography: Geography
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.str_]]]:
    codes = geography.units[geography.depth(level)]
    if name != CELLS:
        yield measurements.margin(level, name), codes
        return
    for first in range(0, len(codes), _UNITS_AT_ONCE):
        units = np.arange(first, min(first + _UNITS_AT_ONCE, len(codes)), dtype=np.int64)
        possible = np.flatnonzero(schema.possible)
        answers = measurements.detail(
            level, np.repeat(units, len(possible)), np.tile(possible, len(units))
        )
        whole = np.zeros((len(units), schema.size), dtype=np.int64)
        whole[:, possible] = answers.reshape(len(units), -1)
        yield whole, codes[units]


def _labels(query: Query, schema: Schema) -> list[str]:
    levels = [attribute.levels for attribute in query.attributes(schema)]
    return ["_".join(combination) or "total" for combination in product(*levels)]
