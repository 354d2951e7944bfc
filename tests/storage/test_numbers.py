"""Numbers in files are those that were written, whichever rows are asked for."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headcount.storage import storage_at
from headcount.storage.numbers import store_numbers

NUMBERS = st.sampled_from([9, 300, 70_000, 2**33, 2**53]).flatmap(
    lambda most: arrays.arrays(
        np.int64,
        st.one_of(st.tuples(st.integers(0, 20)), st.tuples(st.integers(0, 20), st.integers(1, 3))),
        elements=st.one_of(st.integers(0, most), st.integers(-most, most)),
    )
)


@given(NUMBERS, st.data())
def test_any_rows_are_the_rows_of_the_array(numbers, data):
    rows = len(numbers)
    first = data.draw(st.integers(0, rows))
    last = data.draw(st.integers(first, rows))
    some = data.draw(st.lists(st.integers(0, rows - 1), max_size=9) if rows else st.just([]))
    least, most = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    with TemporaryDirectory() as folder:
        pieces = [numbers[:first], numbers[first:]]
        stored = store_numbers(storage_at(folder), "a/b", pieces, least=least, most=most)
        assert stored.shape == numbers.shape
        assert np.array_equal(np.asarray(stored), numbers)
        assert np.array_equal(stored[first:last], numbers[first:last])
        chosen = np.array(some, dtype=np.int64)
        assert np.array_equal(stored[chosen], numbers[chosen])
        assert stored[chosen].dtype == np.int64


@pytest.mark.parametrize(
    ("least", "most", "width"),
    [(0, 255, 1), (0, 256, 2), (0, 65_536, 4), (0, 2**32, 8), (-1, 5, 8)],
)
def test_numbers_take_as_few_bytes_as_the_largest_needs(least, most, width, tmp_path: Path):
    numbers = np.array([[most, max(least, 0)], [least, 3]])
    stored = store_numbers(storage_at(tmp_path), "table", [numbers], least=least, most=most)
    assert (tmp_path / "table").stat().st_size == 4 * width
    assert stored[:].tolist() == numbers.tolist()
