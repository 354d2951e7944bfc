"""Large tables are compared some units at a time, with the figures of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.evaluation import Truth, answers, bias_by_homogeneity, representation
from headcount.evaluation.answers import tallied_answers
from headcount.evaluation.bias_by_homogeneity import BiasByHomogeneity
from headcount.evaluation.error import _score
from headcount.evaluation.representation import Representation
from headcount.evaluation.tally import (
    CELL_SETS,
    median_of,
    quantile_of,
    summarise,
)
from headcount.geography import regular
from headcount.privacy import Guarantee
from headcount.release import CountsRelease
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import Counts
from headcount_papers.empirical_privacy_loss import EmpiricalPrivacyLoss, published

SCHEMA = Schema(
    (
        Attribute("hispanic", ("no", "yes")),
        Attribute("race", ("a", "b", "c")),
        Attribute("voting_age", ("minor", "adult")),
    ),
    (impossible({"race": ["c"], "voting_age": ["minor"]}),),
)
GEOGRAPHY = regular(children=5, depth=3)


def drawn(seed: int, *, below_zero: bool = False) -> tuple[Counts, CountsRelease]:
    """People here and there, and a release that is off by some; leaves without anybody too."""
    chance = np.random.default_rng(seed)
    leaves = GEOGRAPHY.size(GEOGRAPHY.leaf)
    shape = (leaves, SCHEMA.size)
    truth = chance.poisson(2, shape) * (chance.random(shape) < 0.4) * SCHEMA.possible
    truth[chance.integers(0, leaves, 20)] = 0
    off = chance.integers(-2, 3, shape) * (chance.random(shape) < 0.5) * SCHEMA.possible
    made = truth + off if below_zero else np.maximum(truth + off, 0)
    counts = Counts(Domain(SCHEMA, GEOGRAPHY), GEOGRAPHY.leaf, csr_array(truth.astype(np.int64)))
    release = CountsRelease(
        domain=Domain(SCHEMA, GEOGRAPHY),
        mechanism="test",
        guarantee=Guarantee.none("a test"),
        key_kind="seed",
        backend="table",
        tables={GEOGRAPHY.leaf: csr_array(made.astype(np.int64))},
    )
    return counts, release


@pytest.mark.parametrize("cells", CELL_SETS)
@pytest.mark.parametrize("below_zero", [False, True])
def test_pieces_have_the_figures_of_the_whole_to_the_bit(
    cells: Any, below_zero: bool, monkeypatch: pytest.MonkeyPatch
):
    counts, release = drawn(3, below_zero=below_zero)
    whole = _score(counts, release, cells=cells)
    for at_once in (7, 100, 1000):
        monkeypatch.setattr(answers, "PAIRS_AT_ONCE", at_once)
        found = _score(counts, release, cells=cells)
        assert all(one.equals(other) for one, other in zip(found, whole, strict=True))


def test_only_large_tables_are_tallied(monkeypatch: pytest.MonkeyPatch):
    counts, release = drawn(4)
    leaf = GEOGRAPHY.leaf
    assert all(one.times is None for _, one in tallied_answers(counts, release, leaf, "all"))
    monkeypatch.setattr(answers, "PAIRS_AT_ONCE", 50)
    tallied = dict(tallied_answers(counts, release, leaf, "all", only=("cells",)))
    (pairs,) = tallied.values()
    assert pairs.times is not None
    assert pairs.times.sum() > 5 * len(pairs.times)  # far fewer pairs than counts
    assert pairs.n == GEOGRAPHY.size(leaf) * SCHEMA.possible.sum()


def test_empirical_privacy_loss_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    """Its sums of floats are taken in another order, and are exact where pairs are counted."""
    counts, release = drawn(5, below_zero=True)
    metric = EmpiricalPrivacyLoss(calibrated=False)
    whole = metric.compute(release, Truth.of(counts)).table
    monkeypatch.setattr(answers, "PAIRS_AT_ONCE", 60)
    found = metric.compute(release, Truth.of(counts)).table
    for one, other in zip(whole.iter_rows(named=True), found.iter_rows(named=True), strict=True):
        for name in one:
            assert other[name] == (
                pytest.approx(one[name], rel=1e-9) if isinstance(one[name], float) else one[name]
            )


def test_areas_in_pieces_have_the_figures_of_the_whole_to_the_bit(monkeypatch: pytest.MonkeyPatch):
    counts, release = drawn(6)
    metrics = (Representation(), BiasByHomogeneity())
    whole = [one.compute(release, Truth.of(counts)).table for one in metrics]
    monkeypatch.setattr(representation, "ANSWERS_AT_ONCE", 40)
    monkeypatch.setattr(bias_by_homogeneity, "ANSWERS_AT_ONCE", 40)
    found = [one.compute(release, Truth.of(counts)).table for one in metrics]
    assert all(one.equals(other) for one, other in zip(whole, found, strict=True))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 6)), min_size=1, max_size=12),
    st.integers(0, 9),
    st.floats(0, 1),
)
def test_values_with_their_numbers_are_the_same_values_written_out(
    listed: Any, zeros: int, q: float
):
    values = np.array([value for value, _ in listed])
    times = np.array([number for _, number in listed])
    every = np.repeat(values, times)
    assert summarise(values, times=times, zeros=zeros) == summarise(every, zeros=zeros)
    sizes, all_sizes = np.abs(values).astype(float), np.abs(every).astype(float)
    assert median_of(sizes, times=times, zeros=zeros) == median_of(all_sizes, zeros=zeros)
    assert quantile_of(sizes, q, times=times, zeros=zeros) == quantile_of(all_sizes, q, zeros=zeros)
    one, other = published(values, times), published(every)
    assert (one.n, one.undefined) == (other.n, other.undefined)
    assert one.half_width == pytest.approx(other.half_width, rel=1e-12)
    assert one.kernel_sd == pytest.approx(other.kernel_sd, rel=1e-12)
    np.testing.assert_allclose(one.curve, other.curve, rtol=1e-6, atol=1e-9)
