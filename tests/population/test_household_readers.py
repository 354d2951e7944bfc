"""Reading people in dwellings: right against the tables by hand, and wrong with a message."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from headcount.errors import InputError
from headcount.geography.geography import CodeColumns, Prefixes
from headcount.population.columns import AttributeColumn, levels_of
from headcount.population.households import read_households, write_households
from headcount.population.population import Households
from headcount.population.towns import towns
from headcount.schema import Follows

SEX = AttributeColumn(name="sex", column="sex", levels=("f", "m"))
TENURE = AttributeColumn(name="tenure", column="tenure", levels=("own", "rent", "none"))
PLACE = CodeColumns(columns=("county", "block"))
KINDS = ("household", "vacant", "prison")
PERSONS: dict[str, list[Any]] = {
    "hh": ["b", "a", "c", "a", "c", "c"],
    "sex": ["f", "m", "m", "f", "m", "m"],
}
DWELLINGS: dict[str, list[Any]] = {
    "hh": ["a", "v", "b", "c"],
    "county": ["01", "01", "02", "01"],
    "block": ["01x", "01x", "02x", "01y"],
    "kind": ["household", "vacant", "household", "prison"],
    "tenure": ["own", "none", "rent", "none"],
    "people": [2, 0, 1, 3],
    "place": ["P1", "P1", None, None],
}


def write(folder: Path, name: str, columns: dict[str, list[Any]]) -> Path:
    table, path = pl.DataFrame(columns), folder / name
    if path.suffix == ".parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path)
    return path


def read(
    folder: Path,
    *,
    persons: dict[str, list[Any]] = PERSONS,
    dwellings: dict[str, list[Any]] = DWELLINGS,
    ending: str = "csv",
    **options: Any,
) -> Households:
    settings: dict[str, Any] = {
        "key": "hh",
        "geography": PLACE,
        "attributes": [SEX],
        "dwelling_attributes": [TENURE],
        "kind": "kind",
        "kinds": KINDS,
        "size": "people",
        "areas": ["place"],
    }
    return read_households(
        write(folder, f"persons.{ending}", persons),
        write(folder, f"dwellings.{ending}", dwellings),
        **(settings | options),
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_two_tables(tmp_path: Path, ending: str) -> None:
    found = read(tmp_path, ending=ending)
    assert found.geography.units[-1].tolist() == ["01x", "01y", "02x"]
    assert found.block.tolist() == [0, 0, 2, 1]
    assert found.kind.tolist() == [0, 1, 0, 2]
    assert found.size.tolist() == [2, 0, 1, 3]
    assert found.persons["sex"].tolist() == [1, 0, 0, 1, 1, 1]  # a, a, b, c, c, c
    assert found.dwellings["tenure"].tolist() == [0, 2, 1, 2]
    assert found.areas[0].codes.tolist() == ["P1"]
    assert found.areas[0].of_leaf.tolist() == [0, -1, -1]
    assert found.read_off == ("which units exist",)
    assert not found.public


def test_without_kinds_nobody_means_vacant(tmp_path: Path) -> None:
    found = read(tmp_path, kind="", kinds=("household", "vacant"), size="")
    assert found.kind.tolist() == [0, 1, 0, 0]


def test_levels_read_off_the_data_are_in_the_order_of_their_numbers() -> None:
    for values, levels in (
        (["10", "9", "100", "9"], ("9", "10", "100")),
        (["85+", "5-9", "10-14"], ("5-9", "10-14", "85+")),
        (["rent", "10", "own"], ("10", "own", "rent")),
        (["2b", "2a", "1"], ("1", "2a", "2b")),
    ):
        assert levels_of(pl.Series(values)) == levels


def test_levels_read_off_the_data_are_owned_up_to(tmp_path: Path) -> None:
    plain = AttributeColumn(name="own", column="tenure")
    found = read(tmp_path, dwelling_attributes=[plain])
    assert found.attribute("own").levels == ("none", "own", "rent")
    assert found.read_off == ("which units exist", "which levels of 'own' exist")


def test_persons_may_carry_the_same_geography(tmp_path: Path) -> None:
    block = ["02x", "01x", "01y", "01x", "01y", "01y"]
    assert read(tmp_path, persons=PERSONS | {"block": block}).size.tolist() == [2, 0, 1, 3]


ALONE: dict[str, list[Any]] = {
    "hh": ["2", "1", "2", "3"],
    "code": ["01x", "01x", "01x", "02y"],
    "sex": ["f", "m", "m", "f"],
    "tenure": ["own", "rent", "own", "rent"],
}


def read_alone(folder: Path, columns: dict[str, list[Any]], **options: Any) -> Households:
    return read_households(
        write(folder, "persons.csv", columns),
        key="hh",
        geography=Prefixes(column="code", prefixes=(("county", 2), ("block", 3))),
        attributes=[SEX],
        dwelling_attributes=[TENURE],
        **options,
    )


def test_persons_only(tmp_path: Path) -> None:
    found = read_alone(tmp_path, ALONE, public=True)
    assert found.size.tolist() == [2, 1, 1]  # in the order of their first person: 2, 1, 3
    assert found.block.tolist() == [0, 0, 1]
    assert found.persons["sex"].tolist() == [0, 1, 1, 0]
    assert found.dwellings["tenure"].tolist() == [0, 1, 1]
    assert found.kind.tolist() == [0, 0, 0]
    assert found.public


def changed(table: dict[str, list[Any]], column: str, row: int, value: Any) -> dict[str, list[Any]]:
    values = list(table[column])
    values[row] = value
    return table | {column: values}


BAD_DWELLINGS: dict[str, tuple[str, int, Any, str]] = {
    "key twice": (
        "hh",
        2,
        "a",
        r"dwellings.csv: column 'hh', line 4: found key 'a' a second time, expected one row",
    ),
    "key missing": ("hh", 1, None, r"dwellings.csv: column 'hh', line 3: found nothing"),
    "nobody's key": (
        "hh",
        2,
        "z",
        r"persons.csv: column 'hh', line 2: found key 'b', expected a key of .*dwellings.csv",
    ),
    "unknown kind": ("kind", 3, "jail", r"column 'kind', line 5: found level 'jail', expected one"),
    "vacant with people": (
        "kind",
        2,
        "vacant",
        r"column 'kind', line 4: found people in a vacant dwelling \(hh 'b'\), expected nobody",
    ),
    "occupied by nobody": (
        "kind",
        1,
        "household",
        r"column 'kind', line 3: found an occupied dwelling without people \(hh 'v'\), expec",
    ),
    "wrong size": (
        "people",
        3,
        2,
        r"column 'people', line 5: found a size of hh 'c' other than its number of persons",
    ),
    "unknown level": ("tenure", 0, "squat", r"column 'tenure', line 2: found level 'squat'"),
    "no level": ("tenure", 0, None, r"column 'tenure', line 2: found nothing"),
    "no block": (
        "block",
        0,
        None,
        r"column 'block', line 2: found a blank code, as rows of totals have, expected rows of "
        r"units, each with its code$",
    ),
    "block in two areas": (
        "place",
        1,
        "P2",
        r"column 'place', line 2: found unit '01x' in two areas, expected each unit in one",
    ),
    "block in two counties": ("county", 1, "02", r"unit '01x': found two parents, '01' and '02'"),
}


@pytest.mark.parametrize("case", BAD_DWELLINGS)
def test_bad_dwellings(tmp_path: Path, case: str) -> None:
    column, row, value, message = BAD_DWELLINGS[case]
    with pytest.raises(InputError, match=message):
        read(tmp_path, dwellings=changed(DWELLINGS, column, row, value))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(PERSONS, "hh", 4, None), r"persons.csv: column 'hh', line 6: found nothing"),
        (changed(PERSONS, "hh", 4, "d"), r"persons.csv: column 'hh', line 6: found key 'd'"),
        (changed(PERSONS, "sex", 1, "x"), r"persons.csv: column 'sex', line 3: found level 'x'"),
        (
            PERSONS | {"block": ["02x", "01x", "01y", "02x", "01y", "01y"]},
            r"column 'block', line 5: found '02x' where dwelling 'a' has '01x', "
            r"expected a household in one unit",
        ),
    ],
)
def test_bad_persons(tmp_path: Path, table: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, persons=table)


def test_no_message_tells_a_count(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, dwellings=changed(DWELLINGS, "people", 3, 77))
    message = str(caught.value).replace(str(tmp_path), "")  # its name may hold any number
    assert "77" not in message
    assert "3" not in message.replace("row 4", "")


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (
            changed(ALONE, "code", 2, "02y"),
            {},
            r"column 'code', line 4: found '02y' where dwelling '2' has '01x', "
            r"expected a household in one unit",
        ),
        (
            changed(ALONE, "tenure", 2, "rent"),
            {},
            r"column 'tenure', line 4: found 'rent' where dwelling '2' .* expected one value for",
        ),
        (changed(ALONE, "tenure", 3, "x"), {}, r"column 'tenure', line 5: found level 'x'"),
        (changed(ALONE, "hh", 0, None), {}, r"column 'hh', line 2: found nothing"),
        (ALONE | {"n": [2, 1, 2, 9]}, {"size": "n"}, r"column 'n', line 5: found a size of hh '3'"),
        (
            ALONE | {"k": ["household"] * 3 + ["vacant"]},
            {"kind": "k"},
            r"column 'k', line 5: found people in a vacant dwelling \(hh '3'\)",
        ),
        (ALONE, {"kinds": ("household",)}, r"kinds: found 1: \['household'\], expected household"),
        (
            ALONE,
            {"kinds": tuple(map(str, range(128)))},
            r"kinds: found 128: .* expected household, vacant, facilities; at most 127",
        ),
        (ALONE, {"size": "n"}, r"column 'n': found no such column"),
    ],
)
def test_bad_persons_only(
    tmp_path: Path, table: dict[str, list[Any]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_alone(tmp_path, table, **options)


def columns_of(households: Households) -> dict[str, Any]:
    def columns(attributes: Any) -> list[AttributeColumn]:
        return [AttributeColumn(name=a.name, column=a.name, levels=a.levels) for a in attributes]

    tree = households.geography
    return {
        "key": "dwelling",
        "geography": CodeColumns(columns=tree.levels[1:], root=tree.levels[0]),
        "attributes": columns(households.person_attributes),
        "dwelling_attributes": columns(households.dwelling_attributes),
        "kind": "kind",
        "kinds": households.kinds,
        "size": "size",
        "areas": [area.name for area in households.areas],
    }


def test_written_and_read_back(tmp_path: Path) -> None:
    state = towns(seed=6, people=3_000, counties=3)
    folder = tmp_path / "saved"
    write_households(state, folder)
    again = read_households(
        folder / "persons.parquet",
        folder / "dwellings.parquet",
        units=folder / "units.parquet",
        **columns_of(state),
    )
    assert again.read_off == ()
    assert again.geography.levels == state.geography.levels
    for one, two in zip(again.geography.units, state.geography.units, strict=True):
        assert np.array_equal(one, two)
    for name in ("block", "kind", "first"):
        assert np.array_equal(getattr(again, name), getattr(state, name))
    assert all(np.array_equal(again.persons[n], state.persons[n]) for n in state.persons)
    assert all(np.array_equal(again.dwellings[n], state.dwellings[n]) for n in state.dwellings)
    assert np.array_equal(again.areas[0].codes, state.areas[0].codes)
    assert np.array_equal(again.areas[0].of_leaf, state.areas[0].of_leaf)
    with pytest.raises(InputError, match="saved: found a folder, expected a new one"):
        write_households(state, folder)


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    """Shuffled tables hold the same households: each as a bag of its members, by key."""
    state = towns(seed=7, people=1_000, counties=1)
    folder = tmp_path / "saved"
    write_households(state, folder)
    for name in ("persons", "dwellings"):
        path = folder / f"{name}.parquet"
        pl.read_parquet(path).sample(fraction=1.0, shuffle=True, seed=1).write_parquet(path)
    again = read_households(
        folder / "persons.parquet",
        folder / "dwellings.parquet",
        **columns_of(state) | {"areas": []},
    )
    assert Counter(map(tuple, bags(state))) == Counter(map(tuple, bags(again)))


def bags(state: Households) -> list[list[Any]]:
    _, cell = state.cells([a.name for a in state.person_attributes])
    codes = state.geography.units[-1]
    return [
        [str(codes[block]), int(kind), int(tenure), *sorted(members.tolist())]
        for block, kind, tenure, members in zip(
            state.block,
            state.kind,
            state.dwellings["tenure"],
            np.split(cell, state.first[1:-1]),
            strict=True,
        )
    ]


def test_areas_from_the_dwellings_when_the_units_lack_them(tmp_path: Path) -> None:
    units = write(
        tmp_path, "units.csv", {"county": ["01", "01", "02"], "block": ["01x", "01y", "02x"]}
    )
    found = read(tmp_path, units=units)
    assert found.areas[0].of_leaf.tolist() == [0, -1, -1]
    listed = {"county": ["01", "01", "02"], "block": ["01x", "01y", "02x"], "place": ["", "Q", "Q"]}
    found = read(tmp_path, units=write(tmp_path, "units.csv", listed))
    assert found.areas[0].codes.tolist() == ["Q"]
    assert found.areas[0].of_leaf.tolist() == [-1, 0, 0]


def test_a_column_of_persons_that_holds_the_size_is_nobodys_own_unless_said(tmp_path: Path) -> None:
    """Whatever it is called, and however few households there are to show it."""
    number = {"a": 2, "b": 1, "c": 3}
    rows = {"a": ("01", "01x"), "b": ("02", "02x"), "c": ("01", "01y")}
    people = PERSONS | {
        "county": [rows[key][0] for key in PERSONS["hh"]],
        "block": [rows[key][1] for key in PERSONS["hh"]],
        "crowd": [number[key] for key in PERSONS["hh"]],
    }
    crowd = AttributeColumn(name="crowd", column="crowd", levels=("1", "2", "3"))

    def follows(column: AttributeColumn, size: str) -> Follows:
        found = read_households(
            write(tmp_path, "all.csv", people),
            key="hh",
            geography=PLACE,
            attributes=[SEX, column],
            size=size,
        )
        return found.attribute("crowd").follows

    assert follows(crowd, "crowd") is Follows.UNSTATED
    assert follows(crowd, "") is Follows.PERSON
    assert follows(replace(crowd, follows=Follows.MEMBERS), "crowd") is Follows.MEMBERS
