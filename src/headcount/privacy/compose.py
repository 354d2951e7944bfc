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


def along_paths(losses: Iterable[tuple[Loss, frozenset[int] | None]]) -> Loss | None:
    """The loss of measurements of places in a tree: the largest sum along a path to a leaf.

        loss = max over paths p of S_p,   S_p = sum of the losses of measurements on p

    where
        losses   of each measurement, stated for a record that moves from one of its counts to
                 another, with the numbers of the paths it lies on; None for all of them

    Proof for Gaussian noise and one changed record, which leaves a cell of leaf a for one of leaf
    b. A query of a unit on both paths has at most one count less and one more: squared distance
    2, and rho = 2 / (2 s^2) = 1 / s^2, the loss as stated. A unit on one of the two paths has one
    count that moves by 1: squared distance 1, half that loss. So

        rho(a, b) <= sum over both of 1/s^2 + 1/2 sum over one of 1/s^2 = (S_a + S_b) / 2

    which is at most the larger of the two. The same holds for epsilon with distances in place of
    squares, 2 and 1, and noise whose loss is proportional to them. A record that is added or
    removed moves one count of each unit on one path: its loss, stated so, is S_a. Unequal sums
    are safe, and a waste: paths with a smaller sum are protected more than is said.
    """
    given = list(losses)
    if not given:
        return None
    numbers = frozenset[int]().union(*(paths for _, paths in given if paths is not None)) or {0}
    sums = [
        sequential(own)
        for number in numbers
        if (own := [loss for loss, paths in given if paths is None or number in paths])
    ]
    return max(sums, key=lambda loss: loss.amount)


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
