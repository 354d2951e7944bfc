"""Values become levels: maps, bins, missing values; against counting by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.geography.geography import CodeColumns
from headcount.population import Population
from headcount.population.columns import AttributeColumn
from headcount.population.counts import read_counts
from headcount.population.from_households import to_population
from headcount.population.households import read_households
from headcount.population.microdata import read_microdata
from headcount.population.people_table import RowChoice
from headcount.schema import Schema, load_schema
from headcount.schema.schema import bin_labels, bin_of, starts_of
from headcount.tabulate import tabulate

PLACE = CodeColumns(columns=("place",))


def people(folder: Path, values: list[str], *, name: str = "p.csv", head: str = "x") -> Path:
    path = folder / name
    path.write_text("\n".join([f"place,{head}", *(f"a,{value}" for value in values)]) + "\n")
    return path


def read(path: Path, choice: RowChoice | None = None, **keys: Any) -> Population:
    return read_microdata(
        path,
        attributes=[AttributeColumn(name="x", **keys)],
        geography=PLACE,
        choice=choice or RowChoice(),
    )


def by_level(population: Population) -> dict[str, int]:
    counts = tabulate(population).dense()[0].tolist()
    return dict(zip(population.schema.attributes[0].levels, counts, strict=True))


# --- maps ------------------------------------------------------------------------------------


def test_a_map_of_values_is_the_public_list_of_levels(tmp_path: Path) -> None:
    path = people(tmp_path, ["2", "1", "1", "3"])
    found = read(path, values={"1": "male", "2": "female", "3": "female", "9": "other"})
    assert by_level(found) == {"male": 2, "female": 2, "other": 0}
    assert found.domain.read_off == ("which units exist",)
    with pytest.raises(InputError, match=r"'x', line 5: found '3', expected one of '1', '2'"):
        read(path, values={"1": "male", "2": "female"})


def test_with_levels_a_map_is_about_some_values_only(tmp_path: Path) -> None:
    path = people(tmp_path, ["m", "male", "f"])
    found = read(path, values={"m": "male"}, levels=("f", "male"))
    assert by_level(found) == {"f": 1, "male": 2}
    with pytest.raises(InputError, match=r"attribute 'x': values, 'm': found 'man', expected one"):
        read(path, values={"m": "man"}, levels=("f", "male"))


# --- bins ------------------------------------------------------------------------------------


@given(
    years=st.lists(st.integers(0, 120), min_size=1, max_size=40),
    bins=st.one_of(
        st.sampled_from(["five-year", "census-23", "census-38"]),
        st.sets(st.integers(0, 99), min_size=1, max_size=6).map(lambda s: (0, *sorted(s - {0}))),
    ),
)
def test_bins_count_as_one_would_by_hand(tmp_path_factory, years, bins) -> None:
    path = people(tmp_path_factory.mktemp("bins"), [str(year) for year in years])
    starts = starts_of(bins)
    hand: Counter[str] = Counter()
    for year in years:
        low = max(start for start in starts if start <= year)
        after = [start for start in starts if start > year]
        last = after[0] - 1 if after else None
        hand[f"{low}+" if last is None else f"{low}" if last == low else f"{low}-{last}"] += 1
    found = by_level(read(path, bins=bins))
    assert {level: n for level, n in found.items() if n} == hand
    assert tuple(found) == bin_labels(bins)


def test_named_bins_are_those_of_the_census() -> None:
    ages = load_schema("sex-age38-race7-hispanic").attribute("age")
    assert bin_labels("census-38") == ages.levels
    assert len(bin_labels("census-23")) == 23
    assert bin_labels("five-year")[:2] == ("0-4", "5-9")
    assert bin_labels("five-year")[-1] == "85+"
    assert bin_of(17, (18, 65)) is None


def test_years_may_be_written_in_several_ways(tmp_path: Path) -> None:
    path = people(tmp_path, ["34", "34.0", "90+", " 7", "under 1"])
    found = read(path, bins=(0, 18, 65), values={"under 1": "0"})
    assert by_level(found) == {"0-17": 2, "18-64": 2, "65+": 1}
    assert found.domain.read_off == ("which units exist",)
    with pytest.raises(InputError, match=r"'x', line 2: found '30\+', expected a whole number, 0"):
        read(people(tmp_path, ["30+", "1"]), bins=(0, 18, 65))
    with pytest.raises(InputError, match="'x', line 3: found '17', expected a whole number, 18 or"):
        read(people(tmp_path, ["30", "17"]), bins=(18, 65))


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ((), "where bins begin, in rising order"),
        ((18, 0), "where bins begin, in rising order"),
        ((0, 1.5), "where bins begin, in rising order"),
        ((-5, 3), "bins that begin at 0 to"),
        ("five-years", r"one of 'five-year', .*did you mean 'five-year'"),
    ],
)
def test_bins_that_are_none(bins: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"attribute 'x': bins: found .* expected {message}"):
        AttributeColumn(name="x", bins=bins)
    with pytest.raises(InputError, match="found levels and bins, expected one or the other"):
        AttributeColumn(name="x", bins=(0, 18), levels=("a",))


# --- missing values --------------------------------------------------------------------------

GAPS = ["f", "", "NA", "m", "9", "f"]


def test_missing_values_may_have_a_level_of_their_own(tmp_path: Path) -> None:
    path = people(tmp_path, GAPS)
    found = read(path, missing="level", missing_values=("9",))
    assert by_level(found) == {"f": 2, "m": 1, "unknown": 3}
    named = read(
        path, missing="level", missing_values=("9",), levels=("f", "m"), missing_level="not told"
    )
    assert by_level(named) == {"f": 2, "m": 1, "not told": 3}
    # The level is there whether anyone is missing or not: who is would otherwise show.
    none = read(people(tmp_path, ["f", "m"]), missing="level")
    assert by_level(none) == {"f": 1, "m": 1, "unknown": 0}


def test_rows_without_a_value_may_be_left_out(tmp_path: Path) -> None:
    found = read(people(tmp_path, GAPS), missing="drop", missing_values=("9",))
    assert by_level(found) == {"f": 2, "m": 1}
    assert found.reading.left_out == (("rows without 'x'", 3),)
    assert found.domain.one_person.endswith(
        "; rows without a value of 'x' are left out first: who is among them is not covered"
    )
    # What the guarantee says depends on the setting, never on the data.
    assert (
        read(people(tmp_path, ["f", "m"]), missing="drop").domain.one_person
        == found.domain.one_person
    )


def test_missing_values_are_refused_together_by_default(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(people(tmp_path, GAPS), levels=("f", "m"), missing_values=("9",))
    told = str(caught.value)
    assert "3 problems" in told
    assert "'x', line 3: found nothing, expected a value (missing = \"drop\"" in told
    assert "'x', line 4: found level 'NA', expected one of 'f', 'm'" in told
    assert "'x', line 6: found '9', no value, expected a value" in told


def test_what_is_listed_as_a_level_is_not_missing(tmp_path: Path) -> None:
    path = people(tmp_path, ["NA", "EU", ""])
    found = read(path, missing="level", levels=("EU", "NA"))
    assert by_level(found) == {"EU": 1, "NA": 1, "unknown": 1}
    assert by_level(read(path, missing="level", real_levels=("NA",))) == by_level(found)


def test_everybody_missing(tmp_path: Path) -> None:
    path = people(tmp_path, ["NA", "NA"])
    with pytest.raises(InputError, match="found no rows that remain, expected at least one"):
        read(path, missing="drop")
    assert by_level(read(path, missing="level")) == {"unknown": 2}


def test_levels_that_were_read_from_the_data_are_owned_up_to(tmp_path: Path) -> None:
    path = people(tmp_path, ["f", "m"])
    found = read(path, levels=("f", "m"), levels_from_data=True)
    assert found.domain.read_off == ("which units exist", "which levels of 'x' exist")
    with pytest.raises(InputError, match="levels_from_data: found true without levels"):
        AttributeColumn(name="x", levels_from_data=True)


def test_units_that_were_read_from_the_data_are_owned_up_to(tmp_path: Path) -> None:
    path = people(tmp_path, ["f", "m"])
    units = tmp_path / "units.csv"
    units.write_text("place\na\nb\n")
    for from_data in (False, True):
        found = read_microdata(
            path, attributes=[], geography=PLACE, units=units, units_from_data=from_data
        )
        assert found.domain.read_off == (("which units exist",) if from_data else ())


# --- rows ------------------------------------------------------------------------------------


def test_rows_are_chosen_by_their_values(tmp_path: Path) -> None:
    path = people(tmp_path, ["f,2020", "m,2010", "m,2020", "x,2020", ",2020"], head="x,year")
    choice = RowChoice(include=(("year", ("2020",)),), exclude=(("x", ("x", "")),))
    found = read(path, choice)
    assert by_level(found) == {"f": 1, "m": 1}
    assert found.reading.left_out == (
        ("rows outside include (year)", 1),
        ("rows by exclude (x)", 2),
    )
    assert "rows with other values of 'year' than '2020' and rows with 'x' or '' in 'x' are" in (
        found.domain.one_person
    )
    with pytest.raises(InputError, match="include and exclude: found no row that they choose"):
        read(path, RowChoice(include=(("year", ("1900",)),)))
    with pytest.raises(InputError, match="column 'month': found no such column"):
        read(path, RowChoice(include=(("month", ("1",)),)))


def test_rows_of_a_table_of_counts_are_chosen_too(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("place,kind,total\na,tract,3\nb,tract,4\ncounty,sum,7\n")
    counted = read_counts(
        path,
        schema=Schema(),
        geography=PLACE,
        choice=RowChoice(exclude=(("kind", ("sum",)),)),
    )
    assert tabulate(counted).dense().tolist() == [[3], [4]]


# --- counts of people ------------------------------------------------------------------------


def long(folder: Path, rows: list[str]) -> Path:
    return people(folder, rows, head="x,n")


def test_a_row_may_stand_for_several_people(tmp_path: Path) -> None:
    path = long(tmp_path, ["f,3", "m,0", "f,4"])
    found = read_microdata(path, attributes=[AttributeColumn(name="x")], geography=PLACE, count="n")
    assert by_level(found) == {"f": 7, "m": 0}
    assert found.domain.one_person.startswith("one person is counted in one row of the file")
    with pytest.raises(InputError, match=r"'n', line 2: found '1.5', expected a whole number"):
        read_microdata(
            long(tmp_path, ["f,1.5"]),
            attributes=[AttributeColumn(name="x")],
            geography=PLACE,
            count="n",
        )


def test_totals_among_the_levels_of_a_long_table_are_refused(tmp_path: Path) -> None:
    path = long(tmp_path, ["f,3", "m,2", "Total,5"])

    def counted(choice: RowChoice | None = None, **keys: Any) -> Population:
        return read_microdata(
            path,
            attributes=[AttributeColumn(name="x", **keys)],
            geography=PLACE,
            count="n",
            choice=choice or RowChoice(),
        )

    with pytest.raises(
        InputError,
        match=r"column 'x', line 4: found the name of a total, as a level: \"Total\", expected .* "
        r"\(x = \[\"Total\"\] under \[population.exclude\] leaves such rows out; real_levels",
    ):
        counted()
    assert by_level(counted(RowChoice(exclude=(("x", ("Total",)),)))) == {"f": 3, "m": 2}
    assert by_level(counted(real_levels=("Total",))) == {"Total": 5, "f": 3, "m": 2}


# --- people in dwellings ---------------------------------------------------------------------


def dwelling_files(folder: Path) -> tuple[Path, Path]:
    persons, homes = folder / "persons.csv", folder / "homes.csv"
    persons.write_text("hh;age;wave\n1;30;a\n1;NA;a\n2;7;a\n3;;a\n3;NA;a\n4;50;b\n")
    homes.write_text(
        "hh,place,size,tenure\n1,p,2,own\n2,p,1,NA\n3,q,2,rent\n4,q,1,own\n5,q,0,rent\n"
    )
    return persons, homes


def test_whoever_lacks_a_value_leaves_the_dwelling_and_an_emptied_dwelling_leaves(
    tmp_path: Path,
) -> None:
    persons, homes = dwelling_files(tmp_path)
    age = AttributeColumn(name="age", bins=(0, 18), missing="drop")
    tenure = AttributeColumn(name="tenure", missing="level")
    found = read_households(
        persons,
        homes,
        key="hh",
        geography=PLACE,
        attributes=[age],
        dwelling_attributes=[tenure],
        size="size",
        choice=RowChoice(exclude=(("wave", ("b",)),)),
    )
    assert found.size.tolist() == [1, 1, 0]  # dwellings 1, 2 and the vacant one
    assert found.attribute("tenure").levels == ("own", "rent", "unknown")
    assert found.dwellings["tenure"].tolist() == [0, 2, 1]
    assert found.reading.left_out == (
        ("rows by exclude (wave)", 1),
        ("rows without 'age'", 3),
        ("dwellings of people left out", 1),  # 4, which the choice empties
        ("dwellings of people left out", 1),  # 3, of whose people no age is known
    )
    people = to_population(found, ["age"])
    assert "rows with 'b' in 'wave' and rows without a value of 'age' are left out" in (
        people.domain.one_person
    )


def test_a_dwelling_that_is_left_out_takes_its_people_along(tmp_path: Path) -> None:
    persons, homes = dwelling_files(tmp_path)
    found = read_households(
        persons,
        homes,
        key="hh",
        geography=PLACE,
        attributes=[AttributeColumn(name="age", bins=(0, 18), missing="level")],
        dwelling_attributes=[AttributeColumn(name="tenure", missing="drop")],
        choice=RowChoice(include=(("place", ("p",)),)),
    )
    assert found.size.tolist() == [2]
    assert found.geography.units[1].tolist() == ["p"]
