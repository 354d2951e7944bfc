"""Privacy auditing: epsilon bounded from below, and estimated, by runs on two neighbours.

The bound (``audit``) plays a guessing game. A fair coin picks D or D', the mechanism runs on it,
and from the output alone a fixed rule names the database or abstains. If the mechanism has pure
loss epsilon on this pair, Bayes' rule says that a guess is right with chance at most
e^epsilon / (1 + e^epsilon), whatever the rule and the other outputs. So the number of right
guesses is stochastically below a binomial, and an exact (Clopper-Pearson) lower limit a on the
chance of being right gives

    epsilon >= log(a / (1 - a))    with the stated confidence.

The rule is chosen on runs that are not used for the bound. One binomial for both databases and
both directions loses less than two Clopper-Pearson limits on the two chances of one event.

Ding et al. (2018), "Detecting violations of differential privacy"; Steinke, Nasr & Jagielski
(2023), "Privacy auditing with one (1) training run", for guesses with abstention.

The estimate (``direct``) compares the chance of *one and the same* set of outputs under D and D'.
So "error" there is the released count minus the exact count **of D**, for the runs on D' too:
subtracting the same number from both only renames the event. Were each database's own exact count
subtracted, the two laws of a noise-adding mechanism would be equal and the loss would seem to be
zero. Flaxman (2019) writes the error as A(D) - TC and does not say whose exact count TC is when the
mechanism is run on D'. In the code of that study the raked routine regroups the original people
on every run, so its runs on D' were runs on D, and that comparison is a null test. Here the two
samples are given by the caller, who must really have run both databases.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.arrays import Flags, Floats
from headcount.draws import binomial
from headcount.errors import ConfigError, InputError
from headcount.evaluation.tally import finite_vector

EventKind = Literal["eq", "ge"]
_LEAST_RUNS = 20
_COIN_SDS = 5.0
_COIN_SLACK = 1e-6  # more than the chance (6e-7) that a fair coin strays 5 SDs; paid for below


@dataclass(frozen=True)
class _Event:
    """A set of outputs: low <= x <= high in every area."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def contains(self, sample: Floats) -> Flags:
        """Say for each run (row of `sample`) whether its output is in the event."""
        return np.asarray(np.all((sample >= self.low) & (sample <= self.high), axis=1))

    def __str__(self) -> str:
        """Name the event, the areas being x0 and x1."""
        parts = []
        for area, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            if low == high:
                parts.append(f"x{area} = {low:g}")
            elif low > -inf:
                parts.append(f"x{area} >= {low:g}")
            elif high < inf:
                parts.append(f"x{area} <= {high:g}")
        return " and ".join(parts) or "any output"


@dataclass(frozen=True, kw_only=True)
class AuditBound:
    """What an audit found: with chance `confidence` the true loss is at least `epsilon_lower`."""

    epsilon_lower: float
    confidence: float
    runs_d: int
    runs_d_prime: int
    choosing: int
    guesses: int
    correct: int
    guess_d: _Event
    guess_d_prime: _Event | None

    def refutes(self, claimed_epsilon: float) -> bool:
        """Whether the runs refute a claim of `claimed_epsilon` on this pair of databases."""
        return self.epsilon_lower > claimed_epsilon

    def explain(self) -> str:
        """Say in plain words what the bound is and is not."""
        other = f"the second if {self.guess_d_prime}, " if self.guess_d_prime else ""
        return (
            f"With confidence {self.confidence:.4g} the pure loss epsilon of this mechanism on "
            f"this pair of neighbouring databases is at least {self.epsilon_lower:.3g}. From an "
            f"output the first database was guessed if {self.guess_d}, {other}and no guess was "
            f"made otherwise; {self.correct:,} of {self.guesses:,} guesses were right. The rule "
            f"was chosen on {self.choosing:,} runs of each database that were not used for the "
            "bound. It is a lower bound only: a claim below it is refuted, but a claim above it "
            "is not proved, since another rule, other databases or more runs may show a greater "
            "loss. It is for the unit of privacy by which the two databases differ, and assumes "
            "that the runs are independent."
        )


