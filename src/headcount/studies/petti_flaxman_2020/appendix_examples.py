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

from math import inf, isinf
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.evaluate.epl import EmpiricalLoss, published
from headcount.studies.petti_flaxman_2020.residuals import TrueCounts

STATE = "53"
"""Washington, the state of the appendix."""
STEPS = tuple(round(0.1 * k, 1) for k in range(1, 10))
PENALTY = 100.0

COMPOSITION_PUBLISHED = {
    (0.1, 0.1): 5.721971, (0.1, 0.2): 1.011611, (0.1, 0.3): 0.21983, (0.1, 0.4): 0.284091,
    (0.1, 0.5): 0.212881, (0.9, 0.5): 56.568667, (0.9, 0.6): 46.466262, (0.9, 0.7): 43.116511,
    (0.9, 0.8): 33.396272, (0.9, 0.9): 11.145242, (0.25, 0.75): 0.5440714549808033,
}  # fmt: skip
"""EPL by epsilon of the total and of the strata; (0.25, 0.75) is the worked example."""


class Example:
    """Strata of the districts of one state: Washington, or all districts where it is not there."""

    def __init__(self, truth: TrueCounts) -> None:
        geography = truth.geography
        leaf = "enumeration_district"
        state = geography.ancestors("state")
        here = np.ones(geography.size(leaf), dtype=bool)
        self.place = "all districts"
        codes = list(geography.units[geography.depth("state")])
        if STATE in codes:
            here = state == codes.index(STATE)
            self.place = "districts of Washington"
        self.strata: Ints = truth.strata["enumeration_district"][here]
        self.totals: Ints = self.strata.sum(axis=1)
        self.county: Ints = np.unique(geography.ancestors("county")[here], return_inverse=True)[1]


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


def composition_table(truth: TrueCounts, *, seed: int) -> pl.DataFrame:
    """EPL of district totals estimated from two measurements, over both their epsilons.

    ``weights`` is "0.25 and 0.75" as coded, whatever the noise, or "1 / variance". The sum of the
    two epsilons bounds the loss; EPL is far above it where nearly all the noise is on the strata
    and the total is trusted too little, because sums of clipped noise are biased, and far from
    the law that EPL takes all errors to follow.
    """
    example = Example(truth)
    pairs = [(a, b) for a in STEPS for b in STEPS] + [(0.25, 0.75)]
    rows: list[dict[str, Any]] = []
    for number, (total, strata) in enumerate(pairs):
        rng = np.random.default_rng([seed, 5, number])
        noisy_total = (example.totals + _noise(rng, total / 2, example.totals.shape)).astype(float)
        noisy_strata = example.strata + _noise(rng, strata / 2, example.strata.shape)
        for name, weight in (
            ("0.25 and 0.75", 0.25 / 0.75),
            ("1 / variance", _variance(strata / 2) / _variance(total / 2)),
        ):
            estimate = settle(noisy_strata.astype(np.float64), noisy_total, weight=weight)
            loss = published(estimate.sum(axis=1) - example.totals)
            rows.append(
                {
                    "place": example.place,
                    "epsilon_total": total,
                    "epsilon_strata": strata,
                    "epsilon_sum": round(total + strata, 2),
                    "weights": name,
                    "published": COMPOSITION_PUBLISHED.get((total, strata))
                    if name == "0.25 and 0.75"
                    else None,
                    "epl": loss.max_abs,
                    "twice_median": _twice(loss),
                    "n": loss.n,
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def invariant_table(truth: TrueCounts, *, seed: int) -> pl.DataFrame:
    """EPL of stratified counts with noise at epsilon 0.25 under different kinds of exact totals.

    The appendix speaks of exact district totals; its code puts a penalty of 100 on the totals of
    counties. Rows with exact totals are what the words say.
    """
    example = Example(truth)
    rng = np.random.default_rng([seed, 6])
    noisy = (example.strata + _noise(rng, 0.125, example.strata.shape)).astype(np.float64)
    county = np.bincount(example.county, weights=example.totals).astype(np.float64)
    variants = {
        "penalty on county totals (as coded)": _by_county(noisy, example, county, PENALTY),
        "exact county totals": _by_county(noisy, example, county, inf),
        "exact district totals (as described)": settle(
            noisy, example.totals.astype(np.float64), weight=inf
        ),
        "no negative counts, no totals": np.maximum(noisy, 0.0),
        "noise alone": noisy,
    }
    printed = {"penalty on county totals (as coded)": (2.325477896832769, 0.3233975026710578)}
    rows = []
    for name, estimate in variants.items():
        errors = (estimate - example.strata).ravel()
        loss = published(errors)
        largest, median = printed.get(name, (None, None))
        rows.append(
            {
                "place": example.place,
                "variant": name,
                "published": largest,
                "epl": loss.max_abs,
                "published_twice_median": median,
                "twice_median": _twice(loss),
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


def _noise(rng: np.random.Generator, p: float, shape: tuple[int, ...]) -> Ints:
    return np.asarray(rng.geometric(p, shape) - rng.geometric(p, shape), dtype=np.int64)


def _variance(p: float) -> float:
    return 2 * (1 - p) / p**2


def _twice(loss: EmpiricalLoss) -> float | None:
    return None if loss.median_abs is None else 2 * loss.median_abs
