"""Theorems 1 and 2 and the variances of Christ, Radway & Bellovin (2022), by simulation."""

import itertools
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
import pytest

from headcount.errors import InputError
from headcount_papers.christ_2022.swapping_theory import (
    share_change,
    summed_variance,
    unique_bounds,
)
from headcount_papers.person_swapping.persons import Pool, swap_area
from headcount_papers.person_swapping.similar import PartnerRule
from tests.papers.exchanged import exchange

AREA: dict[str, Any] = {"people": 60, "in_category": 18, "outside": 400, "outside_in_category": 40}


def mean_of(draw, runs):
    values = np.array([draw() for _ in range(runs)])
    return values.mean(), values.std(ddof=1) / runs**0.5


@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(1)])
def test_theorem_1_on_the_swapper_itself(rate):
    rng = np.random.default_rng(1)
    area = {"asian": (np.arange(60) < 18).astype(int)}
    others = {"asian": (np.arange(400) < 40).astype(int)}
    pool = Pool.of(others, PartnerRule(kind="random"))

    def change():
        swap = swap_area(area, pool, rate=rate, rng=rng, uniques_first=False)
        return (exchange(area, others, swap)[0]["asian"].sum() - 18) / 60

    changes = np.array([change() for _ in range(1500)])
    expected = share_change(**AREA, rate=rate)
    error = changes.std() / 1500**0.5
    assert expected.expected == pytest.approx(rate * (40 / 400 - 18 / 60))
    assert changes.mean() == pytest.approx(expected.expected, abs=4 * error)
    assert np.abs(changes).mean() == pytest.approx(expected.expected_absolute, abs=4 * error)
    assert expected.expected_absolute >= expected.lower_bound == abs(expected.expected)


def test_theorem_1_does_not_hold_at_another_rate_or_with_uniques_first():
    """The controls: what the test above must be able to reject."""
    rng = np.random.default_rng(1)
    inside = np.arange(60) < 18
    area = {"asian": inside.astype(int), "job": np.where(inside, np.arange(60), 99)}
    others = {"asian": (np.arange(400) < 40).astype(int), "job": np.zeros(400, dtype=int)}
    pool = Pool.of(others, PartnerRule(kind="random"))

    def change(uniques_first):
        swap = swap_area(area, pool, rate="1/2", rng=rng, uniques_first=uniques_first)
        return (exchange(area, others, swap)[0]["asian"].sum() - 18) / 60

    mean, error = mean_of(lambda: change(False), 1500)
    assert mean == pytest.approx(share_change(**AREA, rate=0.5).expected, abs=4 * error)
    assert abs(mean - share_change(**AREA, rate=0.4).expected) > 4 * error
    mean, error = mean_of(lambda: change(True), 1500)
    assert mean < share_change(**AREA, rate=0.5).expected - 4 * error


@pytest.mark.parametrize("rate", [0.1, 0.5, 1])
def test_theorem_1_in_the_model_of_the_paper(rate):
    rng = np.random.default_rng(2)
    inside = np.arange(60) < 18
    replaced = rng.random((20_000, 60)) < rate
    drawn = rng.random((20_000, 60)) < 0.1
    changes = (np.where(replaced, drawn, inside).sum(axis=1) - 18) / 60
    expected = share_change(**AREA, rate=rate, model="independent")
    error = changes.std() / 20_000**0.5
    assert changes.mean() == pytest.approx(expected.expected, abs=4 * error)
    assert np.abs(changes).mean() == pytest.approx(expected.expected_absolute, abs=4 * error)


def test_the_published_error_is_too_small_where_shares_are_alike():
    """With alpha = beta the paper's expected error is 0, and people are swapped all the same."""
    alike = {"people": 60, "in_category": 6, "outside": 400, "outside_in_category": 40}
    for model in ("independent", "exact count"):
        found = share_change(**alike, rate=0.5, model=model)
        assert found.lower_bound == 0
        assert found.expected_absolute > 0.02