def audit(
    sample_d: ArrayLike,
    sample_d_prime: ArrayLike,
    *,
    confidence: float = 0.95,
    choosing_share: float = 0.25,
    seed: int = 0,
) -> AuditBound:
    """Bound epsilon from below, given outputs of independent runs on two neighbours.

    - `sample_d`, `sample_d_prime`: one row for each run, of one or two released numbers. One is
      enough when a person is added or removed; when a record changes from one area to another,
      give both areas, as the joint event shows the whole loss.
    - `confidence`: the chance, at least, that the bound is not above the true loss.
    - `choosing_share`: the share of the runs on which the rule is chosen.
    - `seed`: of the fair coins that say how many of the runs of each database are played.
    """
    _check_share("confidence", confidence, 1.0 - 2.0 * _COIN_SLACK)
    _check_share("choosing_share", choosing_share, 1.0)
    d, d_prime = _runs(sample_d, "sample_d"), _runs(sample_d_prime, "sample_d_prime")
    if d.shape[1] != d_prime.shape[1]:
        raise InputError(
            "sample_d_prime", found=f"{d_prime.shape[1]} area(s)", expected=f"{d.shape[1]}"
        )
    choosing = max(1, int(choosing_share * min(len(d), len(d_prime))))
    rule = _choose(d[:choosing], d_prime[:choosing], confidence)
    left = min(len(d), len(d_prime)) - choosing
    heads, tails = _coins(left, np.random.default_rng(seed))
    right, wrong = _play(rule, d[choosing : choosing + heads], d_prime[choosing : choosing + tails])
    limit = _clopper_pearson_lower(right, wrong, 1.0 - confidence - _COIN_SLACK)
    return AuditBound(
        epsilon_lower=max(0.0, log(limit / (1.0 - limit))) if limit > 0 else 0.0,
        confidence=confidence,
        runs_d=len(d),
        runs_d_prime=len(d_prime),
        choosing=choosing,
        guesses=right + wrong,
        correct=right,
        guess_d=rule[0],
        guess_d_prime=rule[1],
    )


def _coins(left: int, generator: np.random.Generator) -> tuple[int, int]:
    """Flip as many coins as `left` runs on each side can serve; return heads and tails.

    The outputs are exchangeable, so only the number of heads matters. The number of coins is
    fixed beforehand, 5 standard deviations below the supply. Holding heads to the supply alters
    their law by less than `_COIN_SLACK`, by which the bound's own error rate is cut.
    """
    # Largest N with N/2 + 5 sqrt(N)/2 <= left.
    root = (-_COIN_SDS + sqrt(_COIN_SDS**2 + 8.0 * left)) / 2.0
    coins = int(root * root)
    heads = int(np.clip(binomial(generator, coins, 0.5), coins - left, left))
    return heads, coins - heads


def _play(rule: tuple[_Event, _Event | None], d: Floats, d_prime: Floats) -> tuple[int, int]:
    """Return the number of right and of wrong guesses."""
    first, second = rule
    right, wrong = int(first.contains(d).sum()), int(first.contains(d_prime).sum())
    if second is not None:
        right += int(second.contains(d_prime).sum())
        wrong += int(second.contains(d).sum())
    return right, wrong


