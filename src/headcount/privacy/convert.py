"""From one kind of loss to another, the method beside the number; spends held against a total.

Only valid directions exist. There is no way from rho or (epsilon, delta) to a pure epsilon, nor
from change-one to add-remove, because none is true.

Spends are chosen one after another, by people who have seen the earlier releases. The rule that
stops them must therefore be fixed in advance and be the same for all of them:

    total in epsilon             sum of epsilons <= total
    total in rho                 sum of rhos <= total
    total in epsilon at delta    epsilon(sum of rhos, delta) <= total

Taking the better of two rules as the spends come in is **not** valid: each rule may fail with
probability delta. Rogers, Roth, Ullman and Vadhan (2016), "Privacy Odometers and Filters", for
epsilon; Feldman and Zrnic (2021), "Individual Privacy Accounting via a Renyi Filter", for rho.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.noise.laws import enclose, precision
from headcount.privacy.loss import (
    ApproximateLoss,
    Currency,
    Loss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    exact,
)


@dataclass(frozen=True, kw_only=True)
class _Conversion:
    """A converted loss, never without the loss it came from and the method that gave it."""

    source: Loss
    value: Loss
    method: str

    def __str__(self) -> str:
        return f"{self.value} (from {self.source}, by {self.method})"


def pure_to_zcdp(loss: PureLoss) -> _Conversion:
    """Every epsilon is a rho: rho = epsilon^2 / 2, exactly, with the same unit of privacy.

    Bun and Steinke (2016), "Concentrated Differential Privacy", proposition 1.4.
    """
    _expect(loss, PureLoss, what="pure epsilon to rho")
    return _Conversion(
        source=loss,
        value=ZCDPLoss(rho=loss.epsilon**2 / 2, unit=loss.unit),
        method="rho = epsilon^2 / 2",
    )


def add_remove_to_change_one(loss: PureLoss) -> _Conversion:
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
    return _Conversion(
        source=loss,
        value=PureLoss(epsilon=2 * loss.epsilon, unit=loss.unit.pair[1]),
        method="change-one epsilon = 2 x add-remove epsilon",
    )


def zcdp_to_approximate(loss: ZCDPLoss, *, delta: Fraction | int | str) -> _Conversion:
    """The epsilon that a rho amounts to at a chosen delta.

        epsilon = inf over alpha > 1 of  rho alpha + log(1 - 1/alpha) - log(delta alpha)/(alpha - 1)

    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
    corollary 13. Every alpha gives an epsilon that holds: a search in floats finds one near the
    best, and its epsilon is then worked out as a ball and rounded up, so that the search need not
    be trusted.
    """
    _expect(loss, ZCDPLoss, what="rho to (epsilon, delta)")
    chosen = exact(delta, name="delta")
    if not 0 < chosen < 1:
        raise PrivacyError(f"delta: found {chosen}, expected a number above 0 and below 1")
    alpha = _best_order(loss.rho, chosen)
    epsilon = max(Fraction(0), _epsilon_above(loss.rho, chosen, alpha))
    return _Conversion(
        source=loss,
        value=ApproximateLoss(epsilon=epsilon, delta=chosen, unit=loss.unit),
        method=f"Canonne, Kamath and Steinke (2020), corollary 13, at order {float(alpha):.6g}",
    )


def _best_order(rho: Fraction, delta: Fraction) -> Fraction:
    """An order alpha near the best one: by golden section in log(alpha - 1)."""
    of_delta = math.log(delta.numerator) - math.log(delta.denominator)

    def epsilon(excess: float) -> float:
        above = math.exp(excess)
        return (
            float(rho) * above
            + math.log(above)
            - math.log1p(above)
            - (of_delta + math.log1p(above)) / above
        )

    # Around sqrt(log(1/delta) / rho), the best order without the term log(1 - 1/alpha).
    middle = (math.log(max(-of_delta, 1e-300)) - math.log(float(rho))) / 2
    low, high = middle - 12, middle + 12
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if epsilon(left) < epsilon(right) else (left, high)
    return 1 + Fraction(math.exp(low))


def _epsilon_above(rho: Fraction, delta: Fraction, alpha: Fraction) -> Fraction:
    """The epsilon of an order, rounded up to a binary float."""
    from flint import arb

    with precision(256):
        log_delta = enclose(delta * alpha).log() / enclose(alpha - 1)
        held = enclose(rho * alpha) + enclose(1 - 1 / alpha).log() - log_delta
        above = float(held.upper())
        while not held <= arb(above):  # a float may have been rounded down
            above = math.nextafter(above, math.inf)
    return Fraction(above)


def _expect(loss: Loss, kind: type, *, what: str) -> None:
    if not isinstance(loss, kind):
        raise PrivacyError(f"{what}: found {loss}, expected a {kind.__name__}: no such conversion")


@dataclass(frozen=True, kw_only=True)
class _Charge:
    """An amount of a total, and how it was worked out.

    Of one spend, as it enters the sum: epsilon for a total in epsilon, else rho. Of the sum: how
    much of the total is used, in the total's own currency.
    """

    amount: Fraction
    method: str = ""


def charge(loss: Loss, *, total: Loss) -> _Charge:
    """Bring a loss into the sum that is held against ``total``, or refuse."""
    steps: list[str] = []
    if loss.unit is not total.unit:
        loss, step = _same_unit(loss, total=total)
        steps.append(step)
    if isinstance(total, PureLoss):
        if not isinstance(loss, PureLoss):
            raise _refusal(loss, total=total, expected="a pure epsilon")
    elif isinstance(loss, PureLoss):
        conversion = pure_to_zcdp(loss)
        loss = conversion.value
        steps.append(conversion.method)
    elif not isinstance(loss, ZCDPLoss):
        raise _refusal(loss, total=total, expected="a rho or a pure epsilon")
    return _Charge(amount=loss.amount, method=", then ".join(steps))


def used(charges: Iterable[Fraction], *, total: Loss) -> _Charge:
    """Add up charges, and convert the sum (never the parts) to the total's currency."""
    amount = sum(charges, Fraction(0))
    if not isinstance(total, ApproximateLoss) or amount == 0:
        return _Charge(amount=amount)
    conversion = zcdp_to_approximate(ZCDPLoss(rho=amount, unit=total.unit), delta=total.delta)
    return _Charge(amount=conversion.value.amount, method=f"rhos summed, then {conversion.method}")


