"""Perturbation tables: how a count may change, with exact probabilities.

Row n is the law of the change v of a count of n people. It has the largest entropy among those
with mean 0, variance at most V and changes of at most D, which leave no count of 1 to js:

    maximise    - sum_v p_v log p_v
    subject to  sum p = 1,  sum v p = 0,  sum v^2 p <= V,  p_v >= 1e-8,  p_0 >= stay,
                p_v <= p_w for neighbours v < w <= 0 (monotony, where 0 is possible)

where
    v    ranges over j - n for the counts j in max(n - D, 0) .. n + D without 1 .. js
    D    largest change
    V    largest variance
    js   largest count that is never published, but for 0
    stay least probability of no change

Counts of 0 stay 0. From row D on (with js > 0: D + js + 1) all rows are alike, and the last one
serves them all. Marley and Leaver 2011; Giessing 2016; the R package ``ptable``.

A solver gives decimals; a table is whole numbers of 2^-64, so that rows sum to exactly 1 and have
mean exactly 0: a law that is off by 1e-9 is off by one person in a billion, and nobody could say
which way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import NamedTuple

import numpy as np

from headcount.arrays import Floats
from headcount.errors import ConfigError

WORD = 1 << 64
"""Probabilities are whole multiples of 1 / WORD: what one 64-bit key can tell apart."""
LEAST = 1e-8
"""The smallest probability of a possible change, as in the R package."""
SHOWN = 6
"""Decimals of a variance that is named to a user."""
SLACK = Fraction(1, 1 << 30)
"""By how much exact rows may miss a bound that the solver met to about 1e-11."""


@dataclass(frozen=True)
class ChangeLaw:
    """The law of the change of one count.

    where
        changes   in ascending order
        weights   their probabilities times 2^64, which sum to 2^64
    """

    changes: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if sum(self.weights) != WORD or min(self.weights) < 0:
            raise ConfigError(
                "perturbation table",
                found=f"weights that sum to {sum(self.weights)}",
                expected=f"weights of 0 or more that sum to {WORD}",
            )

    @property
    def probabilities(self) -> dict[int, Fraction]:
        """Change -> probability."""
        return {v: Fraction(w, WORD) for v, w in zip(self.changes, self.weights, strict=True)}

    @property
    def mean(self) -> Fraction:
        """The exact mean change."""
        return sum((v * p for v, p in self.probabilities.items()), Fraction())

    @property
    def variance(self) -> Fraction:
        """The exact variance of the change."""
        square = sum((v * v * p for v, p in self.probabilities.items()), Fraction())
        return square - self.mean**2


STAYS = ChangeLaw((0,), (WORD,))
"""A count that never changes."""


class PerturbationLimits(NamedTuple):
    """What a table must obey; see the module."""

    largest: int
    variance: Fraction
    blocked: int = 0
    stay: Fraction | None = None
    monotone: bool = True


def perturbation_rows(limits: PerturbationLimits) -> tuple[ChangeLaw, ...]:
    """Rows 0, 1, ... of the table; the last one serves all larger counts."""
    _check(limits)
    last = limits.largest + (limits.blocked + 1 if limits.blocked else 0)
    _refuse_too_small(range(1, last + 1), limits)
    return (STAYS, *(_row(n, limits) for n in range(1, last + 1)))


def _check(limits: PerturbationLimits) -> None:
    for place, fine, found, expected in (
        ("maximum", limits.largest >= 1, limits.largest, "1 or more"),
        ("variance", limits.variance > 0, limits.variance, "more than 0"),
        (
            "variance",
            limits.variance <= limits.largest**2,
            limits.variance,
            f"at most {limits.largest**2}: no change of at most {limits.largest} has a larger one",
        ),
        (
            "blocked",
            0 <= limits.blocked < limits.largest,
            limits.blocked,
            f"0 to {limits.largest - 1}, less than the largest change",
        ),
        (
            "stay",
            limits.stay is None or 0 <= limits.stay < 1,
            limits.stay,
            "0 or more, less than 1",
        ),
    ):
        if not fine:
            raise ConfigError("cell-key", place=place, found=str(found), expected=expected)


def _changes(n: int, limits: PerturbationLimits) -> tuple[int, ...]:
    """By how much a count of n may change."""
    return tuple(
        j - n
        for j in range(max(n - limits.largest, 0), n + limits.largest + 1)
        if not 1 <= j <= limits.blocked
    )


def _refuse_too_small(counts: range, limits: PerturbationLimits) -> None:
    """Refuse a variance that some row cannot have, and name one that every row can."""
    least = {n: smallest_variance(_changes(n, limits), limits) for n in counts}
    wrong = [n for n, value in least.items() if value is None or limits.variance < value]
    if not wrong:
        return
    needed = [value for value in least.values() if value is not None]
    raise ConfigError(
        "cell-key",
        place="variance",
        found=f"{limits.variance}, at which a count of {wrong[0]} has no law of mean 0",
        expected="a smaller 'stay'"
        if len(needed) < len(least)
        # Rounded up, and beyond what the solver cannot tell from the smallest.
        else f"at least {(floor(max(needed) * 10**SHOWN) + 2) / 10**SHOWN:.{SHOWN}f}",
    )


def _row(n: int, limits: PerturbationLimits) -> ChangeLaw:
    changes = _changes(n, limits)
    row = exact_row(changes, _most_entropy(changes, limits))
    _check_law(n, row, limits)
    return row


def _check_law(n: int, row: ChangeLaw, limits: PerturbationLimits) -> None:
    """Refuse a row that misses a bound by more than 2^-30: the solver was not accurate enough."""
    law = row.probabilities
    below = [v for v in row.changes if v <= 0] if limits.monotone and 0 in law else []
    bounds = [limits.variance - row.variance, law.get(0, Fraction(1)) - (limits.stay or 0)]
    bounds += [law[higher] - law[lower] for lower, higher in pairwise(below)]
    if row.mean or min(bounds) < -SLACK:
        raise ConfigError(
            "cell-key",
            place="variance",
            found=f"{limits.variance}, at which the law of a count of {n} misses a bound by more "
            "than 2^-30",
            expected="other settings",
        )


def _bounds(changes: Sequence[int], limits: PerturbationLimits) -> Iterator[tuple[Floats, float]]:
    """The inequalities but for the variance: each a @ p >= b."""
    own = np.eye(len(changes))
    for number, change in enumerate(changes):
        stays = change == 0 and limits.stay is not None
        yield own[number], max(LEAST, float(limits.stay or 0)) if stays else LEAST
    if limits.monotone and 0 in changes:
        for number in range(changes.index(0)):
            yield own[number + 1] - own[number], 0.0


def smallest_variance(changes: Sequence[int], limits: PerturbationLimits) -> float | None:
    """The smallest variance that any law on these changes can have; None if there is no law."""
    from scipy.optimize import linprog

    rows, low = zip(*_bounds(changes, limits), strict=True)
    v = np.array(changes, dtype=float)
    found = linprog(
        v**2,
        A_ub=-np.array(rows),
        b_ub=-np.array(low),
        A_eq=np.vstack([np.ones(len(v)), v]),
        b_eq=[1.0, 0.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return float(found.fun) if found.status == 0 else None


def _most_entropy(changes: Sequence[int], limits: PerturbationLimits) -> Floats:
    """The law of largest entropy: variables p and t, where p exp(t / p) <= 1."""
    import clarabel
    from scipy.sparse import csc_array

    size = len(changes)
    v = np.array(changes, dtype=float)
    rows, low = zip(*_bounds(changes, limits), strict=True)
    above = np.vstack([np.array(rows), -(v**2)])
    lowest = np.append(np.array(low), -float(limits.variance))
    cone = np.zeros((3 * size, 2 * size))
    cone[0::3, size:] = -np.eye(size)
    cone[1::3, :size] = -np.eye(size)
    on_p = np.vstack([np.ones(size), v, -above])
    matrix = np.vstack([np.hstack([on_p, np.zeros_like(on_p)]), cone])
    right = np.concatenate([[1.0, 0.0], -lowest, np.tile([0.0, 0.0, 1.0], size)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    found = clarabel.DefaultSolver(
        csc_array((2 * size, 2 * size)),
        np.concatenate([np.zeros(size), -np.ones(size)]),
        csc_array(matrix),
        right,
        [
            clarabel.ZeroConeT(2),
            clarabel.NonnegativeConeT(len(above)),
            *[clarabel.ExponentialConeT()] * size,
        ],
        settings,
    ).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise ConfigError(
            "cell-key",
            place="variance",
            found=f"{limits.variance}, for which the solver says {found.status}",
            expected="settings that allow a law of mean 0",
        )
    return np.array(found.x[:size])


def whole_weights(changes: Sequence[int], law: Sequence[Fraction]) -> ChangeLaw:
    """The law in whole numbers of 2^-64; what is left over goes to no change, or the likeliest."""
    weights = [int(p * WORD) for p in law]
    over = WORD - sum(weights)
    rest = changes.index(0) if 0 in changes else -1
    if rest < 0 or weights[rest] + over < 0:
        rest = weights.index(max(weights))
    weights[rest] += over
    return ChangeLaw(tuple(changes), tuple(weights))


def exact_row(changes: Sequence[int], law: Floats) -> ChangeLaw:
    """The law in whole numbers of 2^-64, with sum exactly 1 and mean exactly 0.

    The mean is mended by moving weight between two changes that are one apart, the most probable
    such pair.
    """
    row = whole_weights(changes, [Fraction(max(float(p), 0.0)) for p in law])
    weights = list(row.weights)
    off = sum(v * w for v, w in zip(changes, weights, strict=True))
    pairs = [n for n in range(len(changes) - 1) if changes[n + 1] == changes[n] + 1]
    if off and not pairs:
        raise ConfigError(
            "cell-key",
            place="blocked",
            found=f"changes {', '.join(map(str, changes))} of a count, none of them one apart",
            expected="settings that allow a law of mean exactly 0 in multiples of 2^-64",
        )
    if off:
        lower = max(pairs, key=lambda n: min(weights[n], weights[n + 1]))
        weights[lower] += off
        weights[lower + 1] -= off
    return ChangeLaw(tuple(changes), tuple(weights))
