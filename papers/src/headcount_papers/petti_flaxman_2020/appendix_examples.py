"""The two examples of the appendix: what composition and invariants do to EPL.

Both solve small least-squares problems without negative counts,

    minimise  sum_i (x_i - y_i)^2 + w (sum_i x_i - T)^2   subject to  x >= 0

where
    y   noisy counts of the cells
    T   their total: noisy (composition), or exact (invariants)
    w   weight of the total; infinite for a total that is met exactly

whose solution is x_i = max(y_i - c, 0) with one c for each total.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import inf, isinf
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.comparison.cases import Case, run_cases
from headcount.comparison.study import Work
from headcount.evaluation.part import some_of
from headcount.mechanisms import Geometric
from headcount.privacy import UnitOfPrivacy
from headcount.processes import silent
from headcount.tabulate import TOTAL, Counts, Tabulated
from headcount_papers.empirical_privacy_loss import published
from headcount_papers.frame.published_noise import AsPublished
from headcount_papers.histogram import coarsen
from headcount_papers.petti_flaxman_2020.appendix import published_data, twice_median
from headcount_papers.petti_flaxman_2020.residuals import STRATA

STATE = "53"
"""Washington, the state of the appendix."""
PENALTY = 100.0
AS_CODED = "0.25 and 0.75"
ADD_REMOVE = UnitOfPrivacy.ADD_REMOVE


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Example:
    """Districts of one state: Washington, or all districts where it is not there.

    ``strata`` and ``totals`` are their people as each mechanism of the examples counts them.
    """

    place: str
    strata: Tabulated
    totals: Tabulated
    county: Ints

    @classmethod
    def of(cls, counts: Counts) -> Example:
        """Count the districts' people by stratum, and in all."""
        geography = counts.geography
        codes = list(geography.units[geography.depth("state")])
        here = np.ones(geography.size(geography.leaf), dtype=bool)
        if STATE in codes:
            here = geography.ancestors("state") == codes.index(STATE)
        leaves = np.flatnonzero(here)
        some = coarsen(counts, STRATA)
        domain = replace(some.domain, geography=some_of(geography, leaves)[0])
        strata = replace(some, domain=domain, matrix=some.matrix[leaves])
        return cls(
            place="districts of Washington" if STATE in codes else "all districts",
            strata=Tabulated.of(strata),
            totals=Tabulated.of(coarsen(strata, TOTAL)),
            county=np.asarray(strata.geography.ancestors("county"), dtype=np.int64),
        )

    def measured(
        self, *, seed: int, work: Work, total: Fraction | None, strata: Fraction, number: int
    ) -> list[Floats]:
        """Noisy counts of strata, and of totals if asked for, at these epsilons of the appendix.

        Its noise with "epsilon" has the ratio 1 - epsilon / 2: see ``PublishedNoise``.
        """
        cases = [
            Case(
                name=name,
                mechanism=AsPublished(Geometric(epsilon=epsilon / 2, unit=ADD_REMOVE)),
                runs=range(number, number + 1),
            )
            for name, epsilon in (("strata", strata), ("totals", total))
            if epsilon is not None
        ]
        return run_cases(
            cases,
            lambda made: np.asarray(
                next(made).release.at(self.strata.counts.level), dtype=np.float64
            ),
            data=lambda case: self.strata if case.name == "strata" else self.totals,
            seed=seed,
            work=replace(work, progress=silent),
        )


def settle(cells: Floats, totals: Floats, *, weight: float) -> Floats:
    """Solve the module's problem for every row of ``cells`` with its own total.

    With the k largest cells of a row above zero, c = (their sum - T) / (k + 1/w); k is the
    largest for which the k-th cell is above c.
    """
    order = -np.sort(-cells, axis=1)
    number = np.arange(1, cells.shape[1] + 1)
    slack = 0.0 if isinf(weight) else 1 / weight
    shift = (np.cumsum(order, axis=1) - totals[:, None]) / (number + slack)
    active = (order > shift).sum(axis=1)
    chosen = shift[np.arange(len(cells)), np.maximum(active - 1, 0)]
    # Nobody above zero: only when all is negative and the total too.
    chosen = np.where(active > 0, chosen, cells.max(axis=1, initial=0.0))
    solved: Floats = np.maximum(cells - chosen[:, None], 0.0)
    return solved


