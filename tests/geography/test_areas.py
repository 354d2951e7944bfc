"""Off-spine areas: adding up, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.geography import Areas


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 100)), max_size=20))
def test_adding_up_leaves_out_those_in_none(leaves: list[tuple[int, int]]) -> None:
    of_leaf = np.array([area for area, _ in leaves], dtype=np.int32)
    areas = Areas("place", np.array(["a", "b", "c", "d"]), of_leaf)
    found = areas.add_up(np.array([value for _, value in leaves], dtype=np.int64))
    assert found.tolist() == [sum(v for a, v in leaves if a == area) for area in range(4)]
    assert repr(areas) == "<Areas 'place': 4>"


def test_a_code_twice_is_refused() -> None:
    with pytest.raises(InputError, match="areas 'place': found a code twice, expected each code"):
        Areas("place", np.array(["a", "a"]), np.array([0], dtype=np.int32))


@pytest.mark.parametrize("area", [-2, 1])
def test_a_number_outside_is_refused(area: int) -> None:
    with pytest.raises(InputError, match="of_leaf: found a number out of range, expected -1 to 0"):
        Areas("place", np.array(["a"]), np.array([area], dtype=np.int32))
