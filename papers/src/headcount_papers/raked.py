"""Raked counting of Flaxman (2019): geometric noise at every level, made to add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.domain import Domain
from headcount.mechanisms import (
    Context,
    CountsOutcome,
    Design,
    Noisy,
    measure_cells,
    noisy_cells,
)
from headcount.noise import Noise
from headcount.tabulate import Counts


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

    def on(self, domain: Domain) -> Design:
        """Every cell of every level once; one that no neighbour changes costs nothing."""
        levels = domain.geography.levels
        cells = (measure_cells(domain, level, neighbours=self) for level in levels)
        return Design(**self.planned(domain, *cells), whole_counts=False)

    def run(
        self, design: Design, counts: Counts, noise: Noise, *, runs: range, context: Context
    ) -> CountsOutcome:
        """Measure every level, then rake from the top."""
        geography, law = counts.geography, design.plan[0].law
        tables: dict[str, Floats] = {}
        shared_equally = 0
        for depth, level in enumerate(geography.levels):
            here = counts.at(level)
            answers = noisy_cells(here, noise, law, runs=runs, engine=context.engine)
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
        return CountsOutcome(tables, {"raked_from_a_zero_sum": shared_equally})


def rake(
    answers: Ints,
    above: Floats,
    *,
    parent: Ints32,
    start: Ints,
    possible: Flags,
) -> tuple[Floats, int]:
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
        scale: Floats = np.where(sums == 0, 0.0, above / sums)
    raked: Floats = answers * scale[:, parent]
    if zero.any():
        children = np.diff(start, append=len(parent))[None, :, None]
        equal = np.where(zero, above / children, 0.0)
        raked = np.where(zero[:, parent], equal[:, parent], raked)
    return raked, int(zero.sum())
