"""Populations made by hand, and the uniform population."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import regular
from headcount.population import Population, uniform
from headcount.population.uniform import children_per_unit
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import tabulate

SEX = Attribute("sex", ("f", "m", "x"))


def made(unit, cell, count=None, zeros=()):
    return Population(
        "mine",
        Domain(Schema((SEX,), zeros), regular(children=2, depth=1)),
        np.array(unit, dtype=np.int32),
        np.array(cell, dtype=np.int32),
        None if count is None else np.array(count, dtype=np.int64),
    )


def test_the_repr_does_not_depend_on_the_people():
    assert repr(made([0, 1], [2, 2])) == repr(made([], []))
    assert repr(made([], [])) == "<Population 'mine': 3 cells, <Geography whole 1, level_1 2>>"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [0]), r"mine: unit, cell and count: found lengths \[1, 2\], expected one length"),
        (([0], [0], [1, 1]), r"found lengths \[1, 2\], expected one length"),
        (([2], [0]), "mine: unit: found a number out of range, expected 0 to 1"),
        (([-1], [0]), "mine: unit: found a number out of range"),
        (([0], [3]), "mine: cell: found a number out of range, expected 0 to 2"),
        (([0], [0], [-1]), "mine: count: found a negative count, expected 0 or more"),
        (([0, 1], [0, 0], [2**62, 2**62]), "mine: count: found too many people, expected at most"),
        (
            ([0], [1], [2], (impossible({"sex": ["m"]}),)),
            "mine: found someone in a structural zero, expected nobody there",
        ),
    ],
)
def test_a_population_outside_its_public_domain_is_refused(parts, message):
    with pytest.raises(InputError, match=message):
        made(*parts)


@given(
    children=st.integers(1, 40),
    depth=st.integers(1, 6),
    mean=st.integers(1, 200),
    extra=st.integers(-1, 1),
)
def test_children_are_the_exact_root_at_and_beside_perfect_powers(children, depth, mean, extra):
    people = max(mean, mean * children**depth + extra)
    found = children_per_unit(people=people, depth=depth, mean=mean)
    by_search = next(c for c in range(1, 100) if mean * (c + 1) ** depth > people)
    assert found == by_search


def test_huge_perfect_powers_are_exact_too():
    assert children_per_unit(people=10**18, depth=3, mean=1) == 10**6
    assert children_per_unit(people=10**18 - 1, depth=3, mean=1) == 10**6 - 1
    assert children_per_unit(people=2**60, depth=6, mean=1) == 2**10
    for people in (2**60 - 1, 2**60 + 1):  # no float holds these
        assert children_per_unit(people=people, depth=1, mean=1) == people


def test_the_papers_uniform_population():
    population = uniform(people=1_000_000, depth=3, mean=100)
    assert [population.geography.size(level) for level in population.geography.levels] == [
        1,
        21,
        441,
        9_261,
    ]
    assert population.count is not None
    assert population.count.sum() == 1_000_000
    assert population.public
    assert population.domain.read_off == ()


def test_the_uniform_population_follows_its_seed():
    first, again, other = (
        tabulate(uniform(people=2_000, mean=10, seed=seed)).totals() for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def dispersion(counts) -> float:
    """Chi-square of equal leaves, as a probability."""
    expected = counts.sum() / len(counts)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def test_leaf_counts_are_multinomial():
    counts = uniform(people=200_000, depth=2, mean=100, seed=3).count
    assert counts is not None
    assert 0.001 < dispersion(counts) < 0.999
    # Negative controls: too even, and too uneven, are both seen.
    even = np.full(len(counts), counts.sum() // len(counts))
    assert dispersion(even) > 0.999
    assert dispersion(np.where(np.arange(len(counts)) % 2, 80, 120)) < 0.001


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"people": 0}, "uniform: people: found 0, expected from 1 to 1,000,000,000,000"),
        ({"depth": 0}, "uniform: depth: found 0, expected from 1 to 40"),
        ({"mean": -1}, "uniform: mean: found -1, expected from 1 to"),
        ({"people": 5, "mean": 6}, "uniform: mean: found 6, expected from 1 to 5"),
        ({"depth": 10**9}, "uniform: depth: found 1,000,000,000, expected from 1 to 40"),
        ({"people": 10**18}, "uniform: people: found 1,000,000,000,000,000,000, expected from 1"),
        ({"people": 10**12, "mean": 1}, "mean: found 1 of .* leaves, expected at most 1,000,000"),
    ],
)
def test_a_uniform_population_that_cannot_be(arguments, message):
    with pytest.raises(InputError, match=message):
        uniform(**arguments)
