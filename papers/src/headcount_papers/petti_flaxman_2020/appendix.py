"""Is EPL a good measure? The noise-only tables of the paper's appendix, run again.

The appendix calls noise "geometric with epsilon" when it is the difference of two geometric draws
with success probability p = epsilon / 2; its true loss is z = -log(1 - p). Published values hang on
numpy's old random stream, which is replayed here and nowhere else.
"""

from __future__ import annotations

from importlib import resources
from math import ceil, exp, floor, log, log1p, sqrt
from typing import Any

import numpy as np
import polars as pl

from headcount.arrays import Floats, Ints
from headcount.draws import multinomial
from headcount_papers.calibration import Recipe, epl_of_histogram, geometric_epl
from headcount_papers.empirical_privacy_loss import EmpiricalLoss, published

WASHINGTON = 2_663
"""Enumeration districts of Washington: the residuals behind every number of the appendix."""
SEED_OF_EXAMPLE, SEED_OF_TABLES = 12345, 123435
REPEATS = 10
EXAMPLE = 0.25
"""The epsilon of the sensitivity tables and of the example."""

HONOURED_DRAWS = 200
BASELINE_DRAWS = 1_000_000
NUMBERS = (204, 2_663, 12_432, 539_428)
"""n of states, of Washington's districts, of counties and of districts, four runs pooled."""
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def published_data(name: str) -> pl.DataFrame:
    """A table of printed numbers."""
    path = resources.files("headcount_papers.petti_flaxman_2020") / "data" / f"{name}.csv"
    return pl.read_csv(path.read_bytes(), infer_schema_length=None)


def legacy_samples(ps: list[float], *, seed: int = SEED_OF_TABLES) -> list[Ints]:
    """One sample of 2,663 values for each success probability, in the order of the old stream.

    Numpy keeps the stream of its old generator unchanged, which is why it can be replayed.
    """
    stream = np.random.RandomState(seed)
    return [
        (stream.geometric(p, size=WASHINGTON) - stream.geometric(p, size=WASHINGTON)).astype(
            np.int64
        )
        for p in ps
    ]


def epl_vs_epsilon_table() -> pl.DataFrame:
    """EPL of pure noise for 13 epsilons, replayed, with the true loss and what large n would show.

    EPL seems to equal epsilon. It does so because the noise has half that loss and 2,663 residuals
    inflate its estimate about twofold; with half a million residuals EPL is near the true loss.
    """
    table = published_data("appendix_epl_vs_epsilon")
    epsilons = table["epsilon"].to_list()
    samples = legacy_samples([e / 2 for e in epsilons for _ in range(REPEATS)])
    found = np.reshape([_epl(one) for one in samples], (len(epsilons), REPEATS))
    true = [-log1p(-e / 2) for e in epsilons]
    # Below 0.005 the curve has thousands of points and says nothing new.
    large = [
        float(geometric_epl(z, n=539_428, draws=3, seed=1).mean()) if z > 0.005 else None
        for z in true
    ]
    return table.with_columns(
        *_spread("replayed", found),
        pl.Series("true_loss", true),
        pl.Series("mean_at_large_n", large),
    )


def sensitivity_table(*, draws: int = HONOURED_DRAWS, seed: int = 1) -> pl.DataFrame:
    """EPL with one setting moved at a time: as published, replayed, and with the setting honoured.

    The published helper ignored what it was given: its three tables are one sequence of random
    numbers read from the start. ``honoured`` has the setting used, on new noise.
    """
    table = published_data("appendix_sensitivity")
    longest = int(table.group_by("parameter").len()["len"].max() or 0)  # type: ignore[arg-type]
    samples = legacy_samples([EXAMPLE / 2] * (longest * REPEATS))
    replay = np.reshape([_epl(one) for one in samples], (longest, REPEATS))
    first = table["parameter"].rle_id().to_numpy()
    place = [int((first[:row] == first[row]).sum()) for row in range(table.height)]
    z = -log1p(-EXAMPLE / 2)
    honoured = [
        geometric_epl(z, n=WASHINGTON, draws=draws, seed=seed, recipe=_recipe(name, value))
        for name, value in table.select("parameter", "value").iter_rows()
    ]
    finite = [one[~np.isnan(one)] for one in honoured]
    return table.with_columns(
        *_spread("replayed", replay[place]),
        pl.Series("honoured_mean", [_mean(one) for one in finite]),
        pl.Series("honoured_p2_5", [_quantile(one, 0.025) for one in finite]),
        pl.Series("honoured_p97_5", [_quantile(one, 0.975) for one in finite]),
        pl.Series("honoured_share_defined", [len(one) / draws for one in finite]),
    )


