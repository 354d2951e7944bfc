from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from headcount.errors import InputError
from headcount.evaluate import EXACT_MINUS_RELEASED, residuals, summarise

tables = st.tuples(st.integers(1, 5), st.integers(1, 6)).flatmap(
    lambda shape: st.tuples(
        hnp.arrays(np.int64, shape, elements=st.sampled_from([0, 0, 1, 5, 70])),
        hnp.arrays(np.int64, shape, elements=st.sampled_from([0, 0, 1, -3, 70])),
    )
)


def outer_join(truth, released):
    """Oracle: long tables of non-empty cells, joined outer, missing filled with zero."""
    left = {cell: value for cell, value in np.ndenumerate(truth) if value != 0}
    right = {cell: value for cell, value in np.ndenumerate(released) if value != 0}
    return [right.get(cell, 0) - left.get(cell, 0) for cell in sorted(left.keys() | right.keys())]


@given(tables)
def test_residuals_follow_the_outer_join(pair):
    truth, released = pair
    expected = outer_join(truth, released)
    assert residuals(truth, released).tolist() == expected
    assert residuals(sparse.csr_array(truth), sparse.csr_array(released)).tolist() == expected
    assert residuals(truth, sparse.csr_matrix(released)).tolist() == expected
    assert residuals(truth.astype(float), released).tolist() == expected
    flipped = residuals(truth, released, sign=EXACT_MINUS_RELEASED)
    assert flipped.tolist() == [-value for value in expected]


def test_a_cell_empty_on_both_sides_never_counts_and_an_equal_cell_does():
    assert residuals([0, 4, 4, 0], [0, 4, 0, 2]).tolist() == [0, -4, 2]


def test_unsigned_counts_do_not_wrap():
    truth = np.array([7, 1], dtype=np.uint32)
    assert residuals(truth, np.array([3, 2], dtype=np.uint32)).tolist() == [-4, 1]


def test_sparse_duplicates_and_stored_zeros_are_resolved_and_the_input_is_kept():
    table = sparse.csr_array(
        (np.array([2, 3, 0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    assert residuals(table, np.array([[0, 4], [0, 0]])).tolist() == [-1]
    assert table.nnz == 3


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6)))
def test_summary_against_plain_arithmetic(values):
    found = summarise(values)
    size = sorted(abs(v) for v in values)
    place = 0.95 * (len(size) - 1)
    low = int(place)
    high = min(low + 1, len(size) - 1)
    assert found.p95_absolute == pytest.approx(
        size[low] + (place - low) * (size[high] - size[low]), rel=1e-9, abs=1e-9
    )
    middle = (size[(len(size) - 1) // 2] + size[len(size) // 2]) / 2
    assert found.median_absolute == pytest.approx(middle)
    assert found.mean_absolute == pytest.approx(sum(size) / len(size))
    assert found.max_absolute == size[-1]
    assert found.rmse == pytest.approx((sum(v * v for v in values) / len(values)) ** 0.5)
    assert found.bias == pytest.approx(sum(values) / len(values), abs=1e-6)
    assert found.n == len(values)


def test_summary_says_what_it_is_and_which_way_the_bias_goes():
    text = summarise([1, -2, 3], sign=EXACT_MINUS_RELEASED).explain()
    assert "3 cells" in text
    assert "exact - released is 0.666667" in text
    assert "without protection" in text


def test_different_shapes_are_refused():
    with pytest.raises(InputError, match=r"released: shape: found \(3,\), expected \(2,\)"):
        residuals([1, 2], [1, 2, 3])


def test_an_unknown_sign_is_refused():
    with pytest.raises(InputError, match="sign: found 'minus'"):
        residuals([1], [2], sign="minus")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(InputError, match=r"residuals: entry 1: found 1 value\(s\) that are NaN"):
        summarise([0.0, bad])
    with pytest.raises(InputError, match="released: entry 0"):
        residuals([1.0], [bad])


def test_text_and_empty_input_are_refused():
    with pytest.raises(InputError, match="found <U1, expected numbers"):
        summarise(["a"])
    with pytest.raises(InputError, match="found no values, expected at least one residual"):
        summarise([])
