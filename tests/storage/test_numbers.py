"""Numbers in files are those that were written, whichever rows are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headcount import storage
from headcount.errors import RunError
from headcount.storage import storage_at, store_numbers

NUMBERS = st.sampled_from([9, 300, 70_000, 2**33, 2**53]).flatmap(
    lambda most: arrays.arrays(
        np.int64,
        st.one_of(st.tuples(st.integers(0, 20)), st.tuples(st.integers(0, 20), st.integers(1, 3))),
        elements=st.one_of(st.integers(0, most), st.integers(-most, most)),
    )
)


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    """Blocks of so few bytes that rows are in several, and several rows in one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "BLOCK", 12)
        yield


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


@pytest.mark.parametrize("byte", [0, 11, 12, 20, 23, 24, 39])
def test_a_wrong_bit_is_found_by_whoever_reads_rows_of_its_block(byte: int, tmp_path: Path):
    written = np.arange(0, 1000, 50)  # of two bytes each
    stored = store_numbers(storage_at(tmp_path), "a", [written[:7], written[7:]], least=0, most=999)
    assert (len(stored.digests), stored.kind) == (4 * 32, "<u2")
    assert "digest" not in repr(stored)
    damage = bytearray((tmp_path / "a").read_bytes())
    damage[byte] ^= 1
    (tmp_path / "a").write_bytes(damage)
    block = byte // 12 * 6
    for row in range(20):
        if block <= row < block + 6:
            with pytest.raises(RunError, match=r"/a: found other numbers than were written, in ro"):
                stored[row : row + 1]
        else:
            assert stored[row : row + 1].tolist() == [50 * row]
    with pytest.raises(RunError, match="expected the run's own: run the same command again"):
        stored[np.array([19, 0])]


def test_numbers_of_another_run_and_files_that_end_early_are_refused(tmp_path: Path):
    first, second = (storage_at(tmp_path / name) for name in ("first", "second"))
    stored = store_numbers(first, "a", [np.arange(40)], least=0, most=40)
    store_numbers(second, "a", [np.arange(1, 41)], least=0, most=40)
    (tmp_path / "second/a").replace(tmp_path / "first/a")
    with pytest.raises(RunError, match="first/a: found other numbers than were written"):
        stored[:]
    (tmp_path / "first/a").write_bytes(bytes(range(30)))
    with pytest.raises(RunError, match="found a file that ends early, expected rows 30 to 31"):
        stored[30:31]
    assert stored[3:9].tolist() == list(range(3, 9))
    assert stored[5:5].tolist() == []
