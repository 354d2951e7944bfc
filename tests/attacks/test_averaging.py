"""Averaging over partitions, on counts that the cell key method itself has changed."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from headcount.attacks.averaging import (
    average,
    partitions_needed,
    share_recovered,
    spread,
)
from headcount.attacks.margin_gaps import gap_law
from headcount.errors import InputError
from headcount.mechanisms.cell_key.lookup import ByInterval
from headcount.mechanisms.cell_key.perturbation import PerturbationLimits, perturbation_rows

COUNTS = 2000


def published_sums(variance, largest, partitions, *, seed=3):
    """True counts, and for each partition the sum of two parts that were changed each by itself."""
    rng = np.random.default_rng(seed)
    lookup = ByInterval(perturbation_rows(PerturbationLimits(largest, Fraction(variance))))
    true = rng.integers(60, 200, COUNTS)
    first = rng.integers(20, true[:, None] - 20, (COUNTS, partitions))
    sums = np.zeros((COUNTS, partitions), dtype=np.int64)
    for part in (first, true[:, None] - first):
        keys = rng.integers(0, 2**64, part.size, dtype=np.uint64)
        sums += part + lookup.changes(part.ravel(), keys).reshape(part.shape)
    return true, sums


@pytest.mark.parametrize(("variance", "largest"), [(1, 3), (3, 5)])
@pytest.mark.parametrize("partitions", [4, 16, 64])
def test_the_share_recovered_is_that_of_theory(variance, largest, partitions):
    true, sums = published_sums(variance, largest, partitions)
    found = average(sums, np.full(partitions, 2))
    share = float((found.count == true).mean())
    theory = share_recovered(variance, partitions / 2)
    assert share == pytest.approx(theory, abs=4 * sqrt(theory * (1 - theory) / COUNTS) + 0.01)
    assert spread(sums, np.full(partitions, 2)) == pytest.approx(variance, rel=0.06)


@pytest.mark.parametrize(("variance", "largest"), [(1, 3), (3, 5)])
@pytest.mark.parametrize("partitions", [4, 16])
def test_the_share_recovered_is_that_of_adding_up_the_law(variance, largest, partitions):
    """Exactly, whole noise and halves that go up: -m/2 <= sum of 2 m changes < m/2."""
    true, sums = published_sums(variance, largest, partitions)
    last = perturbation_rows(PerturbationLimits(largest, Fraction(variance)))[-1]
    law = {v: float(p) for v, p in last.probabilities.items()}
    added = gap_law(law, 2 * partitions)
    exact = sum(p for e, p in added.items() if -partitions <= 2 * e < partitions)
    share = float((average(sums, np.full(partitions, 2)).count == true).mean())
    assert share == pytest.approx(exact, abs=4 * sqrt(exact * (1 - exact) / COUNTS))


def test_nineteen_of_twenty_are_found_once_there_are_enough_partitions():
    assert partitions_needed(1) == 31
    assert partitions_needed(3) == 93
    for variance in (Fraction(1, 2), 1, 3):
        enough = partitions_needed(float(variance))
        assert share_recovered(float(variance), enough / 2) >= 0.95
        assert share_recovered(float(variance), (enough - 1) / 2) <= 0.9501
        assert average(np.zeros((1, enough)), np.full(enough, 2)).sure(float(variance)).all()
        assert not average(np.zeros((1, enough - 1)), np.full(enough - 1, 2)).sure(float(variance))[
            0
        ]


def test_a_partition_of_more_parts_counts_for_less():
    found = average([[10, 16]], [1, 2])
    assert found.mean.tolist() == [pytest.approx(12)]
    assert found.weight.tolist() == [1.5]
    assert found.count.tolist() == [12]


def test_the_weights_are_those_of_least_variance():
    rng = np.random.default_rng(1)
    parts = np.array([1, 2, 5])
    sums = 50 + rng.normal(0, np.sqrt(2 * parts), (20_000, 3))
    best = average(sums, parts)
    assert best.mean.var() == pytest.approx(2 / best.weight[0], rel=0.05)
    for other in ([1, 1, 1], [1, 0, 0], [1, 1, 0]):
        assert best.mean.var() < (sums @ other / sum(other)).var()


def test_a_mean_below_0_is_a_count_of_0():
    assert average([[-1, -2]], [2, 2]).count.tolist() == [0]


@pytest.mark.parametrize(
    ("sums", "parts"), [([1, 2], [1, 1]), ([[1, 2]], [1]), ([[1, 2]], [1, 0]), ([[]], [])]
)
def test_partitions_that_do_not_fit_are_an_error(sums, parts):
    with pytest.raises(InputError, match=r"partitions: found sums of shape .* expected counts x"):
        average(sums, parts)


def test_one_partition_has_no_spread():
    with pytest.raises(InputError, match="found one, expected two or more, to see a spread"):
        spread([[3]], [2])
