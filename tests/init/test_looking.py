"""What a look at a file finds: signs, places, attributes, cells, and what is none."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from random import Random

import polars as pl
import pytest

from headcount.errors import InputError
from headcount.init.attributes import (
    MOST_CELLS,
    Chosen,
    attribute_name,
    fitting,
    in_order,
    single_years,
    why_not,
)
from headcount.init.decide import draft
from headcount.init.look import SeenColumn, SeenFile, look
from headcount.init.places import FoundPlaces, find_places
from headcount.init.read import read
from headcount.init.wide import find_cells
from headcount.population.text_files import PLAIN
from tests.cli.test_cli import Headcount, headcount
from tests.init.strangers import semicolons

__all__ = ["headcount"]


def seen(folder: Path, columns: dict[str, list[str]]) -> SeenFile:
    path = folder / "file.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return look(path)


def column(name: str, *values: str | None) -> SeenColumn:
    return SeenColumn(name, pl.Series(name, list(values), dtype=pl.String), PLAIN)


# --- signs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "decimal", "thousands"),
    [
        ("a,n\nx,12\ny,1200\n", ".", ""),
        ('a,n\nx,12\ny,"1,200"\n', ".", ","),
        ("a;n\nx;12\ny;1.200\n", ",", "."),
        ("a;n\nx;12,5\ny;1200\n", ",", ""),
        ("a;n\nx;1.200,5\ny;1.200\nz;3,5\n", ",", "."),
        ("a,n\nx,12\ny,1 200\n", ".", " "),
        ("a,n\nx,12\ny,1.200\n", ".", ""),  # decimals, for all that one knows
        ('a,n\nx,"1,200"\ny,1200\n', ".", ""),  # not the same for all
    ],
)
def test_signs_of_numbers(tmp_path: Path, content: str, decimal: str, thousands: str) -> None:
    path = tmp_path / "n.csv"
    path.write_text(content)
    form = look(path).form
    assert (form.decimal, form.thousands) == (decimal, thousands)


# --- places ----------------------------------------------------------------------------------


def blocks(*codes: str) -> dict[str, list[str]]:
    return {"GEOID": list(codes), "sex": ["f"] * len(codes)}


US = (("state", 2), ("county", 5), ("tract", 11))


@pytest.mark.parametrize(
    ("columns", "places"),
    [
        (
            blocks("01001020100", "44007000100"),
            FoundPlaces(columns=("GEOID",), prefixes=US),
        ),
        (
            blocks("1001020100", "44007000100"),
            FoundPlaces(columns=("GEOID",), prefixes=US, fill_zeros=True),
        ),
        (  # one state and one county: the whole is the county
            blocks("44007000100", "44007000200"),
            FoundPlaces(columns=("GEOID",), prefixes=(("tract", 11),), root="county"),
        ),
        (
            {"NUTS": ["DE111", "DE212", "FR101"], "sex": list("fmf")},
            FoundPlaces(
                columns=("NUTS",),
                prefixes=(("country", 2), ("nuts1", 3), ("nuts2", 4), ("nuts3", 5)),
            ),
        ),
        (
            {"tract": ["a1", "a2", "b1"], "county": ["a", "a", "b"], "sex": list("fmf")},
            FoundPlaces(columns=("county", "tract")),
        ),
        (  # codes that repeat between parents
            {"tract": ["1", "2", "1", "2"], "county": ["7", "7", "9", "9"], "sex": list("fmfm")},
            FoundPlaces(columns=("county", "tract"), local_codes=True),
        ),
        (  # a name beside a code says nothing more, and one state is the whole
            {
                "state": ["RI"] * 3,
                "county": ["001", "001", "007"],
                "county_name": ["Bristol", "Bristol", "Providence"],
                "tract": ["1", "2", "3"],
            },
            FoundPlaces(
                columns=("county", "tract"),
                root="state",
                others=("state", "county_name"),
                unused=("county_name",),
            ),
        ),
        (  # where one was born is not where one lives
            {"county": ["a", "b", "a", "b"], "birth_country": list("xyyx")},
            FoundPlaces(columns=("county",)),
        ),
        (
            {"ward": ["a", "b", "TOTAL", "c"], "n": ["1", "2", "6", "3"]},
            FoundPlaces(columns=("ward",), totals=True),
        ),
    ],
)
def test_places(tmp_path: Path, columns: dict[str, list[str]], places: FoundPlaces) -> None:
    assert find_places(seen(tmp_path, columns)) == places


def test_no_places(tmp_path: Path) -> None:
    assert find_places(seen(tmp_path, {"age": ["1", "2"], "sex": ["f", "m"]})) is None


# --- attributes ------------------------------------------------------------------------------


def test_levels_stand_in_the_order_of_their_numbers() -> None:
    assert in_order(["5-9", "10-14", "Under 5", "85+"]) == ("Under 5", "5-9", "10-14", "85+")
    assert in_order(["10", "9", "1"]) == ("1", "9", "10")
    assert in_order(["rent", "own"]) == ("own", "rent")


def test_years_of_age_are_known_by_name_and_values() -> None:
    assert single_years(column("Age", "1", "34", "90+"))
    assert single_years(column("AGE (years)", "1", "34", "NA"))
    assert not single_years(column("age_group", "1", "2"))
    assert not single_years(column("age", "0-4", "5-9"))
    assert not single_years(column("wage", "100", "120"))
    assert not single_years(column("age", "1945", "2001"))


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (column("x", *"aaaa"), "it has the same value in every row"),
        (column("x", None, None), "it is empty"),
        (column("hhsize", *"1212"), "it looks like a number of people in the household"),
        (column("person id", *map(str, range(100))), "it looks like an identifier"),
        (column("job", *map(str, range(100))), "it has more than 70 different numbers"),
        (column("bmi", "20.5", "30.1", "20.5"), "it holds numbers with decimals"),
        (column("sex", *"fmfm"), ""),
        (column("sex", "f", None), ""),
    ],
)
def test_columns_that_are_no_attributes(one: SeenColumn, reason: str) -> None:
    found = why_not(one, rows=1000)
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


def test_a_schema_is_kept_bearable_and_usual_attributes_come_first() -> None:
    many = tuple(str(level) for level in range(60))
    columns = [
        Chosen(name="job", column="job", levels=many),
        Chosen(name="industry", column="industry", levels=many),
        Chosen(name="sex", column="sex", levels=("f", "m")),
        Chosen(name="age", column="age", bins="five-year"),
    ]
    kept, others = fitting(columns)
    assert [one.name for one in kept] == ["job", "sex", "age"]
    assert [one.name for one in others] == ["industry"]
    assert 60 * 2 * 18 <= MOST_CELLS < 60 * 60 * 2 * 18


def test_names_of_attributes() -> None:
    assert attribute_name("Age (years)", set()) == "age_years"
    assert attribute_name("maritalStatus", set()) == "marital_status"
    assert attribute_name("total", set()) == "total_of_person"
    assert attribute_name("sex", {"sex"}) == "sex_2"
    assert attribute_name("%", set()) == "attribute"


# --- cells -----------------------------------------------------------------------------------


def cells(columns: dict[str, list[int]]) -> tuple[object, object]:
    text = {name: [str(value) for value in values] for name, values in columns.items()}
    found = find_cells(pl.DataFrame(text), list(columns), PLAIN)
    return found.attributes, found.totals


def test_names_of_columns_are_taken_apart() -> None:
    one = {name: [1, 2] for name in ("m_0_17", "m_18_64", "m_65+", "f_0_17", "f_18_64", "f_65+")}
    assert cells(one) == ((("sex", ("m", "f")), ("age", ("0_17", "18_64", "65+"))), ())
    assert cells({"a.x": [1], "a.y": [2], "b.x": [4], "b.y": [8]})[0] == (
        ("group", ("a", "b")),
        ("group_2", ("x", "y")),
    )
    assert cells({"men": [1], "women": [2]})[0] == (("sex", ("men", "women")),)
    assert cells({"hisp_any": [1], "white": [2], "other_x": [4]})[0] == (
        ("group", ("hisp_any", "white", "other_x")),
    )
    assert cells({"population": [5]})[0] == ()


def test_columns_that_add_up_others_are_no_cells() -> None:
    random = Random(4)
    base = {name: [random.randint(50, 900) for _ in range(8)] for name in ("m_a", "m_b", "f_a")}
    base["f_b"] = [random.randint(50, 900) for _ in range(8)]

    def of(*names: str) -> list[int]:
        return [sum(row) for row in zip(*(base[name] for name in names), strict=True)]

    assert cells({"total": of(*base), **base})[1] == ("total",)
    both = {"m_total": of("m_a", "m_b"), **base, "f_total": of("f_a", "f_b")}
    assert cells(both)[1] == ("m_total", "f_total")
    assert cells({"all": of(*base), **both})[1] == ("all", "m_total", "f_total")
    assert cells(base)[1] == ()
    few = {name: values[:1] for name, values in base.items()}
    assert cells({"total": of(*base)[:1], **few})[1] == ()  # one row: it may be by chance


# --- at a terminal ---------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_at_a_terminal_is_asked(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = semicolons(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal("people\ndrop\nyes\n"))
    answer = headcount("init", stranger.path)
    assert answer.code == 0, answer.err
    assert "What is people.csv?" in answer.err
    assert "people in 24 places. Is that right? [yes/no]" in " ".join(answer.err.split())
    assert "rows without 'age' are left out" in answer.out
    assert 'missing = "drop"' in (tmp_path / "people.toml").read_text()


# --- counts ----------------------------------------------------------------------------------

CROSSED = """Ort;Geschlecht;Alter;{count};Anteil
A;m;0-17;120;1,5
A;f;0-17;130;2,5
A;m;18+;220;3,5
A;f;18+;200;2,5
B;m;0-17;{small};1,5
B;f;0-17;13;0,5
B;m;18+;22;0,7
"""


@pytest.mark.parametrize("count", ["Einwohner", "befolkning", "Meldungen am Stichtag"])
def test_counts_are_known_by_words_of_several_languages_or_by_the_shape_of_the_table(
    tmp_path: Path, count: str
) -> None:
    path = tmp_path / "ort.csv"
    path.write_text(CROSSED.format(count=count, small=12))
    found = draft(path)
    assert (found.kind, found.count) == ("long", count)
    assert [one.name for one in found.attributes] == ["geschlecht", "alter"]
    assert "717" in read(path, public=True)._repr_html_()


def test_people_who_repeat_are_no_cross_table(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    rows = [f"{'AB'[i % 2]},{'mf'[i // 2 % 2]},{1000 + i}" for i in range(40)]
    path.write_text("\n".join(["region,sex,wage", *rows]))
    assert draft(path).kind == "people"


@pytest.mark.parametrize("sign", ["<5", "*", "suppressed", "c"])
def test_counts_that_were_withheld_are_refused_with_their_line(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "ort.csv"
    path.write_text(CROSSED.format(count="count", small=sign))
    with pytest.raises(InputError, match="column 'count', line 6: found ") as error:
        draft(path)
    assert f"{sign!r} in place of a count, expected whole numbers" in str(error.value)


def test_withheld_counts_of_a_wide_table_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("area,males,females\n0101,31,12\n0102,44,81\n0103,<5,60\n0104,33,22\n")
    with pytest.raises(InputError, match=r"column 'males', line 4: found '<5' in place of a"):
        draft(path)


@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("People of the towns;;;;\n", "4 columns without a name"),
        ("People of the towns\n\n", "one column, and several in the lines below"),
    ],
)
def test_a_title_above_the_header_is_refused(tmp_path: Path, title: str, found: str) -> None:
    path = tmp_path / "ort.csv"
    path.write_text(title + CROSSED.format(count="count", small=12))
    with pytest.raises(InputError, match=f"the first line: found {found}, expected a name for"):
        look(path)


def test_a_table_above_another_is_asked_about_whatever_the_order_of_columns(
    tmp_path: Path,
) -> None:
    """The second was read alone, under the name of a person's row: half of the people were lost."""
    rows = [(place, sex, 100 + 7 * k) for k in range(9) for place, sex in ((f"P{k}", "male"),)]
    rows += [(place, "female", n + 3) for place, _, n in rows]
    first = [f"{sex},{n},{place}" for place, sex, n in rows]
    second = [f"{place},{sex},{n + 5}" for place, sex, n in rows]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(["sex,population,place", *first, ",persons,", *second]))
    with pytest.raises(InputError, match="lines with numbers, apart from the rows below the names"):
        draft(path)


