"""Published noisy measurements, read by ranges of units: no truth, and nothing to spend."""

from headcount.measurements.noisy import NoisyMeasurements, PublishedBounds, read_measurements

__all__ = ["NoisyMeasurements", "PublishedBounds", "read_measurements"]
