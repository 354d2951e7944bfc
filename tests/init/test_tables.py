"""Tables that are read by what adds up, and negative controls: else somebody is asked."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.config.load import load_config
from headcount.errors import InputError
from headcount.init import Told, draft, write_draft
from headcount.init.layout import Layout, find_layout
from headcount.init.proposal import Proposal, people_of, preview
from headcount.init.sums import (
    Table,
    sums_of_columns,
    totals_by_level,
    totals_in_order,
    totals_of_groups,
)
from tests.init.test_init import tallied


def table(columns: list[list[int]]) -> Table:
    counts = np.array(columns, dtype=np.int64).T
    return Table(counts, np.ones(counts.shape, dtype=bool))


def random_columns(seed: int, *, columns: int, rows: int = 30) -> list[list[int]]:
    random = Random(seed)
    return [
        [random.randint(0, 10 ** random.randint(2, 5)) for _ in range(rows)] for _ in range(columns)
    ]


def written(folder: Path, rows: list[list[object]], name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def size(path: Path, **said: object) -> tuple[int, int]:
    told = Told.by_words(**said)  # type: ignore[arg-type]
    made = draft(path, told=told)
    return Proposal(made, people_of(made, told)).size


# --- sums -------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 10_000), parts=st.integers(2, 6), order=st.randoms(use_true_random=False)
)
@settings(max_examples=30, deadline=None)
def test_a_total_beside_its_parts_is_found_in_any_order_of_two(
    seed: int, parts: int, order: Random
) -> None:
    own = random_columns(seed, columns=parts)
    whole = [sum(row) for row in zip(*own, strict=True)]
    for columns, at in (([whole, *own], 0), ([*own, whole], parts)):
        found = sums_of_columns(table(columns))
        assert [one.total for one in found] == [at]
        assert set(found[0].parts) == set(range(parts + 1)) - {at}
    order.shuffle(own)


def test_a_total_of_two_is_found_anywhere_and_one_wrong_row_hides_none() -> None:
    men, women, other = random_columns(3, columns=3, rows=100)
    both = [a + b for a, b in zip(men, women, strict=True)]
    both[17] += 2
    (found,) = [one for one in sums_of_columns(table([men, other, both, women])) if one.total == 2]
    assert found.parts == (0, 3)
    assert found.wrong == (17,)


def test_columns_that_nothing_adds_up_have_no_sum() -> None:
    for seed in range(20):
        assert sums_of_columns(table(random_columns(seed, columns=12))) == []


def test_small_numbers_that_add_up_by_chance_are_no_sum() -> None:
    assert sums_of_columns(table([[1, 2, 3], [1, 1, 2], [0, 1, 1]])) == []


def test_sums_are_found_wherever_they_stand() -> None:
    """Parts of everybody and of the adults among them, in any order; the old code saw neither."""
    random = Random(8)
    people = random_columns(6, columns=5)
    adults = [[one * 2 // 3 for one in column] for column in people]
    sums = [[sum(row) for row in zip(*own, strict=True)] for own in (people, adults)]
    mixed = list(enumerate([*people, *adults, *sums]))
    random.shuffle(mixed)
    at = {k: place for place, (k, _) in enumerate(mixed)}
    found = {(one.total, one.parts) for one in sums_of_columns(table([own for _, own in mixed]))}
    assert found == {
        (at[10], tuple(sorted(at[k] for k in range(5)))),
        (at[11], tuple(sorted(at[k] for k in range(5, 10)))),
    }


def test_rows_that_are_totals_are_found_by_level_by_group_and_in_order() -> None:
    random = Random(7)
    parts = np.array([random.randint(1000, 90_000) for _ in range(12)], dtype=np.int64)
    sums = parts.reshape(4, 3).sum(axis=1)
    groups = np.repeat(np.arange(4), 4)
    counts = np.column_stack([sums, parts.reshape(4, 3)]).ravel()
    levels = np.tile([9, 1, 2, 3], 4)
    wanted = levels == 9
    for found in (
        totals_by_level(groups, levels, 9, counts.astype(float)),
        totals_of_groups(groups, counts.astype(float)),
        totals_in_order(counts),
    ):
        assert (found.rows == wanted).all()
        assert found.digits > 6
    assert not totals_in_order(parts).number


# --- tables -----------------------------------------------------------------------------------


def crossed(seed: int) -> tuple[list[list[object]], int]:
    """Place x residence in rows, sexes beside each other, with totals of everything."""
    random = Random(seed)
    rows: list[list[object]] = [["kk", "type", "all", "m", "f"]]
    people = 0
    for place in range(14):
        own = [[random.randint(10, 9000) for _ in "mf"] for _ in "ru"]
        both = [sum(column) for column in zip(*own, strict=True)]
        for zone, cells in (("T", both), ("r", own[0]), ("u", own[1])):
            rows.append([f"{place:02}x", zone, sum(cells), *cells])
        people += sum(both)
    return rows, people


def test_levels_in_rows_and_in_columns_are_read_together(tmp_path: Path) -> None:
    rows, people = crossed(1)
    path = written(tmp_path, rows)
    made = draft(path, told=Told(places=("kk",)))
    assert [one.name for one in made.attributes] == ["type"]
    assert made.exclude == {"type": ["T"]}
    assert any("14 of 14 totals in 'type' ('T') agree" in note for note in made.notes)
    assert Proposal(made, people_of(made, Told())).size == (people, 14)
    write_draft(made, tmp_path / "config.toml")
    population = load_config(tmp_path / "config.toml").population.read()
    found = tallied(population)
    assert sum(found.values()) == people
    assert found["03x", "m", "r"] == rows[1 + 3 * 3 + 1][3]


def test_one_total_that_differs_is_asked_about(tmp_path: Path) -> None:
    rows, _ = crossed(2)
    for row in rows[1::3][:5]:
        row[2] = int(str(row[2])) + 7
        row[3] = int(str(row[3])) + 7
    with pytest.raises(InputError, match="9 of 14 totals agree with what they add up"):
        size(written(tmp_path, rows), places="kk")


def test_a_unit_twice_in_rows_is_refused_by_check(tmp_path: Path) -> None:
    rows, _ = crossed(3)
    made = draft(written(tmp_path, rows), told=Told(places=("kk",)))
    write_draft(made, tmp_path / "config.toml")
    written(tmp_path, [*rows, rows[2]])
    with pytest.raises(InputError, match="a second row of the same unit and levels"):
        load_config(tmp_path / "config.toml").population.read()


def test_few_places_that_no_name_tells_are_asked_about(tmp_path: Path) -> None:
    rows, _ = crossed(4)
    with pytest.raises(InputError, match="places, or groups of people"):
        size(written(tmp_path, rows[: 1 + 3 * 6]))


def test_the_same_people_under_two_levels_are_asked_about(tmp_path: Path) -> None:
    random = Random(5)
    rows: list[list[object]] = [["district", "spouse", "age", "count"]]
    for place in range(8):
        whole = [random.randint(1000, 9000) for _ in range(3)]
        for side in ("husband", "wife"):
            random.shuffle(whole)
            rows += [[f"D{place}", side, age, n] for age, n in zip("xyz", whole, strict=True)]
    with pytest.raises(InputError, match="with the same totals"):
        size(written(tmp_path, rows))


@pytest.mark.parametrize("odd", ["-7", "41.5"])
@pytest.mark.parametrize("totals", [False, True], ids=["no totals", "a row of totals"])
def test_a_count_with_one_odd_number_is_not_left_aside_unsaid(
    tmp_path: Path, odd: str, totals: bool
) -> None:
    """Else the other column is everybody, though it has half of them."""
    random = Random(3)
    rows: list[list[object]] = [
        [f"district {n}", group, random.randint(20, 900), random.randint(20, 900)]
        for n in range(12)
        for group in ("0-17", "18-64", "65+")
    ]
    if totals:
        for group in ("0-17", "18-64", "65+"):
            own = [one for one in rows if one[1] == group and one[0] != "Total"]
            rows.append(["Total", group, *(sum(int(str(one[k])) for one in own) for k in (2, 3))])
    rows[7][3] = odd
    path = written(tmp_path, [["district", "age", "men", "women"], *rows])
    with pytest.raises(InputError, match=r"column 'women': found a negative number .* \(line 9\)"):
        draft(path)


def test_whoever_says_that_a_table_is_wide_loses_no_column_for_one_decimal(tmp_path: Path) -> None:
    random = Random(6)
    rows: list[list[object]] = [
        [f"district {n}", *(random.randint(20, 900) for _ in "abc")] for n in range(12)
    ]
    rows[4][1] = "41.5"
    path = written(tmp_path, [["district", "0-17", "18-64", "65+"], *rows])
    with pytest.raises(InputError, match=r"column '0-17': found a negative number or decimals"):
        size(path, kind="wide")
    assert size(path, kind="wide", not_counts="0-17")[1] == 12


def test_codes_of_places_that_look_like_years_and_persons_that_are_numbered(tmp_path: Path) -> None:
    random = Random(8)
    rows: list[list[object]] = [["dwelling", "person nr", "municipality code", "sex"]]
    for home in range(90):
        of_home = [
            [home, n + 1, 2001 + home // 5, random.choice("mf")] for n in range(home % 4 + 1)
        ]
        rows += of_home
    path = written(tmp_path, rows)
    assert size(path) == (len(rows) - 1, 18)
    rows[0] = ["x1", "x2", "municipality code", "sex"]  # whatever names say, 1, 2 .. is no level
    hidden = draft(written(tmp_path, rows, "hidden.csv"))
    assert [one.column for one in hidden.attributes] == ["sex"]
    assert "not used: 'x2': it numbers the people of a dwelling" in hidden.notes
    some = [one for one in rows[1:] if one[2] == 2003]
    assert size(path, only=["municipality code=2003"]) == (len(some), 1)


def test_a_region_that_adds_up_its_districts_is_seen_though_another_does_not(
    tmp_path: Path,
) -> None:
    """One total alone agrees by chance in one of a few tables; in two columns it does not."""
    rows: list[list[object]] = [
        ["R1", "Grienfal", 569, 970],
        *(
            ["D0101", "Rusfal", 66, 111],
            ["D0102", "Dorfal", 112, 205],
            ["D0103", "Falnes", 125, 229],
        ),
        *(["D0104", "Grifal", 156, 221], ["D0105", "Falkeke", 69, 124], ["D0106", "Mones", 41, 80]),
        ["R2", "Falenmo", 1060, 1812],  # and a district of it is not there
        *(
            ["D0201", "Grigri", 79, 132],
            ["D0202", "Linmo", 139, 244],
            ["D0203", "Dordor", 395, 631],
        ),
        *(["D0204", "Kebati", 102, 213], ["D0205", "Prapra", 34, 67], ["D0206", "Humo", 211, 337]),
        ["D0207", "Enhu", 44, 88],
    ]
    header: list[object] = ["code", "place", "total", "men", "women"]
    lines: list[list[object]] = [[a, b, int(str(m)) + int(str(w)), m, w] for a, b, m, w in rows]
    path = written(tmp_path, [header, *lines])
    with pytest.raises(InputError, match="found 'Grienfal', the total of 'Rusfal', 'Dorfal'"):
        draft(path)


@pytest.mark.parametrize(
    ("name", "labels", "levels"),
    [
        ("C4", ["C4", "tranche d'âge"], [f"tranche {n}" for n in range(9)]),
        ("kk", [], ["00-09", *(f"{n}0-{n}9" for n in range(1, 8)), "80+"]),
        ("kk", [], [f"tranche {n}" for n in range(9)]),
    ],
    ids=["the label says so", "all ages there are", "neither"],
)
def test_groups_that_cross_fewer_places_are_no_smaller_places(
    tmp_path: Path, name: str, labels: list[str], levels: list[str]
) -> None:
    random = Random(9)
    rows: list[list[object]] = []
    for place in range(8):
        for level in levels:
            men, women = random.randint(50, 900), random.randint(50, 900)
            rows.append([f"D{place:03}", level, men + women, men, women])
    everybody = sum(int(str(one[2])) for one in rows)
    header: list[list[object]] = [["district", name, "total", "men", "women"]]
    if labels:
        header = [["C2", name, "P1", "P2", "P3"], ["district", labels[1], "total", "men", "women"]]
    path = written(tmp_path, [*header, *rows])
    if not labels and levels[0] != "00-09":
        with pytest.raises(InputError, match=f"column '{name}': found levels without a total"):
            draft(path)
    else:
        assert size(path) == (everybody, 8)


@pytest.mark.parametrize(
    "header",
    [["v1", "v2", "v3"], ["men", "women"], ["men", "women", "0-17", "18-64", "65+"]],
    ids=["a column of 100", "both sexes", "two families"],
)
@pytest.mark.parametrize("country", [False, True], ids=["", "and a row of the country"])
def test_shares_that_add_up_to_100_are_no_people(
    tmp_path: Path, header: list[str], country: bool
) -> None:
    random = Random(5)
    rows: list[list[object]] = []
    for place in [*(f"place {n}" for n in range(14)), *(["Total"] if country else [])]:
        men, young, old = random.randint(40, 60), random.randint(15, 30), random.randint(10, 30)
        ages = [young, 100 - young - old, old] if len(header) == 5 else []
        rows.append([place, *([100] if len(header) == 3 else []), men, 100 - men, *ages])
    path = written(tmp_path, [["district", *header], *rows])
    with pytest.raises(InputError, match="add up to 100, or nearly, over and over: shares"):
        draft(path)


@pytest.mark.parametrize("by", ["age", "sex,age"])
@pytest.mark.parametrize("name", ["value", "population"])
@pytest.mark.parametrize("slack", [0, 1], ids=["exactly", "nearly, as they are rounded"])
def test_shares_in_rows_are_no_people(tmp_path: Path, by: str, name: str, slack: int) -> None:
    """In each district, or in each district and sex, the ages have 100 together."""
    random = Random(6)
    rows: list[list[object]] = []
    for place in range(14):
        for sex in "mf" if "sex" in by else [""]:
            young, old = random.randint(15, 30), random.randint(10, 30)
            for age, share in (("0-17", young), ("18-64", 100 - young - old), ("65+", old)):
                odd = random.randint(-slack, slack) if age == "65+" else 0
                rows.append([f"place {place}", *([sex] if sex else []), age, share + odd])
    path = written(tmp_path, [["district", *by.split(","), name], *rows])
    with pytest.raises(InputError, match="add up to 100, or nearly, over and over: shares"):
        draft(path)
    assert size(path, kind="long", count=name)[1] == 14


def test_three_levels_of_a_small_country_in_any_order_are_asked_about(tmp_path: Path) -> None:
    """Of few people, so that one column of sums would say too little."""
    random = Random(7)
    leaves = [(random.randint(9, 99), random.randint(9, 99)) for _ in range(18)]
    groups = [leaves, leaves[:6], leaves[6:12], leaves[12:], *([one] for one in leaves)]
    rows: list[list[object]] = [
        [str(7000 + number), name, sum(one[sex] for one in below)]
        for number, below in enumerate(groups)
        for sex, name in enumerate(("male", "female"))
    ]
    for _ in range(5):
        random.shuffle(rows)
        path = written(tmp_path, [["code", "sex", "population"], *rows])
        with pytest.raises(InputError, match="several levels of place"):
            draft(path)


def test_a_region_without_its_total_is_asked_about(tmp_path: Path) -> None:
    """Its other rows add up, and so does the country: it is a region too, with a district lost."""
    random = Random(10)
    every = [(random.randint(90, 9000), random.randint(90, 9000)) for _ in range(20)]
    regions = [every[k : k + 5] for k in range(0, 20, 5)]
    rows: list[list[object]] = []
    for number, districts in enumerate(regions):
        rows.append([f"region {number}", *map(sum, zip(*districts, strict=True))])
        rows += [[f"district {number}{k}", *two] for k, two in enumerate(districts)]
    rows.insert(0, ["Norland", *map(sum, zip(*every, strict=True))])
    header: list[object] = ["place", "men", "women"]
    assert size(written(tmp_path, [header, *rows])) == (sum(int(str(n)) for n in rows[0][1:]), 20)
    path = written(tmp_path, [header, *rows[:-2], rows[-1]])
    with pytest.raises(
        InputError, match=r"4 rows that are the sums of those below .*, and 4 that none"
    ):
        draft(path)


def test_regions_beside_their_districts_in_any_order_are_asked_about(tmp_path: Path) -> None:
    """Too many rows to try all ways to part them, and too few people for chance to be ruled out."""
    random = Random(11)
    parts = [[(random.randint(9, 90), random.randint(9, 90)) for _ in range(7)] for _ in "abcde"]
    rows: list[list[object]] = []
    for region in parts:
        rows += [[f"place {len(rows) + k}", *two] for k, two in enumerate(region)]
        rows.append([f"place {len(rows)}", *map(sum, zip(*region, strict=True))])
    for _ in range(5):
        random.shuffle(rows)
        path = written(tmp_path, [["place", "men", "women"], *rows])
        with pytest.raises(InputError, match="several levels of place"):
            draft(path)


def test_a_line_of_words_below_the_names_is_no_person(tmp_path: Path) -> None:
    random = Random(8)
    rows: list[list[object]] = [
        [f"D{random.randrange(9):02}", random.choice("mf"), random.choice(["0-14", "15-64", "65+"])]
        for _ in range(200)
    ]
    names: list[object] = ["district", "sex", "age"]
    assert size(written(tmp_path, [names, *rows])) == (200, 9)
    assert size(written(tmp_path, [names, ["#adm1", "#meta", "#meta"], *rows])) == (200, 9)
    assert size(written(tmp_path, [["Q1", "Q2", "Q3"], names, *rows])) == (200, 9)
    path = written(tmp_path, [names, ["text", "code", "group"], *rows])
    with pytest.raises(InputError, match=r"line 2: found nothing in .* that stands in another row"):
        draft(path)
    path = written(tmp_path, [names, ["D99", "f", "85+"], *rows])  # she lives alone there
    assert size(path) == (201, 10)


def test_a_balance_beside_what_adds_up_is_left_aside(tmp_path: Path) -> None:
    random = Random(4)
    rows: list[list[object]] = []
    for n in range(12):
        men, women = random.randint(20, 900), random.randint(20, 900)
        rows.append([f"district {n}", men + women, men, women, random.randint(3, 90)])
    rows[5][4] = -12
    path = written(
        tmp_path, [["district", "population", "men", "women", "natural increase"], *rows]
    )
    assert size(path) == (sum(int(str(one[1])) for one in rows), 12)


@pytest.mark.parametrize("step", [3, 5, 10])
def test_rounded_counts_are_asked_about(tmp_path: Path, step: int) -> None:
    random = Random(step)
    rows: list[list[object]] = [["ward", "all", "m", "f"]]
    for place in range(12):
        own = [step * random.randint(10, 900) for _ in "mf"]
        rows.append([f"W{place}", sum(own), *own])
    with pytest.raises(InputError, match=f"all multiples of {step}: rounded"):
        size(written(tmp_path, rows))
    assert size(written(tmp_path, rows), kind="wide")[1] == 12


@pytest.mark.parametrize("what", ["hectares", "cattle", "ménages", "turnover (1000 EUR)"])
def test_a_total_of_something_else_is_no_number_of_people(tmp_path: Path, what: str) -> None:
    random = Random(9)
    rows: list[list[object]] = [["district", what, f"{what}: kind 1", f"{what}: kind 2"]]
    for place in range(20):
        own = [random.randint(100, 9999) for _ in "ab"]
        rows.append([f"D{place:03}", sum(own), *own])
    with pytest.raises(InputError):
        size(written(tmp_path, rows))


# --- layout -----------------------------------------------------------------------------------

BODY = [["A", "10", "20"], ["B", "30", "40"], ["C", "50", "60"]]


@pytest.mark.parametrize(
    ("lines", "layout"),
    [
        ([["ward", "m", "f"], *BODY], Layout()),
        ([["People", "", ""], [], ["ward", "m", "f"], *BODY], Layout(lines_above=2)),
        (
            [["", "2020", ""], ["ward", "m", "f"], *BODY],
            Layout(lines_above=1),
        ),
        (
            [["", "young", "old"], ["ward", "m", "f"], *BODY],
            Layout(heading_lines=2),
        ),
        (
            [["ward", "m", "f"], ["Ward", "Number of men", "Number of women"], *BODY],
            Layout(lines_after_heading=1),
        ),
        ([["ward", "m", "f"], *BODY, [], ["Source: census", "", ""]], Layout(lines_below=1)),
        ([["ward", "2010", "2020"], *BODY], Layout()),
        ([["ward", "m", "f"], ["Z", "…", "…"], *BODY], Layout()),
        ([["ward", "m", "f"], ["Z", "x", "x"], *BODY[:2], ["Y", "x", "7"]], Layout()),
        (
            [["id", "kind"], ["#code", "#meta"], *[["A", "p"], ["B", "q"]]],
            Layout(lines_after_heading=1),
        ),
        (
            [["Q1", "Q2"], ["ward", "sex"], *[[f"W{n % 5}", "mf"[n % 2]] for n in range(30)]],
            Layout(lines_after_heading=1),
        ),
        ([["Q1", "Q2"], *[[f"W{n % 5}", "mf"[n % 2]] for n in range(30)]], Layout()),
        ([["1993", "1723", "M"], ["1993", "1410", "W"], ["1993", "455", "M"]], None),
        (BODY, None),
    ],
)
def test_where_a_table_is_in_a_sheet(lines: list[list[str]], layout: Layout | None) -> None:
    assert find_layout(lines) == layout


def test_a_heading_of_several_lines_of_text_loses_no_row(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(
        'Title\n\nward,population,"men\nliving",women\r\n'
        + "".join(f"W{n:02},{300 + n * n},{100 + n},{200 + n * n - n}\r\n" for n in range(20))
        + "Source: somebody\n"
    )
    assert size(path) == (sum(300 + n * n for n in range(20)), 20)


def test_what_is_read_is_shown_first(tmp_path: Path) -> None:
    rows, people = crossed(6)
    told = Told(places=("kk",))
    made = draft(written(tmp_path, rows), told=told)
    shown = preview(made, people_of(made, told))
    ((level, number, largest),) = shown.places
    assert (level, number) == ("kk", 14)
    assert [name for name, _ in shown.levels] == ["sex", "type"]
    assert {sum(n for _, n in levels) for _, levels in shown.levels} == {people}
    assert largest[0][1] >= largest[1][1]
    assert shown.lines()[0] == "first rows:"
    assert "T" not in {row[1] for row in shown.rows}
