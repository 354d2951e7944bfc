"""Ids of persons and record keys: read beside the people, never shown, and refused unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from headcount.errors import ConfigError, InputError
from headcount.geography.geography import CodeColumns
from headcount.population import Population, cut_households
from headcount.population.columns import AT_ONCE, AttributeColumn, KeyColumn
from headcount.population.counts import CountsTable
from headcount.population.households import HouseholdTables
from headcount.population.microdata import Microdata
from headcount.population.population import RecordKeys
from headcount.tabulate import Tabulated, tabulate

ROWS: dict[str, list[Any]] = {
    "area": ["a", "a", "b", "b", "c"],
    "home": ["1", "1", "2", "2", "3"],
    "sex": ["f", "m", "f", "m", "f"],
    "id": ["Anna-77", "Boris-5", "Céline", "D", "E"],
    "key": [0, 17, 255, 3, 4],
}
HERE = CodeColumns(columns=("area",))
SEX = (AttributeColumn(name="sex"),)


def file_of(folder: Path, *, suffix: str = "csv", **columns: Any) -> Path:
    path, table = folder / f"people.{suffix}", pl.DataFrame(ROWS | columns, strict=False)
    if suffix == "csv":
        table.write_csv(path)
    else:
        table.write_parquet(path)
    return path


def read(folder: Path, *, suffix: str = "csv", **settings: Any) -> Population:
    columns = settings.pop("columns", {})
    path = file_of(folder, suffix=suffix, **columns)
    return Microdata(file=path, geography=HERE, attribute=SEX, **settings).read()


def values(population: Population) -> list[int]:
    assert population.record_keys is not None
    found: list[int] = population.record_keys.values.tolist()
    return found


def test_record_keys_become_the_high_bits_of_words(tmp_path):
    people = read(tmp_path, record_keys="key")
    assert values(people) == [r << 56 for r in ROWS["key"]]
    wide = read(tmp_path, record_keys="key", largest_record_key=4095)
    assert values(wide) == [r << 52 for r in ROWS["key"]]
    assert wide.record_keys is not None
    assert wide.record_keys.possible == 4096


def test_an_id_is_the_same_in_any_format_any_order_and_any_edition(tmp_path):
    numbers = {"id": [100, 7, 3, 42, 5]}
    text = read(tmp_path, person_id="id", columns=numbers)
    whole = read(tmp_path, suffix="parquet", person_id="id", columns=numbers)
    assert values(text) == values(whole)
    padded = {"id": [" 100", "7 ", "3", "42", "5"]}
    assert values(read(tmp_path, person_id="id", columns=padded)) == values(text)
    turned = {name: column[::-1] for name, column in (ROWS | numbers).items()}
    again = read(tmp_path, person_id="id", columns=turned)
    assert values(again) == values(text)[::-1]
    assert len(set(values(text))) == 5
    assert Tabulated.of(again).digest == Tabulated.of(text).digest
    other = read(tmp_path, person_id="id", columns={"id": [100, 7, 3, 42, 6]})
    assert Tabulated.of(other).digest != Tabulated.of(text).digest


def test_many_ids_are_read_in_pieces(tmp_path):
    many = AT_ONCE + 3
    table = {"area": ["a"] * many, "sex": ["f"] * many, "id": [f"é{n}" for n in range(many)]}
    path = tmp_path / "many.parquet"
    pl.DataFrame(table).write_parquet(path)
    read_all = Microdata(file=path, geography=HERE, attribute=SEX, person_id="id").read()
    assert len(set(values(read_all))) == many
    pl.DataFrame(table).tail(3).write_parquet(path)
    last = Microdata(file=path, geography=HERE, attribute=SEX, person_id="id").read()
    assert values(last) == values(read_all)[-3:]


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        (
            {"person_id": "id"},
            {"id": ["Anna-77", "B", "Anna-77", "D", "D"]},
            "column 'id': found 2 rows with an id that an earlier row has, expected each person",
        ),
        (
            {"person_id": "id"},
            {"id": ["Anna-77", "", "  ", "D", "E"]},
            "column 'id': found no id in 2 rows, expected the id of a person in each row",
        ),
        (
            {"record_keys": "key"},
            {"key": [1, 2, 256, -1, 4]},
            "column 'key': found 2 rows with a number out of this range, expected a record key in "
            "each row, a whole number from 0 to 255",
        ),
        (
            {"record_keys": "key", "largest_record_key": 4095},
            {"key": [1, 2, 4096, 3, 4]},
            "found 1 rows with a number out of this range, expected a record key in each row, a "
            "whole number from 0 to 4095",
        ),
        (
            {"record_keys": "key"},
            {"key": ["1", "2.5", "x", "3", "4"]},
            "column 'key': found 2 rows with what is no whole number, expected a record key",
        ),
        (
            {"record_keys": "key"},
            {"key": ["1", "", "2", "3", "4"]},
            "column 'key': found no record key in 1 rows, expected a record key",
        ),
    ],
)
def test_what_is_no_id_or_key_is_refused_without_being_shown(tmp_path, settings, columns, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, columns=columns, **settings)
    said = str(caught.value)
    assert f"{tmp_path / 'people.csv'}: " in said
    assert message in said
    assert "Anna" not in said
    assert "2.5" not in said


def test_columns_of_other_types_and_columns_that_are_not_there_are_refused(tmp_path):
    floats = {"id": [1.5, 2.0, 3.0, 4.0, 5.0], "key": [True, False, True, True, True]}
    with pytest.raises(InputError, match="'id': found values of type Float64, expected ids of per"):
        read(tmp_path, suffix="parquet", person_id="id", columns=floats)
    with pytest.raises(InputError, match="'key': found values of type Boolean, expected a record"):
        read(tmp_path, suffix="parquet", record_keys="key", columns=floats)
    with pytest.raises(InputError, match="'pin'"):
        read(tmp_path, person_id="pin")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"person_id": "id", "record_keys": "key"}, "record_keys: found it beside person_id"),
        ({"largest_record_key": 4095}, "largest_record_key: found it without record_keys"),
        (
            {"record_keys": "key", "largest_record_key": 100},
            "largest_record_key: found 100, expected 255 or 4095",
        ),
        (
            {"person_id": "sex"},
            "person_id: found the column 'sex', which is also an attribute or a place, expected a "
            "column of its own",
        ),
        ({"record_keys": "area"}, "record_keys: found the column 'area', which is also"),
        (
            {"person_id": "id", "count": "key"},
            "person_id: found it beside count = 'key', expected one row for each person",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        Microdata(file=Path("people.csv"), geography=HERE, attribute=SEX, **settings)
    assert message in str(caught.value)


def test_tables_of_counts_have_no_ids(tmp_path):
    with pytest.raises(ConfigError, match="person_id: found it for a table of counts, expected on"):
        CountsTable(file=tmp_path / "c.csv", geography=HERE, schema="x", person_id="id")
    people = read(tmp_path)
    with pytest.raises(InputError, match="record keys: found entries that stand for several"):
        Population(
            "counts",
            people.domain,
            people.unit,
            people.cell,
            count=np.ones(5, dtype=np.int64),
            record_keys=RecordKeys(np.ones(5, dtype=np.uint64)),
        )


def test_dwellings_keep_the_keys_of_their_people(tmp_path):
    order = [4, 2, 0, 3, 1]
    mixed = {name: [column[n] for n in order] for name, column in ROWS.items()}
    path = tmp_path / "persons.csv"
    pl.DataFrame(mixed, strict=False).write_csv(path)
    source = HouseholdTables(
        persons=path, key="home", geography=HERE, attribute=SEX, record_keys="key"
    )
    people = source.read()
    whole = {key: (a, s) for key, a, s in zip(ROWS["key"], ROWS["area"], ROWS["sex"], strict=True)}
    areas = people.geography.units[-1]
    for word, unit, cell in zip(values(people), people.unit, people.cell, strict=True):
        assert whole[word >> 56] == (str(areas[unit]), ("f", "m")[cell])
    cut = cut_households(people, largest=1)
    assert len(values(cut)) == 3
    assert cut.households is not None
    assert cut.households.record_keys is cut.record_keys
    with pytest.raises(ConfigError, match="person_id: found the column 'home', which is also"):
        HouseholdTables(persons=path, key="home", geography=HERE, attribute=SEX, person_id="home")


def test_keys_are_no_attribute_and_say_nothing_of_themselves(tmp_path):
    people = read(tmp_path, person_id="id")
    assert people.schema.names == ("sex",)
    assert "Anna" not in repr(people) + repr(people.record_keys) + people._repr_html_()
    plain = tabulate(read(tmp_path))
    assert plain.records is None
    assert (tabulate(people).matrix != plain.matrix).nnz == 0
    assert KeyColumn(column="id").largest is None
