"""Places: levels from the whole to the leaf, units, parents."""

from headcount.geography.geography import Geography, regular
from headcount.geography.spine import Areas, off_spine_distance

__all__ = ["Areas", "Geography", "off_spine_distance", "regular"]
