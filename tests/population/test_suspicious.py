"""What looks like something else stops the run, unless the config says what it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.geography.geography import CodeColumns, Prefixes, build_geography
from headcount.population import Population
from headcount.population.columns import AttributeColumn, whole_numbers
from headcount.population.counts import read_counts, read_quarters
from headcount.population.households import read_households
from headcount.population.microdata import read_microdata
from headcount.population.suspicious import looks_missing, sums_of_others
from headcount.population.tables import Rows
from headcount.population.text_files import PLAIN
from headcount.schema import Attribute, Schema
from headcount.tabulate import tabulate

Columns = dict[str, list[Any]]
PLACE = CodeColumns(columns=("county", "tract"))
SCHEMA = Schema((Attribute("sex", ("f", "m")),))


def write(folder: Path, name: str, columns: Columns) -> Path:
    path = folder / name
    pl.DataFrame(columns, strict=False).write_csv(path)
    return path


# --- missing values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        (["f", "m", "NA"], ["NA"]),
        (["f", "m", "n/a", "NaN", "null", " "], ["n/a", "NaN", "null", " "]),
        (["1", "2", "-9"], ["-9"]),
        (["1.0", "2.0", "-99.0"], ["-99.0"]),
        (["0-4", "5-9", "."], ["."]),
        (["own", "rent", "?"], ["?"]),
        ([*map(str, range(103)), "999"], ["999"]),
        (["1", "2", "9", "99", "NA"], ["99", "NA"]),
        # and what must not be taken for one
        (["own", "rent", "none"], []),
        (["yes", "no", "unknown"], []),
        ([*map(str, range(100))], []),  # an age of 99
        (["91", "95", "99"], []),
        (["1", "2", "9"], []),
        (["under 5", "5-9", "999"], []),
        (["99"], []),
        (["Nantucket", "Nauru"], []),
        (["A-", "A", "B+"], []),
    ],
)
def test_levels_that_look_like_missing_values(levels: list[str], found: list[str]) -> None:
    assert list(looks_missing(levels)) == found


def people(**more: list[Any]) -> Columns:
    return {
        "county": ["a", "a", "b", "b"],
        "tract": ["a1", "a2", "b1", "b1"],
        "sex": ["f", "m", "m", "f"],
        "age": ["1", "30", "NA", "7"],
        **more,
    }


AGE = AttributeColumn(name="age", column="age")


def test_a_missing_value_does_not_become_a_level(tmp_path: Path) -> None:
    path = write(tmp_path, "people.csv", people())
    message = (
        r"people.csv: column 'age', line 4: found what looks like a missing value, as a level: "
        r'"NA", expected levels that people have \(missing = "drop" or "level" of the attribute, '
        r'with missing_values = \["NA"\], says what to do with such rows; real_levels = \["NA"\], '
        r"or a list of all levels, says that they are real\)"
    )
    with pytest.raises(InputError, match=message):
        read_microdata(path, attributes=[AGE], geography=PLACE)
    for real in (
        replace(AGE, real_levels=("NA",)),
        replace(AGE, levels=("1", "7", "30", "NA")),
    ):
        read = read_microdata(path, attributes=[real], geography=PLACE)
        assert set(read.schema.attributes[0].levels) == {"1", "7", "30", "NA"}


def test_another_missing_value_than_the_one_confirmed_is_still_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "people.csv", people(age=["1", "-9", "NA", "7"]))
    with pytest.raises(InputError, match='as a level: "-9", expected'):
        read_microdata(path, attributes=[replace(AGE, real_levels=("NA",))], geography=PLACE)


def test_missing_values_of_dwellings_and_their_people(tmp_path: Path) -> None:
    rows = people(key=["1", "1", "2", "2"], tenure=["own", "own", "null", "null"])
    rows |= {"county": ["a"] * 4, "tract": ["a1", "a1", "a2", "a2"]}
    path = write(tmp_path, "people.csv", rows)

    def read(*of_people: AttributeColumn, tenure: AttributeColumn) -> None:
        read_households(
            path, key="key", geography=PLACE, attributes=of_people, dwelling_attributes=[tenure]
        )

    tenure = AttributeColumn(name="tenure", column="tenure")
    with pytest.raises(InputError, match="'age', line 4: found what looks like a missing value"):
        read(AGE, tenure=tenure)
    with pytest.raises(InputError, match="'tenure', line 4: found what looks like a missing value"):
        read(tenure=tenure)
    read(tenure=replace(tenure, real_levels=("null",)))


# --- codes that go on ------------------------------------------------------------------------

BLOCKS = Prefixes(column="code", prefixes=(("county", 2), ("tract", 4)))


def test_codes_longer_than_the_last_prefix(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", {"code": ["010203", "010204", "020101"]})
    with pytest.raises(
        InputError,
        match=r"column 'code', line 2: found codes of 6 characters, expected 4, where the prefix "
        r"of 'tract' ends \(longer = \"cut\" under \[population.geography\] says that the rest",
    ):
        read_microdata(path, attributes=[], geography=BLOCKS)
    cut = read_microdata(path, attributes=[], geography=replace(BLOCKS, longer="cut"))
    assert cut.geography.units[-1].tolist() == ["0102", "0201"]
    assert cut.reading.remarks == ("codes in 'code' are cut to the first 4 of 6 characters",)


@pytest.mark.parametrize("longer", ["refuse", "cut"])
def test_codes_of_different_lengths_are_never_cut(tmp_path: Path, longer: str) -> None:
    path = write(tmp_path, "p.csv", {"code": ["0102", "010204", "020101"]})
    source = replace(BLOCKS, longer=longer)  # type: ignore[arg-type]
    with pytest.raises(
        InputError,
        match="line 3: found codes of different lengths, expected codes of 4 characters, all of",
    ):
        read_microdata(path, attributes=[], geography=source)


def test_codes_that_end_with_the_last_prefix_are_no_matter(tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", {"code": ["0102", "0103"]})
    assert read_microdata(path, attributes=[], geography=BLOCKS).reading.remarks == ()


# --- totals ----------------------------------------------------------------------------------

COUNTS: Columns = {
    "county": ["a", "a", "a", "a", "b"],
    "tract": ["a1", "a2", "a3", "a4", "b1"],
    "f": [1, 2, 0, 5, 1],
    "m": [0, 4, 3, 1, 8],
}


def with_row(*row: object) -> Columns:
    return {name: [*values, more] for (name, values), more in zip(COUNTS.items(), row, strict=True)}


def counted(folder: Path, columns: Columns, **more: object) -> Population:
    path = write(folder, "counts.csv", columns)
    return read_counts(path, schema=SCHEMA, geography=PLACE, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("TOTAL", "TOTAL", 9, 16), "column 'county', line 7: found 'TOTAL', the name of a total"),
        (("a", "Total a", 8, 8), "column 'tract', line 7: found 'Total a', the name of a total"),
        (("b", "Sum", 1, 2), "column 'tract', line 7: found 'Sum', the name of a total"),
        (("b", "county b, total", 1, 2), "found 'county b, total', the name of a total"),
        (
            (None, None, 9, 16),
            "column 'county', line 7: found a blank code, as rows of total",
        ),
        (("b", "  ", 9, 16), "column 'tract', line 7: found a blank code, as rows of total"),
    ],
)
def test_rows_of_totals(tmp_path: Path, row: tuple[object, ...], message: str) -> None:
    columns = with_row(*row)
    with pytest.raises(InputError, match=f"{message}.*expected rows of units, each with its code"):
        counted(tmp_path, columns)
    left = counted(tmp_path, columns, totals="drop")
    assert left.reading.left_out == (("rows of totals", 1),)
    assert left.reading.rows == ((str(tmp_path / "counts.csv"), 5),)
    assert tabulate(left).totals().tolist() == [1, 6, 3, 6, 9]
    if row[1] and str(row[1]).strip():
        kept = counted(tmp_path, columns, totals="keep", sums="keep")
        assert tabulate(kept).totals().sum() == 25 + int(str(row[2])) + int(str(row[3]))


@pytest.mark.parametrize(
    "row",
    [
        ("a", "a9", 8, 9),  # one more
        ("a", "a9", 0, 0),  # nobody
        ("b", "b9", 1, 8),  # the same as one other
        ("b", "Totalville", 4, 4),
        ("b", "Wallsum", 4, 4),
    ],
)
def test_rows_that_are_none(tmp_path: Path, row: tuple[object, ...]) -> None:
    assert counted(tmp_path, with_row(*row)).reading.left_out == ()


def test_two_equal_rows_among_empty_ones_are_no_totals(tmp_path: Path) -> None:
    columns: Columns = {
        "county": ["a"] * 5,
        "tract": ["1", "2", "3", "4", "5"],
        "f": [1, 0, 0, 0, 1],
        "m": [2, 0, 0, 0, 2],
    }
    assert tabulate(counted(tmp_path, columns)).totals().tolist() == [3, 0, 0, 0, 3]


@pytest.mark.parametrize(
    "row",
    [
        ("a", "a9", 8, 8),  # of a county
        ("c", "c0", 9, 16),  # of the whole
    ],
)
def test_rows_that_add_up_others(tmp_path: Path, row: tuple[object, ...]) -> None:
    message = (
        f"counts.csv: line 7: found unit '{row[1]}', the sum of all others under the same parent, "
        r"in every column, expected rows of units only \(take it out of the file, or .* if "
        r'it is a total; sums = "keep" under \[population\] says that such a row is a unit like oth'
    )
    # Left out it is never: one person more in another row would bring all of its people back.
    for totals in ("refuse", "drop", "keep"):
        with pytest.raises(InputError, match=message):
            counted(tmp_path, with_row(*row), totals=totals)
    kept = counted(tmp_path, with_row(*row), sums="keep")
    assert tabulate(kept).totals().sum() == 25 + int(str(row[2])) + int(str(row[3]))


def test_a_total_among_people_and_in_the_list_of_units(tmp_path: Path) -> None:
    rows = {name: [*values, "TOTAL"] for name, values in people(age=["1"] * 4).items()}
    path = write(tmp_path, "people.csv", rows)
    listed = {name: [*rows[name][:3], "TOTAL"] for name in PLACE.columns}
    units = write(tmp_path, "units.csv", listed)
    with pytest.raises(
        InputError, match=r"people.csv: column 'county', line 6: found 'TOTAL', the"
    ):
        read_microdata(path, attributes=[], geography=PLACE)
    read = read_microdata(path, attributes=[], geography=PLACE, units=units, totals="drop")
    assert tabulate(read).totals().tolist() == [1, 1, 2]
    clean = write(tmp_path, "clean.csv", people())
    with pytest.raises(InputError, match=r"units.csv: column 'county', line 5: found 'TOTAL', "):
        read_microdata(clean, attributes=[], geography=PLACE, units=units)
    bad = write(tmp_path, "bad.csv", {**rows, "sex": ["f", "m", "x", "f", "TOTAL"]})
    sex = AttributeColumn(name="sex", column="sex", levels=("f", "m"))
    with pytest.raises(InputError, match=r"bad.csv: column 'sex', line 4: found level 'x'"):
        read_microdata(bad, attributes=[sex], geography=PLACE, totals="drop")


def test_a_total_among_dwellings(tmp_path: Path) -> None:
    rows = people(key=["1", "2", "3", "4"])
    rows["tract"][3] = "All"
    path = write(tmp_path, "people.csv", rows)

    def read(totals: str) -> None:
        read_households(path, key="key", geography=PLACE, attributes=[], totals=totals)  # type: ignore[arg-type]

    with pytest.raises(
        InputError,
        match=r"column 'tract', line 5: found 'All', the name of a total, expected rows of units, "
        r'each with its code \(totals = "keep" says that it is a unit like others, under',
    ):
        read("refuse")
    read("keep")


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2)),
        min_size=1,
        max_size=9,
    )
)
def test_sums_by_brute_force(rows: list[tuple[str, int, int]]) -> None:
    codes = pl.DataFrame(
        {
            "county": [row[0] for row in rows],
            "tract": [f"{row[0]}{i}" for i, row in enumerate(rows)],
        }
    )
    tree, unit = build_geography(codes, PLACE, name="t", distinct=True)
    counts = np.array([row[1:] for row in rows])

    def is_sum(at: int, inside: list[int]) -> bool:
        others = [i for i in inside if i != at and counts[i].any()]
        same = len(others) >= 3 and counts[others].sum(axis=0).tolist() == counts[at].tolist()
        return same and bool(counts[at].any())

    everyone = list(range(len(rows)))
    expected = []
    for at, (county, *_) in enumerate(rows):
        here = [i for i in everyone if rows[i][0] == county]
        if is_sum(at, here) or (len(here) == 1 and is_sum(at, everyone)):
            expected.append(at)
    assert sums_of_others(counts, unit, tree).tolist() == expected


# --- numbers of people in a file of people ---------------------------------------------------


@pytest.mark.parametrize("numbers", [[4, 1, 2, 9], ["4", "1.0", None, " 9"]])
@pytest.mark.parametrize("column", ["n", "N", "count", "Freq", "people", "WEIGHT"])
def test_a_column_that_counts_people(tmp_path: Path, column: str, numbers: list[Any]) -> None:
    path = write(tmp_path, "long.csv", people(**{column: numbers}))
    with pytest.raises(
        InputError,
        match=rf"long.csv: column '{column}': found whole numbers, as if a row stood for several "
        rf'people, expected one row per person .count = "{column}".*not_counts = \["{column}"\]',
    ):
        read_microdata(path, attributes=[], geography=PLACE)
    read = read_microdata(path, attributes=[], geography=PLACE, not_counts=[column])
    assert tabulate(read).totals().tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "more",
    [
        {"n": [1, 1, 1, 1]},  # one row per person indeed
        {"n": ["x", "y", "1", "2"]},
        {"people": [0.5, 1.5, 2, 3]},
        {"nation": [4, 1, 2, 9]},
        {"rooms": [4, 1, 2, 9]},
    ],
)
def test_columns_that_do_not(tmp_path: Path, more: Columns) -> None:
    path = write(tmp_path, "people.csv", people(**more))
    assert len(read_microdata(path, attributes=[], geography=PLACE).unit) == 4


def test_a_column_of_dates_counts_nobody(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pl.DataFrame(people()).with_columns(n=pl.date(2020, 4, 1)).write_parquet(path)
    assert len(read_microdata(path, attributes=[], geography=PLACE).unit) == 4


def test_a_column_that_is_used_is_known(tmp_path: Path) -> None:
    path = write(tmp_path, "people.csv", people(n=[4, 1, 2, 9]))
    size = AttributeColumn(name="size", column="n")
    read = read_microdata(path, attributes=[size], geography=PLACE)
    assert read.schema.attributes[0].levels == ("1", "2", "4", "9")


# --- numbers ---------------------------------------------------------------------------------

LARGE = 2**53 + 1  # no float holds it


@pytest.mark.parametrize(
    "values",
    [
        pl.Series("n", [str(LARGE), f"{LARGE}.0", f"{LARGE}.", f"{LARGE}.000", f"{LARGE}e0"]),
        pl.Series("n", [f"{LARGE}.0"]).cast(pl.Decimal(20, 1)),
        pl.Series("n", [LARGE]),
    ],
)
def test_large_numbers_are_read_exactly(values: pl.Series) -> None:
    assert set(numbers_of(values).tolist()) == {LARGE}


def numbers_of(values: pl.Series) -> np.ndarray:
    rows = Rows(Path("f.parquet"), PLAIN, values.to_frame())
    problems = rows.problems()
    numbers = whole_numbers(rows, values.name, problems)
    problems.refuse()
    return numbers


def test_small_numbers_in_any_spelling() -> None:
    text = pl.Series("n", ["3", "3.0", "1e3", "0", "2E2"])
    assert numbers_of(text).tolist() == [3, 3, 1000, 0, 200]
    assert numbers_of(pl.Series("n", [3.0, 2.0**53 - 1])).tolist() == [3, 2**53 - 1]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (pl.Series("n", [1.0, 2.0**53]), "9007199254740992.0"),
        (pl.Series("n", [1.0, 2.0**25], dtype=pl.Float32), "33554432.0"),
        (pl.Series("n", ["1", "1e999999999"]), "'1e999999999'"),
        (pl.Series("n", ["1", "1e-999999999"]), "'1e-999999999'"),
        (pl.Series("n", ["1", "0.99999999999999999999"]), "'0.99999999999999999999'"),
        (pl.Series("n", ["1", "-2e1"]), "'-2e1'"),
        (pl.Series("n", ["1", f"{LARGE}.5"]), f"'{LARGE}.5'"),
        (pl.Series("n", [1, 10**19], dtype=pl.UInt64), "10000000000000000000"),
    ],
)
def test_numbers_that_may_have_been_others_are_refused(values: pl.Series, found: str) -> None:
    with pytest.raises(InputError, match=f"column 'n', row 2: found {found}, expected a whole num"):
        numbers_of(values)


# --- living quarters -------------------------------------------------------------------------


def test_quarters_must_be_those_of_the_population(tmp_path: Path) -> None:
    population = counted(tmp_path, COUNTS)
    rows: Columns = {**COUNTS, "f": [1] * 5, "m": [0] * 5}

    def read(columns: Columns) -> np.ndarray:
        path = write(tmp_path, "quarters.csv", columns)
        return read_quarters(path, population=population, geography=PLACE, attribute="sex").occupied

    assert read(rows).tolist() == [[1, 0]] * 5
    moved = {**rows, "county": ["a", "a", "a", "b", "b"]}
    with pytest.raises(
        InputError,
        match=r"quarters.csv: line 5, unit 'a4': found county 'b', expected 'a', as in the popul",
    ):
        read(moved)
    with pytest.raises(
        InputError,
        match=r"quarters.csv: unit 'b1': found no row, expected one for each tract, with zeros wh",
    ):
        read({name: values[:4] for name, values in rows.items()})
