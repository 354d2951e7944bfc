"""The homogeneity index against brute force, and bias by group."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.evaluation.bias_by_homogeneity import bias_by, homogeneity_index

SHAPE = (2, 2, 6)


def brute_force(row, shape, definition):
    filled = [cell for cell, people in enumerate(row) if people > 0]
    if definition == "words":
        return len(row) - len(filled)
    places = [np.unravel_index(cell, shape) for cell in filled]
    spanned = 1
    for axis in range(len(shape)):
        spanned *= len({int(place[axis]) for place in places})
    return len(row) - spanned


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 2), min_size=24, max_size=24), min_size=1, max_size=4))
def test_both_definitions_agree_with_brute_force(rows):
    for definition in ("words", "code"):
        found = homogeneity_index(rows, shape=SHAPE, definition=definition)
        assert found.tolist() == [brute_force(row, SHAPE, definition) for row in rows]


def test_the_two_definitions_differ_where_kinds_do_not_meet():
    row = np.zeros((1, 24), dtype=np.int64)
    row[0, np.ravel_multi_index((0, 1, 0), SHAPE)] = 1
    row[0, np.ravel_multi_index((1, 0, 1), SHAPE)] = 1
    assert homogeneity_index(row, shape=SHAPE, definition="words").tolist() == [22]
    assert homogeneity_index(row, shape=SHAPE, definition="code").tolist() == [16]


def test_nobody_at_all_has_every_cell_empty():
    for definition in ("words", "code"):
        assert homogeneity_index([[0] * 24], shape=SHAPE, definition=definition).tolist() == [24]


def test_the_coded_index_takes_only_the_published_values():
    rng = np.random.default_rng(1)
    table = rng.random((4000, 24)) < rng.random((4000, 1)) ** 2
    found = set(homogeneity_index(table, shape=SHAPE, definition="code").tolist()) - {24}
    assert found == {0, 4, 8, 12, 14, 16, 18, 20, 21, 22, 23}
    words = homogeneity_index(table, shape=SHAPE, definition="words")
    assert set(words.tolist()) - found != set()  # the words allow any number of empty cells


def test_wrong_shapes_and_definitions_are_refused():
    with pytest.raises(InputError, match=r"counts: found shape \(1, 23\), expected units x 24"):
        homogeneity_index([[0] * 23], shape=SHAPE, definition="code")
    with pytest.raises(InputError, match="definition: found 'sense', expected words or code"):
        homogeneity_index([[0] * 24], shape=SHAPE, definition="sense")  # type: ignore[arg-type]


def test_bias_by_pools_runs_before_any_statistic():
    errors = np.array([[1, 10, 3], [5, 20, 7]])
    found = bias_by([0, 4, 0], errors)
    assert list(found[0]) == pytest.approx([4, 4.0, 1.3, 6.7])
    assert list(found[4]) == pytest.approx([2, 15.0, 10.5, 19.5])


def test_bias_over_groups_adds_up_to_the_sum_of_errors():
    rng = np.random.default_rng(3)
    groups, errors = rng.integers(0, 5, 100), rng.integers(-9, 10, (3, 100))
    assert sum(n * mean for n, mean, *_ in bias_by(groups, errors).values()) == pytest.approx(
        errors.sum()
    )


def test_errors_of_another_length_are_refused():
    with pytest.raises(InputError, match=r"errors: found shape \(1, 2\), expected runs x 3 units"):
        bias_by([0, 1, 2], [1.0, 2.0])
