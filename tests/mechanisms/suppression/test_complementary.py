"""Complementary suppression: sound against who knows the rules, near the optimum, repeatable."""

from itertools import combinations

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InputError
from headcount.evaluation.suppressed import check_witnesses
from headcount.mechanisms.suppression import complementary, witnesses
from headcount.mechanisms.suppression.complementary import complement, derivable
from headcount.mechanisms.suppression.witnesses import splits
from headcount.solve.mip import SolverError
from headcount.tabulate.additive import flat, from_relations, product_of_trees, tree
from tests.support.additive_tables import random_table, small_table
from tests.support.suppression_exact import ExactError, cheapest_pattern
from tests.support.suppression_oracle import interval, unprotected
from tests.support.withheld_audit import audit_withheld


def census(seed, *, tracts=(4, 3, 5), blocks=2):
    """Three counties of tracts of blocks x 3 races x 2, with small counts and zeros."""
    rng = np.random.default_rng(seed)
    county = np.repeat(np.arange(len(tracts)), tracts)
    tract = np.repeat(np.arange(len(county)), blocks)
    geography = tree(
        np.concatenate([[-1], np.zeros(len(tracts), int), 1 + county, 1 + len(tracts) + tract])
    )
    made = product_of_trees(geography, flat(3), flat(2))
    inner = rng.poisson(rng.gamma(0.7, 9, size=(len(tract), 3, 2)))
    leaf, race, sex = (one.ravel() for one in np.indices(inner.shape))
    return made, made.fill([geography.leaves[leaf], 1 + race, 1 + sex], inner.ravel())


def test_nothing_derived_from_the_truth_is_logged(caplog):
    made, values = census(0)
    with caplog.at_level("DEBUG", logger="headcount"):
        complement(made.additive, values, (values > 0) & (values < 3), effort=0)
    assert caplog.messages == []


def assert_sound(additive, values, pattern, *, width=3, threshold=2):
    """Witnesses for every small count but those that failed, and nothing for linear programs."""
    told = {"withheld": pattern.withheld, "primary": pattern.primary, "width": width}
    shown = check_witnesses(
        additive, values, witnesses=pattern.witnesses, threshold=threshold, **told
    )
    assert shown.unprotected.tolist() == pattern.failed.tolist()
    assert not len(shown.wrong)
    assert not len(shown.idle)
    assert not len(shown.zeros)
    attack = audit_withheld(additive, values, **told)
    assert set(attack.narrow_primary.tolist()) <= set(pattern.failed.tolist())
    assert not len(attack.exact_secondary)
    assert not len(attack.missed)


@pytest.mark.parametrize(("seed", "effort"), [(0, 0), (1, 0), (2, 1)])
def test_patterns_of_nested_tables_pass_the_audit(seed, effort):
    made, values = census(seed)
    primary = (values > 0) & (values < 3)
    publish = made.additive.unit == 0
    publish &= ~primary
    pattern = complement(made.additive, values, primary, publish=publish, effort=effort)
    assert_sound(made.additive, values, pattern)
    assert not np.any(pattern.withheld & (values == 0))
    assert not np.any(pattern.withheld & publish)
    assert np.all(pattern.withheld[primary])


def test_small_regions_of_a_large_tree_pass_the_audit(monkeypatch):
    monkeypatch.setattr("headcount.mechanisms.suppression.complementary.REGION", (60, 60, 60, 60))
    made, values = census(7, tracts=(6, 6, 6), blocks=3)
    primary = (values > 0) & (values < 3)
    pattern = complement(made.additive, values, primary, effort=0)
    assert_sound(made.additive, values, pattern)
    assert not len(pattern.failed)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]), st.sampled_from([1, 2, 4]))
def test_random_tables_pass_the_audit_at_any_width_and_threshold(seed, width, threshold):
    table = small_table(seed)
    primary = (table.values > 0) & (table.values <= threshold)
    asked = {"width": width, "threshold": threshold}
    pattern = complement(
        table.additive, table.values, primary, publish=table.publish & ~primary, effort=0, **asked
    )
    assert_sound(table.additive, table.values, pattern, **asked)
    again = complement(
        table.additive, table.values, primary, publish=table.publish & ~primary, effort=0, **asked
    )
    assert again.withheld.tolist() == pattern.withheld.tolist()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0, 1]))
def test_no_small_count_is_told_by_an_integer_program(seed, effort):
    table, member = random_table(seed)
    pattern = complement(table.additive, table.values, table.primary, effort=effort)
    assert not len(pattern.failed)
    assert not unprotected(member, table.values, pattern.withheld, table.primary)


