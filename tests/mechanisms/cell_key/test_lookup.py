"""From keys to changes: laws of a million cells, the same people alike, zeros."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from headcount.errors import ConfigError, InputError
from headcount.mechanisms.cell_key.lookup import (
    ByColumn,
    ByInterval,
    column_row,
    column_table,
    raise_zeros,
    wanted_zeros,
)
from headcount.mechanisms.cell_key.perturbation import (
    STAYS,
    WORD,
    ChangeLaw,
    PerturbationLimits,
    perturbation_rows,
    whole_weights,
)
from tests.mechanisms.cell_key.words import stream_words, uniform

ROWS = perturbation_rows(PerturbationLimits(3, Fraction(3, 2), 1))


def p_value(changes, row: ChangeLaw) -> float:
    """Chi-square of changes against the law of a row, changes of small weight pooled."""
    expected = {v: float(p) * len(changes) for v, p in row.probabilities.items()}
    rare = [v for v, x in expected.items() if x < 10]
    pairs = [(int((changes == v).sum()), x) for v, x in expected.items() if v not in rare]
    if rare:
        pairs.append((int(np.isin(changes, rare).sum()), sum(expected[v] for v in rare)))
    assert sum(n for n, _ in pairs) == len(changes)
    return float(chi2.sf(sum((n - x) ** 2 / x for n, x in pairs if x), max(len(pairs) - 1, 1)))


def shifted(row: ChangeLaw) -> ChangeLaw:
    """The same law with one in fifty moved from the likeliest change to another."""
    weights = list(row.weights)
    most, other = sorted(range(len(weights)), key=lambda k: -weights[k])[:2]
    weights[most] -= WORD // 50
    weights[other] += WORD // 50
    return ChangeLaw(row.changes, tuple(weights))


def test_a_million_cells_follow_the_law_of_their_rows():
    many = 1_000_000
    counts = np.arange(many) % 8 + 1
    changes = ByInterval(ROWS).changes(counts, uniform(1, many))
    for n in range(1, 9):
        row = ROWS[min(n, len(ROWS) - 1)]
        here = changes[counts == n]
        assert p_value(here, row) > 1e-4
        assert p_value(here, shifted(row)) < 1e-9
        assert abs(here.mean()) < 5 * (float(row.variance) / len(here)) ** 0.5


def test_columns_follow_the_law_of_their_rows_too():
    rows = [STAYS, *(column_row(row, 256) for row in ROWS[1:])]
    lookup = ByColumn(column_table(rows, 256, words=stream_words(9)))
    counts = np.arange(200_000) % 7 + 1
    changes = lookup.changes(counts, uniform(2, len(counts)))
    for n in range(1, 8):
        row = rows[min(n, len(rows) - 1)]
        assert p_value(changes[counts == n], row) > 1e-4
        assert p_value(changes[counts == n], shifted(row)) < 1e-9


def test_an_empty_cell_stays_empty_whatever_its_key():
    keys = uniform(3, 1_000)
    zeros = np.zeros(len(keys), dtype=np.int64)
    assert not ByInterval(ROWS).changes(zeros, keys).any()
    assert not ByColumn(np.ones((2, 256), dtype=np.int64)).changes(zeros, keys).any()


def test_each_key_takes_the_first_change_whose_bound_exceeds_it():
    row = ChangeLaw((-1, 0, 1), (WORD // 4, WORD // 2, WORD // 4))
    edges = [0, WORD // 4 - 1, WORD // 4, 3 * WORD // 4 - 1, 3 * WORD // 4, WORD - 1]
    keys = np.array(edges, dtype=np.uint64)
    found = ByInterval((STAYS, row)).changes(np.full(6, 9), keys)
    assert found.tolist() == [-1, -1, 0, 0, 1, 1]


def test_a_change_without_weight_never_happens_even_at_the_ends():
    row = ChangeLaw((-1, 0, 1), (0, WORD, 0))
    keys = np.array([0, WORD - 1], dtype=np.uint64)
    assert ByInterval((STAYS, row)).changes(np.array([5, 5]), keys).tolist() == [0, 0]


def test_the_example_of_the_handbook():
    """Keys .9 + .3 + .6 leave .8; row 3 of a table with D = 1 raises three people to four."""
    third = whole_weights((-1, 0, 1), [Fraction(3, 10), Fraction(4, 10), Fraction(3, 10)])
    people = np.array([int(Fraction(k, 10) * WORD) for k in (9, 3, 6)], dtype=np.uint64)
    key = people.sum(dtype=np.uint64)
    assert float(key) / WORD == pytest.approx(0.8)
    change = ByInterval((STAYS, third, third, third)).changes(np.array([3]), key.reshape(1))
    assert 3 + change[0] == 4


def tabulated(group, keys, groups: int):
    counts = np.bincount(group, minlength=groups)
    words = np.zeros(groups, dtype=np.uint64)
    np.add.at(words, group, keys)
    return counts, words


def alike(change_of) -> float:
    """How often the same people change alike in two tables that both have a cell of just them."""
    random = np.random.default_rng(4)
    person = random.integers(0, 4_000, 20_000)  # cells of about 5 people
    keys = uniform(5, len(person))
    one = change_of(*tabulated(person, keys, 4_000), table=1)
    order = random.permutation(4_000)  # the same sets of people, in another table
    other = change_of(*tabulated(order[person], keys, 4_000), table=2)
    return float((one == other[order]).mean())


def test_the_same_people_change_alike_in_every_table_and_a_key_of_the_table_is_caught():
    def sound(counts, words, *, table):
        return ByInterval(ROWS).changes(counts, words)

    def broken(counts, words, *, table):
        return ByInterval(ROWS).changes(counts, uniform(100 + table, len(counts)))

    assert alike(sound) == 1
    assert alike(broken) < 0.5


def test_keys_of_disjoint_sets_of_people_are_not_correlated():
    keys = uniform(6, 100_000)
    _, words = tabulated(np.arange(len(keys)) // 5, keys, 20_000)
    numbers = words / WORD
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / len(numbers) ** 0.5
    assert numbers.mean() == pytest.approx(0.5, abs=4 * (1 / 12 / len(numbers)) ** 0.5)
    overlapping = words[:-1] + np.uint64(0)
    assert np.corrcoef(overlapping / WORD, numbers[:-1])[0, 1] > 0.99  # the measure sees sameness


def test_a_short_table_serves_larger_counts_by_its_last_row():
    table = np.array([[0, 0], [1, 1], [2, 2]])
    keys = np.zeros(4, dtype=np.uint64)
    assert ByColumn(table).changes(np.array([1, 3, 4, 900]), keys).tolist() == [0, 2, 2, 2]


def test_a_table_with_keys_that_are_no_power_of_two_is_refused():
    with pytest.raises(ConfigError, match="columns: found 100, expected a power of two"):
        ByColumn(np.zeros((2, 100), dtype=np.int64))


# -- zeros ----------------------------------------------------------------------------------

LOSING = (STAYS, whole_weights((-1, 0, 1), [Fraction(1, 2), Fraction(3, 8), Fraction(1, 8)]), STAYS)
"""Half of all counts of 1 become 0, an eighth 2: three eighths of a person lost for each."""


def test_zeros_with_the_largest_category_keys_are_raised_and_impossible_ones_never():
    counts = np.array([0, 0, 5, 0, 0, 0])
    keys = np.array([9, 7, 10, 8, 12, 1], dtype=np.uint64)
    possible = np.array([True, True, True, True, False, True])
    assert raise_zeros(counts, keys, possible, (1, 2)).tolist() == [1, 2, 0, 2, 0, 0]
    assert not raise_zeros(counts, keys, possible, ()).any()
    with pytest.raises(InputError, match="fewer empty cells than are to be raised"):
        raise_zeros(counts, keys, possible, (3, 2))


def test_zeros_are_raised_until_the_expected_total_stays():
    counts = np.repeat([0, 1, 2, 7], [500, 80, 30, 10])
    wanted = wanted_zeros(counts, LOSING)
    assert wanted == (30, 0)
    keys = uniform(8, len(counts))
    raised = raise_zeros(counts, keys, np.ones(len(counts), dtype=bool), wanted)
    lost = sum(float(LOSING[min(n, 2)].mean) for n in counts.tolist())
    assert raised.sum() + lost == pytest.approx(0)
    assert not raised[counts > 0].any()
    assert wanted_zeros(counts, ROWS) == (0,) * (len(ROWS) - 1)  # rows of mean 0 lose nobody
