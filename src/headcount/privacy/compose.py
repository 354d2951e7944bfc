"""Composition of losses, stated where it happens.

Nothing here converts. Losses of different currencies or units are refused; see
:mod:`headcount.privacy.convert` for the few valid ways from one to another.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.privacy.loss import ApproximateLoss, Loss, PureLoss, ZCDPLoss


def sequential(losses: Iterable[Loss]) -> Loss:
    """The loss of several releases about the same people: losses add up.

    epsilon = sum epsilon_i;  rho = sum rho_i;  (epsilon, delta) = (sum epsilon_i, sum delta_i)

    Dwork and Roth (2014), "The Algorithmic Foundations of Differential Privacy", theorem 3.16;
    Bun and Steinke (2016), "Concentrated Differential Privacy", lemma 2.3 for rho.
    """
    parts = _alike(losses)
    first = parts[0]
    amount = sum((part.amount for part in parts), Fraction(0))
    if isinstance(first, PureLoss):
        return PureLoss(epsilon=amount, unit=first.unit)
    if isinstance(first, ZCDPLoss):
        return ZCDPLoss(rho=amount, unit=first.unit)
    delta = sum((part.delta for part in parts if isinstance(part, ApproximateLoss)), Fraction(0))
    return ApproximateLoss(epsilon=amount, delta=delta, unit=first.unit)


def _alike(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    parts = tuple(losses)
    if not parts:
        raise PrivacyError("sequential composition: found no losses, expected at least one")
    first = parts[0]
    for part in parts[1:]:
        if part.currency is not first.currency:
            raise PrivacyError(
                f"sequential composition: found {part.currency} beside {first.currency}, expected "
                "one currency: convert first, so that the method is named"
            )
        if part.unit is not first.unit:
            raise PrivacyError(
                f"sequential composition: found the unit of privacy '{part.unit}' beside "
                f"'{first.unit}', expected one unit: their losses are different quantities"
            )
    return parts
