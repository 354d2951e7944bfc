"""How spends count against a declared total: valid directions only, each step named.

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

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.privacy.convert import add_remove_to_change_one, pure_to_zcdp, zcdp_to_approximate
from headcount.privacy.loss import ApproximateLoss, Currency, Loss, PureLoss, ZCDPLoss


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One spend as it enters the sum: epsilon for a total in epsilon, else rho."""

    amount: Fraction
    method: str = ""


@dataclass(frozen=True, kw_only=True)
class Used:
    """How much of a total is used, in the total's own currency, and how that was worked out."""

    amount: Fraction
    method: str = ""


def charge(loss: Loss, *, total: Loss) -> Charge:
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
    return Charge(amount=loss.amount, method=", then ".join(steps))


def used(charges: Iterable[Fraction], *, total: Loss) -> Used:
    """Add up charges, and convert the sum (never the parts) to the total's currency."""
    amount = sum(charges, Fraction(0))
    if not isinstance(total, ApproximateLoss) or amount == 0:
        return Used(amount=amount)
    conversion = zcdp_to_approximate(ZCDPLoss(rho=amount, unit=total.unit), delta=total.delta)
    return Used(amount=conversion.value.amount, method=f"rhos summed, then {conversion.method}")


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
