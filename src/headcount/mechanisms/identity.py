"""The true counts: the baseline that protects nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.geography import Geography
from headcount.mechanisms._base import Context, CountsOutcome
from headcount.mechanisms._measured import Measured
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.schema import Schema
from headcount.tabulate import Counts


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Publish the true counts: the baseline that protects nothing."""

    name = "identity"
    draws_noise = False

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """None, and it says so."""
        return Guarantee.none("the true counts are published as they are")

    def plan(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Nothing is measured with noise."""
        return ()

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Any counts will do."""
        return ()

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> CountsOutcome:
        """The truth, once per run."""
        return CountsOutcome({counts.level: np.repeat(counts.dense()[None], len(runs), axis=0)})
