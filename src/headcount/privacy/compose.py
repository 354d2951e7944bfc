"""Composition of losses, stated where it happens: in sequence, or in parallel over disjoint people.

Nothing here converts. Losses of different currencies or units are refused; see
:mod:`headcount.privacy.convert` for the few valid ways from one to another.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.privacy.loss import ApproximateLoss, Loss, PureLoss, ZCDPLoss
from headcount.privacy.unit import UnitOfPrivacy


def sequential(losses: Iterable[Loss]) -> Loss:
    """The loss of several releases about the same people: losses add up.

    epsilon = sum epsilon_i;  rho = sum rho_i;  (epsilon, delta) = (sum epsilon_i, sum delta_i)

    Dwork and Roth (2014), "The Algorithmic Foundations of Differential Privacy", theorem 3.16;
    Bun and Steinke (2016), "Concentrated Differential Privacy", lemma 2.3 for rho.
    """
    parts = _alike(losses, how="sequential")
    first = parts[0]
    amount = sum((part.amount for part in parts), Fraction(0))
    if isinstance(first, PureLoss):
        return PureLoss(epsilon=amount, unit=first.unit)
    if isinstance(first, ZCDPLoss):
        return ZCDPLoss(rho=amount, unit=first.unit)
    delta = sum((part.delta for part in parts if isinstance(part, ApproximateLoss)), Fraction(0))
    return ApproximateLoss(epsilon=amount, delta=delta, unit=first.unit)


def parallel(losses: Iterable[Loss]) -> Loss:
    """The loss of releases about disjoint groups of people: the largest, for add-remove only.

    Adding or removing a person touches one group, so the whole loses what that group loses.
    Changing a record can take a person out of one group and into another: two groups change, and
    neither by a change of one record, so change-one losses of the parts say nothing about the
    whole. Measure the groups as one query instead (:mod:`headcount.privacy.sensitivity`), or
    state the parts for add-remove, compose, and convert the result.

    McSherry (2009), "Privacy Integrated Queries", theorem 4.
    """
    parts = _alike(losses, how="parallel")
    first = parts[0]
    if first.unit is not UnitOfPrivacy.ADD_REMOVE:
        raise PrivacyError(
            f"parallel composition: found losses for '{first.unit}', expected "
            f"'{UnitOfPrivacy.ADD_REMOVE}': a changed record can move a person from one part to "
            f"another. Measure the parts as one query, or compose add-remove losses and convert"
        )
    if isinstance(first, ApproximateLoss):
        deltas = [part.delta for part in parts if isinstance(part, ApproximateLoss)]
        epsilon = max(part.amount for part in parts)
        return ApproximateLoss(epsilon=epsilon, delta=max(deltas), unit=first.unit)
    return max(parts, key=lambda part: part.amount)


def _alike(losses: Iterable[Loss], *, how: str) -> tuple[Loss, ...]:
    parts = tuple(losses)
    if not parts:
        raise PrivacyError(f"{how} composition: found no losses, expected at least one")
    first = parts[0]
    for part in parts[1:]:
        if part.currency is not first.currency:
            raise PrivacyError(
                f"{how} composition: found {part.currency} beside {first.currency}, expected one "
                f"currency: convert first, so that the method is named"
            )
        if part.unit is not first.unit:
            raise PrivacyError(
                f"{how} composition: found the unit of privacy '{part.unit}' beside "
                f"'{first.unit}', expected one unit: their losses are different quantities"
            )
    return parts