def test_a_line_of_units_between_two_tables_makes_no_persons_of_their_rows(tmp_path: Path) -> None:
    """Cells of two tables below each other were read as persons, their counts left aside."""
    random = Random(12)
    rows = []
    for k in range(2 * 19 * 2):
        men, women = random.randint(3000, 9000), random.randint(3000, 9000)
        age = ("00-17", "18+")[k % 2]
        rows.append(f"{k // 2 % 19 + 1:03},{age},{men + women},{men},{women}")
    rows.insert(38, "all,all,9,5,4")
    path = tmp_path / "two.csv"
    names, units = "place code,age,sum,men,women", ",,persons,persons,persons"
    path.write_text("\n".join([names, units, *rows[:39], units, *rows[39:]]))
    with pytest.raises(InputError, match="line 42: found a line below the names again: several"):
        draft(path)
    path.write_text("\n".join([names, *rows[1:39], units, *rows[39:]]))
    with pytest.raises(InputError, match="found the sum of 'men', 'women' in every row, or nearly"):
        draft(path)


def test_levels_that_say_all_of_something_are_totals_of_a_table_of_counts(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    groups = [("Male", "0-17", 1), ("Male", "18+", 2), ("Male", "All ages", 3)]
    groups += [("Female", "0-17", 4), ("Female", "18+", 5), ("Female", "All ages", 9)]
    groups += [("Both sexes", "0-17", 5), ("Both sexes", "18+", 7), ("Both sexes", "All ages", 12)]
    rows = [
        f"{place},{sex},{age},{n * k}"
        for k, place in ((1, "A"), (2, "B"))
        for sex, age, n in groups
    ]
    path.write_text("\n".join(["region,sex,age,count", *rows]))
    assert draft(path).exclude == {"sex": ["Both sexes"], "age": ["All ages"]}
    assert "36 (the data are public)" in read(path, public=True)._repr_html_()


def test_a_level_of_others_is_no_total() -> None:
    assert column("race", "White", "All other races", "Total").totals == ("Total",)


def test_counts_with_decimals_are_not_taken_for_people(tmp_path: Path) -> None:
    path = tmp_path / "parts.csv"
    path.write_text("region,sex,count\nA,m,12.4\nA,f,3.2\nB,m,5.1\nB,f,7.7\n")
    with pytest.raises(InputError, match="column 'count': found numbers with decimals, expected"):
        draft(path)
