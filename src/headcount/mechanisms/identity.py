"""The true counts: the baseline that protects nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.geography import Geography
from headcount.mechanisms._base import Context, CountsOutcome, PostTabular
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.schema import Schema
from headcount.tabulate import Counts


@dataclass(frozen=True, kw_only=True)
class Identity(PostTabular):
    """Publish the true counts: the baseline that protects nothing."""

    name = "identity"
    draws_noise = False

    def guarantee(self, schema: Schema, geography: Geography) -> Guarantee:
        """None, and it says so."""
        return Guarantee.none("the true counts are published as they are")

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> CountsOutcome:
        """The truth, once per run."""
        return CountsOutcome({counts.level: np.repeat(counts.dense()[None], len(runs), axis=0)})
