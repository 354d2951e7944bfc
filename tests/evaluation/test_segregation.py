"""Indices of segregation against their formulas in fractions, and what is left out of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.evaluation import NotFeasible, Truth
from headcount.evaluation.segregation import (
    DISSIMILARITY,
    ENTROPY,
    EVERY_GROUP,
    EXPOSURE,
    ISOLATION,
    Inside,
    Segregation,
    entropy_index,
    two_groups,
)
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, protect
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate import tabulate

SCHEMA = Schema((Attribute("origin", ("here", "near", "far")), Attribute("sex", ("f", "m"))))
TREE = regular(children=3, depth=2)
ONE_PLACE = Inside(np.zeros(4, dtype=np.int64), 1)
COUNTS = st.lists(st.integers(0, 30), min_size=4, max_size=4)


def town(schema: Schema = SCHEMA, tree=TREE, *, people: int = 900, seed: int = 3) -> Population:
    """People whose origin follows where they live, so that groups live apart."""
    rng = np.random.default_rng(seed)
    unit = rng.integers(0, tree.size(tree.leaf), people).astype(np.int32)
    cell = np.where(rng.random(people) < 0.5, unit % schema.size, rng.choice(schema.size, people))
    return Population("town", Domain(schema, tree), unit, cell.astype(np.int32))


def released(population: Population, mechanism=None):
    mechanism = mechanism or Geometric(epsilon=Fraction(1, 4))
    return protect(
        population, mechanism, KeyedNoise(RunKey.from_seed(1), mechanism.name, b"d", b"c")
    )


def by_formula(groups: list[list[int]]) -> dict[str, Fraction | float | None]:
    """The first group against the second, of the first place, unit by unit as written."""
    first, second, *_ = groups
    own, other = sum(first), sum(second)
    if not own or not other:
        return dict.fromkeys((DISSIMILARITY, ISOLATION, EXPOSURE, ENTROPY))
    everyone = [sum(unit) for unit in zip(*groups, strict=True)]
    units = list(zip(first, second, everyone, strict=True))
    apart = sum(abs(Fraction(a, own) - Fraction(b, other)) for a, b, _ in units) / 2
    met = [
        sum(Fraction(a, own) * Fraction(x, t) for a, x, t in some if t)
        for some in ([(a, a, t) for a, _, t in units], [(a, b, t) for a, b, t in units])
    ]
    return {
        DISSIMILARITY: apart,
        ISOLATION: met[0],
        EXPOSURE: met[1],
        ENTROPY: entropy_by_formula([first, second]),
    }


def entropy(shares: list[Fraction]) -> float:
    return sum(float(s) * log(1 / s) for s in shares if s)


def entropy_by_formula(groups: list[list[int]]) -> float | None:
    """Theil's H as the mean distance of the entropies of units from that of the place."""
    people = sum(map(sum, groups))
    if sum(1 for group in groups if sum(group)) < 2:
        return None
    whole = entropy([Fraction(sum(group), people) for group in groups])
    units = [unit for unit in zip(*groups, strict=True) if sum(unit)]
    apart: float = sum(
        sum(unit) * (whole - entropy([Fraction(x, sum(unit)) for x in unit])) for unit in units
    )
    return apart / (people * whole)


def as_floats(groups: list[list[int]]) -> list[np.ndarray]:
    return [np.array(group, dtype=np.float64) for group in groups]


@settings(max_examples=80)
@given(st.lists(COUNTS, min_size=3, max_size=3))
def test_every_index_is_its_formula(groups):
    columns = as_floats(groups)
    found = two_groups(columns[0], columns[1], np.sum(columns, axis=0), ONE_PLACE)
    for name, expected in by_formula(groups).items():
        (value,) = found[name]
        assert np.isnan(value) if expected is None else value == pytest.approx(float(expected))
    (every,) = entropy_index(columns, ONE_PLACE)
    expected = entropy_by_formula(groups)
    assert np.isnan(every) if expected is None else every == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40)