def noise_baseline_table(*, draws: int = BASELINE_DRAWS, seed: int = 1) -> pl.DataFrame:
    """Errors of pure noise by success probability: published, ours, and RMSE in closed form.

    RMSE = sqrt(2 (1 - p)) / p
    """
    rows = []
    for row in published_data("noise_baseline").iter_rows(named=True):
        p = row["p"]
        z = -log1p(-p)
        values, numbers = _noise_histogram(z, draws, seed)
        size = np.abs(values)
        order = np.argsort(size, kind="stable")
        sizes, ends = size[order], np.cumsum(numbers[order])
        rows.append(
            row
            | {
                "z": z,
                "rmse_exact": sqrt(2 * (1 - p)) / p,
                "mae": float(sizes[np.searchsorted(ends, 0.50 * draws)]),
                "rmse": float(np.sqrt((values.astype(np.float64) ** 2 @ numbers) / draws)),
                "p95": float(sizes[np.searchsorted(ends, 0.95 * draws)]),
            }
        )
    return pl.DataFrame(rows)


def pure_noise_table(*, draws: int = 20, seed: int = 1) -> pl.DataFrame:
    """EPL of pure geometric noise against its true loss z, for the n of this study."""
    rows: list[dict[str, Any]] = []
    for n in NUMBERS:
        for z in RATES:
            found = geometric_epl(z, n=n, draws=draws, seed=seed)
            found = found[~np.isnan(found)]
            rows.append(
                {
                    "n": n,
                    "z": z,
                    "mean_epl": _mean(found),
                    "p05": _quantile(found, 0.05),
                    "p95": _quantile(found, 0.95),
                    "ratio": None if not len(found) else float(found.mean()) / z,
                    "share_defined": len(found) / draws,
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def scalars_table() -> pl.DataFrame:
    """Single values of the appendix that need no census data."""
    first, second = (
        published(one) for one in legacy_samples([EXAMPLE / 2] * 2, seed=SEED_OF_EXAMPLE)
    )
    ours = {
        "A1": first.max_abs,
        "A2": twice_median(first),
        "A3": second.max_abs,
        "D1": noise_pmf(5, 0.03),
        "D2": noise_quantile(0.05, _z(0.75)),
        "D3": noise_quantile(0.05, _z(4)),
        "D4": noise_quantile(0.95, _z(4)),
    }
    table = published_data("appendix_scalars")
    found = [ours[name] for name in table["id"]]
    return table.with_columns(
        pl.Series("ours", found, dtype=pl.Float64, strict=False)
    ).with_columns((pl.col("ours") - pl.col("published")).alias("difference"))


def noise_pmf(k: int, z: float) -> float:
    """Pr[G(z) = k] = (1 - e^-z) / (1 + e^-z) e^(-z |k|)."""
    return (1 - exp(-z)) / (1 + exp(-z)) * exp(-z * abs(k))


def noise_quantile(share: float, z: float) -> int:
    """The smallest k with Pr[G(z) <= k] >= share.

    Pr[G <= k] = a^-k / (1 + a) for k < 0 and 1 - a^(k + 1) / (1 + a) from 0 on, a = e^-z
    """
    a = exp(-z)
    if share <= a / (1 + a):  # Pr[G <= -1]
        return -floor(log(share * (1 + a)) / -z)
    return max(0, ceil(log((1 - share) * (1 + a)) / -z - 1))


def _z(epsilon: float) -> float:
    """The rate one notebook used: its last factor 0.9 is already part of 0.675."""
    return epsilon * 0.25 * 0.675 * 0.9 / 2


def twice_median(loss: EmpiricalLoss) -> float | None:
    """Twice the median |EPL(x)|, which the appendix prints beside the largest."""
    return None if loss.median_abs is None else 2 * loss.median_abs


def _epl(sample: Ints) -> float:
    values, numbers = np.unique(sample, return_counts=True)
    found = epl_of_histogram(values, numbers)
    return float("nan") if found is None else found


def _recipe(parameter: str, value: float) -> Recipe:
    names = {
        "bandwidth": "kernel_factor",
        "percentile": "range_percentile",
        "multiplier": "range_multiplier",
    }
    return Recipe(**{names[parameter]: value})


def _spread(name: str, found: Floats) -> list[pl.Series]:
    low, high = np.percentile(found, [2.5, 97.5], axis=1)
    return [
        pl.Series(f"{name}_mean", found.mean(axis=1)),
        pl.Series(f"{name}_p2_5", low),
        pl.Series(f"{name}_p97_5", high),
    ]


def _noise_histogram(z: float, draws: int, seed: int) -> tuple[Ints, Ints]:
    reach = ceil((log(draws) + 30) / z)
    values = np.arange(-reach, reach + 1)
    weight = np.exp(-z * np.abs(values))
    return values, multinomial(np.random.default_rng(seed), draws, weight / weight.sum())


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: Floats, share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None
