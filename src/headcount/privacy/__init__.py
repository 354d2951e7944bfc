"""Losses in exact fractions, the unit of privacy, what a release promises, and what was spent."""

from headcount.privacy._ledger_file import OverspendError, Spend, SpendState
from headcount.privacy.convert import add_remove_to_change_one, pure_to_zcdp, zcdp_to_approximate
from headcount.privacy.guarantee import Guarantee
from headcount.privacy.ledger import Ledger
from headcount.privacy.loss import (
    DEFAULT_UNIT,
    Allocation,
    ApproximateLoss,
    Currency,
    Loss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    allocate,
    along_paths,
    sequential,
    unit_of_privacy,
)
from headcount.privacy.sensitivity import Sensitivity, law_for, marginal_sensitivity, noise_loss

__all__ = [
    "DEFAULT_UNIT",
    "Allocation",
    "ApproximateLoss",
    "Currency",
    "Guarantee",
    "Ledger",
    "Loss",
    "OverspendError",
    "PureLoss",
    "Sensitivity",
    "Spend",
    "SpendState",
    "UnitOfPrivacy",
    "ZCDPLoss",
    "add_remove_to_change_one",
    "allocate",
    "along_paths",
    "law_for",
    "marginal_sensitivity",
    "noise_loss",
    "pure_to_zcdp",
    "sequential",
    "unit_of_privacy",
    "zcdp_to_approximate",
]
