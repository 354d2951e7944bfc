"""How far a release is from the truth, and how much it gives away."""

from headcount.evaluation.audit import AuditBound, AuditTrials, Event, audit, audit_trials
from headcount.evaluation.direct import DirectEstimate, direct
from headcount.evaluation.epl import EmpiricalLoss, gaussian_density, published
from headcount.evaluation.error import (
    CELL_SETS,
    EXACT_MINUS_RELEASED,
    RELEASED_MINUS_EXACT,
    CellSet,
    CountPairs,
    ErrorSummary,
    Sign,
    pair_counts,
    summarise,
)

__all__ = [
    "CELL_SETS",
    "EXACT_MINUS_RELEASED",
    "RELEASED_MINUS_EXACT",
    "AuditBound",
    "AuditTrials",
    "CellSet",
    "CountPairs",
    "DirectEstimate",
    "EmpiricalLoss",
    "ErrorSummary",
    "Event",
    "Sign",
    "audit",
    "audit_trials",
    "direct",
    "gaussian_density",
    "pair_counts",
    "published",
    "summarise",
]
