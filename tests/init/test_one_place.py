"""People without any place: the whole way, by several methods, from files and frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import headcount as hc
from headcount.cli.app import app
from headcount.config.load import load_config
from headcount.errors import ConfigError, InputError
from headcount.geography.geography import CodeColumns
from headcount.init import Told, draft, write_draft
from headcount.mechanisms import Mechanism
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount.population.columns import AttributeColumn
from headcount.population.microdata import count_people, read_people
from headcount.population.people_table import TableOfPeople
from headcount.registry import MECHANISMS
from headcount.tabulate import Tabulated

NONE = CodeColumns(columns=())


def people(number: int = 300) -> pl.DataFrame:
    dice = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "home": np.sort(dice.integers(0, number // 3, number)).astype(str),
            "sex": pl.Series(["male", "female"]).gather(dice.integers(0, 2, number)),
            "age": dice.integers(0, 95, number),
            "race": pl.Series(["white", "black", "asian"]).gather(dice.integers(0, 3, number)),
        }
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    people().drop("home").write_csv(tmp_path / "people.csv")
    return tmp_path / "people.csv"


def test_a_file_without_a_place_is_asked_about_and_the_answer_is_taken(file: Path):
    with pytest.raises(InputError, match="--no-places, if there are none: everybody is in one"):
        draft(file)
    made = draft(file, told=Told.by_words(no_places=True))
    assert "places: none, as somebody has said: everybody is in one" in made.notes
    written = write_draft(made, file.with_suffix(".toml"))
    assert not any("units" in one.name for one in written)
    assert "columns = [] " in file.with_suffix(".toml").read_text()
    with pytest.raises(ConfigError, match="no_places: found it beside places"):
        Told.by_words(no_places=True, places="county")


def test_one_count_in_one_place_without_a_group_is_refused_in_words(tmp_path: Path):
    """It is tried, to say what an answer would read."""
    rows = "".join(f'D{n:02},town {n},"{n + 3},{100 + n}"\n' for n in range(24))
    (tmp_path / "t.csv").write_text("X3,X10,X17\n" + rows)
    done = CliRunner().invoke(app, ["init", str(tmp_path / "t.csv"), "--yes"])
    assert isinstance(done.exception, (InputError, SystemExit)), done.exception
    assert "places: found no column named like one: 'X3', 'X10', 'X17'" in str(done.exception)


def test_no_place_is_read_off_the_data(file: Path):
    write_draft(draft(file, told=Told(places=NONE)), file.with_suffix(".toml"))
    source = load_config(file.with_suffix(".toml")).population
    read = source.read()
    assert read.geography.levels == ("whole",)
    assert read.domain.read_off == source.domain().read_off
    assert not any("units" in said for said in read.domain.read_off)
    assert len(read.unit) == 300
    assert set(read.unit.tolist()) == {0}


def test_counting_and_reading_agree_where_no_column_tells_a_place(file: Path):
    sex = AttributeColumn(name="sex", levels=("male", "female"))
    table = TableOfPeople(path=file, attributes=(sex,), geography=NONE)
    assert Tabulated.of(count_people(table)).digest == Tabulated.of(read_people(table)).digest
    with pytest.raises(InputError, match="found no column of a place or an attribute"):
        TableOfPeople(path=file, attributes=(), geography=NONE)


METHODS: dict[str, dict[str, Any]] = {
    "topdown": {"epsilon": 1},
    "geometric": {"epsilon": 1},
    "histogram": {"epsilon": 1},
    "cell-key": {},
    "rounding": {"base": 5},
    "suppression": {"tables": "auto"},
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_protect_people_of_one_place(name: str):
    read = hc.read(people(), geography=[], attributes=["sex", "race"])
    method: type[Mechanism] = MECHANISMS.get(name, source="test")
    release = hc.protect(read, method(**METHODS[name]), seed=1)
    assert hc.evaluate(release, read).findings


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (HouseholdSwapping(rate="0.1"), "swapping: within and between: found 'whole' and 'whole'"),  # type: ignore[arg-type]
        (
            TargetedSwapping(rate="0.1", risk_variables=("sex",)),  # type: ignore[arg-type]
            "hierarchy: found one place, expected levels below the whole",
        ),
    ],
)
def test_nobody_is_swapped_out_of_the_only_place(method: Any, message: str):
    read = hc.read(people(), geography=[], attributes=["sex", "race"], household="home")
    with pytest.raises(ConfigError, match=message):
        hc.protect(read, [method, MECHANISMS.get("identity", source="test")()], seed=1)


def test_counts_of_one_place_are_read():
    long = people().group_by("sex", "race").len("people").sort("sex", "race")
    with pytest.raises(InputError, match="no total adds up"):
        hc.read(long, geography=[])
    read = hc.read(long, geography=[], kind="long", count="people")
    assert read.count is not None
    assert int(read.count.sum()) == 300
    wide = pl.DataFrame({"male": [140], "female": [160]})
    read = hc.read(wide, geography=[], kind="wide")
    assert read.count is not None
    assert read.count.tolist() == [140, 160]
    twice = pl.concat([wide, wide + 1])
    with pytest.raises(InputError, match="several rows of counts in one place"):
        hc.read(twice, geography=[], kind="wide")


def test_a_list_of_places_needs_columns_of_places():
    units = pl.DataFrame({"county": ["1"]})
    with pytest.raises(InputError, match="units: found a list of places, and no columns of places"):
        hc.read(people(), geography=[], attributes=["sex"], units=units)


def test_the_whole_way(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(file.parent)
    for command in (
        "init people.csv --yes --no-places",
        "check people.toml",
        "protect people.toml",
        "evaluate runs/people",
        "compare people.toml --methods cell-key --preset demo",
    ):
        done = CliRunner().invoke(app, command.split())
        assert done.exit_code == 0, done.output
