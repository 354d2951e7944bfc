"""Metrics: what a release costs and gives away, one module each, found by its name."""

from headcount.evaluation.metrics._base import Metric, NotFeasible, publishes_counts

__all__ = ["Metric", "NotFeasible", "publishes_counts"]
