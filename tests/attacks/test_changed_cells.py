"""Gaps of margins against every table that can be behind them."""

from fractions import Fraction
from itertools import product as pairs

import numpy as np
import pytest

from headcount.attacks.changed_cells import _margin_gaps
from headcount.errors import InputError
from headcount.mechanisms.cell_key.lookup import ByInterval
from headcount.mechanisms.cell_key.perturbation import PerturbationLimits, perturbation_rows
from headcount.tabulate.additive import from_relations
from tests.attacks.gap_laws import chance_of_proof, gap_law


def rows(relations, parts):
    """Relations of one total and so many parts each, the total last."""
    number = np.arange(relations * (parts + 1)).reshape(relations, parts + 1)
    listed = [(int(one[-1]), one[:-1].tolist()) for one in number]
    return from_relations(number.size, listed)


def smallest_change(values, *, zeros_stay, exact=(False,) * 4):
    """By counting: the smallest D for which some table is within D of what is published."""
    for largest in range(20):
        ranges = [
            range(v, v + 1)
            if as_it_is
            else range(max(v - largest, 1 if v and zeros_stay else 0), v + largest + 1)
            for v, as_it_is in zip(values, exact, strict=True)
        ]
        if any(sum(parts) in ranges[-1] for parts in pairs(*ranges[:-1])):
            return largest
    raise AssertionError


@pytest.mark.parametrize("zeros_stay", [True, False])
def test_the_change_that_a_gap_proves_is_that_of_counting(zeros_stay):
    rng = np.random.default_rng(4)
    values = rng.integers(0, 5, (150, 4))
    values[:, -1] = rng.integers(0, 9, 150)
    found = _margin_gaps(rows(150, 3), values.ravel(), zeros_stay=zeros_stay)
    assert found.gap.tolist() == (values[:, 3] - values[:, :3].sum(axis=1)).tolist()
    assert found.least.tolist() == [smallest_change(v, zeros_stay=zeros_stay) for v in values]
    assert (found.least * 4 >= np.abs(found.gap)).all()


@pytest.mark.parametrize("exact", [(False, False, False, True), (True, False, False, False)])
def test_an_exact_count_leaves_more_to_the_others(exact):
    rng = np.random.default_rng(6)
    values = rng.integers(1, 5, (100, 4))
    values[:, -1] = rng.integers(6, 9, 100)
    found = _margin_gaps(rows(100, 3), values.ravel(), exact=np.tile(exact, 100))
    by_counting = [smallest_change(v, zeros_stay=True, exact=exact) for v in values]
    assert found.least.tolist() == by_counting
    assert (found.least >= _margin_gaps(rows(100, 3), values.ravel()).least).all()
    assert found.terms.tolist() == [3] * 100


def test_zeros_say_more_than_the_gap():
    """Five parts of 1 | 1: a gap of 4 over 6 counts proves 1, but each part holds 1 at least."""
    assert _margin_gaps(rows(1, 5), np.array([1, 1, 1, 1, 1, 1])).largest_change == 4
    assert _margin_gaps(rows(1, 5), np.array([1] * 6), zeros_stay=False).largest_change == 1


def published(relations, largest, variance):
    rng = np.random.default_rng(8)
    lookup = ByInterval(perturbation_rows(PerturbationLimits(largest, Fraction(variance))))
    true = rng.integers(30, 60, (relations, 3))
    true[:, 2] = true[:, :2].sum(axis=1)
    keys = rng.integers(0, 2**64, true.size, dtype=np.uint64)
    law = {v: float(p) for v, p in lookup.rows[-1].probabilities.items()}
    return true.ravel() + lookup.changes(true.ravel(), keys), law


def test_many_margins_reveal_the_largest_change_and_the_variance():
    values, law = published(20_000, 2, 1)
    found = _margin_gaps(rows(20_000, 2), values)
    assert found.largest_change == 2
    assert found.variance == pytest.approx(1, rel=0.04)
    proofs = float((found.least == 2).mean())
    assert proofs == pytest.approx(chance_of_proof(law, 3), abs=0.01)


def test_the_largest_change_is_never_overstated():
    values, _ = published(300, 5, 3)
    assert _margin_gaps(rows(300, 2), values).largest_change <= 5


def test_the_law_of_a_gap_is_that_of_listing_all_changes():
    law = {-1: 0.25, 0: 0.5, 2: 0.25}
    listed: dict[int, float] = {}
    for changes in pairs(law, repeat=3):
        chance = float(np.prod([law[v] for v in changes]))
        listed[sum(changes)] = listed.get(sum(changes), 0) + chance
    found = {v: p for v, p in gap_law(law, 3).items() if p}
    assert found == pytest.approx(listed)
    assert chance_of_proof(law, 3) == pytest.approx(sum(p for v, p in listed.items() if abs(v) > 3))


def test_without_large_counts_the_variance_is_not_known():
    assert np.isnan(_margin_gaps(rows(1, 2), np.array([1, 1, 0])).variance)


def test_values_below_0_are_an_error():
    with pytest.raises(InputError, match="margins: found a value below 0 or a cell without one"):
        _margin_gaps(rows(1, 2), np.array([1, -1, 0]))
