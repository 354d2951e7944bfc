from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chisquare

from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.geography import regular
from headcount.mechanisms import CountsOutcome, protect
from headcount.mechanisms.sampling import Sampling, generator, sample_counts, sample_rows
from headcount.noise import KeyedNoise, OpenDPNoise, RunKey, Stream
from headcount.population import Population, uniform
from headcount.schema import Schema
from headcount.tabulate import tabulate
from headcount.testing.contracts import ContractError, mechanism_checks

HALF = Fraction(1, 2)


@dataclass(frozen=True, kw_only=True)
class DenseSampling(Sampling):
    """Sampling with full tables, as the contract checks read them."""

    def run(self, counts, noise, *, runs, context=None):
        made = super().run(counts, noise, runs=runs, context=context)
        return CountsOutcome({level: np.stack([t.toarray() for t in ts]) for level, ts in
                        made.tables.items()})  # fmt: skip


CHECKS = list(mechanism_checks(DenseSampling(fraction=HALF)))


@pytest.mark.parametrize(
    "check", [c for c in CHECKS if "support_does_not_depend" not in str(c)], ids=str
)
def test_contract(check):
    check()


def test_the_support_depends_on_people_as_it_must_without_a_guarantee():
    (check,) = [c for c in CHECKS if "support_does_not_depend" in str(c)]
    with pytest.raises(ContractError, match="no noise on"):
        check()


def test_no_guarantee_and_says_why():
    mechanism = Sampling(fraction=HALF)
    population = uniform(people=300, depth=2, mean=50, seed=1)
    release = protect(population, mechanism)
    assert not release.guarantee.exists
    said = " ".join(release.guarantee.sentences())
    assert "No differential-privacy guarantee: a sampled person's record is published as it is" in (
        said
    )
    assert mechanism.plan(population.schema, population.geography) == ()


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


def test_rows_of_a_sample_counted_follow_the_same_law():
    cell = np.repeat(np.arange(4), PEOPLE)
    rng = np.random.default_rng(2)

    def draw():
        return np.bincount(cell[sample_rows(10, fraction=HALF, rng=rng)], minlength=4)

    assert p_value(draw, PEOPLE, 5) > 1e-3


def test_control_sampling_each_person_alone_is_rejected():
    rng = np.random.default_rng(3)
    assert p_value(lambda: rng.binomial(PEOPLE, 0.5), PEOPLE, 5) < 1e-6


def test_control_sampling_with_replacement_is_rejected():
    rng = np.random.default_rng(4)
    share = np.array(PEOPLE) / sum(PEOPLE)
    assert p_value(lambda: rng.multinomial(5, share), PEOPLE, 5) < 1e-6


@pytest.mark.parametrize("fraction", ["1/20", "1/3", "19/20", "1"])
def test_the_sample_has_round_f_n_people_and_weight_one_over_f(fraction):
    counts = tabulate(uniform(people=12_345, depth=2, mean=60, seed=1))
    f = Fraction(fraction)
    noise = KeyedNoise(RunKey.from_seed(1), "sampling", b"", b"")
    (table,) = Sampling(fraction=f).run(counts, noise, runs=range(1)).tables[counts.level]
    assert round(float(table.sum()) * float(f)) == round(f * 12_345)
    people = table.toarray() * float(f)
    assert np.allclose(people, np.rint(people))
    assert (np.rint(people) <= counts.dense()).all()


def test_rmse_is_that_of_sampling_without_replacement():
    counts = tabulate(uniform(people=200_000, depth=2, mean=200, seed=1))
    f = Fraction(1, 5)
    noise = KeyedNoise(RunKey.from_seed(1), "sampling", b"", b"")
    made = Sampling(fraction=f).run(counts, noise, runs=range(8)).tables[counts.level]
    truth = counts.dense()
    rmse = np.sqrt(np.mean([(t.toarray() - truth) ** 2 for t in made]))
    assert rmse == pytest.approx(np.sqrt(truth.mean() * 4), rel=0.03)


def test_sampled_rows_are_distinct_ascending_and_as_many_as_asked():
    rows = sample_rows(1000, fraction="3/10", rng=np.random.default_rng(1))
    assert len(rows) == 300
    assert (np.diff(rows) > 0).all()
    assert sample_rows(0, fraction=HALF, rng=np.random.default_rng(1)).size == 0


def test_empty_counts_give_an_empty_sample():
    tree = regular(children=2, depth=1)
    none = np.empty(0, dtype=np.int32)
    counts = tabulate(Population("nobody", Schema(), tree, unit=none, cell=none))
    noise = KeyedNoise(RunKey.from_seed(1), "sampling", b"", b"")
    (table,) = Sampling(fraction=HALF).run(counts, noise, runs=range(1)).tables[counts.level]
    assert table.sum() == 0


def test_the_generator_hangs_on_key_stream_and_run():
    noise = KeyedNoise(RunKey.from_seed(1), "sampling", b"", b"")
    stream = Stream(level="a", query="sample", size=256)
    first = generator(noise, stream, 0).integers(1 << 60)
    assert first == generator(noise, stream, 0).integers(1 << 60)
    other = KeyedNoise(RunKey.from_seed(1), "sampling", b"other data", b"")
    elsewhere = Stream(level="b", query="sample", size=256)
    for one in (
        generator(noise, stream, 1), generator(noise, elsewhere, 0), generator(other, stream, 0),
        generator(OpenDPNoise(), stream, 0),
    ):  # fmt: skip
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
    counts = tabulate(Population("many", Schema(), tree, unit=one, cell=one, count=many))
    with pytest.raises(InputError, match="found 1,000,000,000 or more, expected fewer") as caught:
        Sampling(fraction=HALF).check(counts)
    assert "2,123" not in str(caught.value)


def test_a_negative_number_of_rows_is_refused():
    with pytest.raises(InputError, match="rows: found -1, expected 0 or more"):
        sample_rows(-1, fraction=HALF, rng=np.random.default_rng(1))