def _clopper_pearson_lower(right: Any, wrong: Any, error: float) -> Any:
    """Exact lower limit for the chance of being right; 0 when no guess was right."""
    from scipy.special import betaincinv

    right, wrong = np.asarray(right, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    limit = np.where(right > 0, betaincinv(np.maximum(right, 1.0), wrong + 1.0, error), 0.0)
    return float(limit) if limit.ndim == 0 else limit


# Choosing the rule. Nothing here affects whether the bound is valid, only how high it is.


def _choose(d: Floats, d_prime: Floats, confidence: float) -> tuple[_Event, _Event | None]:
    """Choose events for "D" and for "D'" which promise the highest bound together.

    Candidates are {x >= k}, {x <= k}, {x = k} and, with two areas, all products of these. The
    promise is as strict as if every candidate were to be paid for: with less, a rare event that
    did well by luck would win over a common one that is truly good.
    """
    events, in_d, in_d_prime = _candidates(d, d_prime)
    z = -NormalDist().inv_cdf((1.0 - confidence) / in_d.size)
    for_d = _best(_promise(in_d, in_d_prime, z))
    for_d_prime = _best(_promise(in_d_prime, in_d, z))
    # Row i: guess D on event for_d[i]; the last column stands for never guessing D'.
    right = in_d[for_d][:, np.newaxis] + np.append(in_d_prime[for_d_prime], 0)
    wrong = in_d_prime[for_d][:, np.newaxis] + np.append(in_d[for_d_prime], 0)
    promise = _promise(right, wrong, z)
    low, high = events
    apart = (low[for_d][:, np.newaxis] > high[for_d_prime]).any(axis=2)
    apart |= (high[for_d][:, np.newaxis] < low[for_d_prime]).any(axis=2)
    promise[:, :-1][~apart] = -inf
    i, j = np.unravel_index(int(promise.argmax()), promise.shape)
    second = for_d_prime[j] if j < len(for_d_prime) else None
    return _event(events, for_d[i]), None if second is None else _event(events, second)


def _promise(right: NDArray[Any], wrong: NDArray[Any], z: float) -> Floats:
    """Roughly the bound these counts would give: log odds less z standard errors."""
    r, w = right + 0.5, wrong + 0.5
    return np.asarray(np.log(r / w) - z * np.sqrt(1.0 / r + 1.0 / w))


def _best(promise: Floats, most: int = 64) -> NDArray[np.intp]:
    return np.argsort(-promise, kind="stable")[:most]


def _event(events: tuple[Floats, Floats], index: int) -> _Event:
    low, high = events
    return _Event(tuple(map(float, low[index])), tuple(map(float, high[index])))


def _candidates(d: Floats, d_prime: Floats) -> tuple[tuple[Floats, Floats], Floats, Floats]:
    """Return the events (low, high: one row each) and how often each happened on each side."""
    areas = d.shape[1]
    most = 64 if areas == 1 else 24
    ends = [_area_events(np.concatenate((d[:, a], d_prime[:, a])), most) for a in range(areas)]
    counts = []
    for sample in (d, d_prime):
        inside = [
            ((sample[:, [a]] >= low) & (sample[:, [a]] <= high)).astype(np.float64)
            for a, (low, high) in enumerate(ends)
        ]
        # With two areas one matrix product counts every pair of one-area events.
        table = inside[0].sum(axis=0) if areas == 1 else inside[0].T @ inside[1]
        counts.append(table.ravel())
    grids = [np.meshgrid(*(e[side] for e in ends), indexing="ij") for side in (0, 1)]
    low, high = (np.stack([g.ravel() for g in grid], axis=1) for grid in grids)
    return (low, high), counts[0], counts[1]


def _area_events(values: Floats, most: int) -> tuple[Floats, Floats]:
    """Ends of {x >= k}, {x <= k}, {x = k} and {any x}, for at most `most` values of k."""
    ks = np.unique(values)
    if ks.size > most:
        ks = np.unique(np.quantile(values, np.linspace(0.0, 1.0, most), method="nearest"))
    none = np.full(ks.size, inf)
    return np.concatenate((ks, -none, ks, [-inf])), np.concatenate((none, ks, ks, [inf]))


def _runs(sample: ArrayLike, name: str) -> Floats:
    array = np.asarray(sample)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[1] not in (1, 2):
        raise InputError(
            name,
            place="shape",
            found=f"{array.shape}",
            expected="(runs,) or (runs, 1 or 2); reduce each output to one or two numbers first",
        )
    if len(array) < _LEAST_RUNS:
        raise InputError(name, found=f"{len(array)} runs", expected=f"at least {_LEAST_RUNS}")
    return finite_vector(array, name).astype(np.float64).reshape(array.shape)


def _check_share(key: str, value: float, top: float) -> None:
    if not 0.0 < value < top:
        raise ConfigError(
            "audit", place=key, found=repr(value), expected=f"a number between 0 and {top:g}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class DirectEstimate:
    """log(chance under D / chance under D') for each k; NaN where either is zero.

    `chance_d` and `chance_d_prime` are frequencies; `standard_error` is that of the log ratio
    (delta method).
    """

    event: EventKind
    k: Floats
    chance_d: Floats
    chance_d_prime: Floats
    log_ratio: Floats
    standard_error: Floats
    runs_d: int
    runs_d_prime: int

    @property
    def undefined(self) -> Flags:
        """Where the ratio cannot be formed because a chance was estimated as zero."""
        return np.isnan(self.log_ratio)

    @property
    def max_abs(self) -> float | None:
        """Largest |log ratio| over the k at which it is defined, or None if there is none."""
        defined = self.log_ratio[~self.undefined]
        return float(np.abs(defined).max()) if defined.size else None


def direct(
    released_d: ArrayLike,
    released_d_prime: ArrayLike,
    *,
    exact_d: float,
    max_k: int = 10,
    max_k_tail: int = 8,
) -> tuple[DirectEstimate, DirectEstimate]:
    """Estimate log ratios for the events {error = k} and {error >= k}, in that order.

        log( #{i: error_i in E} / R )  -  log( #{i: error'_i in E} / R' )

    where

    - error_i = `released_d`[i] - `exact_d` and error'_i = `released_d_prime`[i] - `exact_d`;
    - {error = k} is {k - 1/2 <= error < k + 1/2}, |k| <= `max_k`: the same for whole numbers, and
      an event of positive chance for mechanisms that release fractions;
    - {error >= k} is taken as it stands, |k| <= `max_k_tail`.

    Flaxman (2019), section 2.3, "direct estimate", with 500 runs on each database.
    """
    errors = _errors(released_d, "released_d", exact_d)
    errors_prime = _errors(released_d_prime, "released_d_prime", exact_d)
    for key, value in (("max_k", max_k), ("max_k_tail", max_k_tail)):
        if value < 0:
            raise ConfigError("direct estimate", place=key, found=str(value), expected="0 or more")
    ks = np.arange(-max_k, max_k + 1, dtype=np.float64)
    tails = np.arange(-max_k_tail, max_k_tail + 1, dtype=np.float64)
    equal = [np.floor(e + 0.5)[:, np.newaxis] == ks for e in (errors, errors_prime)]
    at_least = [e[:, np.newaxis] >= tails for e in (errors, errors_prime)]
    return _frequencies("eq", ks, *equal), _frequencies("ge", tails, *at_least)


def _errors(released: ArrayLike, name: str, exact_d: float) -> Floats:
    values = finite_vector(released, name).astype(np.float64)
    if values.size == 0:
        raise InputError(name, found="no runs", expected="one released count for each run")
    return values - exact_d


def _frequencies(event: EventKind, ks: Floats, hits: Flags, hits_prime: Flags) -> DirectEstimate:
    chance, chance_prime = hits.mean(axis=0), hits_prime.mean(axis=0)
    log_ratio = _log_ratio(chance, chance_prime)
    defined = ~np.isnan(log_ratio)
    variance = np.full(ks.size, np.nan)
    p, q = chance[defined], chance_prime[defined]
    variance[defined] = (1 - p) / (p * len(hits)) + (1 - q) / (q * len(hits_prime))
    return DirectEstimate(
        event=event,
        k=ks,
        chance_d=chance,
        chance_d_prime=chance_prime,
        log_ratio=log_ratio,
        standard_error=np.sqrt(variance),
        runs_d=len(hits),
        runs_d_prime=len(hits_prime),
    )


def _log_ratio(p: Floats, q: Floats) -> Floats:
    defined = (p > 0) & (q > 0)
    ratio = np.full(p.size, np.nan)
    ratio[defined] = np.log(p[defined]) - np.log(q[defined])
    return ratio
