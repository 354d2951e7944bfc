"""What the gaps of margins say of changes, against laws that are worked out by adding up."""

from fractions import Fraction
from itertools import product as pairs

import numpy as np
import pytest

from headcount.mechanisms.cell_key.lookup import ByInterval
from headcount.mechanisms.cell_key.perturbation import PerturbationLimits, perturbation_rows
from headcount_papers.averaging.gaps import margin_gaps
from tests.attacks.test_changed_cells import rows
from tests.papers.gap_laws import chance_of_proof, gap_law


def test_gaps_are_totals_less_their_parts_and_exact_counts_are_no_terms():
    rng = np.random.default_rng(4)
    values = rng.integers(0, 5, (150, 4))
    exact = np.tile((True, False, False, False), 150)
    found = margin_gaps(rows(150, 3), values.ravel(), exact=exact)
    assert found.gap.tolist() == (values[:, 3] - values[:, :3].sum(axis=1)).tolist()
    assert found.smallest.tolist() == values.min(axis=1).tolist()
    assert found.terms.tolist() == [3] * 150
    assert margin_gaps(rows(150, 3), values.ravel()).terms.tolist() == [4] * 150


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
    found = margin_gaps(rows(20_000, 2), values)
    assert found.largest_change == 2
    assert found.variance == pytest.approx(1, rel=0.04)
    proofs = float((found.least == 2).mean())
    assert proofs == pytest.approx(chance_of_proof(law, 3), abs=0.01)


def test_the_largest_change_is_never_overstated():
    values, _ = published(300, 5, 3)
    assert margin_gaps(rows(300, 2), values).largest_change <= 5


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
    assert np.isnan(margin_gaps(rows(1, 2), np.array([1, 1, 0])).variance)
