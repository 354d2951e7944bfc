"""Tables written as TOML are read back as they were."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headcount.errors import ConfigError
from headcount.files import CONFIG, parse_toml, read_toml, to_toml

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.booleans() | st.integers(-(2**62), 2**62) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts, values, max_size=4))
@example({"\x7f\n'''\"\\\x00": {"": "\x7f\r\n"}})
def test_any_tables_come_back(tables: dict[str, object]):
    assert tomllib.loads(to_toml(tables)) == tables


def test_what_is_none_is_left_out_and_tables_are_written_as_people_write_them():
    tables = {"population": {"kind": "towns", "units": None}, "case": [{"name": "a b"}, {"x": 1}]}
    assert to_toml(tables) == (
        '[population]\nkind = "towns"\n\n[[case]]\nname = "a b"\n\n[[case]]\nx = 1\n'
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x = 1\nkind = microdata", '; text has quotes: kind = "microdata")'),
        ("[run]\n out = runs/a b  # here", '; text has quotes: out = "runs/a b")'),
        ("x = [1, microdata]", "line 1, column 9))"),
        ("x = 2021-13-45", "column 9))"),
    ],
)
def test_a_value_without_quotes_is_shown_with_them(text: str, hint: str):
    with pytest.raises(ConfigError) as caught:
        parse_toml(text, source="a.toml")
    assert caught.value.found.endswith(hint)


@pytest.mark.parametrize("name", ["people.csv", "people.XLSX", "people.parquet"])
def test_a_table_in_the_place_of_a_config_is_told_how_to_get_one(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"PAR1\xff,1\n")
    with pytest.raises(ConfigError) as caught:
        read_toml(tmp_path / name, expected=CONFIG)
    assert str(caught.value).endswith(
        f"{name}: found a table, by its name, expected a TOML config; 'headcount init {name}' "
        "writes one"
    )
    with pytest.raises(ConfigError, match="not TOML"):
        read_toml(tmp_path / name, expected="a schema")


def test_a_config_that_is_not_there_is_guessed(tmp_path: Path):
    (tmp_path / "people.toml").touch()
    with pytest.raises(ConfigError, match=r"a TOML config \(did you mean 'people\.toml'\?\)"):
        read_toml(tmp_path / "peple.toml", expected=CONFIG)
