"""How far a release is from the truth, and how much it gives away: one module per metric."""

from headcount.evaluation._base import (
    LEVEL,
    QUERY,
    Metric,
    NotFeasible,
    Truth,
    by_level,
    estimated,
    needs,
    publishes_counts,
    scored,
)

__all__ = [
    "LEVEL",
    "QUERY",
    "Metric",
    "NotFeasible",
    "Truth",
    "by_level",
    "estimated",
    "needs",
    "publishes_counts",
    "scored",
]
