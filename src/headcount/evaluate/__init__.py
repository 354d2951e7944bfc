"""How far a release is from the truth, and how much it gives away."""

from headcount.evaluate.audit import AuditBound, AuditTrials, Event, audit, audit_trials
from headcount.evaluate.direct import DirectEstimate, direct, direct_smoothed
from headcount.evaluate.epl import EmpiricalLoss, gaussian_density, published
from headcount.evaluate.error import (
    EXACT_MINUS_RELEASED,
    RELEASED_MINUS_EXACT,
    ErrorSummary,
    Sign,
    residuals,
    summarise,
)

__all__ = [
    "EXACT_MINUS_RELEASED",
    "RELEASED_MINUS_EXACT",
    "AuditBound",
    "AuditTrials",
    "DirectEstimate",
    "EmpiricalLoss",
    "ErrorSummary",
    "Event",
    "Sign",
    "audit",
    "audit_trials",
    "direct",
    "direct_smoothed",
    "gaussian_density",
    "published",
    "residuals",
    "summarise",
]
