"""``headcount init``: ten files as people have them run without an edit, and all are counted."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.config.load import load_config
from headcount.errors import InputError
from headcount.init import Told, draft, write_draft
from headcount.population import Population
from tests.cli.test_cli import Headcount, headcount
from tests.init.strangers import STRANGERS, Stranger, Truth

__all__ = ["headcount"]


def tallied(population: Population) -> Truth:
    """People by unit and levels, one entry at a time."""
    found: Truth = Counter()
    schema, units = population.schema, population.geography.units[-1]
    codes = np.unravel_index(population.cell, schema.shape)
    levels = [[a.levels[c] for c in code] for a, code in zip(schema.attributes, codes, strict=True)]
    counts = [1] * len(population.unit) if population.count is None else population.count.tolist()
    for unit, own, number in zip(population.unit, zip(*levels, strict=True), counts, strict=True):
        found[str(units[unit]), *own] += number
    return +found


def initialised(folder: Path, stranger: Stranger) -> Path:
    config = folder / "config.toml"
    write_draft(draft(stranger.path), config)
    return config


@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_file_is_read_rightly(tmp_path: Path, name: str) -> None:
    stranger = STRANGERS[name](tmp_path)
    made = draft(stranger.path)
    assert made.kind == stranger.kind
    config = initialised(tmp_path, stranger)
    population = load_config(config).population.read()
    assert population.schema.names == stranger.attributes
    assert tallied(population) == +stranger.truth
    assert "which units exist" in population.domain.read_off


@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_file_runs_from_init_to_evaluate_without_an_edit(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stranger = STRANGERS[name](tmp_path)
    monkeypatch.chdir(tmp_path)
    answer = headcount("init", stranger.path.name, "--yes", "--out", "mine.toml")
    assert answer.code == 0, answer.err
    assert "next:    headcount check mine.toml" in answer.out
    answer = headcount("check", "mine.toml")
    assert answer.code == 0, answer.err
    assert f"{sum(stranger.truth.values()):,}" in answer.out  # people
    answer = headcount("protect", "mine.toml")
    assert answer.code == 0, answer.err
    answer = headcount("evaluate", "runs/mine", "--metrics", "error", "--attacks", "none")
    assert answer.code == 0, answer.err
    assert (tmp_path / "runs" / "mine" / "internal" / "evaluation" / "report.html").is_file()


@pytest.mark.parametrize("name", STRANGERS)
def test_no_count_of_people_is_written(tmp_path: Path, name: str) -> None:
    """The same file with every person twice, and one three times, has the same config."""
    stranger = STRANGERS[name](tmp_path)
    config = initialised(tmp_path, stranger)
    text = config.read_text()
    total = sum(stranger.truth.values())
    assert str(total) not in re.findall(r"\d+", text.replace(",", ""))
    tomllib.loads(text)
    if stranger.path.suffix == ".csv" and stranger.kind == "people":
        raw = stranger.path.read_bytes()
        header, *rows = raw.splitlines(keepends=True)
        stranger.path.write_bytes(header + b"".join([*rows, *rows, rows[0]]))
        made = draft(stranger.path, told=Told(kind="people"))  # all the more often: say so
        write_draft(made, config, overwrite=True)
        assert config.read_text() == text


def test_the_mechanism_is_topdown_with_its_default_queries(tmp_path: Path) -> None:
    config = initialised(tmp_path, STRANGERS["cp1252 with semicolons"](tmp_path))
    told = tomllib.loads(config.read_text())
    assert told["mechanism"] == {
        "name": "topdown",
        "epsilon": 1,
        "pool": True,
        "shares": "totals",
        "invariant": [{"query": "total", "level": "whole"}],
    }


def test_what_is_read_from_the_data_is_marked(tmp_path: Path) -> None:
    config = initialised(tmp_path, STRANGERS["cp1252 with semicolons"](tmp_path))
    told = tomllib.loads(config.read_text())["population"]
    assert told["units_from_data"] is True
    by_name = {one["name"]: one for one in told["attribute"]}
    assert by_name["race"]["levels_from_data"] is True
    assert by_name["age"] == {
        "name": "age",
        "column": "Age",
        "bins": "five-year",
        "levels_from_data": True,  # that somebody's age is unknown
        "missing": "level",
    }
    assert told["format"] == {"delimiter": ";", "encoding": "cp1252", "decimal": ","}
    notes = config.read_text().partition("[population]")[0]
    assert "'Income'" in notes
    assert "rows without 'age' get the level 'unknown'" in notes


def test_answers_change_what_is_written(tmp_path: Path) -> None:
    class Drops:
        def choose(self, question: str, options: object, proposed: str) -> str:
            return "drop" if "no 'age'" in question else proposed

    stranger = STRANGERS["cp1252 with semicolons"](tmp_path)
    config = tmp_path / "config.toml"
    write_draft(draft(stranger.path, ask=Drops()), config)
    population = load_config(config).population.read()
    known = {key: n for key, n in stranger.truth.items() if key[1] != "unknown"}
    assert tallied(population) == Counter(known)
    assert dict(population.reading.left_out)["rows without 'age'"] > 0


def test_how_many_rows_were_left_out_is_internal_only(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = STRANGERS["wide with totals"](tmp_path)
    monkeypatch.chdir(tmp_path)
    headcount("init", stranger.path.name, "--yes", "--out", "mine.toml")
    headcount("protect", "mine.toml")
    run = tmp_path / "runs" / "mine"
    told = json.loads((run / "internal" / "left-out.json").read_text())
    assert told == [{"why": "rows of totals", "rows": 1}]
    assert not list((run / "release").glob("**/left-out*"))


def test_files_are_not_overwritten_unasked(tmp_path: Path) -> None:
    stranger = STRANGERS["gz"](tmp_path)
    config = initialised(tmp_path, stranger)
    with pytest.raises(InputError, match=r"config.toml: found a file of that name, expected none"):
        initialised(tmp_path, stranger)
    write_draft(draft(stranger.path), config, overwrite=True)


def test_a_file_without_places_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    rows = {"x": ["a", "b"] * 30, "y": ["p", "q", "r"] * 20, "sex": list("ffmm") * 15}
    pl.DataFrame(rows).write_csv(path)
    with pytest.raises(InputError, match="places: found no column named like one: 'x', 'y', "):
        draft(path)
    with pytest.raises(InputError, match="column 'z': found no such column, expected one of 'x'"):
        draft(path, places=["z"])
    made = draft(path, places=["x", "y"])
    assert made.places.columns == ("x", "y")
    assert made.places.local_codes
    assert [one.name for one in made.attributes] == ["sex"]


def test_a_row_that_adds_up_others_is_left_out_by_its_code(tmp_path: Path) -> None:
    path = tmp_path / "wards.csv"
    path.write_text(
        "ward,men,women\n1,300003,40\n2,500005,60\n3,100001,90\n4,200002,20\n9999,1100011,210\n"
    )
    made = draft(path)
    assert made.exclude == {"ward": ["9999"]}
    config = tmp_path / "config.toml"
    write_draft(made, config)
    population = load_config(config).population.read()
    assert tallied(population)["1", "men"] == 300_003
    assert sum(tallied(population).values()) == 1_100_221
    assert population.geography.units[-1].tolist() == ["1", "2", "3", "4"]


def test_of_several_years_somebody_must_say_which(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    rows = {"year": ["2010", "2020"] * 30, "town": ["a", "b", "c"] * 20, "sex": list("fmmf") * 15}
    pl.DataFrame(rows).write_csv(path)
    with pytest.raises(InputError, match=r"column 'year': found several years, .*: '2010', '2020'"):
        draft(path)
    made = draft(path, told=Told.by_words(only=["year=2020"]))
    assert made.include == {"year": ["2020"]}
    config = tmp_path / "config.toml"
    write_draft(made, config)
    assert sum(tallied(load_config(config).population.read()).values()) == 30


def test_a_wrong_epsilon_is_refused(tmp_path: Path, headcount: Headcount) -> None:
    stranger = STRANGERS["gz"](tmp_path)
    answer = headcount("init", stranger.path, "--yes", "--epsilon", "small")
    assert answer.code == 2
    assert "--epsilon: found 'small', expected a number above 0 such as 1 or 0.5" in answer.err
