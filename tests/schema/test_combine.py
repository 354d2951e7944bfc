"""Numbers of combinations against sets of tuples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headcount.schema.schema import combine


@given(st.integers(0, 40), st.lists(st.integers(1, 5), max_size=4), st.integers(0, 99))
def test_rows_have_one_number_if_and_only_if_they_agree(rows, sizes, seed):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, rows, dtype=np.int16) for size in sizes]
    numbers = combine(columns, rows=rows).tolist()
    tuples = [tuple(column[row] for column in columns) for row in range(rows)]
    assert len(set(numbers)) == len(set(tuples)) == len(set(zip(numbers, tuples, strict=True)))


def test_more_combinations_than_64_bits_keep_apart():
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 90, 500) for _ in range(15)]
    columns = [np.concatenate([column, column[:50]]) for column in columns]
    numbers = combine(columns, rows=550)
    assert len(set(numbers.tolist())) == 500
    assert np.array_equal(numbers[500:], numbers[:50])
