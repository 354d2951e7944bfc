"""How far a release is from the truth, and how much it gives away: one module per metric."""

from headcount.evaluation._base import Metric, NotFeasible, Truth

__all__ = ["Metric", "NotFeasible", "Truth"]
