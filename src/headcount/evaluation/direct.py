"""The direct estimate of privacy loss: one mechanism run many times on two neighbours.

The definition of epsilon compares the chance of *one and the same* set of outputs under two
neighbouring databases D and D'. So "error" here is the released count minus the exact count
**of D**, for the runs on D' too: subtracting the same number from both only renames the event.
Were each database's own exact count subtracted, the two laws of a noise-adding mechanism would
be equal and the loss would seem to be zero.

Flaxman (2019) writes the error as A(D) - TC and does not say whose exact count TC is when the
mechanism is run on D'. In the code of that study the raked routine regroups the original people
on every run, so its runs on D' were runs on D, and that comparison is a null test. Here the two
samples are given by the caller, who must really have run both databases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from headcount.arrays import Flags, Floats
from headcount.errors import ConfigError, InputError
from headcount.evaluation.error import finite_vector

EventKind = Literal["eq", "ge"]


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
