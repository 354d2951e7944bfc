"""Geometric counting of Flaxman (2019): two-sided geometric noise on every cell,

    Pr[G(z) = k] = (1 - exp(-z)) / (1 + exp(-z)) exp(-z |k|)

where
    z   the rate of the noise: a count that moves by 1 costs z

``epsilon`` is the loss under ``unit``, and the rate follows from it: epsilon over the sum of what
one step between neighbours moves in everything that is measured (``law_of_all``). The paper's own
figures are for ``unit="add-remove"``, where one count of each level moves by 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from headcount.domain import Domain
from headcount.mechanisms._base import Context, CountsOutcome, Design
from headcount.mechanisms._measured import PlannedMeasurement, measure_cells
from headcount.mechanisms._noisy import Noisy, noisy_cells
from headcount.noise import Noise
from headcount.tabulate import Counts


@dataclass(frozen=True, kw_only=True, repr=False)
class Geometric(Noisy):
    """GDPC: two-sided geometric noise on each leaf count (Flaxman 2019, 2.2)."""

    name = "geometric"

    def measures(self, domain: Domain) -> tuple[PlannedMeasurement, ...]:
        """Every leaf cell once."""
        return (measure_cells(domain, domain.leaf, neighbours=self),)

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        """Leaf counts plus noise."""
        (cells,) = design.plan
        noisy = noisy_cells(counts, noise, cells.law, runs=runs, engine=context.engine)
        return CountsOutcome({counts.level: noisy})
