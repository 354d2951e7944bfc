"""``headcount plan``: how exact a release will be, without its data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from math import exp, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography.geography import regular
from headcount.mechanisms import Chain, Geometric, Identity, LinearError, Sampling
from headcount.noise import KeyedNoise, RunKey
from headcount.privacy import UnitOfPrivacy
from headcount.run.plan import plan
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts
from headcount.tabulate.counts import every_level
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from tests.topdown import test_topdown_spine as spine
from tests.topdown.linear.oracle import dense_errors
from tests.topdown.small import zcdp

SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "old", "oldest"))))
PLACES = regular(children=4, depth=2)
QUERIES = {
    "total": {"by": (), "share": "0.2"},
    "sex": {"by": ("sex",), "share": "0.3"},
    "cells": {"share": "0.5"},
}
LEVELS = {"whole": "0.2", "level_1": "0.3", "level_2": "0.5"}
DOMAIN = Domain(SCHEMA, PLACES)


def topdown(**keys: Any) -> TopDown:
    """Three levels, three queries; 2 rho is 1, so that a share is the precision of its answers."""
    return TopDown(
        **{"rho": "1/2", "unit": "add-remove", "levels": LEVELS, "queries": QUERIES, **keys}
    )


def linear(settings: TopDown, domain: Domain = DOMAIN) -> tuple[LinearError, ...]:
    """What noisy answers tell of every level and query."""
    return settings.on(domain).errors.by_level()


def _with_changes(settings: TopDown, changes: Mapping[str, str]) -> TopDown:
    return settings.on(DOMAIN).what_if({key: Fraction(value) for key, value in changes.items()})


def test_an_answers_own_deviation_is_that_of_its_noise() -> None:
    """The discrete Gaussian that costs rho has the variance 1 / (2 rho), but for the smallest."""
    found = {(one.level, one.query): one for one in linear(topdown())}
    assert found["level_1", "total"].own == pytest.approx(sqrt(1 / (0.3 * 0.2)), rel=1e-3)
    assert found["level_2", "cells"].own == pytest.approx(sqrt(1 / (0.5 * 0.5)), rel=1e-3)
    assert [found["level_2", "cells"].units, found["level_2", "cells"].answers] == [16, 6]


def test_each_further_look_at_the_same_answers_makes_them_more_exact() -> None:
    for one in linear(topdown()):
        assert one.best < one.pooled <= one.own


def test_a_query_that_is_not_asked_is_known_from_others() -> None:
    queries = {"age": {"by": ("age",)}, "cells": {"share": 1}}
    found = linear(topdown(queries=queries, levels="equal"))
    ages = [one for one in found if one.query == "age"]
    assert all(one.own == inf and one.best < inf for one in ages)


def test_a_query_that_pooling_answers_from_below_is_shown_unless_passes_say_what_is_fitted() -> (
    None
):
    own = {"level_1": {"total": "1/2", "cells": "1/2"}}
    fitted = {"level_1": {"fit": [["total"], ["cells"]]}}
    rows = [
        {(one.level, one.query): one for one in linear(settings)}
        for settings in (topdown(level_queries=own), topdown(level_queries=own, passes=fitted))
    ]
    filled, left = (one["level_1", "sex"] for one in rows)
    below = rows[0]["level_2", "sex"].own
    assert (filled.own, left.own, left.pooled) == (inf, inf, inf)
    assert filled.pooled == pytest.approx(2 * below)  # the sum of four children's answers


def test_an_area_of_one_unit_is_as_exact_as_a_unit_of_its_level() -> None:
    made = plan(topdown(), DOMAIN, areas=[("first", "level_1", ("0",))])
    expected = {one.query: one for one in linear(topdown()) if one.level == "level_1"}
    assert {one.query for one in made.areas} == set(expected)
    for area in made.areas:
        unit = expected[area.query]
        found = [area.own, area.pooled, area.best]
        assert found == pytest.approx([unit.own, unit.pooled, unit.best])
        assert area.pooled < area.own
    assert {one.level for one in made.areas} == {"first"}


def test_answers_of_two_units_are_summed_at_their_own_level() -> None:
    two = plan(topdown(), DOMAIN, areas=[("two", "level_1", ("0", "3", "3"))])
    expected = {one.query: one for one in linear(topdown()) if one.level == "level_1"}
    for area in two.areas:
        unit = expected[area.query]
        assert area.own == pytest.approx(sqrt(2) * unit.own)
        assert area.pooled == pytest.approx(sqrt(2) * unit.pooled)


def test_an_area_across_the_tree_is_less_exact_than_a_unit_of_as_many_leaves() -> None:
    across = ("0.0", "1.0", "2.0", "3.0")
    made = plan(topdown(), DOMAIN, areas=[("across", "level_2", across)])
    whole = next(one for one in linear(topdown()) if (one.level, one.query) == ("level_1", "total"))
    split = next(one for one in made.areas if one.query == "total")
    assert split.best > 1.2 * whole.best


def test_predicted_deviations_are_those_of_estimates_from_real_noise() -> None:
    """Least squares over 150 draws of the shipped measurements, at every level and query."""

    settings = topdown()
    errors = settings.on(DOMAIN).errors
    queries = {
        query.name: query.matrix(SCHEMA).toarray().T.astype(float) for query in settings.marginals
    } | {"cells": np.eye(SCHEMA.size)}
    dense = dense_errors(errors.tree, queries, SCHEMA.possible)
    nobody = Counts(DOMAIN, PLACES.leaf, csr_array((16, SCHEMA.size), dtype=np.int64))
    noise = KeyedNoise(RunKey.from_seed(1), "topdown", b"data", b"config")
    squares: dict[tuple[str, str], list[float]] = {}
    for run in range(150):
        drawn = Measurements(every_level(nobody), settings, noise, run=run)
        right = np.zeros(len(dense.covariance))
        for depth, level in enumerate(PLACES.levels):
            for name, matrix in queries.items():
                answers = drawn.values(level, name)
                weight = errors.tree.levels[depth].weights[0][name]
                for unit, answer in enumerate(answers):
                    right += weight * (matrix @ dense.units[depth, unit]).T @ answer
        estimate = dense.covariance @ right
        for depth, level in enumerate(PLACES.levels):
            for name, matrix in queries.items():
                for unit in range(PLACES.size(level)):
                    error = matrix @ dense.units[depth, unit] @ estimate
                    squares.setdefault((level, name), []).append(float(np.mean(error**2)))
    for one in errors.by_level():
        found = squares[one.level, one.query]
        off = abs(np.mean(found) - one.best**2)
        assert off < 4 * np.std(found) / sqrt(150)  # units of one run hang together


def test_a_change_of_one_share_leaves_the_others_in_proportion() -> None:
    changed = _with_changes(topdown(), {"levels.level_1": "0.65"})
    assert dict(changed.level_shares or ()) == {
        "whole": Fraction(1, 10),
        "level_1": Fraction(13, 20),
        "level_2": Fraction(1, 4),
    }
    queries = _with_changes(topdown(), {"queries.cells": "0.75"})
    assert dict(queries.query_shares) == {
        "total": Fraction(1, 10),
        "sex": Fraction(3, 20),
        "cells": Fraction(3, 4),
    }
    assert _with_changes(topdown(), {"epsilon": "2"}).epsilon == 2


def test_every_share_that_is_named_is_as_it_was_asked_for() -> None:
    changes = {"levels.whole": "0.4", "levels.level_1": "0.4", "rho": "2"}
    changed = _with_changes(topdown(), changes)
    assert changed.rho == 2
    assert dict(changed.level_shares or ()) == {
        "whole": Fraction(2, 5),
        "level_1": Fraction(2, 5),
        "level_2": Fraction(1, 5),
    }
    own = topdown(level_queries={"whole": {"sex": "1/4", "total": "1/4", "cells": "1/2"}})
    queries = _with_changes(own, {"queries.cells": "0.3", "queries.sex": "0.6"})
    expected = {"total": Fraction(1, 10), "sex": Fraction(3, 5), "cells": Fraction(3, 10)}
    assert dict(queries.query_shares) == dict(dict(queries.level_queries)["whole"]) == expected


def test_all_shares_can_be_named_if_they_add_up_to_1() -> None:
    named = {"levels.whole": "0.1", "levels.level_1": "0.1", "levels.level_2": "0.8"}
    changed = _with_changes(topdown(), named)
    assert [share for _, share in changed.level_shares or ()] == [
        Fraction(1, 10),
        Fraction(1, 10),
        Fraction(4, 5),
    ]


def test_along_a_spine_a_state_in_parts_is_exact_and_its_parts_are_not() -> None:
    mechanism = spine.along(zcdp("1/20"))
    states = [("A", "state", ("A",)), ("half", "leaf", tuple(spine.PLACE.units[-1][:2].tolist()))]
    domain = Domain(spine.people().schema, spine.PLACE)
    made = plan(mechanism, domain, areas=states)
    assert all(one.basis == "unknown" for one in made.levels)  # no formula is known along a spine
    every = (*linear(mechanism, domain), *made.areas)
    found = {(one.level, one.query): one.best for one in every}
    assert found["A", "total"] == found["whole", "total"] == 0
    assert found["A", "cells"] > 0
    assert found["state", "total"] > 0
    assert found["half", "total"] > 0


def test_levels_without_shares_have_equal_parts_of_which_one_can_be_changed() -> None:
    changed = _with_changes(topdown(levels="equal"), {"levels.level_1": "1/2"})
    assert dict(changed.level_shares or ()) == {
        "whole": Fraction(1, 4),
        "level_1": Fraction(1, 2),
        "level_2": Fraction(1, 4),
    }


def test_four_times_the_rho_halves_every_deviation() -> None:
    one, four = (linear(topdown(rho=rho)) for rho in ("1/100", "4/100"))
    for before, after in zip(one, four, strict=True):
        assert after.best == pytest.approx(before.best / 2, rel=1e-3)


def test_minimax_makes_nothing_worse_and_balanced_the_mean_smaller() -> None:
    poor = topdown(levels={"whole": "0.9", "level_1": "0.05", "level_2": "0.05"})
    before = linear(poor)
    ratios = {
        goal: [
            (after.best / now.best) ** 2
            for after, now in zip(
                linear(poor.on(DOMAIN).suggested(goal)),
                before,
                strict=True,
            )
        ]
        for goal in ("minimax", "balanced")
    }
    assert max(ratios["minimax"]) < 1.01
    assert np.mean(ratios["balanced"]) < np.mean(ratios["minimax"]) < 1


NOISY = Geometric(epsilon=Fraction(1), unit=UnitOfPrivacy.ADD_REMOVE)


def test_a_method_of_noise_is_planned_by_its_formula() -> None:
    """The variance of the two-sided geometric law: 2 a / (1 - a)^2, with a = exp(-epsilon)."""
    found = {(one.level, one.query): one for one in plan(NOISY, DOMAIN).levels}
    deviation = sqrt(2 * exp(-1)) / (1 - exp(-1))
    assert found["level_2", "cells"].rmse == pytest.approx(deviation)
    assert found["level_2", "sex"].rmse == pytest.approx(sqrt(3) * deviation)
    assert found["level_1", "total"].rmse == pytest.approx(sqrt(4 * 6) * deviation)
    assert {one.basis for one in found.values()} == {"formula"}
    after = plan(NOISY.on(DOMAIN).what_if({"epsilon": Fraction(2)}), DOMAIN).levels
    for one, two in zip(found.values(), after, strict=True):
        assert one.rmse is not None
        assert two.rmse is not None
        assert two.rmse < one.rmse / 1.8
    assert {one.rmse for one in plan(Identity(), DOMAIN).levels} == {0.0}


def test_a_goal_about_one_query_serves_it() -> None:
    wanted = {("level_1", "total"): 1.0}
    found = topdown().on(DOMAIN).suggested("balanced", wanted)
    after = {(one.level, one.query): one for one in linear(found)}
    before = {(one.level, one.query): one for one in linear(topdown())}
    assert after["level_1", "total"].best < 0.6 * before["level_1", "total"].best
    assert after["level_2", "cells"].best > before["level_2", "cells"].best


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plan(NOISY, DOMAIN, areas=[("first", "level_1", ("0",))]),
            "found 'geometric' with a goal or an area, expected a method with answers of several",
        ),
        (
            lambda: NOISY.on(DOMAIN).weighed,
            "found 'geometric' with a goal or an area, expected a method with answers of several",
        ),
        (
            lambda: NOISY.on(DOMAIN).what_if({"levels.whole": Fraction(1, 2)}),
            "--set: found 'levels.whole', expected one of 'epsilon'",
        ),
        (
            lambda: plan(
                Chain.of((Sampling(fraction=Fraction(1, 2)), NOISY)),
                DOMAIN,
                within={"level_1.total": 3},
            ),
            "found level_1.total=3@0.95, of which it cannot be said how far off counts will be",
        ),
        (
            lambda: plan(Identity(), DOMAIN, within={"level_1.total": 3}),
            "found 'identity', expected a method with epsilon or rho",
        ),
        (
            lambda: plan(NOISY, DOMAIN, within={"level_1.income": 3}),
            "found level_1.income, expected one of level_1.age, level_1.cells, level_1.sex",
        ),
        *(
            (
                partial(plan, NOISY, DOMAIN, within=within),
                "expected LEVEL.QUERY=PEOPLE or LEVEL.QUERY=PEOPLE@SHARE",
            )
            for within in (
                {"total": 3},
                {"level_1.total": "many"},
                {"level_1.total": "3@2"},
                {"level_1.total": -1},
            )
        ),
        (
            lambda: _with_changes(topdown(), {"levels.county": "0.5"}),
            "found 'levels.county'",
        ),
        (
            lambda: _with_changes(topdown(), {"levels.whole": "1"}),
            "expected a share between 0 and 1",
        ),
        (
            lambda: _with_changes(topdown(), {"shares": "1"}),
            "expected rho, epsilon, levels.NAME",
        ),
        (
            lambda: _with_changes(topdown(), {"levels.whole": "0.4", "levels.level_1": "0.6"}),
            "found levels with shares that add up to 1, expected less than 1, which leaves "
            "something for 'level_2'",
        ),
        (
            lambda: _with_changes(
                topdown(level_queries={"whole": {"sex": "1/2", "cells": "1/2"}}),
                {"queries.sex": "0.3", "queries.cells": "0.3"},
            ),
            "found queries at whole with shares that add up to 3/5, expected exactly 1",
        ),
        (
            lambda: _with_changes(topdown(), {"rho": "1", "epsilon": "1"}),
            "found rho and epsilon, expected one of them",
        ),
        (
            lambda: topdown().on(DOMAIN).suggested("balanced", {("level_1", "income"): 1.0}),
            "found 'income' at 'level_1'",
        ),
        (
            lambda: (
                topdown(queries={"total": {"by": (), "share": 1}}).on(DOMAIN).suggested("minimax")
            ),
            "expected a share for 'cells' there",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(call: object, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        call()  # type: ignore[operator]
    assert message in str(refused.value)


def test_an_area_with_an_unknown_unit_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        plan(topdown(), DOMAIN, areas=[("north", "level_1", ("0", "9"))])
    assert "area 'north': found level_1 '9'" in str(refused.value)


CONFIG = """
[population]
kind = "microdata"
file = "nobody-has-this-file.csv"
units = "tracts.csv"

