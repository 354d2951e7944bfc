"""Reading populations: right against brute force, and wrong with a message that helps."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.geography.geography import CodeColumns, Prefixes
from headcount.population import Population
from headcount.population.columns import AttributeColumn
from headcount.population.counts import read_counts
from headcount.population.microdata import read_microdata
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import tabulate
from headcount.testing.strategies import populations, schemas

SEX = AttributeColumn(name="sex", column="sex", levels=("f", "m"))
AGE = AttributeColumn(name="age", column="age_group", levels=("young", "old"))
PLACE = CodeColumns(columns=("state", "county"))
SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "old"))))

PEOPLE = {
    "state": ["01", "01", "02", "01"],
    "county": ["01a", "01b", "02a", "01a"],
    "sex": ["f", "m", "m", "f"],
    "age_group": ["old", "young", "old", "old"],
}
COUNTS: dict[str, list[object]] = {
    "state": ["01", "01", "02"],
    "county": ["01a", "01b", "02a"],
    "f_young": [0, 0, 0],
    "f_old": [2, 0, 0],
    "m_young": [0, 1, 0],
    "m_old": [0, 0, 1],
}
TRUTH = [[0, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
UNITS = {"state": ["02", "01", "01", "03"], "county": ["02a", "01b", "01a", "03a"]}


def write(folder: Path, name: str, columns) -> Path:
    """Write a table as Parquet or CSV, by the ending of its name."""
    table, path = pl.DataFrame(columns), folder / name
    if path.suffix == ".parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path)
    return path


@pytest.mark.parametrize("name", ["people.parquet", "people.csv"])
def test_microdata(tmp_path: Path, name):
    path = write(tmp_path, name, PEOPLE)
    people = read_microdata(path, attributes=[SEX, AGE], geography=PLACE)
    assert people.schema == SCHEMA
    assert people.count is None
    assert tabulate(people).dense().tolist() == TRUTH
    assert people.geography.units[1].tolist() == ["01", "02"]  # leading zeros stay, in CSV too
    assert people.domain.read_off == ("which units exist",)
    assert not people.public


@pytest.mark.parametrize("name", ["counts.parquet", "counts.csv"])
def test_counts(tmp_path: Path, name):
    path = write(tmp_path, name, COUNTS)
    counted = read_counts(path, schema=SCHEMA, geography=PLACE, public=True)
    assert tabulate(counted).dense().tolist() == TRUTH
    assert counted.public


def test_levels_read_off_the_data_are_sorted_and_owned_up_to(tmp_path: Path):
    path = write(tmp_path, "people.csv", PEOPLE)
    people = read_microdata(path, attributes=[replace(SEX, levels=None)], geography=PLACE)
    assert people.schema.attributes == (Attribute("sex", ("f", "m")),)
    assert people.domain.read_off == ("which units exist", "which levels of 'sex' exist")


def test_a_public_list_of_units_is_the_domain(tmp_path: Path):
    units = write(tmp_path, "units.csv", UNITS)
    people = write(tmp_path, "people.csv", PEOPLE)
    counts = write(tmp_path, "counts.parquet", COUNTS)
    for population in (
        read_microdata(people, attributes=[SEX, AGE], geography=PLACE, units=units),
        read_counts(counts, schema=SCHEMA, geography=PLACE, units=units),
    ):
        assert population.geography.units[2].tolist() == ["01a", "01b", "02a", "03a"]
        assert tabulate(population).dense().tolist() == [*TRUTH, [0, 0, 0, 0]]
        assert population.domain.read_off == ()


def test_microdata_without_attributes_counts_totals(tmp_path: Path):
    path = write(tmp_path, "people.csv", PEOPLE)
    people = read_microdata(path, attributes=[], geography=PLACE)
    assert tabulate(people).dense().tolist() == [[2], [1], [1]]


def test_prefixes_and_local_codes(tmp_path: Path):
    path = write(
        tmp_path,
        "people.csv",
        {"code": ["011", "011", "023"], "s": ["1", "1", "2"], "c": ["9", "9", "9"]},
    )
    prefixes = Prefixes(column="code", prefixes=(("state", 2), ("county", 3)))
    people = read_microdata(path, attributes=[], geography=prefixes)
    assert people.geography.units[2].tolist() == ["011", "023"]
    assert tabulate(people).totals().tolist() == [2, 1]
    local = CodeColumns(columns=("s", "c"), local_codes=True)
    people = read_microdata(path, attributes=[], geography=local)
    assert people.geography.units[2].tolist() == ["1/9", "2/9"]
    assert tabulate(people).totals().tolist() == [2, 1]


def test_columns_by_name_of_the_users_choice(tmp_path: Path):
    path = write(tmp_path, "counts.csv", {"state": ["1"], "county": ["2"], "P1": [3], "P2": [4]})
    schema = Schema((Attribute("sex", ("f", "m")),))
    columns = {"P1": {"sex": "m"}, "P2": {"sex": "f"}}
    counted = read_counts(path, schema=schema, geography=PLACE, columns=columns)
    assert tabulate(counted).dense().tolist() == [[4, 3]]


def test_a_structural_zero_needs_no_column_but_may_have_one(tmp_path: Path):
    schema = Schema(SCHEMA.attributes, (impossible({"sex": ["f"], "age": ["young"]}),))
    with_column = write(tmp_path, "with.csv", COUNTS)
    without = write(tmp_path, "without.csv", {k: v for k, v in COUNTS.items() if k != "f_young"})
    for path in (with_column, without):
        counted = read_counts(path, schema=schema, geography=PLACE)
        assert tabulate(counted).dense().tolist() == TRUTH


def test_counts_of_nobody(tmp_path: Path):
    empty = {**COUNTS, **{name: [0, 0, 0] for name in SCHEMA.cell_names}}
    counted = read_counts(write(tmp_path, "c.csv", empty), schema=SCHEMA, geography=PLACE)
    assert not tabulate(counted).dense().any()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_whole_numbers_may_be_stored_as_floats_and_large_ones_stay_exact(tmp_path: Path, kind):
    large = 2**53 + 1  # no float holds it
    stored = {**COUNTS, "f_old": [2.0, 0.0, 0.0], "m_old": [0, 0, large]}
    path = write(tmp_path, f"counts.{kind}", stored)
    counted = read_counts(path, schema=SCHEMA, geography=PLACE)
    assert tabulate(counted).dense().tolist() == [*TRUTH[:2], [0, 0, 0, large]]


def brute_force(population: Population) -> Counter[tuple[tuple[str, ...], int]]:
    """People by address and cell, one entry at a time."""
    found: Counter[tuple[tuple[str, ...], int]] = Counter()
    tree = population.geography
    for entry, (unit, cell) in enumerate(zip(population.unit, population.cell, strict=True)):
        amount = 1 if population.count is None else int(population.count[entry])
        if amount:
            found[tree.path(tree.leaf, int(unit)), int(cell)] += amount
    return found


@settings(max_examples=40)
@given(population=populations(counted=False), kind=st.sampled_from(["parquet", "csv"]))
def test_microdata_round_trips(population, kind):
    tree, schema = population.geography, population.schema
    if not len(population.unit):
        return
    paths = [tree.path(tree.leaf, int(unit)) for unit in population.unit]
    levels = tree.levels[1:]
    columns = {level: [path[i] for path in paths] for i, level in enumerate(levels)}
    codes = np.unravel_index(population.cell, schema.shape) if schema.attributes else ()
    for attribute, code in zip(schema.attributes, codes, strict=True):
        columns[attribute.name] = [attribute.levels[number] for number in code]
    sources = [
        AttributeColumn(name=a.name, column=a.name, levels=a.levels) for a in schema.attributes
    ]
    with TemporaryDirectory() as folder:
        path = write(Path(folder), f"people.{kind}", columns)
        again = read_microdata(
            path,
            attributes=sources,
            geography=CodeColumns(columns=levels),
            structural_zeros=schema.structural_zeros,
        )
    assert again.schema == schema
    assert brute_force(again) == brute_force(population)


@settings(max_examples=40)
@given(population=populations(), kind=st.sampled_from(["parquet", "csv"]))
def test_count_tables_round_trip(population, kind):
    tree, schema = population.geography, population.schema
    truth = brute_force(population)
    paths = [tree.path(tree.leaf, unit) for unit in range(tree.size(tree.leaf))]
    levels = tree.levels[1:]
    columns: dict[str, list[object]]
    columns = {level: [path[i] for path in paths] for i, level in enumerate(levels)}
    for cell, name in enumerate(schema.cell_names):
        columns[name] = [truth[path, cell] for path in paths]
    with TemporaryDirectory() as folder:
        path = write(Path(folder), f"counts.{kind}", columns)
        source = CodeColumns(columns=levels)
        again = read_counts(path, schema=schema, geography=source, sums="keep")
    assert [codes.tolist() for codes in again.geography.units[1:]] == [
        codes.tolist() for codes in tree.units[1:]
    ]
    assert brute_force(again) == truth
    assert tabulate(again).dense().tolist() == tabulate(population).dense().tolist()


@given(schemas())
def test_cell_names_of_the_strategies_are_distinct(schema):
    assert len(set(schema.cell_names)) == schema.size


def placed(message: str, kind: str) -> str:
    """A message about a row of Parquet, or about the line of a CSV file on which it stands."""
    if kind == "parquet":
        return message
    return re.sub(r"row (\d+)", lambda found: f"line {int(found[1]) + 1}", message)


def changed(columns, **new):
    return {**columns, **new}


def without(columns, name):
    return {key: value for key, value in columns.items() if key != name}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            without(PEOPLE, "age_group"),
            "column 'age_group': found no such column, expected one of 'state', 'county', 'sex'",
        ),
        (without(PEOPLE, "county"), "column 'county': found no such column, expected one of"),
        (
            changed(PEOPLE, sex=["f", "m", "x", "f"]),
            "column 'sex', row 3: found level 'x', expected one of 'f', 'm'",
        ),
        (
            changed(PEOPLE, sex=["f", None, "m", "f"]),
            "column 'sex', row 2: found nothing, expected a value",
        ),
        (
            changed(PEOPLE, county=["01a", "01b", None, "01a"]),
            "column 'county', row 3: found a blank code, as rows of totals have, expected rows of "
            r'units, each with its code \(totals = "drop" leaves such rows out, under \[popul',
        ),
        (
            changed(PEOPLE, state=["01", "01", "02", "02"]),
            "level 'county', unit '01a': found two parents, '01' and '02', expected one parent",
        ),
        ({name: [] for name in PEOPLE}, "found no rows, expected at least one"),
    ],
)
def test_bad_microdata(tmp_path: Path, kind, columns, message):
    path = write(tmp_path, f"people.{kind}", columns)
    with pytest.raises(InputError, match=placed(message, kind)) as caught:
        read_microdata(path, attributes=[SEX, AGE], geography=PLACE)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            without(COUNTS, "f_old"),
            "column 'f_old': found no such column, expected one of 'state', 'county', 'f_young'",
        ),
        (
            changed(COUNTS, m_old=[0, -1, 1]),
            "column 'm_old', row 2: found '?-1'?, expected a whole number, 0 or more",
        ),
        (
            changed(COUNTS, m_old=[0.0, 0.0, 1.5]),
            "column 'm_old', row 3: found '?1.5'?, expected a whole number, 0 or more",
        ),
        (
            changed(COUNTS, m_old=[0, 0, None]),
            "column 'm_old', row 3: found nothing, expected a whole number, 0 or more",
        ),
        (changed(COUNTS, m_old=[None] * 3), "'m_old', row 1: found nothing, expected a whole num"),
        (changed(COUNTS, m_old=["1", "two", "3"]), "'m_old', row 2: found 'two', expected a whole"),
        (changed(COUNTS, m_old=[0.0, float("nan"), 1.0]), "'m_old', row 2: found '?[nN]a[nN]'?, "),
        (
            changed(COUNTS, m_old=[0.0, float("inf"), 1.0]),
            "'m_old', row 2: found '?inf'?, expected",
        ),
        (changed(COUNTS, m_old=[0, 10**19, 1]), "'m_old', row 2: found '?1"),
        (
            changed(COUNTS, county=["01a", "01b", "01a"], state=["01"] * 3),
            "row 3: found a second row for county '01a', expected one row for",
        ),
        (
            changed(COUNTS, county=["01a", "01b", "01a"]),
            "level 'county', unit '01a': found two parents, '01' and '02'",
        ),
        ({name: [] for name in COUNTS}, "found no rows, expected at least one"),
    ],
)
def test_bad_counts(tmp_path: Path, kind, columns, message):
    path = write(tmp_path, f"counts.{kind}", columns)
    with pytest.raises(InputError, match=placed(message, kind)) as caught:
        read_counts(path, schema=SCHEMA, geography=PLACE)
    assert str(caught.value).startswith(str(path))


def test_dates_are_not_counts(tmp_path: Path):
    dated = pl.DataFrame(COUNTS).with_columns(m_old=pl.date(2020, 4, 1))
    path = write(tmp_path, "counts.parquet", dated)
    with pytest.raises(InputError, match="'m_old': found values of type Date, expected whole num"):
        read_counts(path, schema=SCHEMA, geography=PLACE)


def test_someone_in_a_structural_zero(tmp_path: Path):
    zeros = (impossible({"sex": ["m"], "age": ["young"]}),)
    message = "line 3: found someone in cell 'm_young', a structural zero, expected nobody there"
    with pytest.raises(InputError, match=message):
        read_microdata(
            write(tmp_path, "people.csv", PEOPLE),
            attributes=[SEX, AGE],
            geography=PLACE,
            structural_zeros=zeros,
        )
    schema, path = Schema(SCHEMA.attributes, zeros), write(tmp_path, "counts.csv", COUNTS)
    with pytest.raises(InputError, match=message):
        read_counts(path, schema=schema, geography=PLACE)


def test_people_outside_the_public_list_of_units(tmp_path: Path):
    people = write(tmp_path, "people.csv", PEOPLE)
    counts = write(tmp_path, "counts.csv", COUNTS)

    def refused(listed, message):
        units = write(tmp_path, "units.csv", listed)
        with pytest.raises(InputError, match=message):
            read_microdata(people, attributes=[SEX, AGE], geography=PLACE, units=units)
        with pytest.raises(InputError, match=message):
            read_counts(counts, schema=SCHEMA, geography=PLACE, units=units)

    shorter = {name: values[1:] for name, values in UNITS.items()}
    refused(shorter, "line 4: found unit '02a', expected one of the 3 units of level 'county'")
    refused(
        changed(UNITS, state=["03", "01", "01", "03"]),
        "line 4: found unit '02a' under other parents than in the list of units, expected the same",
    )
    twice = {name: [*values, values[0]] for name, values in UNITS.items()}
    refused(twice, r"units.csv: line 6: found a second row for county '02a'")
    refused(without(UNITS, "county"), r"units.csv: column 'county': found no such column")
    refused({"state": [], "county": []}, r"units.csv: found no rows, expected at least one")


def test_a_file_that_cannot_be_read(tmp_path: Path):
    def refused(name, content, message):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_microdata(path, attributes=[SEX, AGE], geography=PLACE)

    refused("none.csv", None, r"none.csv: found no such file, expected a .parquet or .csv file")
    refused("a.csv", b"", r"a.csv: found an empty file, expected a header and at least one row")
    refused("a.parquet", b"", r"a.parquet: found an empty file")
    refused("header.csv", b"state,county,sex,age_group\n", "found no rows, expected at least one")
    refused("a.doc", b"x", "found a file ending in '.doc', expected one of '.parquet', '.csv")
    refused("bad.parquet", b"not parquet at all", r"bad.parquet: found content that cannot be read")
    refused(
        "ragged.csv",
        b"state,county,sex,age_group\n1,2,f,old,9\n",
        r"ragged.csv: line 2: found 5 fields, expected 4 at most, as in the header \(is the delim",
    )
    refused(
        "quote.csv",
        b'state,county,sex,age_group\n1,2,f,"old\n',
        r"found content that cannot be read \(.*\), e",
    )
    refused("sex.csv", b"state,county,sex,sex,age_group\n1,2,f,m,old\n", "'sex': found the column")


def test_columns_for_cells_must_cover_each_cell_once(tmp_path: Path):
    path = write(tmp_path, "counts.csv", COUNTS)
    schema = Schema((Attribute("sex", ("f", "m")),))
    wrong: list[tuple[dict[str, dict[str, str]], str]] = [
        (
            {"f_old": {"sex": "f"}},
            "columns: cell 'm': found no column, expected a column for every",
        ),
        ({"f_old": {"sex": "x"}}, "found level 'x', expected one of 'f', 'm'"),
        ({"f_old": {}}, r"cell: found attributes \[\], expected all of \['sex'\]"),
    ]
    for columns, message in wrong:
        with pytest.raises(InputError, match=message):
            read_counts(path, schema=schema, geography=PLACE, columns=columns)
