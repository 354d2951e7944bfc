"""Averaging over partitions, on counts that the cell key method itself has changed."""

from fractions import Fraction
from math import floor, sqrt

import numpy as np
import pytest

from headcount.mechanisms.cell_key.lookup import ByInterval
from headcount.mechanisms.cell_key.perturbation import PerturbationLimits, perturbation_rows
from headcount.release.changed import ChangeTable
from headcount.tabulate.additive import from_relations
from headcount_papers.averaging.attack import (
    _average_cells,
    _Averages,
    _CellValues,
    _likeliest,
    share_recovered,
)
from tests.papers.gap_laws import gap_law

COUNTS = 2000


def averaged(partitions):
    """The means of counts over their partitions, each of which is (counts x parts)."""
    counts = len(partitions[0])
    widths = [parts.shape[1] for parts in partitions]
    total = partitions[0].sum(axis=1)
    value = np.concatenate([np.maximum(total, 1), *(parts.ravel() for parts in partitions)])
    start, relations = counts, []
    for width in widths:
        cells = start + np.arange(counts * width).reshape(counts, width)
        relations += [(total, own) for total, own in enumerate(cells.tolist())]
        start += counts * width
    draws = _CellValues(values=(value,), exact=np.zeros(len(value), dtype=bool))
    found = _average_cells(from_relations(len(value), relations), draws)
    assert found.cell.tolist() == list(range(counts))
    return found.sums


def published_parts(variance, largest, partitions, *, seed=3):
    """True counts, and for each partition two parts that were changed each by itself."""
    rng = np.random.default_rng(seed)
    lookup = ByInterval(perturbation_rows(PerturbationLimits(largest, Fraction(variance))))
    true = rng.integers(60, 200, COUNTS)
    first = rng.integers(20, true[:, None] - 20, (COUNTS, partitions))
    both = []
    for part in (first, true[:, None] - first):
        keys = rng.integers(0, 2**64, part.size, dtype=np.uint64)
        both.append(part + lookup.changes(part.ravel(), keys).reshape(part.shape))
    return true, list(np.stack(both, axis=2).transpose(1, 0, 2))


@pytest.mark.parametrize(("variance", "largest"), [(1, 3), (3, 5)])
@pytest.mark.parametrize("partitions", [4, 16, 64])
def test_the_share_recovered_is_that_of_theory(variance, largest, partitions):
    true, parts = published_parts(variance, largest, partitions)
    found = averaged(parts)
    share = float((found.count == true).mean())
    theory = share_recovered(variance, partitions / 2)
    assert share == pytest.approx(theory, abs=4 * sqrt(theory * (1 - theory) / COUNTS) + 0.01)
    assert (found.weight == partitions / 2).all()


@pytest.mark.parametrize(("variance", "largest"), [(1, 3), (3, 5)])
@pytest.mark.parametrize("partitions", [4, 16])
def test_the_share_recovered_is_that_of_adding_up_the_law(variance, largest, partitions):
    """Exactly, whole noise and halves that go up: -m/2 <= sum of 2 m changes < m/2."""
    true, parts = published_parts(variance, largest, partitions)
    last = perturbation_rows(PerturbationLimits(largest, Fraction(variance)))[-1]
    law = {v: float(p) for v, p in last.probabilities.items()}
    added = gap_law(law, 2 * partitions)
    exact = sum(p for e, p in added.items() if -partitions <= 2 * e < partitions)
    share = float((averaged(parts).count == true).mean())
    assert share == pytest.approx(exact, abs=4 * sqrt(exact * (1 - exact) / COUNTS))


def test_another_variance_or_the_same_noise_again_is_not_that_of_theory():
    """Controls: the test above would see a variance that is twice as large, and used noise."""
    true, parts = published_parts(1, 3, 16)
    share = float((averaged(parts).count == true).mean())
    other = share_recovered(2, 8)
    assert abs(share - other) > 10 * sqrt(other * (1 - other) / COUNTS)
    theory = share_recovered(1, 8)
    used = float((averaged(parts[:1] * 16).count == true).mean())
    assert abs(used - theory) > 10 * sqrt(theory * (1 - theory) / COUNTS)
    assert used == pytest.approx(share_recovered(1, 1 / 2), abs=0.05)


def listed(true, values, parts, table, variance):
    """By trying every count: the one whose published values and sums are likeliest together."""
    best, found = -np.inf, -1
    for n in range(true + 20):
        if n < max(sum(p > 0 for p in some) for some in parts):
            continue
        chances = [float(table.of_change(np.array([n]), np.array([v]))[0]) for v in values]
        if min(chances) == 0:
            continue
        score = sum(np.log(p) for p in chances)
        score -= sum((sum(some) - n) ** 2 / (2 * len(some) * variance) for some in parts)
        if score > best:
            best, found = score, n
    return found


