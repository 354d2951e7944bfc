"""Complementary suppression: sound by the audit, near the optimum, repeatable."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.bench.suppression_workloads import small_table
from headcount.errors import InputError
from headcount.evaluate.withheld import audit_withheld
from headcount.mechanisms.suppression.complementary import complement, derivable
from headcount.mechanisms.suppression.exact import ExactError, cheapest_pattern
from headcount.mechanisms.suppression.moves import splits
from headcount.tabulate.additive import flat, from_relations, product_of_trees, tree


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


def audited(additive, values, pattern, width=3):
    audit = audit_withheld(
        additive, values, withheld=pattern.withheld, primary=pattern.primary, width=width
    )
    narrow = set(audit.narrow_primary.tolist()) - set(pattern.failed.tolist())
    return audit, narrow


@pytest.mark.parametrize(("seed", "effort"), [(0, 0), (1, 0), (2, 1)])
def test_patterns_of_nested_tables_pass_the_audit(seed, effort):
    made, values = census(seed)
    primary = (values > 0) & (values < 3)
    publish = made.additive.unit == 0
    publish &= ~primary
    pattern = complement(made.additive, values, primary, publish=publish, effort=effort)
    audit, narrow = audited(made.additive, values, pattern)
    assert not narrow
    assert not len(audit.exact_secondary)
    assert not len(audit.missed)
    assert not np.any(pattern.withheld & (values == 0))
    assert not np.any(pattern.withheld & publish)
    assert np.all(pattern.withheld[primary])
    found = audit.intervals
    assert np.all(
        found.width >= np.minimum(pattern.proven[found.cell], 3) - 2 * (~primary[found.cell])
    )


def test_small_regions_of_a_large_tree_pass_the_audit(monkeypatch):
    monkeypatch.setattr("headcount.mechanisms.suppression.complementary.REGION", (60, 60, 60, 60))
    made, values = census(7, tracts=(6, 6, 6), blocks=3)
    primary = (values > 0) & (values < 3)
    pattern = complement(made.additive, values, primary, effort=0)
    audit, narrow = audited(made.additive, values, pattern)
    assert not narrow
    assert not len(audit.exact_secondary)
    assert len(pattern.failed) <= 2


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]))
def test_random_tables_pass_the_audit_at_any_width(seed, width):
    table = small_table(seed)
    pattern = complement(
        table.additive, table.values, table.primary, publish=table.publish, width=width, effort=0
    )
    audit, narrow = audited(table.additive, table.values, pattern, width)
    assert not narrow
    assert not len(audit.exact_secondary)
    again = complement(
        table.additive, table.values, table.primary, publish=table.publish, width=width, effort=0
    )
    assert again.withheld.tolist() == pattern.withheld.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_near_the_optimum(seed):
    table = small_table(seed)
    ours = complement(table.additive, table.values, table.primary, publish=table.publish)
    best = cheapest_pattern(table.additive, table.values, table.primary, publish=table.publish)
    audit, narrow = audited(table.additive, table.values, best)
    assert not narrow
    assert not len(audit.exact_secondary)
    assert best.cost <= ours.cost + 1e-6
    assert ours.cost <= 1.25 * best.cost or ours.withheld.sum() <= best.withheld.sum() + 1


def brute_force(additive, values, primary, price):
    """The least price of all patterns that pass the audit."""
    others = np.flatnonzero(~primary & (values > 0))
    for number in range(len(others) + 1):
        costs = []
        for some in combinations(others, number):
            withheld = primary.copy()
            withheld[list(some)] = True
            if audit_withheld(additive, values, withheld=withheld, primary=primary).clean:
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
    primary = (values > 0) & (values < 3)
    price = np.ones(12)
    best = cheapest_pattern(made.additive, values, primary, price=price)
    assert best.cost == brute_force(made.additive, values, primary, price)


def test_an_optimum_that_is_not_proven_is_an_error(monkeypatch):
    monkeypatch.setattr("headcount.mechanisms.suppression.exact.ROUNDS", 1)
    table = small_table(7)
    with pytest.raises(ExactError, match="found broken cuts after 1 rounds, expected a proof"):
        cheapest_pattern(table.additive, table.values, table.primary, publish=table.publish)


def test_what_cannot_be_protected_is_said():
    additive = from_relations(3, [(0, [1, 2])])
    pattern = complement(additive, [2, 2, 0], [False, True, False], publish=[True, False, False])
    assert pattern.failed.tolist() == [1]
    assert pattern.withheld.tolist() == [False, True, False]
    assert pattern.proven.tolist() == [0, 0, 0]
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
    assert list(splits(1, 3)) == [(2, 1), (3, 0)]
    assert list(splits(2, 3)) == [(2, 1), (1, 2), (3, 0)]
    assert list(splits(9, 1)) == [(1, 0), (0, 1)]


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
