"""How long does it take to count a nation's microdata, and in how much memory?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from benchmarks.figures import Reading, apart, timed
from benchmarks.nation_2020 import watched_memory
from headcount.errors import ConfigError
from headcount.geography.geography import Prefixes
from headcount.tabulate import Counts, Tabulated

if TYPE_CHECKING:
    import pyarrow as pa

SEED = 1940
AT_ONCE = 1 << 20
MOST_SECONDS, MOST_GIB = 300, 4
"""Limits for all 132 million people, on two cores."""

CODE = "district"
PLACES = Prefixes(
    column=CODE, prefixes=(("state", 2), ("county", 6), ("enumeration_district", 10)), root="nation"
)


def measure(*, share: float = 0.01) -> list[Reading]:
    """Make a file of people, one row each, in any order within a state; count it; count it again.

    Whoever makes the file, whoever counts it and whoever checks the counts are processes of their
    own. The check groups the rows by Arrow and shares no code with what is measured.
    """
    if not 0.001 <= share <= 1:
        raise ConfigError(
            "benchmarks tabulate",
            place="--share",
            found=str(share),
            expected="the part of the nation of 1940 to make, 0.001 to 1",
        )
    with TemporaryDirectory() as folder:
        path, counts = Path(folder) / "people.parquet", Path(folder) / "counts.parquet"
        apart(write_people, path, share)
        ran = apart(count_file, path, counts)
        wrong = apart(differences, path, counts)
        size = path.stat().st_size
    rows = ran["people"]
    seconds, gib = (MOST_SECONDS, MOST_GIB) if share == 1 else (None, None)
    return [
        Reading("rows of microdata", rows, "people", f"{size / 2**20:,.0f} MiB of Parquet"),
        Reading(
            "read, checked and counted",
            ran["wall"],
            "s wall",
            f"{ran['cpu']:.1f} s CPU",
            at_most=seconds,
        ),
        Reading("  rows a second", rows / ran["wall"], "rows/s"),
        Reading("digest of the counts", ran["digest_wall"], "s wall"),
        Reading("added up to every level", ran["levels_wall"], "s wall"),
        Reading("units and cells with people", ran["entries"], "counts"),
        Reading("peak anonymous memory", ran["peak"], "GiB", at_most=gib),
        Reading(
            "counts that differ from a plain count", wrong, f"of {ran['entries']:,}", at_most=0
        ),
    ]


def write_people(path: Path, share: float) -> None:
    """Write the nation of 1940 as microdata, a million rows at a time."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    columns = [CODE, *(one.name for one in _attributes())]
    schema = pa.schema([(column, pa.string()) for column in columns])
    with ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in people(share):
            writer.write_table(batch.cast(schema))


def people(share: float) -> Iterator[pa.Table]:
    """The people of the nation, state by state, in any order within a state."""
    import pyarrow as pa

    from headcount_papers.us1940 import us1940

    nation, _ = us1940(seed=SEED, scale=share)
    assert nation.count is not None
    codes = pa.array(nation.geography.units[-1].tolist())
    levels = np.unravel_index(np.arange(nation.schema.size), nation.schema.shape)
    state = nation.geography.ancestors("state")[nation.unit]
    generator = np.random.default_rng(SEED)
    for number in range(nation.geography.size("state")):
        entries = np.flatnonzero(state == number)
        everybody = np.repeat(entries, nation.count[entries])
        generator.shuffle(everybody)
        for start in range(0, len(everybody), AT_ONCE):
            some = everybody[start : start + AT_ONCE]
            columns = {CODE: pa.DictionaryArray.from_arrays(nation.unit[some], codes)}
            for axis, one in zip(levels, nation.schema.attributes, strict=True):
                code = axis.astype(np.int8)[nation.cell[some]]
                columns[one.name] = pa.DictionaryArray.from_arrays(code, list(one.levels))
            yield pa.table(columns)


def count_file(path: Path, counts: Path) -> dict[str, Any]:
    """Count a file as ``headcount protect`` does, and write what was counted."""
    from headcount.engines import LocalEngine
    from headcount.population.microdata import count_people
    from headcount.tabulate.counts import every_level

    table = people_table(path)
    with watched_memory() as peak:
        counted, wall, cpu = timed(lambda: count_people(table, engine=LocalEngine()))
        data, digest_wall, _ = timed(lambda: Tabulated.of(counted))
        _, levels_wall, _ = timed(lambda: every_level(data.counts))
        most = peak()
    as_table(data.counts).write_parquet(counts)
    return {
        "people": int(data.counts.totals().sum()),
        "entries": data.counts.matrix.nnz,
        "wall": wall,
        "cpu": cpu,
        "digest_wall": digest_wall,
        "levels_wall": levels_wall,
        "peak": most,
    }


def people_table(path: Path) -> Any:
    """The file as a config describes it."""
    from headcount.population.columns import AttributeColumn
    from headcount.population.people_table import TableOfPeople

    attributes = [AttributeColumn(name=one.name, levels=one.levels) for one in _attributes()]
    return TableOfPeople(path=path, attributes=tuple(attributes), geography=PLACES)


def as_table(counts: Counts) -> pl.DataFrame:
    """Counts with the code of the unit and the levels of the cell."""
    entries, schema = counts.matrix.tocoo(), counts.schema
    columns = {CODE: counts.geography.units[-1][entries.row]}
    numbers = np.unravel_index(entries.col, schema.shape)
    for axis, one in zip(numbers, schema.attributes, strict=True):
        columns[one.name] = np.array(one.levels)[axis]
    return pl.DataFrame({**columns, "many": entries.data})


def differences(path: Path, counts: Path) -> int:
    """How many counts are not those that Arrow gets from the same rows."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile, read_table

    columns = [CODE, *(one.name for one in _attributes())]
    found = []
    with ParquetFile(path) as file:
        for batch in file.iter_batches(AT_ONCE):
            some = pa.table(batch).group_by(columns).aggregate([([], "count_all")])
            found.append(some.rename_columns([*columns, "plain"]))
    plain = pa.concat_tables(found).group_by(columns).aggregate([("plain", "sum")])
    types = [(column, plain.schema.field(column).type) for column in columns]
    counted = read_table(counts).cast(pa.schema([*types, ("many", pa.int64())]))
    both = counted.join(plain, columns, join_type="full outer").to_pydict()
    return sum(a != b for a, b in zip(both["many"], both["plain_sum"], strict=True))


def _attributes() -> Any:
    from headcount.schema import load_schema

    return load_schema("e2e-2018").attributes
