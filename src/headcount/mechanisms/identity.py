"""The true counts: the baseline that protects nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.domain import Domain
from headcount.mechanisms._base import Context, CountsOutcome, Design, PostTabular
from headcount.mechanisms._measured import ExpectedError
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.tabulate import Counts


@dataclass(frozen=True, kw_only=True)
class Identity(PostTabular):
    """Publish the true counts: the baseline that protects nothing."""

    name = "identity"
    draws_noise = False

    def on(self, domain: Domain) -> Design:
        """No guarantee, and it says so."""
        none = Guarantee.none("the true counts are published as they are")
        return _Exact(method=self, domain=domain, guarantee=none, person_seconds=0.0)

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        """The truth, once per run."""
        return CountsOutcome({counts.level: np.repeat(counts.dense()[None], len(runs), axis=0)})


class _Exact(Design):
    """Of true counts."""

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """None: counts are the true ones."""
        geography = self.domain.geography
        return tuple(
            ExpectedError(
                level=level, query=query.name, units=geography.size(level), answers=0, rmse=0.0
            )
            for level in geography.levels
            for query in self.asked
        )
