"""Places: levels from the whole to the leaf, units, parents."""

from headcount.geography.areas import Areas
from headcount.geography.distance import off_spine_distance
from headcount.geography.geography import Geography, regular

__all__ = ["Areas", "Geography", "off_spine_distance", "regular"]
