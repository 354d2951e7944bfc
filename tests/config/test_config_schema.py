"""The JSON schema knows every config that headcount takes, and refuses what it can."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.schema import _where, config_schema
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.registry import MECHANISMS, POPULATIONS
from tests.docs.examples import examples
from tests.fuzz.base import CONFIGS, tree

SCHEMA = config_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
GOOD: dict[str, Any] = {
    "population": {"kind": "uniform"},
    "mechanism": {"name": "geometric", "epsilon": 0.5},
    "run": {"out": "out"},
}


def test_the_command_prints_a_sound_schema():
    done = CliRunner().invoke(app, ["schema"])
    assert done.exit_code == 0
    printed = json.loads(done.stdout)
    Draft202012Validator.check_schema(printed)
    assert printed == json.loads(json.dumps(SCHEMA))


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_every_example_of_the_docs_fits(example):
    assert not list(VALIDATOR.iter_errors(json.loads(json.dumps(example.config()))))


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_every_config_that_is_fuzzed_fits(number: int):
    config = json.loads(json.dumps(tree(*CONFIGS[number], out="out")))
    assert not list(VALIDATOR.iter_errors(config))


def test_a_list_of_mechanisms_fits():
    steps = [{"name": "sampling", "fraction": "1/2"}, {"name": "geometric", "epsilon": "1/3"}]
    assert VALIDATOR.is_valid(GOOD | {"mechanism": steps})


def test_a_choice_with_its_reason_fits():
    assert VALIDATOR.is_valid(GOOD | {"choice": {"case": "a", "reason": "b"}})


def test_a_config_of_published_measurements_fits():
    estimate = {"measurements": {"folder": "nmf", "levels": ["us"]}, "run": {"out": "out"}}
    topdown = {"name": "topdown", "preset": "redistricting-2020-us"}
    assert VALIDATOR.is_valid(estimate)
    assert VALIDATOR.is_valid(estimate | {"mechanism": topdown})
    assert not VALIDATOR.is_valid(estimate | {"measurements": {"levels": ["us"]}})
    assert not VALIDATOR.is_valid(estimate | {"measurements": {"folder": "nmf", "level": "us"}})


BAD: dict[str, dict[str, Any]] = {
    "unknown table": {"runs": {}},
    "unknown kind": {"population": {"kind": "unifrom"}},
    "unknown key": {"population": {"kind": "uniform", "peple": 3}},
    "unknown mechanism": {"mechanism": {"name": "laplace", "epsilon": 1}},
    "no epsilon": {"mechanism": {"name": "geometric"}},
    "epsilon 0": {"mechanism": {"name": "geometric", "epsilon": 0}},
    "a word for a flag": {
        "mechanism": {"name": "geometric", "epsilon": 1, "count_housemates": "yes"}
    },
    "a wrong word": {"mechanism": {"name": "geometric", "epsilon": 1, "unit": "town"}},
    "neither rate nor preset": {"mechanism": {"name": "swapping"}},
    "unknown preset": {"mechanism": {"name": "swapping", "preset": "mid"}},
    "nested unknown key": {"mechanism": {"name": "suppression", "thresholds": {"sell": 2}}},
    "no steps": {"mechanism": []},
    "people and measurements": {"measurements": {"folder": "nmf"}},
    "run without out": {"run": {}},
    "a choice without a reason": {"choice": {"case": "a"}},
    "a case without a name": {"case": [{"mechanism": {"name": "identity"}}]},
    "a case with an unknown key": {
        "case": [{"name": "a", "mechanism": {"name": "identity"}, "epsilon": 1}]
    },
}


@pytest.mark.parametrize("what", BAD)
def test_what_a_schema_can_refuse_is_refused(what: str):
    assert VALIDATOR.is_valid(GOOD)
    assert not VALIDATOR.is_valid(GOOD | BAD[what])


def test_keys_for_presets_are_allowed_and_not_offered():
    named = {one["title"]: one for one in SCHEMA["properties"]["mechanism"]["anyOf"][0]["oneOf"]}
    topdown = named["topdown"]
    assert "pool" in topdown["properties"]
    assert "pool_from" not in topdown["properties"]
    passes = SCHEMA["$defs"]["LevelPasses"]
    assert set(passes["properties"]) == {"fit", "round"}
    first = {"fit": [["total"], ["cells"]], "within": "1/5", "nested": True}
    good = {"name": "topdown", "epsilon": 1, "pool": True, "pool_from": "tract"}
    assert VALIDATOR.is_valid(GOOD | {"mechanism": good | {"passes": {"whole": first}}})
    assert not VALIDATOR.is_valid(GOOD | {"mechanism": good | {"pool_from": 3}})


def test_every_part_of_ours_is_in_it_with_its_keys_described():
    named = {one["title"]: one for one in SCHEMA["properties"]["mechanism"]["anyOf"][0]["oneOf"]}
    assert set(named) == set(MECHANISMS.names())
    assert "clip" not in named["histogram"]["properties"]  # of papers: known by name only
    kinds = SCHEMA["properties"]["population"]["oneOf"]
    assert {one["title"] for one in kinds} == set(POPULATIONS.names())
    said = named["swapping"]["properties"]["rate"]["description"]
    assert said == _where(HouseholdSwapping)["rate"] == "share of all households that move, 0 to 1"
