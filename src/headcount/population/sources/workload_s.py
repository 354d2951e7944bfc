"""``kind = "workload-s"``: a plain made-up state on which swappers are timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headcount.fields import AtLeast0, Whole
from headcount.population.population import Population
from headcount.population.sources._base import Generated, InDwellings
from headcount.population.workload_s import MOST_HOUSEHOLDS, workload_s
from headcount.progress import Progress, silent


@dataclass(frozen=True, kw_only=True)
class WorkloadS(InDwellings, Generated):
    """Households dropped on 36,000 blocks.

    where
        seed         one seed, one state
        households   how many
    """

    kind = "workload-s"
    seed: AtLeast0 = 20261115
    households: Annotated[int, Whole(low=1, high=MOST_HOUSEHOLDS)] = 1_000_000

    def read(self, progress: Progress = silent) -> Population:
        """Generate the people in their dwellings."""
        return self.chosen(workload_s(seed=self.seed, households=self.households))
