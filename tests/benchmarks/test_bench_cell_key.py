from fractions import Fraction

import pytest

from benchmarks.cell_key import measure
from headcount.mechanisms.cell_key import mechanism
from headcount.mechanisms.cell_key.perturbation import PerturbationLimits, perturbation_rows


def test_changes_have_their_law_and_everything_is_timed():
    found = {one.what: one for one in measure(people=20_000)}
    assert found["one table"].note == "81,000 cells of 20,000 people"
    assert "at 5 levels" in found["P1 to P4 of towns"].note
    for count in (1, 2, 3):
        assert found[f"p-value, counts of {count}"].value > 1e-6


@pytest.mark.parametrize("variance", [Fraction(3, 4), Fraction(3, 2)])
def test_changes_of_another_table_are_found_out(variance, monkeypatch):
    other = perturbation_rows(PerturbationLimits(3, variance))
    monkeypatch.setattr(mechanism, "entropy_rows", lambda limits: other)
    found = {one.what: one for one in measure(people=20_000)}
    assert min(found[f"p-value, counts of {count}"].value for count in (1, 2, 3)) < 1e-6
