"""Living quarters beside the people."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.population.population import Quarters
from tests.topdown.small import tree

PLACES = tree(("block", [2]))


@pytest.mark.parametrize(("homes", "kind"), [(3, np.int32), (2**30, np.int64), (2**31, np.int64)])
def test_occupied_and_vacant_homes_fit_together_in_what_they_are_held_in(
    homes: int, kind: type
) -> None:
    occupied, vacant = np.array([[homes, 1], [0, 2]]), np.array([homes, 1])
    for one, other in (
        (occupied, vacant),
        (occupied, vacant // homes),
        (occupied // homes, vacant),
    ):
        held = Quarters(PLACES, "type", one, other)
        assert held.occupied.dtype == held.vacant.dtype == kind
        stand = held.occupied.copy()
        stand[:, 0] += held.vacant
        assert (stand[:, 0] == one[:, 0] + other).all()
