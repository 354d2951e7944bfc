"""Controlled rounding: sums exact, the optimum that trying everything finds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from headcount.errors import ConfigError, InputError
from headcount.mechanisms.rounding import controlled
from headcount.mechanisms.rounding.controlled import round_controlled
from headcount.solve.mip import SolverError, _Found
from headcount.tabulate.additive import Additive, flat, from_relations, product_of_trees, tree


def inner_cells(additive: Additive):
    """Cells that are no totals: all others follow from them."""
    return np.setdiff1d(np.arange(additive.size), additive.total)


def spread(additive: Additive):
    """All cells x inner cells: which inner cells each cell is the sum of."""
    leaves = inner_cells(additive)
    full = np.zeros((additive.size, len(leaves)), dtype=np.int64)
    full[leaves, np.arange(len(leaves))] = 1
    while True:
        before = full.copy()
        for k, total in enumerate(additive.total):
            parts = additive.part[additive.start[k] : additive.start[k + 1]]
            full[total] = full[parts].sum(axis=0)
        if np.array_equal(before, full):
            return full


def filled(additive: Additive, values):
    """All cells from the inner ones."""
    return spread(additive) @ np.asarray(values)


def best_by_trying(additive: Additive, counts, base: int, steps: int = 0):
    """The smallest distance over all multiples within reach; None if none add up."""
    low = np.maximum(counts // base - steps, 0) * base
    high = (-(-counts // base) + steps) * base
    ways = [range(low[leaf], high[leaf] + 1, base) for leaf in inner_cells(additive)]
    every = np.array(list(product(*ways))) @ spread(additive).T
    fits = every[np.all((every >= low) & (every <= high), axis=1)]
    return int(np.abs(fits - counts).sum(axis=1).min()) if len(fits) else None


def tables():
    """Shapes with all margins: flat, nested, of two and of three dimensions."""
    nested = tree([-1, 0, 0, 1, 1])
    return [
        product_of_trees(flat(5)),
        product_of_trees(flat(2), flat(3)),
        product_of_trees(nested, flat(2)),
        product_of_trees(flat(2), flat(2), flat(2)),
    ]


@pytest.mark.parametrize("number", range(4))
def test_the_distance_is_the_smallest_that_trying_everything_finds(number):
    """50 tables of each of four shapes."""
    table = tables()[number]
    leaves = inner_cells(table.additive)
    random = np.random.default_rng(number)
    moved = 0
    for _ in range(50):
        base = int(random.integers(2, 7))
        counts = filled(table.additive, random.poisson(3, len(leaves)))
        found = round_controlled(table.additive, counts, base=base)
        assert found.proved
        assert not np.any(table.additive.matrix @ found.counts)
        assert not np.any(found.counts % base)
        steps = int(found.steps.max())
        assert np.abs(found.counts - counts).max() < (steps + 1) * base
        distance = int(np.abs(found.counts - counts).sum())
        assert distance == best_by_trying(table.additive, counts, base, steps)
        moved += distance > 0
    assert moved > 40


def test_a_table_of_two_dimensions_needs_no_integer_programme(monkeypatch):
    """Its relations are those of a network, so the relaxation is whole."""

    def never(program):
        raise AssertionError("an integer programme was asked for")

    monkeypatch.setattr(controlled, "search", never)
    table = product_of_trees(tree([-1, 0, 0, *[1] * 6, *[2] * 6]), flat(8))
    leaves = inner_cells(table.additive)
    counts = filled(table.additive, np.random.default_rng(5).poisson(4, len(leaves)))
    found = round_controlled(table.additive, counts, base=5)
    assert not np.any(table.additive.matrix @ found.counts)
    assert np.abs(found.counts - counts).max() < 5


def triangle() -> Additive:
    """Cells 0, 1, 2 with a total of each two of them (3, 4, 5), and apart from these 6 = 7 + 8."""
    return from_relations(9, [(3, [0, 1]), (4, [1, 2]), (5, [0, 2]), (6, [7, 8])])


def test_a_set_without_adjacent_multiples_that_add_up_takes_a_step_further_and_no_other_does():
    """Three cells of 1, each two of which are 2: to base 2, no choice of 0 and 2 adds up to 2."""
    additive, counts = triangle(), np.array([1, 1, 1, 2, 2, 2, 4, 3, 1])
    assert best_by_trying(additive, counts, 2) is None
    found = round_controlled(additive, counts, base=2)
    assert found.steps.tolist() == [1] * 6 + [0] * 3
    additive.check(found.counts)
    assert found.counts[6] == 4
    assert int(np.abs(found.counts - counts).sum()) == best_by_trying(additive, counts, 2, 1)


def test_counts_that_cannot_be_rounded_are_refused_without_a_count():
    with pytest.raises(
        InputError,
        match=r"set of linked cells with cell 0: found no rounding to base 2 within 0 steps",
    ):
        round_controlled(triangle(), np.array([1, 1, 1, 2, 2, 2, 4, 3, 1]), base=2, most_steps=0)
    with pytest.raises(InputError, match="totals that are not the sum of their parts"):
        round_controlled(triangle(), np.array([1, 1, 1, 2, 2, 3, 4, 3, 1]), base=2)
    with pytest.raises(InputError, match="found a count below 0"):
        round_controlled(triangle(), np.array([1, 1, 1, 2, 2, 2, 4, 5, -1]), base=2)
    with pytest.raises(ConfigError, match="base: found 1, expected 2 or more"):
        round_controlled(triangle(), np.array([1, 1, 1, 2, 2, 2, 4, 3, 1]), base=1)


def test_multiples_of_the_base_stay():
    table = product_of_trees(flat(3), flat(3))
    leaves = inner_cells(table.additive)
    counts = filled(table.additive, 5 * np.arange(len(leaves)))
    assert np.array_equal(round_controlled(table.additive, counts, base=5).counts, counts)


@pytest.mark.parametrize("given_up", [_Found(None, "Time limit reached")])
def test_a_search_that_is_given_up_without_an_answer_is_an_error(monkeypatch, given_up):
    monkeypatch.setattr(controlled, "search", lambda program: given_up)
    monkeypatch.setattr(controlled, "minimise", lambda program: np.full(len(program.cost), 0.5))
    with pytest.raises(SolverError, match="neither rounded some linked cells nor proved"):
        round_controlled(triangle(), np.array([1, 1, 1, 2, 2, 2, 4, 3, 1]), base=2)
