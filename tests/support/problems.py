"""Seeded least squares problems with the shapes that real runs have.

A truth is drawn first: lognormal populations, a mix of races and ages that differs by parent and
a little by child, group quarters of seven types in few children. The parent's counts are a noisy
estimate with the true number of persons of each type, so every problem has an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, prod

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.draws import multinomial
from headcount.topdown.solve.batch import Batch
from tests.support.dense import Margin, from_dense, groups_keeping

TYPES = 8  # households, and seven types of group quarters


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A family of problems.

    sizes      levels of the attributes: type, adult, hispanic, race
    median     persons of the median child; sigma of the logarithm in ``spread``
    quarters   chance that a child has group quarters of a given type
    detail     variance of the noise on the detailed counts
    queries    for each marginal, by the axes it keeps, the variance of its noise
    parent     standard deviation of the parent's own estimate
    totals     whether each child's total is known exactly
    """

    sizes: tuple[int, int, int, int]
    median: float
    spread: float
    quarters: float
    detail: float
    queries: Mapping[tuple[int, ...], float]
    parent: float
    discrete: str = "geometric"
    totals: bool = False


def geometric_variance(epsilon: float) -> float:
    """Variance of the two-sided geometric noise for change-one neighbours (sensitivity 2)."""
    p = 1 - exp(-epsilon / 2)
    return 2 * (1 - p) / p**2


def _e2e(epsilon: float, **changes: object) -> Setting:
    level = epsilon / 4
    parts: dict[str, object] = {
        "sizes": (TYPES, 2, 2, 6),
        "median": 865.0,
        "spread": 0.75,
        "quarters": 0.05,
        "detail": geometric_variance(0.1 * level),
        "queries": {
            (0,): geometric_variance(0.225 * level),
            (1, 2, 3): geometric_variance(0.675 * level),
        },
        "parent": geometric_variance(0.675 * level) ** 0.5,
    }
    return Setting(**(parts | changes))  # type: ignore[arg-type]


def _redistricting(sigmas: tuple[float, ...], **changes: object) -> Setting:
    keeps = ((), (0,), (2, 3), (1, 2, 3))
    parts: dict[str, object] = {
        "sizes": (TYPES, 2, 2, 63),
        "spread": 0.9,
        "detail": sigmas[-1] ** 2,
        "queries": dict(zip(keeps, (s**2 for s in sigmas), strict=False)),
        "discrete": "gaussian",
    }
    return Setting(**(parts | changes))  # type: ignore[arg-type]


SETTINGS: Mapping[str, Setting] = {
    "n=192, epsilon 0.25": _e2e(0.25),
    "n=192, epsilon 1": _e2e(1.0),
    "n=192, epsilon 4": _e2e(4.0),
    "n=2016, blocks": _redistricting(
        (89.2, 89.2, 43.5, 23.7, 3.18), median=30.0, quarters=0.02, parent=2.0
    ),
    "n=2016, tracts": _redistricting(
        (2.47, 43.8, 2.23, 11.9, 4.46), median=4000.0, quarters=0.3, parent=4.4
    ),
    "49 states, totals fixed": _e2e(
        1.0, median=2e6, spread=1.0, quarters=0.9, totals=True, parent=200.0
    ),
}


