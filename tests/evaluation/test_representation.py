"""Metrics of representation against plain loops."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.errors import InputError
from headcount.evaluation import Truth
from headcount.evaluation.representation import (
    Representation,
    _mean_squared_error,
    _represent,
    _size_bands,
    _underallocated,
    metrics,
    minorities,
    smoothed_kl,
)
from headcount.geography import regular
from headcount.mechanisms import Identity, protect
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.tabulate import Query, Tabulated, tabulate

tables = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=8)


def kl_by_hand(truth, released, mu, only):
    n, m = sum(truth), sum(released)
    total = 0.0
    for x, y, chosen in zip(truth, released, only, strict=True):
        if x > 0 and chosen:
            p, q = x / n + mu, (y / m if m else 0) + mu
            total += p * log(p / q)
    return total


@given(tables, st.sampled_from([1e-5, 1e-4, 1e-2]), st.sampled_from([0.1, 0.5]))
def test_each_metric_for_everyone_and_for_minorities(table, mu, below):
    truth, released = [x for x, _ in table], [y for _, y in table]
    few = [x < below * sum(truth) for x in truth]
    assert minorities(truth, below=below).tolist() == few
    by = Representation(smoothing=mu, minority_below=below, under=0.5)
    found = metrics(truth, released, by=by)
    for group, only in (("everyone", [True] * len(truth)), ("minorities", few)):
        assert found["kl", group] == pytest.approx(kl_by_hand(truth, released, mu, only))
        squares = [(y - x) ** 2 for (x, y), chosen in zip(table, only, strict=True) if chosen]
        if squares:
            assert found["mse", group] == pytest.approx(sum(squares) / len(squares))
        else:
            assert np.isnan(found["mse", group])
        lost = [x > 0 and y <= 0.5 * x for (x, y), c in zip(table, only, strict=True) if c]
        assert found["underallocated", group] == sum(lost)


def test_many_releases_at_once_are_each_alone():
    rng = np.random.default_rng(1)
    truth, released = rng.integers(0, 30, (4, 7)), rng.integers(0, 30, (5, 4, 7))
    few = minorities(truth)
    for metric in (smoothed_kl, _mean_squared_error, _underallocated):
        together = metric(truth, released, only=few)
        assert together.shape == (5, 4)
        for run in range(5):
            for area in range(4):
                alone = metric(truth[area], released[run, area], only=few[area])
                np.testing.assert_allclose(together[run, area], alone)


def test_a_perfect_release_costs_nothing_and_75_percent_is_underallocated():
    truth = np.array([80, 4, 0])
    assert smoothed_kl(truth, truth) == 0
    assert _mean_squared_error(truth, truth) == 0
    assert _underallocated(truth, truth) == 0
    assert _underallocated(truth, [60, 4, 0]) == _underallocated(truth, [61, 3, 5]) == 1
    assert _underallocated(truth, [61, 4, 0]) == 0


def test_smaller_mu_weighs_small_groups_more():
    truth, released = [95, 5], [100, 0]
    values = [float(smoothed_kl(truth, released, mu=mu)) for mu in (1e-2, 1e-3, 1e-4, 1e-5)]
    assert values == sorted(values)


def test_size_bands():
    bands = _size_bands([5, 10, 99, 100], [[1.0, 2, 4, np.nan], [3.0, 2, 6, 8]], edges=(10, 100))
    assert [(b["low"], b["high"], b["areas"], b["mean"]) for b in bands] == [
        (0, 10, 1, 2.0),
        (10, 100, 2, 3.5),
        (100, None, 1, 8.0),
    ]
    assert bands[0]["sd"] == pytest.approx(2**0.5)
    assert np.isnan(bands[2]["sd"])
    (only,) = _size_bands([5, 10], [1.0, 3.0])
    assert (only["low"], only["high"], only["mean"]) == (0, None, 2.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_release_is_scored_by_level_query_and_band(sparse):
    from scipy.sparse import csr_array

    schema = Schema((Attribute("hispanic", ("no", "yes")), Attribute("race", ("a", "b"))))
    tree = regular(children=2, depth=2)
    counts = tabulate(
        Population(
            "town",
            Domain(schema, tree),
            np.array([0, 1, 2], np.int32),
            np.array([0, 3, 1], np.int32),
            np.array([50, 2, 8]),
        )
    )
    released = np.array([[49, 0, -2, 0], [0, 0, 0, 0], [0, 8, 0, 0], [3, 0, 0, 0]])
    given = csr_array(released) if sparse else released
    table = _represent(counts, given, level="level_2", bands=(10,))
    lost = table.filter(metric="underallocated", group="everyone")
    assert lost["areas"].to_list() == [2, 1]  # nobody lives in the fourth
    assert lost["mean"].to_list() == [0.5, 0.0]
    mse = table.filter(metric="mse", group="everyone")["mean"].to_list()
    assert mse == [(2**2 / 4 + 0) / 2, 1 / 4]  # -2 counts as 0
    by_race = _represent(counts, given, level="level_2", query=Query("race", ("race",)))
    assert by_race.filter(metric="mse", group="everyone")["mean"].to_list() == pytest.approx(
        [((50 - 47) ** 2 / 2 + 2**2 / 2 + 0) / 3]
    )


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="mu: found 0, expected above 0"):
        smoothed_kl([1], [1], mu=0)
    with pytest.raises(InputError, match="released: found a count below 0"):
        smoothed_kl([1], [-1])
    with pytest.raises(InputError, match=r"released: found shape \(3,\), expected"):
        _mean_squared_error([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="at_most: found 1, expected 0 to below 1"):
        _underallocated([1], [1], at_most=1)
    with pytest.raises(InputError, match="below: found 0, expected above 0"):
        minorities([1], below=0)
    with pytest.raises(InputError, match="edges: found"):
        _size_bands([1], [1.0], edges=(3, 3))
    with pytest.raises(InputError, match="values: found shape"):
        _size_bands([1, 2], [1.0])


def test_areas_that_are_all_above_the_last_edge_stand_beside_smaller_ones():
    """Two areas of 150,000 people, then leaves of every size: one table of all levels."""
    schema = Schema(
        (Attribute("race", ("a", "b")), Attribute("hispanic", ("not_hispanic", "hispanic")))
    )
    people = np.array([100_000, 50_000, 149_500, 500])
    leaf, cell = np.arange(4, dtype=np.int32), np.array([0, 1, 2, 3], dtype=np.int32)
    geography = regular(children=2, depth=2)
    counts = tabulate(Population("two areas", Domain(schema, geography), leaf, cell, people))
    frame = (
        Representation().compute(protect(Tabulated.of(counts), Identity()), Truth.of(counts)).table
    )
    bands = frame.filter(metric="mse", group="everyone").select("level", "low", "high", "areas")
    assert bands.rows() == [
        (geography.levels[1], 100_000, None, 2),
        (geography.leaf, 100, 1_000, 1),
        (geography.leaf, 10_000, 100_000, 1),
        (geography.leaf, 100_000, None, 2),
    ]
