"""Geometric counting of Flaxman (2019): two-sided geometric noise on every cell,

    Pr[G(z) = k] = (1 - exp(-z)) / (1 + exp(-z)) exp(-z |k|)

where
    z   the rate of the noise: a count that moves by 1 costs z

``epsilon`` is the loss under ``unit``, and the rate follows from it: epsilon over the sum of what
one step between neighbours moves in everything that is measured (``law_of_all``). The paper's own
figures are for ``unit="add-remove"``, where one count of each level moves by 1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import sqrt

import numpy as np

from headcount.domain import Domain
from headcount.mechanisms._base import Context, CountsOutcome, Design
from headcount.mechanisms._measured import ExpectedError, measure_cells
from headcount.mechanisms._noisy import Noisy, noisy_cells
from headcount.noise import Noise, TwoSidedGeometric
from headcount.tabulate import Counts


@dataclass(frozen=True, kw_only=True, repr=False)
class Geometric(Noisy):
    """GDPC: two-sided geometric noise on each leaf count (Flaxman 2019, 2.2)."""

    name = "geometric"

    def on(self, domain: Domain) -> Design:
        """Every leaf cell once."""
        cells = measure_cells(domain, domain.leaf, neighbours=self)
        return _SumsOfNoise(**self.planned(domain, cells))

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        """Leaf counts plus noise."""
        (cells,) = design.plan
        noisy = noisy_cells(counts, noise, cells.law, runs=runs, engine=context.engine)
        return CountsOutcome({counts.level: noisy})


class _SumsOfNoise(Design):
    """Of leaf cells that are published with their noise."""

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """Of every count the noise of the cells that it adds up: exact."""
        (cells,), domain = self.plan, self.domain
        geography, law, found = domain.geography, cells.law, []
        assert isinstance(law, TwoSidedGeometric)
        for level in geography.levels:
            places = np.bincount(geography.ancestors(level))
            for query in self.asked:
                groups = np.bincount(query.groups(domain.schema)[domain.schema.possible])
                groups = groups[groups > 0]
                draws: Counter[int] = Counter()
                for a, m in Counter(places.tolist()).items():
                    for b, n in Counter(groups.tolist()).items():
                        draws[a * b] += m * n
                mean = sum(n * times for n, times in draws.items()) / draws.total()
                found.append(
                    ExpectedError(
                        level=level,
                        query=query.name,
                        units=len(places),
                        answers=len(groups),
                        rmse=sqrt(mean * law.variance),
                        law=law,
                        sums=tuple(draws.items()),
                    )
                )
        return tuple(found)
