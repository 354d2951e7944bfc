"""Rounding of single cells: exact chances, their law, and what may be behind a published count."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from headcount.arrays import Ends, Ints
from headcount.errors import ConfigError, InputError
from headcount.mechanisms.rounding.cells import (
    CellRule,
    How,
    change_table,
    off_by,
    parts,
    round_cells,
    small_areas,
    up_by_chance,
    withheld,
)
from headcount.noise import KeyedNoise, RunKey, Stream
from headcount.noise.source import SEED_DRAWS, Words, cipher_words

WORD = 1 << 64


def possible_counts(published: Ints, *, base: int, how: How, small_only: bool = False) -> Ends:
    """The smallest and the largest count that may be behind each published one.

        random, fixed   a = 0: [0, b - 1], else [a - b + 1, a + b - 1]
        nearest         [a - floor(b/2), a + ceil(b/2) - 1], 0 at least
        midpoint        a = 0: [0, 0], else [a + floor(b/2) - b + 1, a + floor(b/2)]

    With ``small_only`` a count above b is as it was, and one of b was b at most.
    """
    half = base // 2
    if how == How.NEAREST:
        low, high = published - half, published + (base - half) - 1
    elif how == How.MIDPOINT:
        high = np.where(published > 0, published + half, 0)
        low = np.where(published > 0, high - base + 1, 0)
    else:
        low, high = np.maximum(published - (base - 1), 0), published + base - 1
    if small_only:
        low = np.where(published > base, published, low)
        high = np.where(published >= base, published, high)
    return np.maximum(low, 0), high


def stream_words(seed: int = 1) -> Words:
    noise = KeyedNoise(RunKey.from_seed(seed), "rounding", b"", b"")
    return cipher_words(noise, Stream("leaf", "rounding", SEED_DRAWS), 0)


class Given(Words):
    """Words that a test has chosen, each with what extends it."""

    def __init__(self, words: list[int], more: list[int]) -> None:
        self.given, self.more = words, more

    def run(self, start: int, count: int):
        yield np.array(self.given[start : start + count], dtype=np.uint64)

    def extension(self, word: int) -> Iterator[int]:
        return chain(self.more, repeat(0))


def as_words(numbers: list[int]):
    return np.array(numbers, dtype=np.uint64)


@given(
    count=st.integers(0, 10**12),
    base=st.integers(2, 1000),
    weight=st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=10**6),
    near=st.integers(-2, 2),
    more=st.lists(st.integers(0, WORD - 1), max_size=2),
    exact_digits=st.booleans(),
)
def test_a_cell_goes_up_if_and_only_if_the_uniform_number_is_below_its_remainder(
    count, base, weight, near, more, exact_digits
):
    value = count * weight
    below = value // base * base
    f = (value - below) / base
    word = min(max(int(f * WORD) + near, 0), WORD - 1)
    if exact_digits:  # the hardest case: the words are the very digits of the probability
        word, digits = int(f * WORD), f * WORD % 1
        more = []
        for _ in range(3):
            more.append(int(digits * WORD))
            digits = digits * WORD % 1
    uniform = Fraction(word, WORD) + sum(
        Fraction(one, WORD ** (n + 2)) for n, one in enumerate(more)
    )
    rule = CellRule(base=base, weight=weight)
    found = round_cells(np.array([count]), rule, words=Given([word], more))
    assert found.tolist() == [below + base * (uniform < f)]


def test_random_rounding_is_unbiased_with_the_variance_of_the_formula():
    """Up with probability r/b, so mean 0 and variance r (b - r); a wrong chance is rejected."""
    many = 100_000
    for base in (3, 5):
        for r in range(1, base):
            counts = np.full(many, 4 * base + r)
            changes = round_cells(counts, CellRule(base=base), words=stream_words(base)) - counts
            assert set(np.unique(changes)) == {-r, base - r}
            ups = int((changes > 0).sum())
            assert binomtest(ups, many, r / base).pvalue > 1e-4
            assert binomtest(ups, many, (r + 0.1) / base).pvalue < 1e-9
            assert changes.mean() == pytest.approx(0, abs=4 * (r * (base - r) / many) ** 0.5)
            assert changes.var() == pytest.approx(r * (base - r), rel=0.02)


def test_every_cell_has_a_word_of_its_own_and_the_same_one_again():
    counts, words = np.full(5_000, 7), stream_words()
    once = round_cells(counts, CellRule(base=5), words=words)
    assert np.array_equal(once, round_cells(counts, CellRule(base=5), words=words))
    later = round_cells(counts, CellRule(base=5), words=words, start=1_000)
    assert np.array_equal(later[:4_000], once[1_000:])
    shaped = round_cells(counts.reshape(50, 100), CellRule(base=5), words=words)
    assert np.array_equal(shaped.ravel(), once)
    up = (once == 10).astype(float)
    assert abs(np.corrcoef(up[:-1], up[1:])[0, 1]) < 4 / len(up) ** 0.5


def test_a_weighted_estimate_is_rounded_without_bias():
    """3 people of a sample of 1 in 7/2 stand for 10 1/2: to base 5, up to 15 once in ten times."""
    counts = np.full(100_000, 3)
    rule = CellRule(base=5, weight=Fraction(7, 2))
    found = round_cells(counts, rule, words=stream_words())
    assert set(np.unique(found)) == {10, 15}
    ups = int((found == 15).sum())
    assert binomtest(ups, len(counts), 0.1).pvalue > 1e-4
    assert binomtest(ups, len(counts), 0.11).pvalue < 1e-9


@given(
    count=st.integers(0, 10**9),
    base=st.integers(2, 10**6),
    key=st.integers(0, WORD - 1),
    near=st.one_of(st.none(), st.integers(-1, 1)),
)
def test_fixed_rounding_goes_up_where_the_key_times_the_base_is_below_the_remainder(
    count, base, key, near
):
    k, r = divmod(count, base)
    if near is not None:
        key = min(max(r * WORD // base + near, 0), WORD - 1)
    found = round_cells(np.array([count]), CellRule(base=base, how=How.FIXED), keys=as_words([key]))
    assert found.tolist() == [(k + (key * base < r * WORD)) * base]


def test_fixed_rounding_has_the_law_of_random_rounding_and_is_always_the_same():
    keys = np.concatenate([some.copy() for some in stream_words(3).run(0, 100_000)])
    counts = np.full(len(keys), 13)
    rule = CellRule(base=5, how=How.FIXED)
    found = round_cells(counts, rule, keys=keys)
    assert binomtest(int((found == 15).sum()), len(keys), 3 / 5).pvalue > 1e-4
    assert binomtest(int((found == 15).sum()), len(keys), 0.61).pvalue < 1e-9
    assert np.array_equal(found[::-1], round_cells(counts, rule, keys=keys[::-1]))


def test_fixed_rounding_refuses_a_weight_that_keys_cannot_express():
    rule = CellRule(base=5, how=How.FIXED, weight=Fraction(WORD + 1, WORD))
    with pytest.raises(ConfigError, match=r"weight: found a base times a denominator of \d+, exp"):
        round_cells(np.array([3]), rule, keys=as_words([1]))


@given(
    counts=st.lists(st.integers(0, 300), min_size=1),
    base=st.integers(2, 12),
    weight=st.fractions(min_value=Fraction(1, 5), max_value=9, max_denominator=20),
)
def test_nearest_and_midpoint_follow_their_formulas(counts, base, weight):
    table = np.array(counts)
    nearest = round_cells(table, CellRule(base=base, how=How.NEAREST, weight=weight))
    midpoint = round_cells(table, CellRule(base=base, how=How.MIDPOINT, weight=weight))
    for n, near, middle in zip(counts, nearest.tolist(), midpoint.tolist(), strict=True):
        value = n * weight
        assert near == (value / base + Fraction(1, 2)) // 1 * base
        assert middle == (-(-value // base) * base - base // 2 if n else 0)


def test_midpoint_six_is_the_published_example():
    """OpenSAFELY: 1 to 6 become 3, 7 to 12 become 9."""
    found = round_cells(np.arange(14), CellRule(base=6, how=How.MIDPOINT))
    assert found.tolist() == [0, *[3] * 6, *[9] * 6, 15]


def test_small_cell_adjustment_leaves_counts_from_the_base_on():
    rule = CellRule(base=3, small_only=True)
    counts = np.tile(np.arange(8), 200)
    found = round_cells(counts, rule, words=stream_words()).reshape(200, 8)
    assert np.all(found[:, [0, 3, 4, 5, 6, 7]] == [0, 3, 4, 5, 6, 7])
    assert set(np.unique(found[:, 1:3])) == {0, 3}
    nearest = round_cells(np.arange(5), CellRule(base=3, how=How.NEAREST, small_only=True))
    assert nearest.tolist() == [0, 0, 3, 3, 4]


def test_the_10_5_rule_withholds_below_ten_and_rounds_the_rest_to_five():
    counts = np.array([0, 1, 9, 10, 12, 13, 27])
    rounded = round_cells(counts, CellRule(base=5, how=How.NEAREST))
    assert withheld(counts, below=10).tolist() == [True] * 3 + [False] * 4
    assert withheld(counts, below=10, zeros=False).tolist() == [False, True, True] + [False] * 4
    assert rounded[3:].tolist() == [10, 10, 15, 25]


def test_areas_below_a_threshold_are_found():
    assert small_areas(np.array([0, 39, 40, 1000]), below=40).tolist() == [True, True, False, False]
    assert not small_areas(np.array([0, 1]), below=0).any()


def behind_each(rule: CellRule) -> dict[int, list[int]]:
    """The counts that are published as each number, by rounding them always up and always down."""
    counts = np.arange(6 * rule.base)
    behind: dict[int, list[int]] = {}
    for key in (0, WORD - 1):
        words, keys = Given([key] * len(counts), []), as_words([key] * len(counts))
        found = round_cells(counts, rule, words=words, keys=keys)
        for n, a in zip(counts.tolist(), found.tolist(), strict=True):
            behind.setdefault(a, []).append(n)
    return {a: some for a, some in behind.items() if a < 4 * rule.base}


@pytest.mark.parametrize("how", How)
@pytest.mark.parametrize("base", [2, 3, 5, 6, 10])
@pytest.mark.parametrize("small_only", [False, True])
def test_what_is_said_of_a_published_count_is_true_of_all_counts_that_become_it(
    how, base, small_only
):
    if small_only and how == How.MIDPOINT:
        return
    rule = CellRule(base=base, how=how, small_only=small_only)
    behind, off = behind_each(rule), off_by(rule)
    published = np.array(list(behind))
    detail = np.ones(len(published), dtype=bool)
    low, high = off.ends(published, inner=detail, total=~detail, unknown=-1)
    assert low.tolist() == [min(behind[a]) for a in behind]
    # Of a detailed count of one base no more is said than of one that is rounded like all others.
    exact = {a: a + (off.up or 0) if small_only and a == base else max(behind[a]) for a in behind}
    assert high.tolist() == list(exact.values())
    assert off.multiples_of == (1 if small_only or how == How.MIDPOINT else base)


@pytest.mark.parametrize("how", How)
@pytest.mark.parametrize("base", [2, 3, 5])
def test_the_chances_of_all_changes_are_those_of_the_rule(how, base):
    rule = CellRule(base=base, how=how)
    table = change_table(rule)
    for n in range(3 * base):
        value = np.arange(6 * base)
        chances = table.of_change(np.full_like(value, n), value)
        assert chances.sum() == pytest.approx(1)
        assert set(np.flatnonzero(chances)) == {
            a for a, some in behind_each(rule).items() if n in some
        }
        if how in (How.RANDOM, How.FIXED):
            assert chances @ value == pytest.approx(n)


def test_no_cells_are_no_cells():
    empty = np.empty(0, dtype=np.int64)
    assert len(round_cells(empty, CellRule(base=3), words=stream_words())) == 0
    assert len(up_by_chance(parts(empty, base=3), stream_words())) == 0


def test_rules_and_counts_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match="rounding: base: found 1, expected 2 or more"):
        CellRule(base=1)
    with pytest.raises(ConfigError, match="rounding: weight: found 0, expected more than 0"):
        CellRule(base=3, weight=Fraction(0))
    with pytest.raises(ConfigError, match="small_only: found with how = 'midpoint'"):
        CellRule(base=3, how=How.MIDPOINT, small_only=True)
    with pytest.raises(ConfigError, match="small_only: found a weight of 2, by which"):
        CellRule(base=3, weight=Fraction(2), small_only=True)
    with pytest.raises(InputError, match="rounding: found a count below 0, expected 0 or more"):
        round_cells(np.array([-1]), CellRule(base=3, how=How.NEAREST))
    with pytest.raises(InputError, match="found counts of type float64, expected integers"):
        round_cells(np.array([1.5]), CellRule(base=3))
    with pytest.raises(ConfigError, match="rounding: below: found -1, expected 0 or more"):
        withheld(np.array([1]), below=-1)
    with pytest.raises(TypeError, match="'random' needs words"):
        round_cells(np.array([1]), CellRule(base=3))
    with pytest.raises(TypeError, match="'fixed' needs a key for each cell"):
        round_cells(np.array([1, 2]), CellRule(base=3, how=How.FIXED), keys=as_words([1]))
