"""The verbs of ``import headcount``: with data, and with the path of a config or a run."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import headcount as hc
from headcount.errors import ConfigError, InputError
from headcount.release.directory import RunDirectory
from tests.run.town import write_config, write_town

PLACES = ["county", "tract"]


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def test_people_are_protected_in_memory_and_a_config_as_the_command_does(town: Path):
    people = hc.read(town / "people.csv", geography=PLACES, kind="people")
    release = hc.protect(people, hc.Geometric(epsilon=Fraction(1)), seed=1)
    assert release.key_kind == "seed"
    run = hc.protect(str(write_config(town)))
    assert RunDirectory(run).is_complete
    assert hc.protect(town / "config.toml") == run


def test_a_file_of_people_is_read_before_it_is_protected(town: Path):
    with pytest.raises(InputError, match=r"found a str to protect, expected a Population: read"):
        hc.protect(str(town / "people.csv"), hc.Geometric(epsilon=Fraction(1)))  # type: ignore[call-overload]


def test_a_run_is_evaluated_by_its_path_and_a_release_beside_its_truth(town: Path):
    choice = hc.Choice(metrics=("error",), attacks=())
    run = hc.protect(write_config(town, run="seed = 3"))
    done = hc.evaluate(str(run), choice=choice)
    assert done.report.is_file()
    units = town / "tracts.csv"
    people = hc.read(town / "people.csv", geography=PLACES, kind="people", units=units)
    found = hc.evaluate(hc.read_release(run / "release"), people, choice=choice)
    assert found["error"].name == done.evaluation["error"].name


def test_an_attack_may_be_named():
    people = hc.to_population(hc.towns(people=1000, counties=1, seed=1), ("age", "sex", "race"))
    found = hc.attack(hc.protect(people, hc.Identity()), people, "reidentification")
    assert found.name == "reidentification"
    with pytest.raises(ConfigError, match="attack: found 'reidentify', expected"):
        hc.attack(hc.protect(people, hc.Identity()), people, "reidentify")


def test_what_is_asked_of_intervals_needs_areas(town: Path):
    with pytest.raises(InputError, match="errors_of: found query without areas, expected both"):
        hc.errors_of(town, query="total")  # type: ignore[call-overload]