def test_the_integer_program_sees_patterns_that_withhold_too_little():
    """Negative control: cells that are uncertain by 1 only."""
    told = 0
    for seed in range(5):
        table, member = random_table(seed)
        few = complement(
            table.additive, table.values, table.primary, width=1, threshold=1, effort=0
        )
        told += len(unprotected(member, table.values, few.withheld, table.primary))
    assert told > 5


def test_the_integer_program_knows_what_can_be_told():
    member = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    values, withheld = np.array([9, 2, 3, 4]), np.array([False, True, True, False])
    assert interval(member, values, withheld, 1) == (1, 4)
    assert interval(member, values, withheld, 1, least=0) == (0, 5)
    assert interval(member, values, withheld, 3) == (4, 4)
    withheld[0] = True
    assert interval(member, values, withheld, 1) == (1, np.inf)
    assert unprotected(member, values, withheld, values == 2) == []
    assert unprotected(member, values, ~withheld, values == 2) == [1]


@pytest.mark.parametrize("seed", range(3))
def test_near_the_optimum(seed):
    table = small_table(seed)
    ours = complement(table.additive, table.values, table.primary, publish=table.publish)
    best = cheapest_pattern(table.additive, table.values, table.primary, publish=table.publish)
    assert_sound(table.additive, table.values, best)
    assert best.cost <= ours.cost + 1e-6
    assert ours.cost <= 1.25 * best.cost or ours.withheld.sum() <= best.withheld.sum() + 1


def brute_force(member, values, primary, price):
    """The least price of all patterns that the integer program finds sound."""
    others = np.flatnonzero(~primary & (values > 0))
    for number in range(len(others) + 1):
        costs = []
        for some in combinations(others, number):
            withheld = primary.copy()
            withheld[list(some)] = True
            ends = [interval(member, values, withheld, int(i)) for i in some]
            if any(low == high for low, high in ends):
                continue  # a secondary cell that is exact
            if not unprotected(member, values, withheld, primary):
                costs.append(price[list(some)].sum())
        if costs:
            return min(costs)
    return None


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_that_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    made = product_of_trees(flat(2), flat(3))
    row, column = (one.ravel() for one in np.indices((2, 3)))
    inner = rng.integers(3, 9, size=6)
    inner[rng.choice(6, size=2, replace=False)] = rng.integers(1, 3, size=2)
    inner[0] = 0 if seed % 2 else inner[0]
    values = made.fill([1 + row, 1 + column], inner)
    member = np.stack([made.fill([1 + row, 1 + column], one) for one in np.eye(6, dtype=int)], 1)
    primary = (values > 0) & (values < 3)
    price = np.ones(12)
    best = cheapest_pattern(made.additive, values, primary, price=price)
    assert best.cost == brute_force(member, values, primary, price)


def test_an_optimum_that_is_not_proven_is_an_error(monkeypatch):
    monkeypatch.setattr("tests.support.suppression_exact.ROUNDS", 1)
    table = small_table(7)
    with pytest.raises(ExactError, match="found broken cuts after 1 rounds, expected a proof"):
        cheapest_pattern(table.additive, table.values, table.primary, publish=table.publish)


def test_what_cannot_be_protected_is_said():
    additive = from_relations(3, [(0, [1, 2])])
    pattern = complement(additive, [2, 2, 0], [False, True, False], publish=[True, False, False])
    assert pattern.failed.tolist() == [1]
    assert pattern.withheld.tolist() == [False, True, False]
    assert not len(pattern.witnesses)
    same = cheapest_pattern(additive, [2, 2, 0], [False, True, False], publish=[True, False, False])
    assert same.failed.tolist() == [1]


def test_what_follows_from_published_cells_is_found_by_and_by():
    additive = from_relations(6, [(0, [1, 2]), (2, [3, 4]), (5, [4, 3])])
    withheld = np.array([False, False, True, True, False, True])
    assert derivable(additive, withheld).all()
    both = np.array([False, False, False, True, True, False])
    assert derivable(additive, both).tolist() == (~both).tolist()


def test_prices_decide():
    additive = from_relations(4, [(0, [1, 2, 3])])
    values, primary = [30, 2, 8, 20], [False, True, False, False]
    for cheap in (2, 3):
        price = np.full(4, 5.0)
        price[cheap] = 1
        pattern = complement(additive, values, primary, price=price)
        assert np.flatnonzero(pattern.secondary).tolist() == [cheap]


def test_uncertainty_is_split_evenly_first():
    assert list(splits(0, 3, 2)) == [(3, 0)]  # a count of 1 can only be raised
    assert list(splits(1, 3, 1)) == [(2, 1), (3, 0)]
    assert list(splits(9, 3, 1)) == [(2, 1), (1, 2), (3, 0), (1, 3)]
    assert list(splits(9, 1, 0)) == [(1, 0), (0, 1)]
    assert list(splits(0, 3, 5)) == [(5, 0)]


