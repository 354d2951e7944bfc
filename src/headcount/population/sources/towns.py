"""``kind = "towns"``: a synthetic state of people in dwellings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headcount.errors import ConfigError
from headcount.fields import AtLeast0, AtLeast1, Whole
from headcount.population.population import Population
from headcount.population.sources._base import Generated, InDwellings
from headcount.population.towns import towns
from headcount.population.towns.generate import FEWEST_PEOPLE, MOST_PEOPLE, most_counties
from headcount.progress import Progress, silent


@dataclass(frozen=True, kw_only=True)
class Towns(InDwellings, Generated):
    """A synthetic state.

    where
        seed       one seed, one state
        people     how many to aim at
        counties   by default one for each 50,000 people, at least five
    """

    kind = "towns"
    seed: AtLeast0 = 2010
    people: Annotated[int, Whole(low=FEWEST_PEOPLE, high=MOST_PEOPLE)] = 40_000
    counties: AtLeast1 | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.counties or 1) > (most := most_counties(self.people)):
            raise ConfigError(
                "population",
                place="counties",
                found=str(self.counties),
                expected=f"at most {most} for the people",
            )

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people in their dwellings."""
        return self.chosen(towns(seed=self.seed, people=self.people, counties=self.counties))
