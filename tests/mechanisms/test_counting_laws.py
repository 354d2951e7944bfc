"""The noise that reaches the published counts follows its law, zeros included."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from headcount.domain import Domain
from headcount.geography import regular
from headcount.mechanisms import Geometric
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import Counts, tabulate
from headcount_papers.averaged import Averaged
from headcount_papers.raked import Raked

RUNS = range(200)


def example() -> Counts:
    """27 leaves of 4 possible cells, most of them empty."""
    schema = Schema(
        (Attribute("sex", ("f", "m")), Attribute("age", ("a", "b", "c"))),
        (impossible({"sex": ["m"], "age": ["b", "c"]}),),
    )
    unit = np.array([0, 0, 5, 20], dtype=np.int32)
    cell = np.array([0, 3, 1, 2], dtype=np.int32)
    count = np.array([1000, 1, 7, 30], dtype=np.int64)
    return tabulate(
        Population("p", Domain(schema, regular(children=3, depth=3)), unit, cell, count)
    )


def noise_of(mechanism, counts: Counts, level: str) -> NDArray[np.float64]:
    """Published minus true, on every possible cell: runs x units x cells."""
    source = KeyedNoise(RunKey.from_seed(2), mechanism.name, b"", b"")
    tables = mechanism.on(counts.domain).run(counts, source, runs=RUNS).tables
    noise: NDArray[np.float64] = tables[level].astype(np.float64) - counts.at(level).dense()
    return noise[:, :, counts.schema.possible]


def pmf(z: float, reach: int) -> NDArray[np.float64]:
    k = np.arange(-reach, reach + 1)
    return (1 - exp(-z)) / (1 + exp(-z)) * np.exp(-z * np.abs(k))


def fits(values, law: NDArray[np.float64]) -> float:
    """Chi-square of integers against a law on -reach..reach, tails pooled, as a probability."""
    reach = len(law) // 2
    observed = np.bincount((np.clip(values, -reach, reach) + reach).astype(int), minlength=len(law))
    expected = law * len(values)
    enough = expected >= 10
    low = int(np.argmax(enough))
    high = len(law) - int(np.argmax(enough[::-1]))

    def pooled(x):
        return np.concatenate([[x[:low].sum()], x[low:high], [x[high:].sum()]])

    theory = pooled(expected)
    theory *= len(values) / theory.sum()
    kept = theory > 0
    statistic = ((pooled(observed) - theory)[kept] ** 2 / theory[kept]).sum()
    return float(chi2.sf(statistic, kept.sum() - 1))


def test_geometric_noise_follows_its_law_on_zeros_and_elsewhere():
    counts = example()
    noise = noise_of(Geometric(epsilon=Fraction(1)), counts, counts.level)
    empty = (counts.dense() == 0)[:, counts.schema.possible]
    assert empty.sum() == 27 * 4 - 4
    zeros, others = noise[:, empty].reshape(-1), noise[:, ~empty].reshape(-1)
    assert fits(zeros, pmf(0.5, 60)) > 0.001
    assert fits(others, pmf(0.5, 60)) > 0.001
    assert fits(zeros, pmf(0.5 * 1.1, 60)) < 1e-6  # negative controls: a fudged scale is seen,
    assert fits(np.abs(zeros), pmf(0.5, 60)) < 1e-6  # and so is a missing sign


def test_averaged_noise_is_a_mean_of_parts():
    counts = example()
    noise = noise_of(Averaged(epsilon=Fraction(2), parts=4), counts, counts.level).reshape(-1)
    total = noise * 4
    assert np.array_equal(total, np.rint(total))  # multiples of 1/P
    one = pmf(0.25, 150)
    two = np.convolve(one, one)
    law = np.convolve(two, two)
    assert fits(total, law) > 0.001
    three = np.convolve(two, one)
    assert fits(total, three) < 1e-6  # negative control: the law of a part too few
    expected = 4 * geometric_variance(0.25) / 16
    assert noise.var() == pytest.approx(expected, rel=0.05)
    assert abs(geometric_variance(1) / expected - 1) > 0.5  # the plain mechanism is far from it


def geometric_variance(z: float) -> float:
    """Var G(z) = 2 exp(-z) / (1 - exp(-z))^2."""
    return 2 * exp(-z) / (1 - exp(-z)) ** 2


def test_the_root_of_raked_has_the_noise_of_its_share():
    counts = example()
    noise = noise_of(Raked(epsilon=Fraction(4)), counts, "whole").reshape(-1)
    assert fits(noise, pmf(0.5, 60)) > 0.001  # four levels share epsilon 4, two counts move in each
    assert fits(noise, pmf(2.0, 60)) < 1e-6


def test_runs_and_counts_have_noise_of_their_own():
    """Neighbouring counts and neighbouring runs are not correlated; a repeated run would be."""
    counts = example()
    noise = noise_of(Geometric(epsilon=Fraction(1)), counts, counts.level).reshape(200, -1)
    bound = 4 / np.sqrt(noise.size)
    assert abs(np.corrcoef(noise[:-1].reshape(-1), noise[1:].reshape(-1))[0, 1]) < bound
    assert abs(np.corrcoef(noise[:, :-1].reshape(-1), noise[:, 1:].reshape(-1))[0, 1]) < bound
    repeated = np.repeat(noise[::2], 2, axis=0)
    assert np.corrcoef(repeated[:-1].reshape(-1), repeated[1:].reshape(-1))[0, 1] > 10 * bound
