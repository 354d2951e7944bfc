"""What noise costs, and the noise that a loss buys: the accounting of each law, exactly."""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch

from headcount.errors import PrivacyError
from headcount.noise.law import Law
from headcount.noise.laws import DiscreteGaussian, TwoSidedGeometric
from headcount.privacy.loss import Loss, PureLoss, ZCDPLoss
from headcount.privacy.sensitivity import Sensitivity


@singledispatch
def noise_loss(law: Law, moved: Sensitivity, *, draws: int = 1) -> Loss:
    """The loss of ``draws`` answers with noise of a law, when neighbours move each by ``moved``."""
    raise PrivacyError(
        f"noise: found {law}, a law without a stated loss, expected one that is registered with "
        "headcount.privacy.noise_loss"
    )


@noise_loss.register
def _(law: TwoSidedGeometric, moved: Sensitivity, *, draws: int = 1) -> PureLoss:
    """Epsilon = rate l1, for each draw.

    Ghosh, Roughgarden and Sundararajan (2012), "Universally Utility-Maximizing Privacy
    Mechanisms", definition 2.2.
    """
    return PureLoss(epsilon=law.rate * moved.l1 * draws, unit=moved.unit)


@noise_loss.register
def _(law: DiscreteGaussian, moved: Sensitivity, *, draws: int = 1) -> ZCDPLoss:
    """Rho = l2_squared / (2 sigma2), for each draw.

    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
    theorem 4 and, for vectors, theorem 14.
    """
    return ZCDPLoss(rho=Fraction(moved.l2_squared) / (2 * law.sigma2) * draws, unit=moved.unit)


def law_for(loss: Loss, moved: Sensitivity) -> Law:
    """The law with which one answer costs ``loss``: the inverse of ``noise_loss``.

    rate = epsilon / l1, or sigma2 = l2_squared / (2 rho)
    """
    if loss.unit is not moved.unit:
        raise PrivacyError(
            f"noise: found a loss for '{loss.unit}' and a sensitivity for '{moved.unit}', "
            f"expected one unit of privacy"
        )
    if moved.l1 == 0:
        raise PrivacyError(
            f"noise: found a query of sensitivity 0, expected one that a person can change: "
            f"when {loss.unit.phrase} its answer stays the same. Give it no share, or take the "
            f"unit '{loss.unit.pair[1]}'"
        )
    if isinstance(loss, PureLoss):
        return TwoSidedGeometric(loss.epsilon / moved.l1)
    if isinstance(loss, ZCDPLoss):
        return DiscreteGaussian(Fraction(moved.l2_squared) / (2 * loss.rho))
    raise PrivacyError(f"noise: found {loss}, expected a pure or a zCDP loss")
