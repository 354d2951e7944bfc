"""``kind = "uniform"``: the generated population of Flaxman (2019)."""

from __future__ import annotations

from dataclasses import dataclass

from headcount.fields import AtLeast0, AtLeast1
from headcount.population.population import Population
from headcount.population.sources import Generated
from headcount.population.uniform import refuse_sizes, uniform
from headcount.progress import Progress, silent


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
        refuse_sizes(people=self.people, depth=self.depth, mean=self.mean)

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people."""
        return uniform(people=self.people, depth=self.depth, mean=self.mean, seed=self.seed)
