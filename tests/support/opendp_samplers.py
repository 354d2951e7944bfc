"""OpenDP's exact samplers (CKS 2020): what ours are compared with."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import singledispatch
from math import inf, nextafter, sqrt
from typing import Any

import numpy as np

from headcount.noise import DiscreteGaussian, Law, TwoSidedGeometric


def opendp_sampler(law: Law) -> Callable[[int], list[int]]:
    """A function that draws ``count`` values of the law with OpenDP."""
    measurement = opendp_measurement(law)

    def draw(count: int) -> list[int]:
        if count == 0:
            return []
        values: list[int] = measurement(np.zeros(count, dtype=np.int64))
        return values

    return draw


@singledispatch
def opendp_measurement(law: Law) -> Any:
    """OpenDP's measurement that adds noise of the law to a vector of integers."""
    raise TypeError(f"OpenDP has no sampler for {law}")


@opendp_measurement.register
def _(law: TwoSidedGeometric) -> Any:
    dp, domain = _integers()
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=_scale(1 / law.rate, power=1))


@opendp_measurement.register
def _(law: DiscreteGaussian) -> Any:
    dp, domain = _integers()
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=_scale(law.sigma2, power=2))


def _integers() -> tuple[Any, Any]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp, dp.vector_domain(dp.atom_domain(T="i64"))


def _scale(wanted: Fraction, *, power: int) -> float:
    """The smallest float near the root of ``wanted`` whose power is not below it.

    OpenDP reads a scale as the exact fraction that the float is.
    """
    scale = sqrt(wanted) if power == 2 else float(wanted)
    while Fraction(scale) ** power < wanted:
        scale = nextafter(scale, inf)
    return scale
