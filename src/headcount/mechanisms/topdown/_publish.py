"""The noisy measurements themselves, for whoever wants to work out uncertainty: Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headcount.arrays import Ints
from headcount.errors import InputError
from headcount.geography import Geography
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.planned import planned_noise
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.population import Population
from headcount.population.quarters import Quarters
from headcount.progress import Progress
from headcount.release import Release
from headcount.release.layout import LONGEST_NAME, stem_of
from headcount.release.publication import Publication
from headcount.release.streamed import whole_files
from headcount.schema import Schema
from headcount.schema.attribute import first_repeated
from headcount.tabulate import CELLS, Query, every_cell

UNIT = "unit"
"""The column of unit codes."""

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
    for (level, name), noise in planned_noise(settings, schema, geography).items():
        query = every_cell(schema) if name == CELLS else settings.query(name)
        columns = _labels(query, schema)
        about = {b"headcount": str(noise.law or "no noise").encode()}
        form = pa.schema([(UNIT, pa.string()), *((c, pa.int64()) for c in columns)], about)
        with (
            whole_files(folder / measurement_file(level, name)) as (file,),
            pq.ParquetWriter(file, form, compression="zstd") as writer,
        ):
            for answers, codes in _pieces(measurements, level, name, schema, geography):
                arrays = [pa.array(codes.tolist()), *(pa.array(a) for a in answers.T)]
                writer.write_table(pa.Table.from_arrays(arrays, schema=form))


def measurement_file(level: str, query: str) -> str:
    """The file of a level and a query: the first "-" parts them, one in the level is %2D."""
    return f"{stem_of(level).replace('-', '%2D')}-{stem_of(query)}.parquet"


def refuse_same_columns(settings: TopDownSettings, schema: Schema, geography: Geography) -> None:
    """Refuse measurements whose files would have two columns of one name, or too long a name."""
    settings = settings.completed(schema, geography)
    settings.refuse_unknown_names(schema, geography)
    for level, name in settings.allocation(geography).measured:
        query = every_cell(schema) if name == CELLS else settings.query(name)
        if twice := first_repeated([UNIT, *_labels(query, schema)]):
            raise InputError(
                "measurements",
                place=f"query {name!r}, column {twice!r}",
                found="two columns of that name",
                expected=f"levels that differ when joined by '_', none of them called {UNIT!r}",
            )
        if len(measurement_file(level, name).encode()) > LONGEST_NAME:
            raise InputError(
                "measurements",
                place=f"query {name!r} at {level!r}",
                found="a very long file name",
                expected=f"names of at most {LONGEST_NAME} bytes together",
            )


@dataclass(frozen=True)
class PublishedMeasurements(Publication):
    """The noisy measurements, written as they are drawn."""

    settings: TopDownSettings

    def check(self, population: Population) -> None:
        """Refuse files with two columns of one name."""
        refuse_same_columns(self.settings, population.schema, population.geography)

    def write(
        self, release: Release, folder: Path, *, quarters: Quarters | None, progress: Progress
    ) -> Sequence[Path]:
        """The files, which are there already."""
        return sorted(folder.glob("*.parquet"))


def _pieces(
    measurements: Measurements, level: str, name: str, schema: Schema, geography: Geography
) -> Iterator[tuple[Ints, NDArray[np.str_]]]:
    codes = geography.units[geography.depth(level)]
    for first in range(0, len(codes), _UNITS_AT_ONCE):
        units = np.arange(first, min(first + _UNITS_AT_ONCE, len(codes)), dtype=np.int64)
        if name != CELLS:
            yield measurements.margin(level, name, range(first, units[-1] + 1)), codes[units]
            continue
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