@given(st.lists(COUNTS, min_size=2, max_size=2), st.integers(0, 3), st.integers(0, 3))
def test_noise_without_bias_makes_indices_too_high_where_totals_stay(groups, one, other):
    """Half the time somebody of a group moves from one unit to another, half the time back."""
    first, second = as_floats(groups)
    if min(first[one], first[other]) < 1 or second.sum() == 0:
        return
    move = np.zeros(4)
    move[one] += 1
    move[other] -= 1
    before = two_groups(first, second, first + second, ONE_PLACE)
    moved = [two_groups(x, second, x + second, ONE_PLACE) for x in (first + move, first - move)]
    for name in (DISSIMILARITY, ISOLATION, ENTROPY):
        assert (moved[0][name] + moved[1][name]) / 2 >= before[name] - 1e-9


def test_places_are_told_apart_and_ends_of_the_scale_are_met():
    inside = Inside(np.array([0, 0, 1, 1]), 2)
    first, second = np.array([5.0, 0, 3, 6]), np.array([0.0, 7, 1, 2])
    found = two_groups(first, second, first + second, inside)
    assert found[DISSIMILARITY].tolist() == pytest.approx([1, 0])
    assert found[ENTROPY].tolist() == pytest.approx([1, 0])
    assert found[ISOLATION].tolist() == pytest.approx([1, 0.75])
    assert found[EXPOSURE].tolist() == pytest.approx([0, 0.25])


def test_the_metric_is_brute_force_over_every_place_and_unit():
    people = town()
    release, truth = released(people), Truth.of(people)
    table = Segregation(by=("origin",), least_in_group=5).compute(release, truth).table
    sides = {}
    for side, leaf in (("exact", tabulate(people).dense()), ("released", release.at("level_2"))):
        sides[side] = np.maximum(leaf.reshape(9, 3, 2).sum(axis=2), 0)
    places = {"whole": [range(9)], "level_1": [range(3 * k, 3 * k + 3) for k in range(3)]}
    for within, units in places.items():
        for number, group in enumerate(("here", "near", "far")):
            expected: dict[str, dict[int, Any]] = {name: {} for name in sides}
            for side, counts in sides.items():
                for place, some in enumerate(units):
                    own = counts[list(some), number].tolist()
                    rest = (counts[list(some)].sum(axis=1) - counts[list(some), number]).tolist()
                    expected[side][place] = by_formula([list(map(int, own)), list(map(int, rest))])
            for index in (DISSIMILARITY, ISOLATION, ENTROPY):
                (row,) = table.filter(
                    level="level_2", within=within, group=group, index=index
                ).to_dicts()
                exact, made = (
                    np.array([float(one[index]) for one in expected[side].values()])
                    for side in ("exact", "released")
                )
                assert (row["places"], row["too_small"], row["undefined"]) == (len(units), 0, 0)
                assert row["exact"] == pytest.approx(exact.mean())
                assert row["released"] == pytest.approx(made.mean())
                assert row["bias"] == pytest.approx((made - exact).mean())
                assert row["mean_absolute"] == pytest.approx(np.abs(made - exact).mean())
    every = table.filter(level="level_2", within="whole", group=EVERY_GROUP)
    groups = [list(map(int, column)) for column in sides["exact"].T]
    assert every["index"].to_list() == [ENTROPY]
    assert every["exact"].item() == pytest.approx(entropy_by_formula(groups))


def test_a_release_without_error_has_the_true_indices_and_one_of_noise_has_not():
    people = town()
    truth = Truth.of(people)
    table = Segregation().compute(released(people, Identity()), truth).table
    assert table["mean_absolute"].max() == 0
    assert Segregation().compute(released(people), truth).table["bias"].to_numpy().mean() > 0.01


def test_two_groups_can_be_set_against_each_other():
    people = town()
    truth, exact = Truth.of(people), released(people, Identity())
    asked = Segregation(by=("origin",), group=("far",), against=("near",))
    found = asked.compute(exact, truth)
    rows = found.table.filter(level="level_2", within="whole")
    counts = tabulate(people).dense().reshape(9, 3, 2).sum(axis=2)
    groups = [counts[:, number].tolist() for number in (2, 1, 0)]
    assert dict(rows.select("index", "exact").iter_rows()) == pytest.approx(
        {name: float(value or 0) for name, value in by_formula(groups).items()}
    )
    assert set(rows["group"]) == {"far"}
    assert "A group is set against near." in found.explain()
    several = Segregation(by=("origin",), group=("near", "far")).compute(exact, truth).table
    assert set(several["group"]) == {"near + far"}


