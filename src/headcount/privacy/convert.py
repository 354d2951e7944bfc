"""From one kind of loss to another: adapters to well-kept libraries, the method beside the number.

Only valid directions exist. There is no way from rho or (epsilon, delta) to a pure epsilon, nor
from change-one to add-remove, because none is true.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from headcount.errors import PrivacyError
from headcount.privacy.loss import ApproximateLoss, Loss, PureLoss, ZCDPLoss, exact
from headcount.privacy.unit import UnitOfPrivacy

Accountant = Literal["opendp", "dp-accounting"]


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A converted loss, never without the loss it came from and the method that gave it."""

    source: Loss
    value: Loss
    method: str

    def __str__(self) -> str:
        return f"{self.value} (from {self.source}, by {self.method})"


def pure_to_zcdp(loss: PureLoss) -> Conversion:
    """Every epsilon is a rho: rho = epsilon^2 / 2, exactly, with the same unit of privacy.

    Bun and Steinke (2016), "Concentrated Differential Privacy", proposition 1.4.
    """
    _expect(loss, PureLoss, what="pure epsilon to rho")
    return Conversion(
        source=loss,
        value=ZCDPLoss(rho=loss.epsilon**2 / 2, unit=loss.unit),
        method="rho = epsilon^2 / 2",
    )


def add_remove_to_change_one(loss: PureLoss) -> Conversion:
    """Changing one is removing it and adding another: epsilon becomes 2 epsilon.

    Group privacy for two steps; Dwork and Roth (2014), theorem 2.2. The other way is not true: a
    change-one guarantee may publish the number of people exactly.
    """
    _expect(loss, PureLoss, what="add-remove to change-one")
    if not loss.unit.adds:
        raise PrivacyError(
            f"add-remove to change-one: found a loss for '{loss.unit}', "
            f"expected one for '{UnitOfPrivacy.ADD_REMOVE}'"
        )
    return Conversion(
        source=loss,
        value=PureLoss(epsilon=2 * loss.epsilon, unit=loss.unit.pair[1]),
        method="change-one epsilon = 2 x add-remove epsilon",
    )


def zcdp_to_approximate(
    loss: ZCDPLoss, *, delta: Fraction | int | str, accountant: Accountant = "opendp"
) -> Conversion:
    """The epsilon that a rho amounts to at a chosen delta.

    delta = inf over alpha > 1 of
            exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) x (1 - 1/alpha)^alpha

    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
    corollary 13. OpenDP searches the curve and rounds its arithmetic towards more epsilon;
    dp-accounting takes the best of a fixed list of orders alpha, so its epsilon is never below
    the curve's by more than rounding and slightly above it. rho is rounded up and delta down
    before they become binary floats.
    """
    from importlib.metadata import version  # slow to import, like the libraries it names

    _expect(loss, ZCDPLoss, what="rho to (epsilon, delta)")
    chosen = exact(delta, name="delta")
    if not 0 < chosen < 1:
        raise PrivacyError(f"delta: found {chosen}, expected a number above 0 and below 1")
    rho, at = _float_above(loss.rho), _float_below(chosen)
    if accountant == "opendp":
        epsilon = _opendp_epsilon(rho, delta=at)
        method = f"OpenDP {version('opendp')} zCDP curve"
    elif accountant == "dp-accounting":
        epsilon = _rdp_epsilon(rho, delta=at)
        method = f"dp-accounting {version('dp-accounting')} RDP orders"
    else:
        raise PrivacyError(
            f"accountant: found {accountant!r}, expected 'opendp' or 'dp-accounting'"
        )
    if not math.isfinite(epsilon):
        raise PrivacyError(f"rho to (epsilon, delta): {method} found no finite epsilon for {loss}")
    return Conversion(
        source=loss,
        value=ApproximateLoss(epsilon=Fraction(epsilon), delta=chosen, unit=loss.unit),
        method=method,
    )


def _opendp_epsilon(rho: float, *, delta: float) -> float:
    import opendp.prelude as dp
    from opendp.mod import OpenDPException

    with _opendp_features("contrib", "honest-but-curious"):
        # A stand-in that only carries the number: its privacy map is rho, its function never runs.
        spent = dp.m.make_user_measurement(
            dp.atom_domain(T=int),
            dp.absolute_distance(T=int),
            dp.zero_concentrated_divergence(),
            lambda _: 0,
            lambda _: rho,
        )
        try:
            curve: Any = dp.c.make_zCDP_to_approxDP(spent)
            return float(curve.map(1).epsilon(delta))
        except OpenDPException as error:
            raise PrivacyError(
                f"rho to (epsilon, delta): OpenDP could not convert rho {rho:g} at delta "
                f"{delta:g}: {error.message}"
            ) from None


@contextmanager
def _opendp_features(*wanted: str) -> Iterator[None]:
    """Switch OpenDP's opt-in features on for one call, leaving the user's own choice as it was."""
    import opendp.prelude as dp
    from opendp.mod import GLOBAL_FEATURES

    missing = [feature for feature in wanted if feature not in GLOBAL_FEATURES]
    dp.enable_features(*missing)
    try:
        yield
    finally:
        dp.disable_features(*missing)


def _rdp_epsilon(rho: float, *, delta: float) -> float:
    import numpy as np
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    # The default orders are coarse near the best one; a fine grid in log(alpha - 1) costs nothing.
    accountant = RdpAccountant(orders=1 + np.geomspace(0.02, 1e6, 4000))
    return float(accountant.compose(ZCDpEvent(rho, 0.0)).get_epsilon(delta))


def _expect(loss: Loss, kind: type, *, what: str) -> None:
    if not isinstance(loss, kind):
        raise PrivacyError(f"{what}: found {loss}, expected a {kind.__name__}: no such conversion")


def _float_above(value: Fraction) -> float:
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def _float_below(value: Fraction) -> float:
    number = float(value)
    return number if Fraction(number) <= value else math.nextafter(number, 0.0)
