"""Workload S follows its recipe, in law."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.population.population import Households
from headcount_papers.workload_s import RACES, SIZES, workload_s


@pytest.fixture(scope="module")
def state() -> Households:
    return workload_s()


def test_shape(state: Households) -> None:
    sizes = [state.geography.size(level) for level in state.geography.levels]
    assert sizes == [1, 20, 2_000, 6_000, 36_000]
    assert len(state.block) == 1_000_000
    assert state.is_household.all()
    assert int(state.first[-1]) == pytest.approx(2_491_642, rel=0.002)
    assert (state.geography.units[4].astype("U6") == np.repeat(state.geography.units[3], 6)).all()


def test_marginals(state: Households) -> None:
    share = np.bincount(state.size, minlength=8)[1:] / len(state.size)
    assert share == pytest.approx(SIZES, abs=0.002)
    race = np.bincount(state.persons["race"]) / state.first[-1]
    assert race == pytest.approx(RACES, abs=0.005)
    assert np.mean(state.persons["sex"]) == pytest.approx(0.5, abs=0.002)
    assert np.mean(state.dwellings["tenure"] == 0) == pytest.approx(0.65, abs=0.002)
    # Rate r ~ beta(0.5, 2.5) has mean 1/6; a member flips with probability 0.06.
    member = np.ones(len(state.dwelling), dtype=bool)
    member[state.first[:-1]] = False
    hispanic = state.persons["hispanic"]
    assert hispanic[~member].mean() == pytest.approx(1 / 6, abs=0.005)
    assert hispanic[member].mean() == pytest.approx(1 / 6 * 0.94 + 5 / 6 * 0.06, abs=0.005)
    age = state.persons["age"]
    assert (age[~member].min(), age[~member].max()) == (18, 89)
    assert (age[member].min(), age[member].max()) == (0, 84)


def test_small_cells_are_as_many_as_in_the_file_others_were_timed_on(state: Households) -> None:
    """Block x race x Hispanic cells of 1 and 2 people: 33,975 and 19,213 there.

    The rule for members of another race shows here: drawn from the block's own mix there would be
    25,000 cells of one, drawn uniformly 60,000.
    """
    _, cell = state.cells(["race", "hispanic"])
    counts = np.bincount(state.block[state.dwelling].astype(np.int64) * 14 + cell)
    assert np.sum(counts == 1) == pytest.approx(33_975, rel=0.03)
    assert np.sum(counts == 2) == pytest.approx(19_213, rel=0.03)


def test_one_seed_one_state() -> None:
    one, again = workload_s(households=500), workload_s(households=500)
    other = workload_s(seed=1, households=500)
    assert all(np.array_equal(one.persons[name], again.persons[name]) for name in one.persons)
    assert not np.array_equal(one.block, other.block)


def test_refused() -> None:
    with pytest.raises(InputError, match="workload S: households: found 0, expected from 1 to"):
        workload_s(households=0)