def test_small_units_and_places_are_left_out_by_their_true_size():
    people = town(people=300)
    truth, release = Truth.of(people), released(people)
    all_of_them = Segregation(least_in_group=1).compute(release, truth)
    large = Segregation(least_in_group=30).compute(release, truth).table
    row = large.filter(level="level_2", within="level_1", attribute="origin").row(1, named=True)
    assert row["places"] + row["too_small"] == 3
    assert row["too_small"] > 0
    assert all_of_them.table["too_small"].sum() == 0
    units = Segregation(least_in_unit=35).compute(release, truth)
    assert "Units with fewer than 35 people in truth are left out" in units.explain()
    kept = tabulate(people).dense().sum(axis=1) >= 35
    assert 0 < kept.sum() < 9
    counts = tabulate(people).dense().reshape(9, 3, 2).sum(axis=2) * kept[:, None]
    groups = [list(map(int, column)) for column in counts.T]
    rows = units.table.filter(
        level="level_2", within="whole", group=EVERY_GROUP, attribute="origin"
    )
    assert rows["exact"].item() == pytest.approx(entropy_by_formula(groups))
    with pytest.raises(NotFeasible, match="no place has groups large enough"):
        Segregation(least_in_group=1_000).compute(release, truth)


def test_an_index_that_a_release_has_not_is_undefined_and_no_error():
    people = town()
    truth, release = Truth.of(people), released(people, Identity())
    empty = {level: table * 0 for level, table in release.as_counts().tables.items()}
    found = Segregation().compute(replace(release.as_counts(), tables=empty), truth)
    assert (found.table["undefined"] == found.table["places"]).all()
    assert found.table["released"].null_count() == found.table.height
    assert found.table["exact"].null_count() == 0
    assert found.figure().spec  # what is left is the truth


def test_changed_tables_are_scored_and_withheld_cells_are_not():
    schema = load_schema("sex-age38-race7-hispanic")
    people = town(schema, regular(children=3, depth=2), people=2_000)
    truth = Truth.of(people)
    metric = Segregation(by=("sex",))
    rounded = released(people, Rounding(tables=("P12",), base=10))
    assert metric.supports(rounded, truth)
    found = metric.compute(rounded, truth).table
    assert set(found["attribute"]) == {"sex"}
    assert found["mean_absolute"].to_numpy().max() > 0
    gaps = metric.supports(released(people, Suppression(rule="1980")), truth)
    assert "withholds cells, without which sums over units are unknown" in gaps.why_not
    with pytest.raises(NotFeasible, match="no table publishes all groups of an attribute"):
        Segregation(by=("hispanic",)).compute(rounded, truth)


def test_many_levels_are_looked_at_on_request_only():
    schema = load_schema("sex-age38-race7-hispanic")
    people = town(schema, people=2_000)
    truth, release = Truth.of(people), released(people, Identity())
    found = Segregation().compute(release, truth)
    (wide,) = (one.name for one in schema.attributes if one.size > 32)
    assert wide not in set(found.table["attribute"])
    assert f"Left out for their many levels: {wide}." in found.explain()
    asked = Segregation(by=(wide,), least_in_group=1).compute(release, truth)
    assert set(asked.table["attribute"]) == {wide}
    assert "many levels" not in asked.explain()


def test_what_cannot_be_asked_is_refused():
    people = town()
    truth, release = Truth.of(people), released(people, Identity())
    for metric, why in (
        (Segregation(by=("race",)), "the schema has no attribute race"),
        (Segregation(by=("sex",), group=("x",)), "the attribute sex has no level 'x'"),
    ):
        assert metric.supports(release, truth).why_not == why
    one = town(Schema((Attribute("all", ("everybody",)),)))
    assert Segregation().supports(released(one, Identity()), Truth.of(one)).why_not == (
        "no attribute has 2 to 32 levels: name some (by)"
    )
    for settings_, words in (
        ({"group": ("f",)}, "by: found 0 attributes with a group, expected the one attribute"),
        ({"against": ("f",)}, "against: found no group, expected the group to set against it"),
        (
            {"by": ("sex",), "group": ("f",), "against": ("f",)},
            "against: found 'f' on both sides, expected levels that are not in the group",
        ),
        ({"least_in_group": 0}, "least_in_group: found 0, expected 1 or more"),
        ({"least_in_unit": -1}, "least_in_unit: found -1, expected 0 or more"),
    ):
        with pytest.raises(ConfigError, match=words):
            Segregation(**settings_)
