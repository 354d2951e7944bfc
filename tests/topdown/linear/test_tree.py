"""How exact estimates are, against generalised least squares written out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.schema import Attribute, Recode, Schema, load_schema
from headcount.tabulate import CELLS, Query, every_cell
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.tree import (
    MOST_ANSWERS,
    LevelNoise,
    NoiseTree,
    level_variances,
    lowest_gaining,
    pooled_weights,
)
from headcount.topdown.linear.variances import AnswerVariances, AreaErrors, Members
from tests.topdown.linear.oracle import dense_errors, leaves_of
from tests.topdown.linear.trees import Case, cases, class_variances


@settings(max_examples=200, deadline=None)
@given(cases())
def test_mean_variances_of_kinds_of_units_are_those_of_dense_least_squares(case: Case) -> None:
    dense = dense_errors(case.tree, case.queries, case.schema.possible)
    names = list(case.queries)
    for (depth, name), variance in class_variances(case.tree, case.components, names).items():
        kinds = case.tree.classes[depth].of_unit
        for kind, found in enumerate(variance):
            units = np.flatnonzero(kinds == kind).tolist()
            rows = np.vstack([case.told(name) @ dense.units[depth, unit] for unit in units])
            assert dense.agrees(float(found), rows)
    for (depth, name), mean in level_variances(case.tree, case.components, names).items():
        every = range(case.tree.units(depth))
        rows = np.vstack([case.told(name) @ dense.units[depth, unit] for unit in every])
        assert dense.agrees(mean, rows)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-9, 9), min_size=2, max_size=5),
    st.integers(-9, 9),
    st.lists(st.integers(-9, 9), min_size=2, max_size=2),
)
def test_where_answers_are_of_very_unequal_weight_no_digit_is_lost(
    leaves: list[int], middle: int, tops: list[int]
) -> None:
    """Of one cell, against fractions: the whole, a unit and its leaves, and another unit."""
    weight = [Fraction(10) ** one for one in leaves]
    own, other, whole = (Fraction(10) ** one for one in (middle, *tops))
    sums = 1 / (own + 1 / sum(1 / one for one in weight))  # S of the unit above the leaves
    both = sums + 1 / other
    above = 1 / (whole + 1 / both)
    of_unit = (sums / both) ** 2 * above + sums / other / both
    below, exact = sum(1 / one for one in weight), []
    for one in weight:
        gain = 1 / one / below
        exact.append(gain**2 * of_unit + gain * (below - 1 / one))
    tree = NoiseTree(
        [np.array(one, dtype=np.int32) for one in ([], [0, 0], [0] * len(leaves) + [1])],
        [
            LevelNoise(({CELLS: float(whole)},)),
            LevelNoise(({CELLS: float(own)}, {}), np.array([0, 1])),
            LevelNoise(
                tuple({CELLS: float(one)} for one in (*weight, other)),
                np.arange(len(leaves) + 1),
            ),
        ],
    )
    schema = Schema((Attribute("all", ("one",)),))
    components = Components.of(schema, [every_cell(schema)])
    found = AnswerVariances.of(tree, components, CELLS, 2).units(range(len(leaves)))
    means = class_variances(tree, components, [CELLS])[2, CELLS]
    kinds = tree.classes[2].of_unit[: len(leaves)]
    assert found[:, 0] == pytest.approx([float(one) for one in exact], rel=1e-12)
    assert means[kinds] == pytest.approx([float(one) for one in exact], rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_variances_of_single_answers_in_single_units_are_those_of_dense_least_squares(
    case: Case,
) -> None:
    dense = dense_errors(case.tree, case.queries, case.schema.possible)
    for name, groups in case.components.groups.items():
        level = np.indices(case.schema.shape).reshape(len(groups), -1)
        answers = np.indices([int(group.max()) + 1 for group in groups]).reshape(len(groups), -1).T
        rows = np.array(
            [
                np.all([g[at] == o for g, at, o in zip(groups, level, one, strict=True)], axis=0)
                for one in answers
            ]
        ).astype(float)
        for depth in range(len(case.tree.levels)):
            variances = AnswerVariances.of(case.tree, case.components, name, depth)
            found = variances.units(range(case.tree.units(depth)))
            for unit in range(case.tree.units(depth)):
                for row, variance in zip(rows @ dense.units[depth, unit], found[unit], strict=True):
                    assert dense.agrees(float(variance), row[None, :])


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_variances_of_areas_are_those_of_dense_least_squares(case: Case, seed: int) -> None:
    """Areas may overlap, and have no leaf at all."""
    inside = np.random.default_rng(seed).random((3, leaves_of(case.tree))) < 0.5
    dense = dense_errors(case.tree, case.queries, case.schema.possible)
    areas = AreaErrors.of(case.tree, case.components, Members(3, *np.nonzero(inside)), case.queries)
    for name in case.queries:
        groups = case.components.groups[name]
        answer = [int(group[-1]) for group in groups]
        level = np.indices(case.schema.shape).reshape(len(groups), -1)
        same = [group[at] == one for group, at, one in zip(groups, level, answer, strict=True)]
        row = np.all(same, axis=0)[None, :].astype(float)
        mean, single = areas.mean_variance(name), areas.variance(name, answer)
        for area, leaves in enumerate(inside):
            own = np.kron(leaves[None, :].astype(float), np.eye(case.schema.size))
            assert dense.agrees(float(mean[area]), case.told(name) @ own)
            assert dense.agrees(float(single[area]), row @ own)


def test_what_is_exact_at_two_levels_in_two_ways_leaves_no_rounding_errors_to_divide_by() -> None:
    """A level whose groups are exact, above leaves whose totals are: of an only child all is."""
    many = Attribute("many", tuple("0123"))
    schema = Schema((many,))
    groups = Query("groups", (Recode.of(many, "two", {"first": ["0"], "second": list("123")}),))
    asked = [every_cell(schema), Query("total"), groups]
    leaves = ({CELLS: 2.625}, {CELLS: 2.0, "total": 1.0, "groups": 1.41015625})
    tree = NoiseTree(
        [np.array(one, dtype=np.int32) for one in ([], [0, 0, 0], [0, 1, 2])],
        [
            LevelNoise(({},)),
            LevelNoise(({CELLS: 2.0},), exact=("groups",)),
            LevelNoise(leaves, np.array([0, 1, 1]), exact=("total",)),
        ],
    )
    found = AnswerVariances.of(tree, Components.of(schema, asked), CELLS, 2).units(range(3))
    expected = [[0.0, *[2 / 3 / (2 + weights[CELLS])] * 3] for weights in (*leaves, leaves[1])]
    assert found == pytest.approx(np.array(expected), abs=1e-12)


def test_components_are_few_and_small_for_queries_like_those_of_2020() -> None:
    """Of 2,016 cells with 126 structural zeros; a recode that no other query crosses is alone."""
    schema = load_schema("redistricting-2020")
    quarters = schema.attribute("hhgq")
    groups = {"household": quarters.levels[:1], "institution": quarters.levels[1:5]}
    recode = Recode.of(quarters, "levels", groups | {"other": quarters.levels[5:]})
    marginals = [("hhgq",), ("votingage",), ("cenrace",), ("votingage", "cenrace")]
    asked = [Query("-".join(by), by) for by in marginals]
    asked += [every_cell(schema), Query("total"), Query("levels", (recode,))]
    for zeros, largest in (((), 3), (schema.structural_zeros, 5)):
        own = Schema(schema.attributes, zeros)
        components = Components.of(own, asked)
        assert sum(one.copies * one.size for one in components.every) == own.possible.sum()
        assert components.every[0].size <= max(one.size for one in components.every) == largest


@settings(max_examples=60, deadline=None)
@given(cases())
def test_on_components_together_every_query_is_what_it_is_on_the_cells(case: Case) -> None:
    """The same eigenvalues, as often, of a random sum of all Q'Q."""
    weights = np.random.default_rng(3).uniform(0.5, 2.0, len(case.queries))
    cells = case.schema.possible
    whole = sum(
        weight * (rows.T @ rows)[np.ix_(cells, cells)]
        for weight, rows in zip(weights, case.queries.values(), strict=True)
    )
    found = []
    for one in case.components.every:
        parts = (case.components.precision(name, one) for name in case.queries)
        small = sum(weight * part for weight, part in zip(weights, parts, strict=True))
        found += [*np.linalg.eigvalsh(small)] * one.copies
    assert np.sort(found) == pytest.approx(np.linalg.eigvalsh(whole), abs=1e-9)


