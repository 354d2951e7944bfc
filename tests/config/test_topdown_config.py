"""What a stranger gets wrong in ``[mechanism]`` of a TopDown run, and what the error says."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from headcount.config.load import load_config
from headcount.errors import ConfigError, HeadcountError
from headcount.run.protect import prepare_run
from tests.run.test_topdown_protect import BOUNDS, HEAD, INVARIANT, QUERIES, TOWN, WHOLE, town
from tests.run.town import write_config

__all__ = ["town"]  # a fixture

BEFORE_DATA = {
    "shares": (
        WHOLE.replace('share = "1/2"', 'share = "3/5"', 1),
        "mechanism: query shares at level 'every level': found a sum of 11/10 (1.1), "
        "expected exactly 1: 1/10 too much",
    ),
    "shares of levels": (
        f'levels = {{ whole = "1/2", county = "3/5" }}\n{WHOLE}',
        "mechanism.levels: found shares that add up to 11/10, expected exactly 1: 1/10 too much",
    ),
    "unknown query": (
        WHOLE.replace('query = "total"', 'query = "totl"'),
        "mechanism: query 'totl': found an unknown query, expected one of 'sex', 'total'",
    ),
    "an attribute twice": (
        WHOLE.replace('by = ["sex"]', 'by = ["sex", "sex"]'),
        "mechanism: query 'sex': found 'sex' twice, expected distinct attributes and recodes",
    ),
    "a cap of nobody": (
        WHOLE.replace("99, 99", "0, 99"),
        "mechanism.bounds 1.caps: found a cap of 0, expected people in one living quarters",
    ),
    "a swapping preset": (
        f'preset = "swap-lo"\n{WHOLE}',
        "mechanism.preset: found 'swap-lo', expected one of 'e2e-2018'",
    ),
    "unions by number": (
        WHOLE + "unions = 1\n",
        "mechanism.bounds 1.unions: found 1, expected",
    ),
    "an unknown key": (
        f"failsafe = []\n{WHOLE}",
        "mechanism.failsafe: found an unknown key, expected one of 'epsilon', "
        "'rho', 'unit', 'count_housemates', 'largest_household', 'levels', 'queries', 'shares', "
        "'recodes', 'level_queries', 'invariant', 'bounds', 'passes', 'spine', 'bypass', 'pool', "
        "'pool_from', 'failsafe_over', 'report_epsilon', 'nurse_nva_0' and 1 more "
        "(did you mean 'failsafe_over'?)",
    ),
}


@pytest.mark.parametrize("what", BEFORE_DATA)
def test_a_wrong_setting_is_named_once_with_its_file_and_place(town: Path, what: str):
    mechanism, says = BEFORE_DATA[what]
    with pytest.raises(ConfigError) as error:
        load_config(write_config(town, population=TOWN, mechanism=mechanism))
    assert str(error.value).startswith(f"{town / 'config.toml'}: {says}")
    assert str(error.value).count(" found ") == 1


WITH_DATA = {
    "query": (
        WHOLE.replace('by = ["sex"]', 'by = ["race"]'),
        "topdown: query 'sex': found attribute 'race', expected one of 'sex', 'age'",
    ),
    "failsafe": (
        f'failsafe_over = ["race"]\n{WHOLE}',
        "topdown: failsafe_over: found attribute 'race', expected one of",
    ),
    "invariant": (
        HEAD + QUERIES + INVARIANT.replace("county", "conty") + BOUNDS,
        "topdown: invariant 'total': found level 'conty', expected one of",
    ),
    "bounds": (
        HEAD
        + QUERIES
        + '[[mechanism.bounds]]\nquery = "sex"\nlevel = "conty"\nfile = "tracts.csv"\n'
        "public = true",
        "topdown: bounds on 'sex': found level 'conty', expected one of",
    ),
    "nurse_nva_0": (
        f"nurse_nva_0 = true\n{WHOLE}",
        "topdown: structural zeros: found attribute 'hhgq', expected one of 'sex', 'age'",
    ),
}


@pytest.mark.parametrize("publish", ['["measurements"]', "[]"])
@pytest.mark.parametrize("what", WITH_DATA)
def test_a_name_that_the_data_lack_is_laid_to_the_setting(town: Path, what: str, publish: str):
    mechanism, says = WITH_DATA[what]
    run = f"publish = {publish}"
    with pytest.raises(ConfigError) as error:
        prepare_run(load_config(write_config(town, population=TOWN, mechanism=mechanism, run=run)))
    assert str(error.value).startswith(says)


PYTHON: dict[str, tuple[dict[str, Any], str]] = {
    "a float": ({"epsilon": 0.5}, "epsilon: found 0.5 (float), expected an exact number: a whole"),
    "no loss": ({}, "found both epsilon and rho, or neither, expected one of the two"),
    "levels": ({"epsilon": 1, "levels": "same"}, "levels: found 'same', expected 'equal', or a"),
    "a query": (
        {"epsilon": 1, "queries": {"cells": {"x": 1}}},
        "queries.cells.x: found an unknown key, expected one of 'by', 'share'",
    ),
    "an unused recode": (
        {"epsilon": 1, "recodes": {"old": {"of": "age", "groups": {"a": ["1"]}}}},
        "recodes.old: found a recode that no query uses, expected recodes that some query",
    ),
    "both kinds of bounds": (
        {"epsilon": 1, "bounds": [{"query": "a", "caps": [1], "file": "x.csv"}]},
        "bounds 1: found keys ['caps', 'file', 'query'], expected exactly one of the keys 'caps'",
    ),
}


@pytest.mark.parametrize("what", PYTHON)
def test_a_wrong_argument_in_python_reads_as_in_a_file(what: str):
    keys, says = PYTHON[what]
    with pytest.raises(HeadcountError) as error:
        hc.TopDown(**keys)
    assert str(error.value).startswith(f"topdown: {says}")


def test_python_says_the_same():
    with pytest.raises(ConfigError, match=r"^topdown: query 'totl': found an unknown query, exp"):
        hc.TopDown(
            epsilon=Fraction(1),
            queries={"cells": {"share": 1}},  # type: ignore[arg-type]
            invariant=[{"query": "totl", "level": "whole"}],  # type: ignore[arg-type]
        )


def test_dictionaries_in_python_are_the_tables_of_a_file(tmp_path: Path):
    queries = {"cells": {"share": "1/2"}, "sex": {"by": ["sex"], "share": "1/2"}}
    keys: dict[str, Any] = {"queries": queries, "levels": {"whole": "1/4", "leaf": "3/4"}}
    text = (
        '[population]\nkind = "uniform"\n[run]\nout = "o"\n[mechanism]\nname = "topdown"\n'
        'epsilon = "1/3"\nlevels = { whole = 0.25, leaf = 0.75 }\n'
        '[mechanism.queries]\ncells = { share = 0.5 }\nsex = { by = ["sex"], share = 0.5 }\n'
    )
    (tmp_path / "config.toml").write_text(text)
    (read,) = load_config(tmp_path / "config.toml").mechanism
    assert hc.TopDown(epsilon="1/3", **keys) == read
    assert hash(hc.TopDown(epsilon="1/3", **keys)) == hash(read)
