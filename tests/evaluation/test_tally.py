from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from headcount.errors import InputError
from headcount.evaluation.tally import (
    CELL_SETS,
    beside_size,
    check_cells,
    mean_errors,
    pair_counts,
    summarise,
    sums_by,
)

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
def test_the_papers_rule_is_an_outer_join(pair):
    truth, released = pair
    expected = outer_join(truth, released)
    for left, right in (
        (truth, released),
        (sparse.csr_array(truth), sparse.csr_array(released)),
        (truth, sparse.csr_matrix(released)),
        (truth.astype(float), released),
    ):
        pairs = pair_counts(left, right, cells="either")
        assert pairs.residuals().tolist() == expected
        assert pairs.empty == 0


@given(tables, st.sampled_from(["all", "truth"]))
def test_the_other_sets_do_not_depend_on_the_release(pair, cells):
    """Against a plain list of every count of the set, zeros and all."""
    truth, released = pair
    chosen = [
        (int(truth[c]), int(released[c]))
        for c in np.ndindex(truth.shape)
        if cells == "all" or truth[c]
    ]
    for left, right in ((truth, released), (sparse.csr_array(truth), sparse.csr_array(released))):
        pairs = pair_counts(left, right, cells=cells)
        assert pairs.n == len(chosen)
        listed = sorted(zip(pairs.truth.tolist(), pairs.released.tolist(), strict=True))
        assert sorted([*listed, *[(0, 0)] * pairs.empty]) == sorted(chosen)
        if not chosen:
            continue
        errors = np.array([y - x for x, y in chosen], dtype=float)
        summary = pairs.summary()
        assert summary.n == len(errors)
        # exactly what numpy says of the full list, interpolation included
        assert summary.median_absolute == np.median(np.abs(errors))
        assert summary.p95_absolute == np.quantile(np.abs(errors), 0.95)
        assert summary.max_absolute == np.abs(errors).max()
        assert summary.mean_absolute == pytest.approx(np.abs(errors).mean())
        assert summary.rmse == pytest.approx(np.sqrt((errors**2).mean()))
        assert summary.bias == pytest.approx(errors.mean(), abs=1e-12)


@given(tables, st.sampled_from(CELL_SETS))
def test_columns_are_the_tables_own(pair, cells):
    truth, released = pair
    columns = list(pair_counts(truth, released, cells=cells).columns())
    assert len(columns) == truth.shape[1]
    for number, own in enumerate(columns):
        alone = pair_counts(truth[:, [number]], released[:, [number]], cells=cells)
        assert own.shape == alone.shape
        assert own.empty == alone.empty
        for one, other in (
            (own.place, alone.place),
            (own.truth, alone.truth),
            (own.released, alone.released),
        ):
            assert one.tolist() == other.tolist()


@given(tables, st.sampled_from(CELL_SETS))
def test_errors_beside_the_size_of_what_is_counted(pair, cells):
    truth, released = pair
    chosen = [
        (int(truth[c]), int(released[c]))
        for c in np.ndindex(truth.shape)
        if cells == "all" or truth[c] or (cells == "either" and released[c])
    ]
    pairs = pair_counts(truth, released, cells=cells)
    if not chosen:
        assert pairs.n == 0
        return
    found, people = beside_size(pairs), sum(x for x, _ in chosen)
    there = [(x, y) for x, y in chosen if x]
    assert found["mean_count"] == pytest.approx(people / len(chosen))
    assert found["lost"] == sum(y <= 0 for _, y in there)
    assert found["lost_people"] == sum(x for x, y in there if y <= 0)
    assert found["negative"] == sum(y < 0 for _, y in chosen)
    if not there:
        assert found["median_count"] is found["percent_of_mean"] is found["median_percent"] is None
        return
    assert found["median_count"] == np.median([x for x, _ in there])
    assert found["median_percent"] == np.median([100 * abs(y - x) / x for x, y in there])
    apart = sum(abs(y - x) for x, y in chosen)
    assert found["percent_of_mean"] == pytest.approx(100 * apart / people)


