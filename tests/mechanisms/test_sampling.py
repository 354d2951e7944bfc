from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chisquare

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.geography import regular
from headcount.mechanisms import Chain, Context, Sampling, Tabulated, protect
from headcount.mechanisms.sampling import choose, sample_counts
from headcount.noise import KeyedNoise, RunKey, Stream
from headcount.noise.source import cipher_words, generator
from headcount.population import Population, uniform
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Schema
from headcount.tabulate import tabulate

HALF = Fraction(1, 2)


def seeded(seed=1):
    return KeyedNoise(RunKey.from_seed(seed), "sampling", b"", b"")


def test_no_guarantee_and_says_why():
    mechanism = Sampling(fraction=HALF)
    population = uniform(people=300, depth=2, mean=50, seed=1)
    release = protect(population, mechanism)
    assert not release.guarantee.exists
    said = " ".join(release.guarantee.sentences())
    assert "No differential-privacy guarantee: a sampled person's record is published as it is" in (
        said
    )
    assert Chain.of(mechanism).on(population.domain).plan == ()


def tiny_law(people, size):
    """Every outcome of the multivariate hypergeometric law with its probability."""
    whole = comb(sum(people), size)
    return {
        k: prod(comb(c, x) for c, x in zip(people, k, strict=True)) / whole
        for k in product(*(range(c + 1) for c in people))
        if sum(k) == size
    }


def p_value(draw, people, size, runs=4000):
    """How well draws follow the law, by chi-square over all outcomes."""
    law = tiny_law(people, size)
    seen = dict.fromkeys(law, 0)
    for _ in range(runs):
        outcome = tuple(int(x) for x in draw())
        seen[outcome] = seen.get(outcome, 0) + 1
    if set(seen) - set(law):
        return 0.0
    return chisquare(list(seen.values()), [p * sum(seen.values()) for p in law.values()]).pvalue


PEOPLE = (3, 1, 4, 2)


def test_counts_of_a_sample_follow_the_multivariate_hypergeometric_law():
    matrix = csr_array(np.array([PEOPLE[:2], PEOPLE[2:]]))
    rng = np.random.default_rng(1)

    def draw():
        return sample_counts(matrix, fraction=HALF, rng=rng).toarray().ravel()

    assert p_value(draw, PEOPLE, 5) > 1e-3


class FewBits:
    """Words of two bits, so that ties at the threshold are the rule."""

    def __init__(self, words):
        self.words = words

    def run(self, start, count):
        for part in self.words.run(start, count):
            yield part & np.uint64(3)


def sample_words(run):
    return cipher_words(seeded(), Stream(level="a", query="sample", size=256), run)


@pytest.mark.parametrize("narrow", [False, True])
def test_every_subset_is_as_likely_as_any_other(narrow):
    subsets = dict.fromkeys(combinations(range(6), 3), 0)
    for run in range(4000):
        words: Any = FewBits(sample_words(run)) if narrow else sample_words(run)
        subsets[tuple(choose(words, people=6, size=3).tolist())] += 1
    assert chisquare(list(subsets.values())).pvalue > 1e-3


def test_control_ties_that_go_to_the_first_are_rejected():
    """Negative control: without new words at the threshold the first in the file are preferred."""
    subsets = dict.fromkeys(combinations(range(6), 3), 0)
    for run in range(4000):
        (words,) = FewBits(sample_words(run)).run(0, 6)
        subsets[tuple(sorted(np.argsort(words, kind="stable")[:3].tolist()))] += 1
    assert chisquare(list(subsets.values())).pvalue < 1e-6


@pytest.mark.parametrize("size", [0, 1, 7, 10])
def test_chosen_are_distinct_ascending_and_as_many_as_asked(size):
    chosen = choose(sample_words(0), people=10, size=size)
    assert len(chosen) == size
    assert (np.diff(chosen) > 0).all()
    assert size == 0 or 0 <= chosen[0] <= chosen[-1] < 10


def people(rows):
    """Ten people in four places, as rows or as counts."""
    tree = regular(children=2, depth=2)
    cell = np.zeros(4, dtype=np.int32)
    if not rows:
        table = np.array(PEOPLE)
        return Population("t", Domain(Schema(), tree), np.arange(4, dtype=np.int32), cell, table)
    unit = np.repeat(np.arange(4, dtype=np.int32), PEOPLE)
    return Population("t", Domain(Schema(), tree), unit, np.zeros(10, dtype=np.int32))


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_samples_of_rows_and_of_counts_follow_the_same_law(rows, exact):
    mechanism, noise, before = Sampling(fraction=HALF, exact=exact), seeded(3), people(rows)
    runs = iter(range(10_000))

    def draw():
        made = mechanism.apply(before, noise, run=next(runs), context=Context())
        assert made.weight == 2
        return tabulate(made).totals()

    assert p_value(draw, PEOPLE, 5, runs=1500) > 1e-3


def test_a_sample_of_a_sample_has_both_weights():
    chain = Chain((Sampling(fraction=HALF, exact=True), Sampling(fraction=Fraction(3, 5))))
    release = protect(people(rows=True), chain, seeded())
    assert chain.weight == Fraction(10, 3)
    assert release.at("whole").sum() == pytest.approx(3 * 10 / 3)