[population.geography]
columns = ["county", "tract"]

[[population.attribute]]
name = "sex"
levels = ["f", "m"]

[[mechanism]]
name = "topdown"
rho = "1"
[mechanism.levels]
whole = "1/5"
county = "2/5"
tract = "2/5"

[run]
out = "runs/one"
ledger = "ledger.sqlite"
dataset = "people"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config whose people do not exist; its units do."""
    (tmp_path / "tracts.csv").write_text("county,tract\na,a1\na,a2\nb,b1\nb,b2\nb,b3\n")
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def test_the_command_never_opens_the_people(config: Path) -> None:
    shown = CliRunner().invoke(app, ["plan", str(config), "--set", "levels.tract=1/2"])
    assert shown.exit_code == 0
    assert "as configured" in shown.stdout
    assert "levels.tract=1/2" in shown.stdout
    assert not (config.parent / "ledger.sqlite").exists()


def test_the_command_prints_deviations_for_programs(config: Path) -> None:
    shown = CliRunner().invoke(
        app, ["plan", str(config), "--json", "--goal", "minimax", "--area", "edge=tract:a2,b1"]
    )
    assert shown.exit_code == 0
    told = json.loads(shown.stdout)
    tables = told["tables"]
    assert told["places_read_from"] is None  # there is a list
    assert set(tables) == {"as configured", "suggested, minimax"}
    own = tables["as configured"]
    assert own["rho"] == "1"
    areas = {(one["level"], one["query"]): one for one in own["areas"]}
    assert areas["edge", "total"]["units"] == 2
    assert areas["edge", "cells"]["best"] < areas["edge", "cells"]["own"]
    rows = own["how_far_off"]["rows"]
    assert {one["basis"] for one in rows} == {"if filled"}  # nobody said how large places are
    assert all(0 < one["rmse"] < one["within"] for one in rows if one["rmse"])


def test_places_that_are_known_from_the_people_alone_are_refused(config: Path) -> None:
    config.write_text(CONFIG.replace('units = "tracts.csv"\n', ""))
    shown = CliRunner().invoke(app, ["plan", str(config)])
    assert "found no list" in str(shown.exception)
    config.write_text(CONFIG.replace('levels = ["f", "m"]\n', ""))
    shown = CliRunner().invoke(app, ["plan", str(config)])
    assert "attribute 'sex': found no levels" in str(shown.exception)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--set", "levels.tract"], "expected KEY=VALUE"),
        (
            ["--set", "levels.tract=0.1", "--set", "levels.tract=0.2"],
            "found levels.tract twice, expected once",
        ),
        (["--area", "north=tract"], "expected NAME=LEVEL:CODE,CODE,..."),
        (["--goal", "best"], "expected 'balanced' or 'minimax'"),
        (["--within", "tract.total"], "found 'tract.total', expected LEVEL.QUERY=PEOPLE"),
        (["--goal", "minimax", "--want", "tract=2"], "expected LEVEL.QUERY=NUMBER, above 0"),
    ],
)
def test_options_that_say_nothing_clear_are_refused(
    config: Path, option: list[str], message: str
) -> None:
    shown = CliRunner().invoke(app, ["plan", str(config), *option])
    assert message in str(shown.exception)
