"""Edits of a config's text: what differs is written, and comments stay."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from headcount.config.edit import _set_at, change_role, edited, roles_of, set_said
from headcount.errors import ConfigError

TEXT = """\
# Who is asked
[population]
kind = "microdata"
file = "people.csv"   # one row for each person

[population.geography]
columns = ["county"]

[[population.attribute]]
name = "sex"          # as in the questionnaire
levels = ["f", "m"]
"""


def test_a_value_is_set_and_everything_else_stays() -> None:
    def change(document: Any) -> None:
        _set_at(document, "population.attribute.0.levels", ["m", "f"], default=[])
        _set_at(document, "population.file", "people.csv", default="")
        _set_at(document, "run.seed", 7, default=None)

    text = edited(TEXT, change, source="a.toml")
    assert text == TEXT.replace('["f", "m"]', '["m", "f"]') + "\n[run]\nseed = 7\n"
    again = edited(text, lambda one: _set_at(one, "run.seed", None, default=None), source="a.toml")
    assert tomllib.loads(again)["run"] == {}


def test_a_renamed_attribute_keeps_its_column_and_its_comment() -> None:
    text = edited(
        TEXT,
        lambda one: _set_at(one, "population.attribute.0.name", "gender", default=""),
        source="a.toml",
    )
    assert 'name = "gender"          # as in the questionnaire' in text
    assert tomllib.loads(text)["population"]["attribute"][0]["column"] == "sex"


def test_a_column_changes_its_role(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("county,tract,sex\n1,a,f\n1,b,m\n2,c,f\n2,d,m\n")
    header = ["county", "tract", "sex"]
    assert roles_of(tomllib.loads(TEXT)["population"], header) == {
        "county": "place",
        "tract": "",
        "sex": "attribute",
    }
    text = TEXT
    for old, new in (("", "place"), ("place", "key"), ("key", "attribute"), ("attribute", "")):
        told = {"old": old, "new": new, "file": tmp_path / "people.csv"}

        def change(document: Any, told: Any = told) -> None:
            change_role(document["population"], "tract", **told)

        text = edited(text, change, source="a.toml")
        assert roles_of(tomllib.loads(text)["population"], header)["tract"] == new
    assert text.rstrip() == TEXT.rstrip()


def test_words_are_read_as_the_key_needs_them() -> None:
    typed = {
        "population.public": "yes",
        "population.attribute.0.levels": " m \n\nf\n",
        "population.attribute.0.missing_values": "x, ,y",
        "population.attribute.0.bins": "0, 18 65",
        "population.attribute.0.missing": "refuse",
        "run.seed": "12",
        "run.dataset": "",
        "mechanism.epsilon": "100",
    }

    def change(document: Any) -> None:
        for path, said in typed.items():
            set_said(document, path, said)

    found = tomllib.loads(edited(TEXT, change, source="a.toml"))
    assert found["population"]["public"] is True
    assert found["population"]["attribute"] == [
        {"name": "sex", "levels": ["m", "f"], "missing_values": ["x", "y"], "bins": [0, 18, 65]}
    ]
    assert found["run"] == {"seed": 12}
    assert "mechanism" not in found  # not among the keys that can be set so


def test_what_is_no_config_is_refused() -> None:
    for text in ("population = 3\n", "x = 1\n"):
        with pytest.raises(ConfigError, match="population: found no table"):
            edited(
                text, lambda one: _set_at(one, "population.public", True, default=False), source="a"
            )
    with pytest.raises(ConfigError, match=r"a\.toml: found text that is not TOML"):
        edited("[x", lambda one: None, source="a.toml")
