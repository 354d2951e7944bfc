"""From keys to changes: laws of a million cells, the same people alike, and the peers' outputs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from headcount.errors import ConfigError, InputError
from headcount.mechanisms.cell_key.columns import column_row, column_table
from headcount.mechanisms.cell_key.lookup import ByColumn, ByInterval
from headcount.mechanisms.cell_key.perturbation import (
    STAYS,
    WORD,
    ChangeLaw,
    PerturbationLimits,
    perturbation_rows,
    whole_weights,
)
from headcount.mechanisms.cell_key.zeros import category_keys, raise_zeros, wanted_zeros
from headcount.mechanisms.rounding.cells import withheld
from tests.mechanisms.cell_key.words import stream_words, uniform

HERE = Path(__file__).parent
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


# -- the package cell-key-perturbation 3.1.0 of the ONS (MIT); files and digests are its outputs --


def rows_of(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(rows: Sequence[dict[str, str]], name: str):
    return np.array([int(row[name]) for row in rows])


def ten_five() -> ByColumn:
    """The rule "below ten nothing, else the nearest five" as a table for 256 keys."""
    pcv = np.arange(1, 751)
    to_five = (pcv + 2) // 5 * 5 - pcv
    return ByColumn(np.repeat(np.where(pcv < 10, -pcv, to_five)[:, None], 256, axis=1))


def test_the_package_s_own_test_data_come_out_cell_by_cell():
    records, cells = rows_of("peer_records.csv"), rows_of("peer_cells.csv")
    record_keys = numbers(records, "record_key").astype(np.uint64) << np.uint64(56)
    counts, words = tabulated(numbers(records, "cell"), record_keys, len(cells))
    assert np.array_equal(counts, numbers(cells, "pre_sdc_count"))
    full = counts > 0
    assert np.array_equal((words >> np.uint64(56))[full], numbers(cells, "ckey")[full])
    changes = ten_five().changes(counts, words)
    assert np.array_equal(changes, numbers(cells, "pvalue"))
    gone = withheld(counts + changes, below=10)
    assert gone.tolist() == [row["count"] == "" for row in cells]
    shown = [str(n) for n in (counts + changes)[~gone].tolist()]
    assert shown == [row["count"] for row in cells if row["count"]]
    assert len(cells) == 200


DIGESTS = {
    "pre_sdc_count": "5ac45f36e1d02fde929ba7f22ca63451dc2069a41e923be9e890c1bb4376514d",
    "ckey": "997c2743b9201d609fe3a1f3018450a6704cb0dd996727b9cfdd794231958ab7",
    "pvalue": "e1ca4ef701b4a73bf4839597c33a15ff49066fe5970cf892491709198c20a415",
    "count": "46c91d0bb44bcfb24792efffc20e8b1719152752da24352f690f1cdd3ae03cb2",
}
"""Of the package's columns for the cells below, as little-endian int64, -1 if withheld."""


def digest(values) -> str:
    return sha256(np.asarray(values).astype("<i8").tobytes()).hexdigest()


def raw(seed: int, many: int):
    """Words of a generator whose stream no version of numpy changes."""
    return np.random.PCG64(seed).random_raw(many)


def test_ten_thousand_random_cells_come_out_as_from_the_package():
    """305,267 records in 10,000 cells of 1 to 1,600 people, with a table of random changes."""
    cells = 10_000
    kind, size = raw(1, cells) % 100, raw(2, cells)
    counts = np.where(kind < 98, size % 30, size % 1600).astype(np.int64) + 1
    assert (counts > 750).sum() == 99  # these use the rows 501 to 750 in turn
    cell = np.repeat(np.arange(cells), counts)
    keys = (raw(3, len(cell)) % 256).astype(np.uint64) << np.uint64(56)
    pcv = np.repeat(np.arange(1, 751), 256)
    table = np.maximum((raw(4, 750 * 256) % 7).astype(np.int64) - 3, -pcv).reshape(750, 256)
    found, words = tabulated(cell, keys, cells)
    changes = ByColumn(table).changes(found, words)
    published = np.where(withheld(found + changes, below=10), -1, found + changes)
    assert {
        "pre_sdc_count": digest(found),
        "ckey": digest(words >> np.uint64(56)),
        "pvalue": digest(changes),
        "count": digest(published),
    } == DIGESTS


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


def test_the_key_of_an_empty_cell_is_the_wrapped_sum_of_its_categories():
    sex, age = uniform(10, 2), uniform(11, 3)
    levels = [np.array([0, 1, 1]), np.array([2, 0, 2])]
    found = category_keys(levels, [sex, age])
    whole = [(int(sex[s]) + int(age[a])) % WORD for s, a in zip(*levels, strict=True)]
    assert found.tolist() == whole
