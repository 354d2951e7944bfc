"""What is known of the people and dwellings of a generated state, in census terms."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headcount.schema import Attribute, Follows

OLDEST = 90
"""Ages stop here: 90 stands for 90 and over."""

SINGLE_RACES = ("white", "black", "aian", "asian", "nhpi", "other")

RACE_SETS: tuple[tuple[int, ...], ...] = tuple(
    chosen for size in range(1, 7) for chosen in combinations(range(6), size)
)
"""The 63 combinations of the six races: singles first, then pairs, ..., each in order."""

AGE = Attribute("age", tuple(str(age) for age in range(OLDEST + 1)))
SEX = Attribute("sex", ("male", "female"))
RACE = Attribute("race", tuple(str(code) for code in range(1, 64)))
HISPANIC = Attribute("hispanic", ("not_hispanic", "hispanic"))
TENURE = Attribute("tenure", ("own", "rent", "none"), Follows.DWELLING)
HOUSEHOLD_SIZE = Attribute("household_size", ("1", "2", "3", "4+", "none"), Follows.SIZE)
"""Of vacant dwellings and group quarters, tenure and household size are "none"."""

MALE, FEMALE = 0, 1
OWN, RENT, NO_TENURE = 0, 1, 2
NO_SIZE = 4

KINDS = (
    "household",
    "vacant",
    "correctional",
    "juvenile",
    "nursing",
    "other_institutional",
    "college",
    "military",
    "other_noninstitutional",
)


def mask_of(races: tuple[int, ...]) -> int:
    """A set of races as bits: white 1, black 2, ..., other 32."""
    return sum(1 << race for race in races)


def race_of_mask() -> NDArray[np.int16]:
    """For each set of races as bits (1 to 63) the position of its race level."""
    position = np.full(64, -1, dtype=np.int16)
    position[[mask_of(races) for races in RACE_SETS]] = np.arange(len(RACE_SETS))
    return position
