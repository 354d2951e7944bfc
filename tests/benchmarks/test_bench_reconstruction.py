"""The reconstruction benchmark: its people, a user's own, and readings that can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from benchmarks import reconstruction
from benchmarks.reconstruction import read_people
from headcount.errors import InputError
from headcount.schema import load_schema
from tests.support.persons import block_people

FINE = load_schema("persons-2010")
ROWS: dict[str, list[Any]] = {
    "tract": ["t1", "t1", "t1", "t2"],
    "block": ["1", "2", "2", "1b"],
    "sex": ["male", "female", "female", "male"],
    "age": [3, 40, 112, 22],
    "race": [1, 2, 63, 7],
    "hispanic": [True, False, False, True],
}


def readings(**options: Path) -> dict[str, float]:
    return {one.what.strip(): one.value for one in reconstruction.measure(**options)}


def test_synthetic_blocks_are_measured(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reconstruction, "BLOCKS", 30)
    monkeypatch.setattr(reconstruction, "TRACT_BLOCKS", 6)
    found = readings()
    assert found["blocks proven"] == 100
    assert found["certain blocks not recovered exactly (binned age)"] == 0
    assert found["30 synthetic blocks: records and variability"] > 0
    assert 0 < found["people recovered, binned age"] <= 100


def test_ones_own_file_is_measured(tmp_path: Path):
    file = tmp_path / "people.parquet"
    pl.DataFrame(ROWS).write_parquet(file)
    found = readings(persons=file)
    assert found["people recovered, binned age"] == 100
    assert "tracts of the file, jointly, single years of age" in found
    pl.DataFrame(ROWS).drop("tract").write_csv(tmp_path / "people.csv")
    assert "blocks of the file: records and variability" in readings(
        persons=tmp_path / "people.csv"
    )


def test_a_file_is_read_as_it_is(tmp_path: Path):
    file = tmp_path / "people.parquet"
    pl.DataFrame(ROWS).write_parquet(file)
    people = read_people(file, FINE)
    assert people.sizes.tolist() == [1, 2, 1]
    assert people.geography.size("tract") == 2
    cells = {FINE.cell(sex="female", age="110+", race="63", hispanic="not_hispanic")}
    assert cells <= set(people.cell.tolist())
    assert people.counts("tract").sum(axis=1).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("sex", "m", "column 'sex': found 'm', expected one of male, female"),
        ("race", 64, "column 'race': found 64, expected a whole number from 1 to 63"),
        ("age", -1, "column 'age': found -1, expected a whole number from 0 to 130"),
        ("hispanic", None, "column 'hispanic': found None, expected one of false, true"),
    ],
)
def test_strange_values_are_named(column: str, value: object, message: str, tmp_path: Path):
    rows = {**ROWS, column: [*ROWS[column][:3], value]}
    pl.DataFrame(rows, strict=False).write_parquet(tmp_path / "people.parquet")
    with pytest.raises(InputError, match=message):
        read_people(tmp_path / "people.parquet", FINE)


def test_a_missing_file_or_column_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="found no such file"):
        read_people(tmp_path / "none.parquet", FINE)
    pl.DataFrame(ROWS).drop("race").write_parquet(tmp_path / "people.parquet")
    with pytest.raises(InputError, match="found no column 'race', expected one"):
        read_people(tmp_path / "people.parquet", FINE)


def test_the_generator_is_what_it_says():
    people = block_people(FINE, blocks=1000, seed=1)
    assert 27 <= np.median(people.sizes) <= 31
    assert people.sizes.max() <= 600
    sex, age, race, hispanic = np.unravel_index(people.cell, FINE.shape)
    assert abs(sex.mean() - 0.5) < 0.01
    assert age.max() < 90
    assert abs((race == 0).mean() - 0.70) < 0.03
    assert abs(hispanic.mean() - 0.5 / 3) < 0.06
    again = block_people(FINE, blocks=1000, seed=1)
    assert (again.cell == people.cell).all()
