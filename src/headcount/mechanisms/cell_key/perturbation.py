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

A count n of 1 to js becomes 0 or at least js + 1. Then (v + n) (v - (js + 1 - n)) >= 0 for every v,
so that the variance is at least n (js + 1 - n), and two changes alone have it. Every larger V has a
law too. Where V is so near to that, or to 0, that not every change can have 1e-8, the three changes
next to 0 are the only ones.

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
from typing import NamedTuple

import numpy as np

from headcount.arrays import Floats
from headcount.errors import ConfigError

WORD = 1 << 64
"""Probabilities are whole multiples of 1 / WORD: what one 64-bit key can tell apart."""
LEAST = 1e-8
"""The smallest probability of a possible change, as in the R package."""
SLACK = Fraction(1, 1 << 30)
"""By how much exact rows may miss a bound that the solver met to about 1e-11."""
NEAR = Fraction(1, 1000)
"""So near to the smallest variance the solver may not tell 1e-8 from 0, and three changes have all
but about 1e-7 of the probability: they take its place if it misses a bound."""


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
    _refuse_too_small(limits)
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


def _smallest_variance(n: int, limits: PerturbationLimits) -> int:
    """The smallest variance of any law for a count of n; see the module."""
    return n * (limits.blocked + 1 - n) if n <= limits.blocked else 0


def _refuse_too_small(limits: PerturbationLimits) -> None:
    """Refuse a variance that some row cannot have, and name the least that every row can."""
    least = {n: _smallest_variance(n, limits) for n in range(limits.blocked + 1)}
    worst = max(least, key=least.__getitem__)
    if limits.variance < least[worst]:
        raise ConfigError(
            "cell-key",
            place="variance",
            found=str(limits.variance),
            expected=f"at least {least[worst]}: a count of {worst} becomes 0, or "
            f"{limits.blocked + 1} or more, and stays {worst} on average",
        )


def _row(n: int, limits: PerturbationLimits) -> ChangeLaw:
    changes = _changes(n, limits)
    if not _room_for_all(changes, limits):
        return _three_changes(changes, limits)
    row = exact_row(changes, _most_entropy(changes, limits))
    if _misses(row, limits) and limits.variance - _smallest_variance(n, limits) <= NEAR:
        row = _three_changes(changes, limits)
    if _misses(row, limits):
        raise ConfigError(
            "cell-key",
            place="variance",
            found=f"{limits.variance}, at which the solver's law of a count of {n} misses a bound "
            "by more than 2^-30",
            expected="other settings",
        )
    return row


def _misses(row: ChangeLaw, limits: PerturbationLimits) -> bool:
    """Whether a row misses a bound by more than 2^-30, or a variance above 1 by that part of it."""
    law = row.probabilities
    below = [v for v in row.changes if v <= 0] if limits.monotone and 0 in law else []
    bounds = [(limits.variance - row.variance) / max(limits.variance, Fraction(1))]
    bounds += [law.get(0, Fraction(1)) - (limits.stay or 0)]
    bounds += [law[higher] - law[lower] for lower, higher in pairwise(below)]
    return row.mean != 0 or min(bounds) < -SLACK


def _bounds(changes: Sequence[int], limits: PerturbationLimits) -> Iterator[tuple[Floats, float]]:
    """The inequalities but for the variance: each a @ p >= b."""
    own = np.eye(len(changes))
    for number, change in enumerate(changes):
        stays = change == 0 and limits.stay is not None
        yield own[number], max(LEAST, float(limits.stay or 0)) if stays else LEAST
    if limits.monotone and 0 in changes:
        for number in range(changes.index(0)):
            yield own[number + 1] - own[number], 0.0


def _room_for_all(changes: Sequence[int], limits: PerturbationLimits) -> bool:
    """Whether some law gives every change the least probability."""
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
    return found.status == 0 and limits.variance >= float(found.fun)


def _three_changes(changes: Sequence[int], limits: PerturbationLimits) -> ChangeLaw:
    """The law on the largest change a below 0 and the two next to it, b and c = b + 1.

    Three numbers have one law of mean 0 and second moment M: p_c = (M + a b) / ((c - a) (c - b)),
    and the others likewise. In whole multiples of 2^-64, c takes up what is left of the mean.
    """
    a = max(v for v in changes if v < 0)
    b, c = [v for v in changes if v >= 0][:2]
    moment = limits.variance
    if b == 0:  # p_0 = 1 - M / -a, which is at least stay
        moment = min(moment, (1 - (limits.stay or Fraction())) * -a)
    weights = {
        b: int(WORD * (moment + a * c) / ((b - a) * (b - c))),
        c: int(WORD * (moment + a * b) / ((c - a) * (c - b))),
    }
    weights[a] = WORD - sum(weights.values())
    off = sum(v * weight for v, weight in weights.items())
    steps = max(0, -(-off // (b - a)))  # from b to a, until the mean is not above 0
    off -= steps * (b - a)
    for v, more in ((a, steps), (b, off - steps), (c, -off)):
        weights[v] += more
    some = sorted((v, weight) for v, weight in weights.items() if weight)
    return ChangeLaw(tuple(v for v, _ in some), tuple(weight for _, weight in some))


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
