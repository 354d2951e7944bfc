"""Published noisy measurements, read by ranges of units: no truth, and nothing to spend."""

from headcount.topdown.measurements.form import in_parts, level_folders, without_part
from headcount.topdown.measurements.noisy import (
    NoisyMeasurements,
    PublishedBounds,
    read_measurements,
)

__all__ = [
    "NoisyMeasurements",
    "PublishedBounds",
    "in_parts",
    "level_folders",
    "read_measurements",
    "without_part",
]
