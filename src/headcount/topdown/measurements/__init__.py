"""Published noisy measurements, read by ranges of units: no truth, and nothing to spend."""

from headcount.topdown.measurements._files import level_folders
from headcount.topdown.measurements._places import in_parts, without_part
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
