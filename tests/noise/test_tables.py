"""Certified tables against mpmath, and the exact law for words so short that all can be tried."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import islice
from typing import Any

import mpmath
import numpy as np
import pytest

from headcount.errors import ConfigError, PrivacyError
from headcount.noise import keyed as tables
from headcount.noise.keyed import _has_table, build_table, certify_thresholds
from headcount.noise.laws import (
    LARGEST_SCALE,
    DiscreteGaussian,
    Law,
    TwoSidedGeometric,
    _Bits,
    _decide,
    _rejection_gaussian,
    invert,
)
from headcount_papers.frame.published_noise import GeometricByRatio

LAWS: list[Law] = [
    TwoSidedGeometric(Fraction(1, 320)),
    TwoSidedGeometric(Fraction(27, 1280)),
    TwoSidedGeometric(Fraction(3)),
    TwoSidedGeometric(Fraction(60)),
    GeometricByRatio(Fraction(1, 3)),
    GeometricByRatio(Fraction(99, 100)),
    DiscreteGaussian(Fraction(1, 50)),
    DiscreteGaussian(Fraction(10)),
    DiscreteGaussian(Fraction(8000)),
    DiscreteGaussian(Fraction(114921, 293764)),
]
SMALL: list[Law] = [
    TwoSidedGeometric(Fraction(1, 2)),
    TwoSidedGeometric(Fraction(3)),
    GeometricByRatio(Fraction(1, 3)),
    GeometricByRatio(Fraction(3, 4)),
    DiscreteGaussian(Fraction(1, 2)),
    DiscreteGaussian(Fraction(10)),
]


def mp_survival(law: Law) -> list[mpmath.mpf]:
    """Pr[|X| > k] at the precision in force, by mpmath: a library that shares nothing with arb."""
    (text,) = law.stated.values()
    value = mpmath.mpf(Fraction(text).numerator) / Fraction(text).denominator
    smallest = mpmath.mpf(2) ** -90
    if not isinstance(law, DiscreteGaussian):
        a = mpmath.exp(-value) if isinstance(law, TwoSidedGeometric) else value
        out = [2 * a / (1 + a)]
        while out[-1] > smallest:
            out.append(out[-1] * a)
        return out
    weights = [mpmath.mpf(1)]
    while weights[-1] > smallest**2:
        weights.append(mpmath.exp(-(mpmath.mpf(len(weights)) ** 2) / (2 * value)))
    total = 1 + 2 * mpmath.fsum(weights[1:])
    tails = [mpmath.mpf(0)]
    for weight in reversed(weights[1:]):
        tails.append(tails[-1] + weight)
    return [2 * tail / total for tail in reversed(tails)]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_thresholds_agree_with_mpmath(law):
    with mpmath.workprec(300):
        expected = []
        for survival in mp_survival(law):
            expected.append(int(mpmath.floor(mpmath.mpf(2) ** 63 * (1 - survival))))
            if expected[-1] == 2**63 - 1:
                break
    table = build_table(law)
    assert table is not None
    found = table.thresholds.tolist()
    if law == GeometricByRatio(Fraction(1, 3)):
        assert found[0] == 2**62  # exactly one half: only exact arithmetic can say so
        found, expected = found[1:], expected[1:]
    assert found == expected


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_guide_counts_the_thresholds_below_each_bin(law):
    table = build_table(law)
    assert table is not None
    shift = int(table.shift)
    for b in (0, 1, 777, 2**15, 2**16 - 2, 2**16 - 1):
        low, high = b << shift, (b + 1) << shift
        inside = ((table.thresholds >= low) & (table.thresholds < high)).any()
        below = int((table.thresholds < low).sum())
        assert int(table.guide[b]) == (~below if inside else below)


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("law", SMALL, ids=str)
def test_short_words_give_the_exact_law(law, bits):
    """Try every word, and every first extension of the undecided: what is decided fits the law.

    For each k: decided mass <= Pr[|X| = k] <= decided mass + undecided mass, and the undecided
    mass is a few times 2^-(2 bits - 1). No sampling, no tolerance.
    """
    table = build_table(law, word_bits=bits)
    assert table is not None
    length = bits - 1
    thresholds = table.thresholds.tolist()
    rational = law.exact_survival(0) is not None
    decided: Counter[int] = Counter()
    undecided = []
    for u in range(1 << length):
        if u in thresholds:
            undecided.append(u)
        else:
            k = sum(t < u for t in thresholds)
            # table and slow path agree on all the others; balls leave exact ties to the digits
            assert _decide(law, u, length) == k or (rational and u + 1 in thresholds)
            decided[k] += 1 << bits
    still_open = 0
    for u in undecided:
        for more in range(1 << bits):
            k = _decide(law, (u << bits) | more, length + bits)
            if k is None:
                still_open += 1
            else:
                decided[k] += 1
    assert undecided
    whole = 1 << (length + bits)
    assert sum(decided.values()) + still_open == whole
    assert still_open < 4 * len(undecided) + 200
    with mpmath.workprec(200):
        survival = [mpmath.mpf(1), *mp_survival(law)]
        for k in range(len(survival) - 1):
            mass = whole * (survival[k] - survival[k + 1])
            assert decided[k] <= mass + mpmath.mpf(2) ** -60
            assert mass <= decided[k] + still_open + mpmath.mpf(2) ** -60


def test_a_wrong_law_fails_the_exact_check():
    """The check above has teeth: a scale 0.3 % off is outside the bounds it proves."""
    right, wrong = TwoSidedGeometric(Fraction(1, 2)), TwoSidedGeometric(Fraction(1003, 2000))
    for u in range(1 << 15):
        if _decide(right, u, 15) not in (None, _decide(wrong, u, 15)):
            break
    else:
        pytest.fail("no word tells the two laws apart")


def test_undecided_words_use_their_extension():
    law = TwoSidedGeometric(Fraction(1, 2))
    table = build_table(law, word_bits=8)
    assert table is not None
    u = int(table.thresholds[0])
    assert invert(law, u << 1, bits=8, extension=iter([0])) == 0
    assert invert(law, u << 1, bits=8, extension=iter([255])) == 1
    assert invert(law, (u << 1) | 1, bits=8, extension=iter([255])) == -1
    top = (1 << 7) - 1  # all ones: the tail, which only more digits can end
    deep = invert(law, top << 1, bits=8, extension=iter([255, 255, 255, 0]))
    assert deep > invert(law, top << 1, bits=8, extension=iter([255, 0])) > table.thresholds.size


def test_dyadic_threshold_ends_with_the_first_digit_that_differs():
    """Ratio 1/3 has Pr[X = 0] = 1/2 exactly: U = 0.1000... stays open until a digit is one."""
    law = GeometricByRatio(Fraction(1, 3))
    assert invert(law, 0b1000_0000, bits=8, extension=iter([0, 0, 0, 1])) == 1


def test_too_wide_a_law_has_no_table():
    assert build_table(TwoSidedGeometric(Fraction(1, 320)), limit=13_974) is None
    assert build_table(TwoSidedGeometric(Fraction(1, 320)), limit=13_975) is not None
    assert build_table(DiscreteGaussian(Fraction(8000)), limit=812) is None
    assert build_table(DiscreteGaussian(Fraction(8000)), limit=813) is not None
    assert build_table(TwoSidedGeometric(Fraction(1, 10**6))) is None
    assert build_table(DiscreteGaussian(Fraction(10**12))) is None


def test_tables_are_cached_and_read_only():
    law = DiscreteGaussian(Fraction(10))
    table = build_table(law)
    assert table is build_table(DiscreteGaussian(Fraction(20, 2)))
    assert table is not None
    with pytest.raises(ValueError, match="read-only"):
        table.thresholds[0] = 0


def test_threads_build_the_same_tables():
    laws: list[Law] = [DiscreteGaussian(Fraction(n, 7)) for n in range(50, 60)] + [
        TwoSidedGeometric(Fraction(n, 99)) for n in range(5, 15)
    ]
    alone = [certify_thresholds(law, bits=63, limit=10_000) for law in laws]
    with ThreadPoolExecutor(8) as pool:
        together = pool.map(lambda law: certify_thresholds(law, bits=63, limit=10_000), laws)
        for one, other in zip(alone, together, strict=True):
            assert one is not None
            assert other is not None
            assert np.array_equal(one, other)


def test_uncertified_floor_is_refused(monkeypatch):
    """With too few digits a floor cannot be certified, and no table is better than a wrong one."""
    monkeypatch.setattr(tables, "_PRECISIONS", (40, 60))
    with pytest.raises(PrivacyError, match="too near to an integer for 60 bits"):
        certify_thresholds(DiscreteGaussian(Fraction(10)), bits=63, limit=1000)
    monkeypatch.setattr(tables, "_PRECISIONS", (40, 60, 192))
    assert certify_thresholds(DiscreteGaussian(Fraction(10)), bits=63, limit=1000) is not None


REFUSED: list[tuple[Any, tuple[Any, ...], str]] = [
    (TwoSidedGeometric, (0.5,), r"noise: rate: found 0.5 \(float\), expected an exact"),
    (TwoSidedGeometric, (Fraction(0),), "noise: rate: found 0, expected 1/1099511627776 to"),
    (TwoSidedGeometric, (Fraction(-1, 2),), "noise: rate: found -1/2, expected"),
    (GeometricByRatio, (Fraction(1),), "noise: ratio: found 1, expected"),
    (DiscreteGaussian, (Fraction(0),), "noise: sigma2: found 0, expected"),
    (DiscreteGaussian, (float("inf"),), r"noise: sigma2: found inf \(float\), expected an exact"),
]


@pytest.mark.parametrize(("law", "parameters", "message"), REFUSED)
def test_inexact_or_impossible_parameters_are_refused(law, parameters, message):
    with pytest.raises(ConfigError, match=message):
        law(*parameters)


def test_bits_are_taken_in_order_and_integers_by_rejection():
    assert _Bits(iter([0b1011_0010]), bits=8).take(3) == 0b101
    source = _Bits(iter([0b1011_0010, 0b1111_0000]), bits=8)
    assert [source.take(n) for n in (4, 8, 4)] == [0b1011, 0b0010_1111, 0]
    assert _Bits(iter([0b11_11_01_00]), bits=8).below(3) == 1  # 3 and 3 rejected
    assert _Bits(iter([]), bits=8).below(1) == 0


def test_rejection_sampler_follows_the_law():
    """CKS on 20,000 draws, chi-square; and the same sample against a wrong variance."""
    from tests.support.noise_fit import fit

    generator = np.random.default_rng(3)
    words = iter(lambda: int(generator.integers(0, 2**64, dtype=np.uint64)), None)
    source = _Bits(words, bits=64)
    law = DiscreteGaussian(Fraction(21, 2))
    sample = np.array(
        [_rejection_gaussian(law.sigma2, source) for _ in range(20_000)], dtype=np.int64
    )
    assert fit(law, sample).p > 1e-3
    assert fit(DiscreteGaussian(Fraction(12)), sample).p < 1e-6


def test_survivals_and_single_values_agree():
    from flint import ctx

    for law in LAWS:
        with ctx.workprec(128):
            for k, ball in enumerate(islice(law.survivals(), 50)):
                assert ball.overlaps(law.survival(k))
                assert bool(law.survival_below(k) <= ball) or law.survival_below(k).overlaps(ball)


@pytest.mark.parametrize(
    "law",
    [
        TwoSidedGeometric(Fraction(6000)),
        TwoSidedGeometric(Fraction(LARGEST_SCALE)),
        DiscreteGaussian(Fraction(1, LARGEST_SCALE)),
    ],
)
def test_a_tail_below_every_precision_still_has_a_table(law: Law) -> None:
    # Pr[|X| > 0] lies below 2^-8192: its floor is certified by the tail itself, not by 1 - tail.
    thresholds = certify_thresholds(law, bits=63, limit=10)
    assert thresholds is not None
    assert thresholds.tolist() == [2**63 - 1]


@pytest.mark.parametrize("law", LAWS + SMALL, ids=str)
@pytest.mark.parametrize("word_bits", [5, 9, 64])
def test_whether_there_is_a_table_is_known_without_making_it(law, word_bits, monkeypatch):
    """At every limit around the table's own size, and mostly without the table."""
    whole = build_table(law, word_bits=word_bits)
    assert whole is not None
    size = len(whole.thresholds)
    for limit in (1, size - 1, size, size + 1, 2 * size):
        if limit:
            table = build_table(law, word_bits=word_bits, limit=limit)
            assert _has_table(law, word_bits=word_bits, limit=limit) == (table is not None), limit
    _has_table.cache_clear()
    monkeypatch.setattr(tables, "build_table", None)
    assert _has_table(law, word_bits=word_bits, limit=2 * size + 10)
