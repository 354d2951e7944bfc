"""Losses in exact fractions, the unit of privacy, and what a release promises."""

from headcount.privacy.guarantee import Guarantee
from headcount.privacy.loss import PureLoss
from headcount.privacy.unit import UnitOfPrivacy

__all__ = ["Guarantee", "PureLoss", "UnitOfPrivacy"]