def test_the_likeliest_count_is_that_of_trying_every_count():
    rng = np.random.default_rng(2)
    rows = perturbation_rows(PerturbationLimits(3, Fraction(2), blocked=1))
    lookup = ByInterval(rows)
    table = ChangeTable.of([{v: float(p) for v, p in row.probabilities.items()} for row in rows])
    sure = 0
    for _ in range(200):
        cells = rng.integers(0, 4, 5)  # by one attribute two parts, by another one three
        whole = np.append(cells[:2], 0)
        true = int(whole.sum())
        split = rng.multinomial(true, [1 / 3] * 3)
        counts = np.concatenate([whole[:2], split, [true]])
        keys = rng.integers(0, 2**64, 6, dtype=np.uint64)
        shown = counts + lookup.changes(counts, keys)
        additive = from_relations(6, [(5, [0, 1]), (5, [2, 3, 4])])
        draws = _CellValues(values=(shown,), exact=np.zeros(6, dtype=bool))
        averaged = _average_cells(additive, draws)
        if not len(averaged.cell):
            assert not shown.any()
            continue
        found, possible = _likeliest(averaged, draws, table, 2.0)
        parts = (shown[:2].tolist(), shown[2:5].tolist())
        expected = listed(true, [shown[5]], parts, table, 2.0)
        assert found.tolist() == [expected] if possible[0] else expected == -1
        sure += int(possible[0] and found[0] == true)
    assert sure > 50


def test_a_cell_with_several_values_counts_for_each_of_them():
    additive = from_relations(3, [(2, [0, 1])])
    draws = _CellValues(
        values=(np.array([4, 6, 12]), np.array([-1, 9, 9]), np.array([-1, -1, 9])),
        exact=np.zeros(3, dtype=bool),
    )
    found = _average_cells(additive, draws)
    assert found.cell.tolist() == [2]
    # Three values of the total, mean 10; a sum of 4 + 7.5 with noise of 1 + 1/2.
    assert found.averages.weight.tolist() == [pytest.approx(3 + 1 / 1.5)]
    assert found.averages.mean.tolist() == [pytest.approx((30 + 11.5 / 1.5) / (3 + 1 / 1.5))]
    table = ChangeTable.of([{0: 1.0}, {-1: 2 / 3, 2: 1 / 3}, {-2: 1 / 3, 1: 2 / 3}], cycle=3)
    best, possible = _likeliest(found, draws, table, 4 / 3)
    assert possible.tolist() == [True]
    assert best.tolist() == [10]  # 12 and 9 leave 10 and 11, and of three draws two went down


def test_exact_parts_have_no_noise_and_exact_totals_are_left_alone():
    additive = from_relations(3, [(2, [0, 1])])
    values = (np.array([4, 6, 12]),)
    parts = _average_cells(
        additive, _CellValues(values=values, exact=np.array([True, True, False]))
    )
    assert parts.averages.count.tolist() == [10]
    total = _average_cells(
        additive, _CellValues(values=values, exact=np.array([False, False, True]))
    )
    assert total.cell.tolist() == []


def test_nineteen_of_twenty_are_found_once_there_are_enough_partitions():
    """The smallest m with 1.96 sqrt(2 V / m) < 1/2."""
    for variance, enough in ((0.5, 16), (1, 31), (3, 93)):
        assert enough == floor(8 * 1.96**2 * variance) + 1
        assert share_recovered(variance, enough / 2) >= 0.95
        assert share_recovered(variance, (enough - 1) / 2) <= 0.9501


def test_a_partition_of_more_parts_counts_for_less():
    found = averaged([np.array([[10]]), np.array([[9, 7]])])
    assert found.mean.tolist() == [pytest.approx(12)]
    assert found.weight.tolist() == [1.5]
    assert found.count.tolist() == [12]


def test_the_weights_are_those_of_least_variance():
    rng = np.random.default_rng(1)
    widths = (1, 2, 5)
    parts = [100 // k + rng.integers(-2, 3, (20_000, k)) for k in widths]  # of variance 2 each
    sums = np.stack([some.sum(axis=1) for some in parts], axis=1)
    best = averaged(parts)
    assert best.mean.var() == pytest.approx(2 / best.weight[0], rel=0.05)
    for other in ([1, 1, 1], [1, 0, 0], [1, 1, 0]):
        assert best.mean.var() < (sums @ other / sum(other)).var()


def test_a_mean_below_0_is_a_count_of_0():
    assert _Averages(mean=np.array([-1.5]), weight=np.ones(1)).count.tolist() == [0]