PLAIN = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "old", "oldest"))))
ASKED = [every_cell(PLAIN), Query("total"), Query("sex", ("sex",))]


def _even_tree(levels: list[LevelNoise], children: int) -> NoiseTree:
    parents = [np.zeros(0, dtype=np.int32)]
    for _ in levels[1:]:
        above = len(parents[-1]) or 1
        parents.append(np.repeat(np.arange(above, dtype=np.int32), children))
    return NoiseTree(parents, levels)


def test_pooled_weights_are_the_precision_of_least_squares_going_up_where_shares_are_alike() -> (
    None
):
    alike = {CELLS: 0.5, "total": 0.25, "sex": 1.0}
    levels = [
        LevelNoise(({name: scale * weight for name, weight in alike.items()},))
        for scale in (1.0, 3.0, 2.0)
    ]
    tree = _even_tree(levels, children=4)
    # With shares alike every component's precision is the same multiple of its own: 3 + 2 / 4.
    pooled = {name: pooled_weights(tree, name, 2) for name in alike}
    for name, weight in alike.items():
        assert pooled[name][1] == pytest.approx(weight * (3 + 2 / 4))
        assert pooled[name][0] == pytest.approx(weight * (1 + (3 + 2 / 4) / 4))


def test_a_query_that_a_child_was_not_asked_is_not_pooled() -> None:
    leaf = LevelNoise(({CELLS: 1.0}, {}), np.array([0, 1, 0]))
    tree = NoiseTree(
        [np.zeros(0, dtype=np.int32), np.zeros(3, dtype=np.int32)],
        [LevelNoise(({CELLS: 1.0},)), leaf],
    )
    assert pooled_weights(tree, CELLS, 1)[0].tolist() == [1.0]


