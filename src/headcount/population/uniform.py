"""``kind = "uniform"``: people spread evenly over a regular tree, as in Flaxman (2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.domain import Domain
from headcount.draws import multinomial
from headcount.errors import InputError
from headcount.fields import AtLeast0, AtLeast1
from headcount.geography import regular
from headcount.population import Generated
from headcount.population.population import Population
from headcount.processes import Progress, silent
from headcount.schema import Schema

MOST_PEOPLE, MOST_DEPTH, MOST_LEAVES = 10**12, 40, 10**6
"""Largest sizes: a million leaves take seconds."""


@dataclass(frozen=True, kw_only=True)
class Uniform(Generated):
    """People spread evenly over a regular tree.

    where
        people   how many
        depth    levels below the whole
        mean     people in a leaf, to aim at
        seed     one seed, one population
    """

    kind = "uniform"
    people: AtLeast1 = 1_000_000
    depth: AtLeast1 = 3
    mean: AtLeast1 = 100
    seed: AtLeast0 = 0

    def __post_init__(self) -> None:
        _refuse_sizes(people=self.people, depth=self.depth, mean=self.mean)

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people."""
        return uniform(people=self.people, depth=self.depth, mean=self.mean, seed=self.seed)


def uniform(
    *, people: int = 1_000_000, depth: int = 3, mean: int = 100, seed: int = 0
) -> Population:
    """N people, each placed at every level uniformly at random (Flaxman 2019, section 2.1).

    A person who picks one of C children at each of J levels lands on each of the C^J leaves
    with equal probability, so the leaf counts are one multinomial draw.
    """
    _refuse_sizes(people=people, depth=depth, mean=mean)
    geography = regular(
        children=children_per_unit(people=people, depth=depth, mean=mean), depth=depth
    )
    leaves = geography.size(geography.leaf)
    counts = multinomial(np.random.default_rng(seed), people, np.full(leaves, 1 / leaves))
    return Population(
        name=f"uniform(people={people}, depth={depth}, mean={mean}, seed={seed})",
        domain=Domain(Schema(), geography),
        unit=np.arange(leaves, dtype=np.int32),
        cell=np.zeros(leaves, dtype=np.int32),
        count=counts.astype(np.int64),
        public=True,
    )


def children_per_unit(*, people: int, depth: int, mean: int) -> int:
    """C = floor((N / mu)^(1/J)), in integers.

    where
        N   people
        J   levels of the hierarchy below the whole
        mu  mean number of people per leaf that is aimed at
    """
    children: int = round((people / mean) ** (1 / depth))
    while children**depth * mean > people:
        children -= 1
    while (children + 1) ** depth * mean <= people:
        children += 1
    return children


def _refuse_sizes(*, people: int, depth: int, mean: int) -> None:
    """Refuse sizes that make no tree, or one that takes more than minutes and gigabytes."""
    for name, value, most in (
        ("people", people, MOST_PEOPLE),
        ("depth", depth, MOST_DEPTH),
        ("mean", mean, people),
    ):
        if not 1 <= value <= most:
            raise InputError(
                "uniform", place=name, found=f"{value:,}", expected=f"from 1 to {most:,}"
            )
    if people // mean > MOST_LEAVES:
        raise InputError(
            "uniform",
            place="mean",
            found=f"{mean:,} of {people:,} people in a leaf, or {people // mean:,} leaves",
            expected=f"at most {MOST_LEAVES:,} leaves",
        )