def composition_table(counts: Counts, *, seed: int, work: Work) -> pl.DataFrame:
    """EPL of district totals estimated from two measurements, over both their epsilons.

    ``weights`` is "0.25 and 0.75" as coded, whatever the noise, or "1 / variance". The sum of the
    two epsilons bounds the loss; EPL is far above it where nearly all the noise is on the strata
    and the total is trusted too little, because sums of clipped noise are biased, and far from
    the law that EPL takes all errors to follow.
    """
    example = Example.of(counts)
    exact = example.strata.counts.totals()
    steps = [Fraction(k, 10) for k in range(1, 10)]
    pairs = [*product(steps, steps), (Fraction(1, 4), Fraction(3, 4))]
    printed = {(a, b): value for a, b, value in published_data("appendix_composition").iter_rows()}
    rows: list[dict[str, Any]] = []
    for number, (total, strata) in enumerate(pairs):
        cells, totals = example.measured(
            seed=seed, work=work, total=total, strata=strata, number=number
        )
        for name, weight in (
            (AS_CODED, 0.25 / 0.75),
            ("1 / variance", _variance(strata / 2) / _variance(total / 2)),
        ):
            estimate = settle(cells, totals[:, 0], weight=weight)
            loss = published(estimate.sum(axis=1) - exact)
            epsilons = float(total), float(strata)
            rows.append(
                {
                    "place": example.place,
                    "epsilon_total": epsilons[0],
                    "epsilon_strata": epsilons[1],
                    "epsilon_sum": float(total + strata),
                    "weights": name,
                    "published": printed.get(epsilons) if name == AS_CODED else None,
                    "epl": loss.max_abs,
                    "twice_median": twice_median(loss),
                    "n": loss.n,
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def invariant_table(counts: Counts, *, seed: int, work: Work) -> pl.DataFrame:
    """EPL of stratified counts with noise at epsilon 0.25 under different kinds of exact totals.

    The appendix speaks of exact district totals; its code puts a penalty of 100 on the totals of
    counties. Rows with exact totals are what the words say.
    """
    example = Example.of(counts)
    exact = example.strata.counts.dense()
    quarter = Fraction(1, 4)
    (noisy,) = example.measured(seed=seed, work=work, total=None, strata=quarter, number=0)
    totals = exact.sum(axis=1).astype(np.float64)
    county = np.bincount(example.county, weights=totals).astype(np.float64)
    variants = {
        "penalty on county totals (as coded)": _by_county(noisy, example, county, PENALTY),
        "exact county totals": _by_county(noisy, example, county, inf),
        "exact district totals (as described)": settle(noisy, totals, weight=inf),
        "no negative counts, no totals": np.maximum(noisy, 0.0),
        "noise alone": noisy,
    }
    printed = {name: both for name, *both in published_data("appendix_invariants").iter_rows()}
    rows = []
    for name, estimate in variants.items():
        errors = (estimate - exact).ravel()
        loss = published(errors)
        largest, median = printed.get(name, (None, None))
        rows.append(
            {
                "place": example.place,
                "variant": name,
                "published": largest,
                "epl": loss.max_abs,
                "published_twice_median": median,
                "twice_median": twice_median(loss),
                "share_zero": float((np.round(errors, 1) == 0).mean()),
                "n": loss.n,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _by_county(noisy: Floats, example: Example, totals: Floats, weight: float) -> Floats:
    out = np.empty_like(noisy)
    for number, total in enumerate(totals):
        here = example.county == number
        flat = settle(noisy[here].reshape(1, -1), np.array([total]), weight=weight)
        out[here] = flat.reshape(-1, noisy.shape[1])
    return out


def _variance(p: Fraction) -> float:
    return float(2 * (1 - p) / p**2)