def test_an_exact_query_is_not_pooled() -> None:
    tree = _even_tree([LevelNoise(({},), exact=("total",)), LevelNoise(({"total": 1.0},))], 2)
    assert pooled_weights(tree, "total", 1)[0].tolist() == [0.0]


@pytest.mark.parametrize(("children", "lowest"), [(4, 1), (48, 1), (51, 0)])
def test_a_level_is_pooled_where_it_makes_an_answer_above_a_hundredth_more_exact(
    children: int, lowest: int
) -> None:
    noise = LevelNoise(({CELLS: 1.0},))
    tree = _even_tree([noise, noise], children)
    assert lowest_gaining(tree, {CELLS: 6}) == lowest  # (1 + 1/49)^-1/2 is 0.990


def test_leaves_that_have_very_many_answers_are_not_pooled() -> None:
    noise = LevelNoise(({CELLS: 1.0},))
    tree = _even_tree([noise, noise, noise], 4)
    assert lowest_gaining(tree, {CELLS: 6}) == 2
    assert lowest_gaining(tree, {CELLS: MOST_ANSWERS // 15}) == 1


def test_a_level_is_pooled_where_only_levels_far_above_gain_by_it() -> None:
    """The level right above is asked for other things: what the leaves say passes through it."""
    levels = [LevelNoise((own,)) for own in ({"sex": 1.0}, {CELLS: 1.0}, {"sex": 1.0})]
    tree = _even_tree(levels, children=4)
    assert lowest_gaining(tree, {CELLS: 6, "sex": 2}) == 2
    apart = _even_tree([levels[0], levels[1], LevelNoise(({"total": 1.0},))], children=4)
    assert lowest_gaining(apart, {CELLS: 6, "sex": 2, "total": 1}) == 0
