"""Tidy tables of synthetic people and living quarters, for any schema and geography."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from headcount.errors import InputError
from headcount.geography import Geography, regular
from headcount.population.population import Quarters
from headcount.release._tidy import place, write_sample, write_tidy
from headcount.schema import Attribute, Schema

HOME = Attribute("home", ("house", "hostel"))
SEX = Attribute("sex", ("f", "m"))
SCHEMA = Schema((SEX, HOME))  # the type is not the first attribute
PLACES = regular(children=2, depth=2)


def test_tables_by_hand(tmp_path: Path) -> None:
    counts = np.zeros((4, 4), dtype=np.int64)
    counts[0, SCHEMA.cell(sex="f", home="house")] = 2
    counts[0, SCHEMA.cell(sex="m", home="house")] = 1
    counts[3, SCHEMA.cell(sex="m", home="hostel")] = 1
    occupied = np.array([[2, 0], [0, 0], [0, 0], [0, 1]])
    quarters = Quarters(PLACES, "home", occupied, np.array([0, 1, 0, 1]))
    people, homes = write_tidy(
        counts, schema=SCHEMA, geography=PLACES, quarters=quarters, folder=tmp_path / "new"
    )
    table = pl.read_parquet(people)
    assert dict(table.schema) == {
        **dict.fromkeys(("level_1", "level_2"), pl.String),
        **dict.fromkeys(("quarters_id", "person_number"), pl.Int64),
        **dict.fromkeys(("sex", "home"), pl.String),
    }
    assert table.rows() == [
        ("0", "0.0", 0, 1, "f", "house"),
        ("0", "0.0", 1, 1, "f", "house"),
        ("0", "0.0", 0, 2, "m", "house"),
        ("1", "1.1", 3, 1, "m", "hostel"),
    ]
    table = pl.read_parquet(homes)
    assert table.columns == ["level_1", "level_2", "quarters_id", "type", "vacant", "population"]
    assert table.rows() == [
        ("0", "0.0", 0, "house", False, 2),
        ("0", "0.0", 1, "house", False, 1),
        ("0", "0.1", 2, None, True, 0),
        ("1", "1.1", 3, "hostel", False, 1),
        ("1", "1.1", 4, None, True, 0),
    ]


@pytest.mark.parametrize(("rows", "leaves"), [(1 << 20, 1 << 16), (5, 1), (3, 3)])
def test_tables_say_what_the_placement_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, leaves: int
) -> None:
    monkeypatch.setattr("headcount.files.ROWS_AT_ONCE", rows)
    monkeypatch.setattr("headcount.release._tidy.LEAVES_AT_ONCE", leaves)
    draw = np.random.default_rng(11)
    counts = draw.poisson(3.0, (4, 4))
    living = counts.reshape(4, 2, 2).sum(axis=1)
    occupied = np.minimum(living, draw.integers(1, 4, living.shape))
    quarters = Quarters(PLACES, "home", occupied, draw.integers(0, 3, 4))
    given: dict[str, Any] = {"schema": SCHEMA, "geography": PLACES, "quarters": quarters}
    people, homes = (pl.read_parquet(p) for p in write_tidy(counts, folder=tmp_path, **given))

    placed = place(counts, **given)
    wanted = placed.people_between(0, placed.people)
    assert people["quarters_id"].to_list() == wanted.quarters.tolist()
    assert people["person_number"].to_list() == wanted.number.tolist()
    assert people["level_2"].to_list() == PLACES.units[2][wanted.leaf].tolist()
    assert people["level_1"].to_list() == [code[0] for code in people["level_2"]]
    cells = [SCHEMA.cell(sex=sex, home=home) for sex, home in people.select("sex", "home").rows()]
    assert cells == wanted.cell.tolist()

    lived_in = people.group_by("quarters_id").agg(pl.len().alias("people"))
    checked = homes.join(lived_in, on="quarters_id", how="left", maintain_order="left")
    assert checked["people"].fill_null(0).to_list() == checked["population"].to_list()
    assert (homes["vacant"] == homes["type"].is_null()).all()
    assert homes["vacant"].sum() == quarters.vacant.sum()
    assert homes["quarters_id"].to_list() == list(range(homes.height))


def test_nobody_at_all(tmp_path: Path) -> None:
    whole = regular(children=1, depth=0)
    nothing = Quarters(whole, "home", np.zeros((1, 2), dtype=np.int64), np.zeros(1, dtype=np.int64))
    paths = write_tidy(
        np.zeros((1, 4), dtype=np.int64),
        schema=SCHEMA,
        geography=whole,
        quarters=nothing,
        folder=tmp_path,
    )
    people, homes = (pl.read_parquet(path) for path in paths)
    assert people.shape == (0, 5)
    assert people.columns[0] == "whole"
    assert homes.shape == (0, 5)


@pytest.mark.parametrize("name", ["home", "quarters_id", "vacant"])
def test_columns_need_names_of_their_own(tmp_path: Path, name: str) -> None:
    geography = Geography((f"not_{name}", name), PLACES.units[:2], PLACES.parents[:2])
    occupied = np.zeros((2, 2), dtype=np.int64)
    quarters = Quarters(geography, "home", occupied, np.zeros(2, dtype=np.int64))
    with pytest.raises(InputError, match=f"tidy files: column '{name}': found two columns of that"):
        write_tidy(
            np.zeros((2, 4), dtype=np.int64),
            schema=SCHEMA,
            geography=geography,
            quarters=quarters,
            folder=tmp_path,
        )
    assert not list(tmp_path.iterdir())


def test_an_unknown_attribute_of_quarters(tmp_path: Path) -> None:
    occupied = np.zeros((4, 2), dtype=np.int64)
    quarters = Quarters(PLACES, "hhgq", occupied, np.zeros(4, dtype=np.int64))
    with pytest.raises(InputError, match="found attribute 'hhgq', expected one of 'sex', 'home'"):
        write_tidy(
            np.zeros((4, 4), dtype=np.int64),
            schema=SCHEMA,
            geography=PLACES,
            quarters=quarters,
            folder=tmp_path,
        )


@pytest.mark.parametrize("leaves", [1, 3, 1 << 16])
def test_a_misfit_is_found_in_any_piece(monkeypatch: pytest.MonkeyPatch, leaves: int) -> None:
    monkeypatch.setattr("headcount.release._tidy.LEAVES_AT_ONCE", leaves)
    counts = np.zeros((4, 4), dtype=np.int64)
    counts[3, SCHEMA.cell(sex="m", home="hostel")] = 1
    empty = Quarters(PLACES, "home", np.zeros((4, 2), dtype=np.int64), np.zeros(4, dtype=np.int64))
    given: dict[str, Any] = {"schema": SCHEMA, "geography": PLACES, "quarters": empty}
    with pytest.raises(InputError, match=r"level_2 '1\.1', home 'hostel': found people where no"):
        place(counts, **given)
    with pytest.raises(InputError, match=r"level_2 '1\.1': found a negative count"):
        place(-counts, **given)


@pytest.mark.parametrize(("rows", "leaves"), [(1 << 20, 1 << 16), (4, 1), (3, 3), (1, 2)])
def test_a_sample_in_pieces_has_everybody_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, leaves: int
) -> None:
    monkeypatch.setattr("headcount.files.ROWS_AT_ONCE", rows)
    monkeypatch.setattr("headcount.release._tidy.LEAVES_AT_ONCE", leaves)
    drawn = np.random.default_rng(3).poisson(1.0, (4, 4)) * np.array([[1], [0], [1], [1]])
    weighted = csr_array(drawn * 2.5)
    (path,) = write_sample(
        weighted, fraction=Fraction(2, 5), schema=SCHEMA, geography=PLACES, folder=tmp_path
    )
    expected = [
        (str(PLACES.units[1][leaf // 2]), str(PLACES.units[2][leaf]), sex, home, 2.5)
        for leaf in range(4)
        for sex in SEX.levels
        for home in HOME.levels
        for _ in range(int(drawn[leaf, SCHEMA.cell(sex=sex, home=home)]))
    ]
    assert pl.read_parquet(path).rows() == expected