def test_the_law_of_the_change_by_hand():
    # One of two people leaves; one of two outside comes. Each is in the category or not, evenly.
    found = share_change(people=2, in_category=1, outside=2, outside_in_category=1, rate=0.5)
    assert found.expected == 0
    assert found.expected_absolute == pytest.approx(0.25)


def at_least_unique(p, rows, unique, runs=40_000, seed=3):
    """Share of random tables in which at least so many rows are unique."""
    drawn = np.random.default_rng(seed).choice(len(p), size=(runs, rows), p=p)
    counts = np.stack([(drawn == value).sum(axis=1) for value in range(len(p))], axis=1)
    return float(((counts == 1).sum(axis=1) >= unique).mean())


@pytest.mark.parametrize("rows", [5, 12, 30])
@pytest.mark.parametrize("unique", [1, 2, 3])
def test_theorem_2_bounds_the_chance_of_uniques(rows, unique):
    p = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    bounds = unique_bounds(p, rows=rows, unique=unique)
    chance = at_least_unique(p, rows, unique)
    error = 4 * (chance * (1 - chance) / 40_000) ** 0.5 + 1e-4
    assert bounds.lower <= chance + error
    assert chance <= bounds.union + error
    assert bounds.union <= bounds.published
    drawn = np.random.default_rng(4).choice(5, size=(40_000, rows), p=p)
    counts = np.stack([(drawn == value).sum(axis=1) for value in range(5)], axis=1)
    first = np.all([counts[np.arange(40_000), drawn[:, i]] == 1 for i in range(unique)], axis=0)
    assert bounds.lower == pytest.approx(
        first.mean(), abs=4 * (bounds.lower / 40_000) ** 0.5 + 1e-4
    )


def test_theorem_2_rejects_tables_of_another_size():
    p = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    assert at_least_unique(p, 5, 1) > unique_bounds(p, rows=30, unique=1).union + 0.02
    assert at_least_unique(p, 60, 1) < unique_bounds(p, rows=5, unique=1).lower - 0.02


def test_uniques_grow_rare_exponentially():
    p = np.full(20, 1 / 20)
    chances = [unique_bounds(p, rows=n, unique=2).published for n in (200, 300, 400, 500)]
    ratios = [b / a for a, b in itertools.pairwise(chances)]
    assert max(ratios) < 1e-3


@pytest.mark.parametrize(
    ("cells", "published"),
    [
        (1, 0.038),
        (8, 0.304),
        (10, 0.380),
        (24, 0.912),
        (50, 1.901),
        (100, 3.801),
        (180, 6.841),
        (1000, 38.011),
    ],
)
def test_the_variances_of_appendix_a3(cells, published):
    assert summed_variance(cells, Fraction(4)) == pytest.approx(published, abs=0.001)


def test_the_variance_of_fifteen_attributes():
    cells = 411_505_920 * 6
    e = exp(2)
    assert cells == 2_469_035_520
    assert summed_variance(cells, Fraction(2)) == pytest.approx(2 * cells * e / (1 - e) ** 2)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="more people in the category than there are people"):
        share_change(people=2, in_category=3, outside=2, outside_in_category=1, rate=0.5)
    with pytest.raises(InputError, match="found rate 2, 2 people outside the area, expected"):
        share_change(people=2, in_category=1, outside=2, outside_in_category=1, rate=2)
    with pytest.raises(InputError, match="found 2 people outside the area, expected at least 3"):
        share_change(people=3, in_category=1, outside=2, outside_in_category=1, rate=1)
    with pytest.raises(InputError, match="expected a sum of 1"):
        unique_bounds([0.5, 0.4], rows=3, unique=1)
    with pytest.raises(InputError, match="unique: found 4, expected 1 to 3"):
        unique_bounds([0.5, 0.5], rows=3, unique=4)
    with pytest.raises(InputError, match="sets of 9 tuples, expected at most"):
        unique_bounds(np.full(100, 0.01), rows=30, unique=9)
    with pytest.raises(InputError, match="cells: found -1"):
        summed_variance(-1, Fraction(1))