def problem(name: str, *, seed: int, children: int | None = None) -> Batch:
    """One problem of a family; without ``children``, their number is uniform on 10 ... 60."""
    setting = SETTINGS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    kids = int(rng.integers(10, 61)) if children is None else children
    truth, units = _truth(rng, setting, kids)
    parent = _estimate(rng, truth.sum(axis=1), sd=setting.parent)
    n = truth.shape[0]
    families = []
    for keep, variance in setting.queries.items():
        group = groups_keeping(setting.sizes, keep)
        exact = np.zeros((group.max() + 1, kids), np.int64)
        np.add.at(exact, group, truth)
        noisy = exact + draw_noise(rng, setting.discrete, variance, exact.shape)
        low, high = _bounds(setting, units, exact) if keep == (0,) else (None, None)
        families.append(Margin(group=group, weight=1 / variance, margin=noisy, low=low, high=high))
    if setting.totals:
        exact = truth.sum(axis=0, keepdims=True)
        families.append(Margin(group=np.zeros(n, np.int64), low=exact, high=exact))
    return from_dense(
        truth + draw_noise(rng, setting.discrete, setting.detail, truth.shape),
        weight=1 / setting.detail,
        total=parent,
        families=families,
        opened=np.repeat(units > 0, n // TYPES, axis=0),
    )


def _truth(rng: np.random.Generator, setting: Setting, kids: int) -> tuple[Ints, Ints]:
    """Counts (cells, children) and occupied units (types, children)."""
    per_type = prod(setting.sizes) // TYPES
    races = setting.sizes[3]
    common = rng.dirichlet(np.full(races, 0.6) / np.arange(1, races + 1) ** 1.5 + 0.02)
    hispanic = rng.beta(1, 8)
    truth = np.zeros((TYPES, per_type, kids), np.int64)
    units = np.zeros((TYPES, kids), np.int64)
    for c in range(kids):
        race = rng.dirichlet(60 * common + 1e-3)
        within = np.outer([1 - hispanic, hispanic], race)
        persons = max(int(setting.median * rng.lognormal(0, setting.spread)), 4)
        truth[0, :, c] = multinomial(rng, persons, _ages(within, 0.68))
        units[0, c] = max(persons // 4, 1)
        for kind in range(1, TYPES):
            if rng.random() < setting.quarters:
                some = 2 + rng.poisson(persons * rng.beta(1, 30))
                truth[kind, :, c] = multinomial(rng, some, _ages(within, 0.95))
                units[kind, c] = 1 + some // 500
    return truth.reshape(TYPES * per_type, kids), units


def _ages(within: Floats, adult: float) -> Floats:
    share: Floats = np.concatenate([(1 - adult) * within, adult * within]).ravel()
    return share / float(share.sum())


def _estimate(rng: np.random.Generator, truth: Ints, *, sd: float) -> Ints:
    """Integer counts near the truth plus noise, with the true total of each type."""
    rows = truth.reshape(TYPES, -1)
    out = np.zeros_like(rows)
    for row, into in zip(rows, out, strict=True):
        total = int(row.sum())
        if total == 0:
            continue
        noisy = row + rng.normal(0, sd, row.shape)
        down = np.sort(noisy)[::-1]
        level = (np.cumsum(down) - total) / np.arange(1, len(down) + 1)
        kept = np.maximum(noisy - level[down > level][-1], 0.0)
        whole = np.floor(kept).astype(np.int64)
        short = total - int(whole.sum())
        whole[np.argsort(whole - kept, kind="stable")[:short]] += 1
        into[:] = whole
    return out.ravel()


def _bounds(setting: Setting, units: Ints, persons: Ints) -> tuple[Ints, Ints]:
    """At least one person in each unit, at most 99 in a household and 99,999 elsewhere."""
    cap = np.where(np.arange(TYPES) == 0, 99, 99_999)[:, None]
    if not setting.totals:
        return units, units * cap
    spare = persons.sum(axis=0) - (units.sum(axis=0) - units)
    return units, np.where(units > 0, spare, 0)


def draw_noise(
    rng: np.random.Generator, law: str, variance: float, shape: tuple[int, ...]
) -> Floats:
    """Whole numbers with mean 0 and the variance given, not private: for benchmarks only."""
    if law == "gaussian":
        return np.rint(rng.normal(0, variance**0.5, shape))
    # variance = 2 (1 - p) / p^2, solved for p
    p = ((1 + 2 * variance) ** 0.5 - 1) / variance
    return (rng.geometric(p, shape) - rng.geometric(p, shape)).astype(np.float64)
