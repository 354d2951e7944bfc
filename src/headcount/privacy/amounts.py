"""Amounts that somebody has typed, as exact losses."""

from __future__ import annotations

from headcount.errors import ConfigError
from headcount.privacy import ApproximateLoss, Loss, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.privacy.loss import exact


def total_loss(*, epsilon: str, rho: str, delta: str = "", unit: str) -> Loss:
    """The total that a set of options names."""
    if bool(epsilon) == bool(rho) or (delta and rho):
        raise ConfigError(
            "ledger init",
            found=f"--epsilon {epsilon!r} --rho {rho!r} --delta {delta!r}",
            expected="--epsilon, or --rho, or --epsilon with --delta",
        )
    known = [one.value for one in UnitOfPrivacy]
    if unit not in known:
        raise ConfigError(
            "ledger init", place="--unit", found=repr(unit), expected=f"one of {known}"
        )
    which = UnitOfPrivacy(unit)
    if rho:
        return ZCDPLoss(rho=exact(rho, name="--rho"), unit=which)
    amount = exact(epsilon, name="--epsilon")
    if delta:
        return ApproximateLoss(epsilon=amount, delta=exact(delta, name="--delta"), unit=which)
    return PureLoss(epsilon=amount, unit=which)
