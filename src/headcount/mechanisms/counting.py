"""The counting mechanisms of Flaxman (2019): geometric, raked and averaged; and identity.

All of them work on every cell of any schema. Their noise is two-sided geometric,

    Pr[G(z) = k] = (1 - exp(-z)) / (1 + exp(-z)) exp(-z |k|)

where
    z   the rate of the noise: a count that moves by 1 costs z

``epsilon`` is the loss under ``unit``, and the rate follows from it: epsilon over the sum of what
one step between neighbours moves in everything that is measured (``rate_for``). The paper's own
figures are for ``unit="add-remove"``, where one count of each level moves by 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from headcount.errors import ConfigError, PrivacyError, TruthError
from headcount.geography import Geography
from headcount.mechanisms.base import Context, Outcome, cell_stream, noisy, summed_draws
from headcount.mechanisms.measured import Measured, measure_cells
from headcount.mechanisms.noisy import Noisy
from headcount.mechanisms.units import refuse_uncut
from headcount.noise import Noise
from headcount.privacy import Guarantee
from headcount.schema import Schema
from headcount.tabulate import Counts

MOST_SUM = 1 << 63
"""Sums of 64-bit integers stay below."""


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
    ) -> Outcome:
        """The truth, once per run."""
        return Outcome({counts.level: np.repeat(counts.dense()[None], len(runs), axis=0)})


@dataclass(frozen=True, kw_only=True, repr=False)
class Geometric(Noisy):
    """GDPC: two-sided geometric noise on each leaf count (Flaxman 2019, 2.2)."""

    name = "geometric"

    def measures(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Every leaf cell once."""
        return (measure_cells(schema, geography, geography.leaf, neighbours=self),)

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> Outcome:
        """Leaf counts plus noise."""
        refuse_uncut(counts, self, name=self.name)
        (leaf,) = self.plan(counts.schema, counts.geography)
        drawn = noise.geometric(cell_stream(counts), epsilon=leaf.known_rate, draws=runs)
        return Outcome({counts.level: noisy(counts, drawn)})


@dataclass(frozen=True, kw_only=True, repr=False)
class Averaged(Noisy):
    """ADPC: the mean of P independent noisy counts, each at epsilon / P (Flaxman 2019, 2.2).

    P releases at epsilon / P compose to epsilon; averaging them costs nothing.
    """

    parts: int = 4
    name = "averaged"

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.parts) is not int or self.parts < 1:
            raise PrivacyError(f"averaged: parts: found {self.parts!r}, expected 1 or more")

    def measures(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Every leaf cell P times."""
        leaf = geography.leaf
        return (measure_cells(schema, geography, leaf, neighbours=self, draws=self.parts),)

    def check(self, counts: Counts) -> tuple[str, ...]:
        """Refuse sums over the parts that 64 bits would not hold, beside what others refuse.

        The sum of P draws of scale s is beyond 100 s sqrt(P) with a chance below e^-98 (Chernoff
        with exp(x / (s sqrt(P)))).
        """
        super().check(counts)
        (one,) = self.plan(counts.schema, counts.geography)
        reach = int(100 * (isqrt(self.parts) + 1) / one.known_rate) + 1
        if reach >= MOST_SUM // 2:
            raise ConfigError(
                "averaged", place="parts", found=f"{self.parts:,} with epsilon {self.epsilon}",
                expected="noise whose sum over the parts fits 62 bits",
            )  # fmt: skip
        if self.parts * int(counts.matrix.max()) + reach >= MOST_SUM:
            raise TruthError(
                "averaged", place="parts", found="counts whose sum over the parts passes 63 bits",
                expected="fewer parts, or smaller counts",
            )  # fmt: skip
        return ()

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> Outcome:
        """Sum the P integer answers of each run, then divide."""
        self.check(counts)
        (leaf,) = self.plan(counts.schema, counts.geography)
        stream, parts = cell_stream(counts), self.parts
        drawn = [
            summed_draws(noise, stream, epsilon=leaf.known_rate, draws=range(first, first + parts))
            for first in (run * parts for run in runs)
        ]
        return Outcome({counts.level: noisy(counts, np.stack(drawn), times=parts) / parts})


@dataclass(frozen=True, kw_only=True, repr=False)
class Raked(Noisy):
    """RDPC: noisy counts at every level, raked from the top to add up (Flaxman 2019, 2.2).

    Each of the J + 1 levels is measured with noise of the same rate: under add-remove that is
    epsilon / (J + 1), as in the paper. A single count at the top costs nothing when a record
    changes; its noise is that of the other levels, and these share epsilon. From the top down the
    noisy counts of the children are scaled to their parent's raked count, cell by cell,

        RDPC_child = NoisyC_child * RDPC_parent / sum over siblings of NoisyC

    where a zero sum shares the parent's count equally among the children; the receipt counts
    how often that happened.
    """

    name = "raked"

    def measures(self, schema: Schema, geography: Geography) -> tuple[Measured, ...]:
        """Every cell of every level once; one that no neighbour changes costs nothing."""
        return tuple(
            measure_cells(schema, geography, level, neighbours=self) for level in geography.levels
        )

    def run(
        self, counts: Counts, noise: Noise, *, runs: range, context: Context | None = None
    ) -> Outcome:
        """Measure every level, then rake from the top."""
        refuse_uncut(counts, self, name=self.name)
        geography = counts.geography
        rate = self.plan(counts.schema, geography)[0].known_rate
        tables: dict[str, NDArray[np.float64]] = {}
        shared_equally = 0
        for depth, level in enumerate(geography.levels):
            here = counts.at(level)
            drawn = noise.geometric(cell_stream(here), epsilon=rate, draws=runs)
            answers = noisy(here, drawn)
            if depth == 0:
                tables[level] = answers.astype(np.float64)
                continue
            above = geography.levels[depth - 1]
            tables[level], zeros = rake(
                answers,
                tables[above],
                parent=geography.parents[depth],
                start=geography.children_start(above),
                possible=counts.schema.possible,
            )
            shared_equally += zeros
        return Outcome(tables, {"raked_from_a_zero_sum": shared_equally})


def rake(
    answers: NDArray[np.int64],
    above: NDArray[np.float64],
    *,
    parent: NDArray[np.int32],
    start: NDArray[np.int64],
    possible: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], int]:
    """Scale children to their parents; return them and how many zero sums were shared equally.

    where
        answers    noisy counts of the children, runs x units x cells
        above      raked counts of the parents
        parent     each child's parent
        start      each parent's first child
        possible   the cells that are no structural zeros
    """
    sums = np.add.reduceat(answers, start, axis=1)
    zero = (sums == 0) & possible
    with np.errstate(divide="ignore", invalid="ignore"):
        scale: NDArray[np.float64] = np.where(sums == 0, 0.0, above / sums)
    raked: NDArray[np.float64] = answers * scale[:, parent]
    if zero.any():
        children = np.diff(start, append=len(parent))[None, :, None]
        equal = np.where(zero, above / children, 0.0)
        raked = np.where(zero[:, parent], equal[:, parent], raked)
    return raked, int(zero.sum())
