"""Averaged counting of Flaxman (2019): the mean of several geometric releases."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from headcount.domain import Domain
from headcount.errors import ConfigError, PrivacyError, TruthError
from headcount.fields import AtLeast1
from headcount.mechanisms import (
    Context,
    CountsOutcome,
    Design,
    Noisy,
    measure_cells,
    noisy_cells,
)
from headcount.noise import Noise, TwoSidedGeometric
from headcount.tabulate import Counts

MOST_SUM = 1 << 63
"""Sums of 64-bit integers stay below."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Averaged(Noisy):
    """ADPC: the mean of P independent noisy counts, each at epsilon / P (Flaxman 2019, 2.2).

    P releases at epsilon / P compose to epsilon; averaging them costs nothing.
    """

    parts: AtLeast1 = 4
    name = "averaged"

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.parts) is not int or self.parts < 1:
            raise PrivacyError(
                source="averaged", place="parts", found=repr(self.parts), expected="1 or more"
            )

    def on(self, domain: Domain) -> Design:
        """Every leaf cell P times."""
        cells = measure_cells(domain, domain.leaf, neighbours=self, draws=self.parts)
        return Design(**self.planned(domain, cells), whole_counts=False)

    def check(self, design: Design, counts: Counts) -> tuple[str, ...]:
        """Refuse sums over the parts that 64 bits would not hold, beside what others refuse.

        The sum of P draws of scale s is beyond 100 s sqrt(P) with a chance below e^-98 (Chernoff
        with exp(x / (s sqrt(P)))).
        """
        law = design.plan[0].law
        assert isinstance(law, TwoSidedGeometric)
        reach = int(100 * (isqrt(self.parts) + 1) / law.rate) + 1
        if reach >= MOST_SUM // 2:
            raise ConfigError(
                "averaged",
                place="parts",
                found=f"{self.parts:,} with epsilon {self.epsilon}",
                expected="noise whose sum over the parts fits 62 bits",
            )
        if self.parts * int(counts.matrix.max()) + reach >= MOST_SUM:
            raise TruthError(
                "averaged",
                place="parts",
                found="counts whose sum over the parts passes 63 bits",
                expected="fewer parts, or smaller counts",
            )
        return ()

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        """Sum the P integer answers of each run, then divide."""
        self.check(design, counts)
        law, engine, parts = design.plan[0].law, context.engine, self.parts
        summed = noisy_cells(counts, noise, law, runs=runs, engine=engine, times=parts)
        return CountsOutcome({counts.level: summed / parts})
