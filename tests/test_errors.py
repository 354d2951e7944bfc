"""What an error says to somebody who may not see the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from headcount.errors import (
    ConfigError,
    InputError,
    RunError,
    TruthError,
    _InputErrors,
    did_you_mean,
    near_name,
    without_values,
)


@pytest.mark.parametrize(
    ("place", "found", "expected", "said"),
    [
        (
            "column 'age', line 7",
            "'4711'",
            "a whole number",
            "a.csv: column 'age', line 7: found ..., expected a whole number",
        ),
        (
            "line 7",
            "level 'x'",
            "one of 'f', 'm'",
            "a.csv: line 7: found level ..., expected one of ...",
        ),
        ("unit 'K1'", "no row", "'K2', as before", "a.csv: unit ...: found no row, expected ..."),
        ("", "12 fields", "3 at most", "a.csv: found ..., expected 3 at most"),
        ("", "no table (`abc` is none)", "a table", "a.csv: found no table ..., expected a table"),
    ],
)
def test_where_and_which_rule_but_no_value(
    place: str, found: str, expected: str, said: str
) -> None:
    error = InputError("a.csv", place=place, found=found, expected=expected)
    assert without_values(error) == said
    several = _InputErrors("a.csv", [error, error], number=4711)
    assert without_values(several) == said
    assert "4,711 problems" in str(several)


def test_settings_are_told_whole_and_truth_not_at_all() -> None:
    for error in (
        ConfigError("a.toml", place="run.seed", found="'x'", expected="a number"),
        RunError("runs/a: found 'x'"),
    ):
        assert without_values(error) == str(error)
    truth = TruthError("topdown", place="unit 'K1'", found="812 people", expected="813")
    assert without_values(truth) == "topdown: the data break what this method must keep"


def test_a_name_that_was_probably_meant(tmp_path: Path) -> None:
    assert did_you_mean("AREA", ["sex", "area"]).endswith("(did you mean 'area'?)")
    assert did_you_mean("AREA", ["sex", "aera", "Area"]).endswith("(did you mean 'Area'?)")
    assert did_you_mean("region", ["sex", "n"]) == "one of 'sex', 'n'"
    (tmp_path / "tidy.csv").touch()
    (tmp_path / "tidi").mkdir()
    assert near_name(tmp_path / "tidi.csv") == " (did you mean 'tidy.csv'?)"
    assert near_name(tmp_path / "other.csv") == ""
    assert near_name(tmp_path / "nowhere" / "tidy.csv") == ""