@pytest.mark.parametrize("effort", [0, 1])
def test_what_nothing_near_protects_is_withheld_upwards(effort):
    """Two lone people in a column each: no count elsewhere has anything to give."""
    made = product_of_trees(flat(2), flat(2))
    values = made.fill([[1, 2], [1, 2]], [1, 1])
    primary = (values > 0) & (values < 3)
    pattern = complement(made.additive, values, primary, effort=effort)
    assert pattern.withheld.tolist() == (values > 0).tolist()
    assert_sound(made.additive, values, pattern)


def test_at_the_extreme_everything_is_withheld(monkeypatch):
    monkeypatch.setattr(witnesses.Mover, "cheapest", lambda *_, **__: None)  # finds none
    made, values = census(3)
    primary = (values > 0) & (values < 3)
    pattern = complement(made.additive, values, primary, effort=0)
    assert not len(pattern.failed)
    assert pattern.withheld.tolist() == (values > 0).tolist()
    assert_sound(made.additive, values, pattern)
    publish = np.arange(len(values)) == 0
    left = complement(made.additive, values, primary, publish=publish, effort=0)
    assert left.failed.tolist() == np.flatnonzero(primary).tolist()


def test_a_move_that_is_not_whole_is_doubled_or_sought_by_an_integer_program(monkeypatch):
    half = np.array([0.5, -0.5])
    doubled = witnesses._multiple(half, np.array([0, 1]), (3, 0))
    assert doubled is not None
    assert doubled.tolist() == [1, -1]
    assert witnesses._multiple(half, np.array([0, 0]), (3, 0)) is None
    assert witnesses._multiple(np.array([0.2, -0.2]), np.array([9, 9]), (3, 0)) is None
    monkeypatch.setattr(witnesses, "_multiple", lambda *_: None)  # as if no program were whole
    table, member = random_table(3)
    pattern = complement(table.additive, table.values, table.primary, effort=0)
    assert_sound(table.additive, table.values, pattern)
    assert not unprotected(member, table.values, pattern.withheld, table.primary)
    assert not len(pattern.failed)


def test_a_solver_that_fails_costs_cells_not_the_run(monkeypatch):
    def fails(*_, **__):
        raise SolverError("the process of HiGHS ended without an answer")

    monkeypatch.setattr(witnesses, "_multiple", lambda *_: None)
    monkeypatch.setattr(witnesses, "solve_apart", fails)
    table, member = random_table(3)
    pattern = complement(table.additive, table.values, table.primary, effort=0)
    assert pattern.withheld.tolist() == (table.values > 0).tolist()
    assert_sound(table.additive, table.values, pattern)
    monkeypatch.undo()
    monkeypatch.setattr("highspy.Highs.getModelStatus", lambda _: highspy.HighsModelStatus.kUnknown)
    again = complement(table.additive, table.values, table.primary, effort=0)
    assert again.withheld.tolist() == pattern.withheld.tolist()
    assert not unprotected(member, table.values, again.withheld, table.primary)


def test_a_count_of_two_may_rise_and_fall_by_moves_that_have_nothing_in_common():
    """Upwards against one row, downwards against another: neither can do both."""
    additive = from_relations(8, [(0, [1, 2]), (3, [1, 4]), (5, [2, 6]), (7, [4, 6])])
    values = np.array([5, 2, 3, 4, 2, 5, 2, 4])
    mover = witnesses.Mover(additive.matrix, values, np.ones(8))
    need = complementary.needs(values, values == 2, threshold=2, width=3)
    found = mover.cheapest(1, need)
    assert found is not None
    assert need.met(found)[found.cell == 1].all()
    for cell, change in found.witnesses:
        table = values.copy()
        table[cell] += change
        assert table.min() >= 1
        additive.check(table)


GOOD = {"values": [5, 2, 3], "primary": [False, True, False]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [5, 2, 2]}, "found 1 totals that are not the sum"),
        ({"values": [2, 3, -1]}, "values: found negative counts"),
        ({"values": [3, 0, 3]}, "cell 1: found a zero among the primary cells"),
        ({"publish": [False, True, False]}, "cell 1: found a cell to publish among the primary"),
        ({"primary": [True]}, r"primary: found shape \(1,\)"),
        ({"price": [1, 0, 1]}, "price: found a price that is not positive"),
        ({"effort": 9}, "effort: found 9, expected 0 to 3"),
    ],
)
def test_refusals(change, message):
    additive = from_relations(3, [(0, [1, 2])])
    asked = GOOD | change
    values, primary = asked.pop("values"), asked.pop("primary")
    with pytest.raises(InputError, match=message):
        complement(additive, values, primary, **asked)