def _same_unit(loss: Loss, *, total: Loss) -> tuple[PureLoss, str]:
    if loss.unit.of_housing_unit is not total.unit.of_housing_unit:
        raise PrivacyError(
            f"spend: found {loss.currency} for '{loss.unit}' against a total for '{total.unit}', "
            f"expected the total's own unit: losses of persons and of housing units do not convert"
        )
    if not isinstance(loss, PureLoss):
        raise PrivacyError(
            f"spend: found {loss.currency} for '{loss.unit}' against a total for "
            f"'{total.unit}', expected the total's own unit: only a pure add-remove epsilon "
            f"converts. State the loss for '{total.unit}' from the query's sensitivity"
        )
    if loss.unit.of_household is not total.unit.of_household:
        raise PrivacyError(
            f"spend: found epsilon for '{loss.unit}' against a total for '{total.unit}', "
            f"expected the total's own unit: losses of persons and of households do not convert"
        )
    if not loss.unit.adds:
        raise PrivacyError(
            f"spend: found epsilon for '{loss.unit}' against a total for '{total.unit}', "
            f"expected the total's own unit: a change-one guarantee does not bound what adding "
            f"or removing a person shows"
        )
    conversion = add_remove_to_change_one(loss)
    assert isinstance(conversion.value, PureLoss)
    return conversion.value, conversion.method


def _refusal(loss: Loss, *, total: Loss, expected: str) -> PrivacyError:
    why = {
        Currency.EPSILON: "an epsilon bounds a rho, but no rho or delta bounds an epsilon",
        Currency.RHO: "an (epsilon, delta) loss has no rho",
        Currency.EPSILON_AT_DELTA: "rhos are summed before they are converted at the total's "
        "delta, and an (epsilon, delta) loss has no rho",
    }[total.currency]
    return PrivacyError(
        f"spend: found {loss.currency} against a total in {total.currency}, "
        f"expected {expected}: {why}"
    )
