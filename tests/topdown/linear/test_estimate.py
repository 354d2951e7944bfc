"""Best linear estimates, against generalised least squares written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headcount.arrays import Floats
from headcount.schema import Attribute, Recode, Schema, impossible
from headcount.tabulate import CELLS, TOTAL, Query, every_cell
from headcount.topdown.linear import estimate
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.estimate import BestEstimates, Coordinates
from headcount.topdown.linear.matrices import least_moves, pseudo_inverse
from headcount.topdown.linear.tree import JointTotalsTree, LevelNoise, NoiseTree
from headcount.topdown.linear.variances import AnswerVariances
from tests.topdown.linear.oracle import Dense, dense_errors, leaves_of
from tests.topdown.linear.trees import Case, case_of, cases


def _drawn(
    case: Case, dense: Dense, chance: np.random.Generator
) -> tuple[Floats, dict[tuple[int, str], Floats]]:
    """Made-up true counts, and answers with noise but for what is exact."""
    leaves = leaves_of(case.tree)
    people = chance.integers(1, 20, size=(leaves, case.schema.size)) * case.schema.possible
    truth = people.reshape(-1).astype(float)
    drawn: dict[tuple[int, str], Floats] = {}
    for depth, level in enumerate(case.tree.levels):
        for name, matrix in case.queries.items():
            units = case.tree.units(depth)
            true = np.array([matrix @ dense.units[depth, u] @ truth for u in range(units)])
            noise = 0.0 if name in level.exact else chance.normal(size=true.shape)
            drawn[depth, name] = true + noise
    return truth, drawn


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1), st.booleans())
def test_estimates_are_those_of_dense_least_squares(case: Case, seed: int, few: bool) -> None:
    """Whatever answers tell of must come out the same, with all units in memory or a few, and
    also as a sum of estimated cells, told or not.
    """
    dense = dense_errors(case.tree, case.queries, case.schema.possible)
    truth, drawn = _drawn(case, dense, np.random.default_rng(seed))
    expected = _dense_estimate(case, drawn, truth, dense)
    cells: dict[int, Floats] = {}
    with (
        patch.object(estimate, "NUMBERS_AT_ONCE", 40 if few else estimate.NUMBERS_AT_ONCE),
        patch.object(estimate, "IN_MEMORY", 0 if few else estimate.IN_MEMORY),
    ):
        for name, matrix in case.queries.items():
            coordinates = Coordinates(case.components, name, case.asked, case.schema.names)
            estimates = BestEstimates(
                case.tree,
                coordinates,
                lambda at, query, some: drawn[at, query][some.start : some.stop],
            )
            for depth in range(len(case.tree.levels)):
                pieces = list(estimates.at(depth))
                found = np.concatenate([some for _, some in pieces])
                assert [unit for units, _ in pieces for unit in units] == list(range(len(found)))
                cells[depth] = found if name == CELLS else cells[depth]
                for unit in range(case.tree.units(depth)):
                    own = matrix @ dense.units[depth, unit]
                    agree(found[unit], own, expected, dense)
                    agree(matrix @ cells[depth][unit], own, expected, dense)


def agree(found: Floats, own: Floats, expected: Floats, dense: Dense) -> None:
    """Ten digits of what the estimates are added up from, where answers tell of them."""
    if np.isfinite(dense.mean_variance(own)):
        largest = (abs(own) @ abs(expected)).max()
        assert np.abs(found - own @ expected).max() <= 1e-10 * largest


MANY_ZEROS = Schema(
    (Attribute("kind", tuple("abcd")), Attribute("age", tuple("01234"))),
    (
        impossible({"kind": ["a", "b"], "age": ["1", "2", "3"]}),
        impossible({"kind": ["c", "d"], "age": ["0", "3", "4"]}),
    ),
)
"""Of 20 cells 12 can hold nobody."""


def test_a_stated_variance_is_that_of_the_noise_though_structural_zeros_have_none() -> None:
    """From what each answer adds to each estimate; and the answers of zeros add nothing."""
    asked = {one.name: one for one in (every_cell(MANY_ZEROS), Query("age", ("age",)), TOTAL)}
    components = Components.of(MANY_ZEROS, asked.values())
    weights = {CELLS: 0.01, "age": 0.02, "total": 0.01}
    parents = [np.zeros(0), np.zeros(2), np.array([0, 0, 1])]
    tree = NoiseTree([one.astype(np.int32) for one in parents], [LevelNoise((weights,))] * 3)
    answers = {
        (depth, name): np.zeros((tree.units(depth), components.answers[name]))
        for depth in range(3)
        for name in weights
    }
    for wanted in ("total", "age"):
        best = BestEstimates(
            tree,
            Coordinates(components, wanted, asked, MANY_ZEROS.names),
            lambda at, query, some: answers[at, query][some.start : some.stop],
        )
        variance = np.zeros((3, components.answers[wanted]))
        for (_, name), own in answers.items():
            for place in np.ndindex(own.shape):
                own[place] = 1.0
                found = np.concatenate([one for _, one in best.at(2)])
                own[place] = 0.0
                if name == CELLS and not MANY_ZEROS.possible[place[1]]:
                    assert not found.any()
                variance += found**2 / weights[name]
        stated = AnswerVariances.of(tree, components, wanted, 2).units(range(3))
        assert stated == pytest.approx(variance, rel=1e-12)


def test_what_is_exact_above_and_unknown_below_is_fitted_by_both_together() -> None:
    """Leaves do not tell one direction, of which an exact answer above tells in a sum."""
    schema = Schema(
        (Attribute("kind", ("a", "b")), Attribute("age", ("0", "1"))),
        (impossible({"kind": ["a"], "age": ["0"]}),),
    )
    asked = {
        one.name: one
        for one in (every_cell(schema), TOTAL, Query("kind", ("kind",)), Query("age", ("age",)))
    }
    components = Components.of(schema, asked.values())
    parents = [np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int32)]
    noise = LevelNoise(({"total": 1.0, "kind": 1.0},))
    tree = NoiseTree(parents, [LevelNoise(({},), exact=("age",)), noise])
    answers = {"age": [7, 16], "total": [20.0], "kind": [4.0, 18.0]}
    best = BestEstimates(
        tree,
        Coordinates(components, CELLS, asked, schema.names),
        lambda _, query, some: np.array([answers[query]], dtype=np.float64),
    )
    # a1 + b1 = 16 and b0 = 7 are exact: of a1 alone, kind says 4 and 16 + 7 - 18, so 4.5.
    assert np.concatenate([one for _, one in best.at(0)])[0] == pytest.approx([0, 4.5, 7, 11.5])


def _exact_groups(
    sizes: tuple[int, ...], *never: Mapping[str, Sequence[str]], by: tuple[str, ...] = ()
) -> tuple[Schema, list[Query]]:
    """A schema and its marginals, of which the last is of two groups of the last attribute."""
    attributes = tuple(
        Attribute(f"a{k}", tuple(f"{k}-{i}" for i in range(size))) for k, size in enumerate(sizes)
    )
    schema, last = Schema(attributes, tuple(map(impossible, never))), attributes[-1]
    a, b, c, d = last.levels
    groups = Recode.of(last, "groups", {"inner": (b, c), "outer": (a, d)})
    return schema, [*(Query(one, (one,)) for one in schema.names), Query("groups", (groups, *by))]


def _silent(groups_at: set[int], *parents: list[int]) -> NoiseTree:
    """A tree of which nothing is known but the exact groups of some levels."""
    exact: list[tuple[str, ...]] = [("groups",) if k in groups_at else () for k in range(3)]
    levels = [LevelNoise(({},), exact=one) for one in exact]
    return NoiseTree([np.array(one, dtype=np.int32) for one in ([], *parents)], levels)


GROUPS_BELOW = case_of(
    *_exact_groups((3, 4), {"a0": ["0-0"]}, {"a0": ["0-2"], "a1": ["1-0", "1-1"]}),
    _silent({1, 2}, [0, 0], [0, 1, 1, 1]),
)
GROUPS_BETWEEN = case_of(
    *_exact_groups(
        (4, 2, 4),
        {"a0": ["0-0", "0-2", "0-3"], "a1": ["1-1"], "a2": ["2-1", "2-2", "2-3"]},
        {"a0": ["0-0", "0-1", "0-2"], "a2": ["2-0", "2-3"]},
        by=("a0",),
    ),
    _silent({1}, [0, 0, 0], [0, 0, 1, 1, 2]),
)
"""Found by chance: exact sums that say nothing of unknown directions, but for rounding, were taken
to say all of them, and estimates were 1e-9 and 5e-3 off."""


@settings(max_examples=40, deadline=None)
@example(GROUPS_BELOW, 0)
@example(GROUPS_BETWEEN, 0)
@given(cases(), st.integers(0, 2**32 - 1))
def test_totals_that_siblings_have_together_are_used_like_any_other(case: Case, seed: int) -> None:
    chance, depth = np.random.default_rng(seed), len(case.tree.levels) - 1
    if not depth:
        return
    depth = int(chance.integers(1, depth + 1))
    parent = case.tree.parents[depth].astype(np.int64)
    _, group = np.unique(parent * 2 + chance.integers(0, 2, len(parent)), return_inverse=True)
    group = chance.permutation(int(group.max()) + 1)[group].astype(np.int32)
    several = [
        ("total", depth, np.flatnonzero(group == k).tolist()) for k in range(int(group.max()) + 1)
    ]
    dense = dense_errors(case.tree, case.queries, case.schema.possible, several)
    truth, drawn = _drawn(case, dense, chance)
    expected = _dense_estimate(case, drawn, truth, dense)
    together = JointTotalsTree.of(case.tree, {depth: (group, ("total",))})
    sums = drawn[depth, "total"] * 0
    true = np.array([[(dense.units[depth, u] @ truth).sum()] for u in range(len(group))])
    np.add.at(sums, group, true)

    def answered(at: int, query: str, some: range) -> Floats:
        places = together.places[at][some.start : some.stop]
        before = together.levels[at]
        return sums[places] if before < 0 else drawn[before, query][places]

    for name, matrix in case.queries.items():
        coordinates = Coordinates(case.components, name, case.asked, case.schema.names)
        estimates = BestEstimates(together.tree, coordinates, answered)
        for before in range(len(case.tree.levels)):
            at = together.depth(before)
            found = np.concatenate([some for _, some in estimates.at(at)])
            variances = AnswerVariances.of(together.tree, case.components, name, at)
            told = case.queries[name] @ case.schema.possible > 0
            every = coordinates.in_own_order(variances.units(range(len(found))))
            mean = every[:, told].mean(axis=1)
            for now, unit in enumerate(together.places[at].tolist()):
                own = matrix @ dense.units[before, unit]
                agree(found[now], own, expected, dense)
                assert dense.agrees(float(mean[now]), own[told])


def _dense_estimate(
    case: Case, drawn: dict[tuple[int, str], Floats], truth: Floats, dense: Dense
) -> Floats:
    """Truth + covariance (right side - precision truth): least squares that keeps what is exact."""
    right = np.zeros_like(truth)
    for depth, level in enumerate(case.tree.levels):
        for unit in range(case.tree.units(depth)):
            kind = 0 if level.of_unit is None else int(level.of_unit[unit])
            for name, weight in level.weights[kind].items():
                rows = case.queries[name] @ dense.units[depth, unit]
                right += weight * rows.T @ (drawn[depth, name][unit] - rows @ truth)
    return truth + dense.covariance @ right


def test_an_inverse_whose_diagonal_hides_that_a_matrix_is_singular() -> None:
    """Rounding leaves eigenvalues of both signs around 0, which cancel out on the diagonal."""
    tiny = 1e-17
    matrix = np.array([[0.0, tiny, 0.0], [tiny, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert np.abs(np.diag(np.linalg.inv(matrix))).max() == 1.0
    found = pseudo_inverse(matrix[None], scale=np.ones(1))
    assert np.array_equal(found[0], np.diag([0.0, 0.0, 1.0]))


def test_what_exact_sums_say_of_unknown_directions_is_not_made_of_rounding_errors() -> None:
    assert not least_moves(np.array([[1e-17]])).any()
    directions = np.array([[0.6, 1e-17], [0.8, 0.0]])
    assert least_moves(directions) == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))
