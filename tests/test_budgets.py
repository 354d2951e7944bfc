"""There is no more to read than there was: modules, public names, files that a journey passes."""

from __future__ import annotations

from tests.support.budgets import budgets, counted, over


def test_nothing_has_grown():
    assert over(counted(), budgets()) == [], "delete, merge or reuse; or raise tests/budgets.toml"


def test_what_has_grown_or_is_new_is_named():
    most = {"headcount.noise": {"modules": 3}}
    assert over({"headcount.noise": {"modules": 3}}, most) == []
    assert over({"headcount.noise": {"modules": 4}, "headcount.attic": {"modules": 1}}, most) == [
        "headcount.noise: modules: found 4, expected at most 3",
        "headcount.attic: modules: found 1, expected at most 0",
    ]