def test_a_sample_knows_neither_households_nor_quarters():
    population = replace(people(rows=True), quarters=object())
    made = Sampling(fraction=HALF).apply(population, seeded(), run=0, context=Context())
    assert made.households is None
    assert made.quarters is None


def test_exact_samples_are_refused_where_memory_cannot_hold_a_word_for_each(monkeypatch):
    monkeypatch.setattr("headcount.mechanisms.sampling.memory_limit", lambda: 399)
    with pytest.raises(ConfigError, match="exact: found more people than fit") as caught:
        Sampling(fraction=HALF, exact=True).check(people(rows=True))
    assert "10" not in str(caught.value)
    Sampling(fraction=HALF).check(people(rows=True))


def test_the_stability_of_the_exact_sample_is_stated_and_of_the_other_open():
    domain = people(rows=True).domain
    exact = Sampling(fraction=HALF, exact=True).on(domain)
    fast = Sampling(fraction=HALF).on(domain)
    assert exact.stability == {UnitOfPrivacy.ADD_REMOVE: 2, UnitOfPrivacy.CHANGE_ONE: 1}
    assert fast.stability == {}
    assert "floating point" in fast.no_bound


@pytest.mark.parametrize("fraction", ["1/2", "1/3", "2/3", "9/10", "1", "1/7"])
def test_one_person_more_makes_the_sample_at_most_one_larger(fraction):
    """The coupling of the proof needs it, with halves rounded to even too."""
    sizes = np.array([round(Fraction(fraction) * n) for n in range(500)])
    assert set(np.diff(sizes)) <= {0, 1}


def test_control_sampling_each_person_alone_is_rejected():
    rng = np.random.default_rng(3)
    assert p_value(lambda: rng.binomial(PEOPLE, 0.5), PEOPLE, 5) < 1e-6


def test_control_sampling_with_replacement_is_rejected():
    rng = np.random.default_rng(4)
    share = np.array(PEOPLE) / sum(PEOPLE)
    assert p_value(lambda: rng.multinomial(5, share), PEOPLE, 5) < 1e-6


@pytest.mark.parametrize("fraction", ["1/20", "1/3", "19/20", "1"])
def test_the_sample_has_round_f_n_people_and_weight_one_over_f(fraction):
    data, f = Tabulated.of(uniform(people=12_345, depth=2, mean=60, seed=1)), Fraction(fraction)
    table = protect(data, Sampling(fraction=f), seeded()).at(data.counts.level)
    assert round(float(table.sum()) * float(f)) == round(f * 12_345)
    drawn = table * float(f)
    assert np.allclose(drawn, np.rint(drawn))
    assert (np.rint(drawn) <= data.counts.dense()).all()


def test_rmse_is_that_of_sampling_without_replacement():
    data = Tabulated.of(uniform(people=200_000, depth=2, mean=200, seed=1))
    fifth, truth = Sampling(fraction=Fraction(1, 5)), data.counts.dense()
    made = [protect(data, fifth, seeded(), run=run).at(data.counts.level) for run in range(8)]
    rmse = np.sqrt(np.mean([(table - truth) ** 2 for table in made]))
    assert rmse == pytest.approx(np.sqrt(truth.mean() * 4), rel=0.03)


def test_empty_counts_give_an_empty_sample():
    tree = regular(children=2, depth=1)
    none = np.empty(0, dtype=np.int32)
    nobody = Population("nobody", Domain(Schema(), tree), unit=none, cell=none)
    for exact in (True, False):
        release = protect(nobody, Sampling(fraction=HALF, exact=exact), seeded())
        assert release.at("whole").sum() == 0


def test_the_generator_hangs_on_key_stream_and_run():
    noise = KeyedNoise(RunKey.from_seed(1), "sampling", b"", b"")
    stream = Stream(level="a", query="sample", size=256)
    first = generator(noise, stream, 0).integers(1 << 60)
    assert first == generator(noise, stream, 0).integers(1 << 60)
    other = KeyedNoise(RunKey.from_seed(1), "sampling", b"other data", b"")
    elsewhere = Stream(level="b", query="sample", size=256)
    for one in (
        generator(noise, stream, 1),
        generator(noise, elsewhere, 0),
        generator(other, stream, 0),
        generator(KeyedNoise(RunKey.from_os(), "sampling", b"", b""), stream, 0),
    ):
        assert one.integers(1 << 60) != first


@pytest.mark.parametrize(
    ("fraction", "error", "message"),
    [
        ("0", PrivacyError, "sampling: fraction: found 0, expected a number above 0"),
        ("-1/2", PrivacyError, "sampling: fraction: found -1/2"),
        ("3/2", ConfigError, "sampling: fraction: found 3/2, expected above 0, at most 1"),
    ],
)
def test_wrong_fractions_are_refused(fraction, error, message):
    with pytest.raises(error) as caught:
        Sampling(fraction=Fraction(fraction))
    assert message in str(caught.value)


def test_too_many_people_are_refused_without_telling_how_many():
    tree = regular(children=2, depth=1)
    one = np.zeros(1, dtype=np.int32)
    many = np.array([2_123_456_789])
    counts = Population("many", Domain(Schema(), tree), unit=one, cell=one, count=many)
    with pytest.raises(InputError, match="found 1,000,000,000 or more, expected fewer") as caught:
        Sampling(fraction=HALF).check(counts)
    assert "2,123" not in str(caught.value)
