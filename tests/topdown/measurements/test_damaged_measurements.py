"""Damaged measurement files: whatever is done to them, one clear error or the same release."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headcount.errors import HeadcountError, InputError
from headcount.release import CountsRelease
from headcount.topdown.from_measurements import estimate_from, start_from
from tests.topdown.small import bounded, village, zcdp
from tests.topdown.test_topdown_from_measurements import published

ANSWERS, BOUNDS, PLACES = (
    "county.parquet/DPQuery/part-00000.parquet",
    "county.parquet/Constraint/part-00000.parquet",
    "units.parquet",
)
NEEDED = {
    ANSWERS: ("geocode", "query_name", "query_shape", "value", "variance"),
    BOUNDS: ("geocode", "query_name", "query_shape", "value", "sign"),
    PLACES: ("state", "county", "leaf"),
}
OTHER_TYPES = {
    "number": (1.5, pa.float64()),
    "flag": (True, pa.bool_()),
    "list": ([1, 2], pa.list_(pa.int64())),
    "texts": (["a"], pa.list_(pa.string())),
    "day": (date(2020, 4, 1), pa.date32()),
    "bytes": (b"\xff", pa.binary()),
}
SEEDS = 40


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    published(bounded(zcdp(1)), village(), folder)
    return folder


@pytest.fixture(scope="module")
def release(sound: Path) -> CountsRelease:
    return estimate_from(start_from(sound))


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "damaged"))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def with_column(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, values)


PLACES_OF_DAMAGE = [(file, column) for file, columns in NEEDED.items() for column in columns]


@pytest.mark.parametrize(("file", "column"), PLACES_OF_DAMAGE)
def test_a_missing_column_is_named(copy: Path, file: str, column: str):
    rewrite(copy / file, lambda table: table.drop_columns([column]))
    with pytest.raises(InputError, match=rf"{Path(file).name}: column.*{column}"):
        start_from(copy)


@pytest.mark.parametrize(("file", "column"), PLACES_OF_DAMAGE)
@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_a_column_of_another_type_is_one_clear_error(copy: Path, file: str, column: str, kind: str):
    value, other = OTHER_TYPES[kind]

    def change(table: pa.Table) -> pa.Table:
        return with_column(table, column, pa.array([value] * table.num_rows, type=other))

    rewrite(copy / file, change)
    with pytest.raises(HeadcountError) as refused:
        start_from(copy)
    said = str(refused.value)
    assert "found" in said
    assert "expected" in said
    assert "cut off or damaged" not in said  # the file is whole: what is wrong is its column


@pytest.mark.parametrize(("file", "column"), PLACES_OF_DAMAGE)
def test_a_column_without_values_is_refused(copy: Path, file: str, column: str):
    def change(table: pa.Table) -> pa.Table:
        return with_column(table, column, pa.nulls(table.num_rows, table.schema.field(column).type))

    rewrite(copy / file, change)
    with pytest.raises(HeadcountError, match=r"found .*, expected "):
        estimate_from(start_from(copy))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_damaged_bytes_are_refused_or_read_as_another_sound_file(
    copy: Path, release: CountsRelease, seed: int
):
    """That a sound file has other numbers is told by the manifest of its release alone."""
    chance = Random(seed)
    path = chance.choice(sorted(one for one in copy.rglob("*.parquet") if one.is_file()))
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    if seed % 3 == 0:
        content = content[:at]
    elif seed % 3 == 1:
        content[at] ^= 1 << chance.randrange(8)
    else:
        content[at : at + chance.randrange(40)] = chance.randbytes(chance.randrange(40))
    path.write_bytes(bytes(content))
    said = ""
    try:
        made = estimate_from(start_from(copy))
    except HeadcountError as error:
        said = str(error)
    assert ("found" in said and "expected" in said) or (
        not said and made.geography.digest == release.geography.digest
    )