def test_a_large_sparse_table_is_not_made_full():
    """Four million million counts, three of them not zero."""
    shape = (2_000_000, 2_000_000)
    truth = sparse.csr_array(([5, 3], ([0, 9], [1, 1])), shape=shape)
    released = sparse.csr_array(([7, 1], ([0, 4], [1, 8])), shape=shape)
    summary = pair_counts(truth, released).summary()
    assert summary.n == 4 * 10**12
    assert summary.median_absolute == summary.p95_absolute == 0
    assert summary.mean_absolute == pytest.approx(6 / 4e12)
    assert summary.max_absolute == 3


def test_a_cell_empty_on_both_sides_never_counts_and_an_equal_cell_does():
    pairs = pair_counts([0, 4, 4, 0], [0, 4, 0, 2], cells="either")
    assert pairs.residuals().tolist() == [0, -4, 2]


@pytest.mark.parametrize(
    ("compared", "found", "expected"),
    [
        (False, "some", "expected 'all' or 'truth' or 'either'$"),
        (True, "either", "expected 'all' or 'truth': the set must not depend on the method"),
    ],
)
def test_a_set_that_is_not_known_or_not_allowed_is_refused(compared, found, expected):
    with pytest.raises(InputError, match=f"evaluation: cells: found '{found}', {expected}"):
        check_cells(found, compared=compared)
    assert check_cells("truth", compared=compared) == "truth"


def test_unsigned_counts_do_not_wrap():
    truth = np.array([7, 1], dtype=np.uint32)
    assert pair_counts(truth, np.array([3, 2], dtype=np.uint32)).residuals().tolist() == [-4, 1]


def test_sparse_duplicates_and_stored_zeros_are_resolved_and_the_input_is_kept():
    table = sparse.csr_array(
        (np.array([2, 3, 0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    assert pair_counts(table, np.array([[0, 4], [0, 0]])).residuals().tolist() == [-1]
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


def test_different_shapes_are_refused():
    with pytest.raises(InputError, match=r"released: shape: found \(3,\), expected \(2,\)"):
        pair_counts([1, 2], [1, 2, 3])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(InputError, match=r"residuals: entry 1: found 1 value\(s\) that are NaN"):
        summarise([0.0, bad])
    with pytest.raises(InputError, match="released: entry 0"):
        pair_counts([1.0], [bad])


def test_text_and_empty_input_are_refused():
    with pytest.raises(InputError, match="found <U1, expected numbers"):
        summarise(["a"])
    with pytest.raises(InputError, match="found no values, expected at least one residual"):
        summarise([])


@given(both=tables, cells=st.sampled_from(CELL_SETS))
def test_means_of_sums_are_those_of_the_summary(both, cells):
    """Whole numbers add up exactly in any order: the same bits."""
    pairs = pair_counts(*both, cells=cells)
    if not pairs.n:
        return
    sums = sums_by(pairs, np.zeros_like(pairs.place), keys=1)
    (row,) = pl.DataFrame(sums).select(**mean_errors()).iter_rows(named=True)
    found, size = pairs.summary(), beside_size(pairs)
    assert sums["counts"].tolist() == [found.n]
    assert row["error"] == found.mean_absolute
    assert row["bias"] == found.bias
    assert row["rmse"] == found.rmse
    assert row["mean_count"] == size["mean_count"]
    assert row["percent"] == size["percent_of_mean"]
    assert (sums["lost"][0], sums["negative"][0]) == (size["lost"], size["negative"])


@given(both=tables)
def test_sums_by_class_add_up_to_those_of_all(both):
    pairs = pair_counts(*both)
    whole = sums_by(pairs, np.zeros_like(pairs.place), keys=1)
    parts = sums_by(pairs, (pairs.truth > 1).astype(np.int64), keys=2)
    assert {name: part.sum() for name, part in parts.items()} == {
        name: one[0] for name, one in whole.items()
    }
    assert parts["counts"][1] == (both[0] > 1).sum()
