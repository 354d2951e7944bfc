"""Who lives near whom: communities by race and Hispanic origin, mixed unevenly over the land."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headcount.arrays import Floats, Ints32
from headcount.geography import Geography

COMMUNITIES = np.array(
    [
        *(0.637, 0.122, 0.0075, 0.047, 0.0016, 0.0020),
        *(0.087, 0.005, 0.0030, 0.0008, 0.0004, 0.0660),
    ]
)
"""Shares of communities: six races, not Hispanic, then Hispanic (United States, 2010)."""

CONCENTRATION = {"county": 14.0, "tract": 10.0, "block": 4.0}
"""Dirichlet concentration of each level's mix about that of the level above: lower, more apart."""

SECOND_RACE = np.array([0.012, 0.035, 0.30, 0.08, 0.45, 0.04])
"""Probability that a person of one race reports another too, by the first."""

OTHER_RACE = np.array([0.56, 0.14, 0.12, 0.08, 0.02, 0.08])
"""Which other."""

ANOTHER_RACE = 0.08
"""Probability of each further one."""

Masks = NDArray[np.uint8]


def mixes(rng: np.random.Generator, geography: Geography) -> dict[str, Floats]:
    """Shares of the communities in each county, tract and block.

    mix(unit) ~ Dirichlet(c mix(parent))

    where
        c   the concentration of the level

    Shares of the whole state are those of the nation only in the mean over seeds.
    """
    found: dict[str, Floats] = {"state": COMMUNITIES[None, :] / COMMUNITIES.sum()}
    above = "state"
    for level, concentration in CONCENTRATION.items():
        mean = found[above][geography.ancestors(above, of=level)]
        drawn = rng.standard_gamma(concentration * mean)
        total = drawn.sum(axis=1, keepdims=True)
        # Shapes near zero can all underflow; such a unit is like its parent.
        found[level] = np.where(total > 0, drawn / np.where(total > 0, total, 1.0), mean)
        above = level
    return found


def draw_community(rng: np.random.Generator, mix: Floats, unit: Ints32) -> NDArray[np.int16]:
    """One community for each row, from the mix of its unit."""
    upto = np.cumsum(mix, axis=1)
    upto /= upto[:, -1:]
    point = rng.random(len(unit))
    community = np.zeros(len(unit), dtype=np.int16)
    for k in range(mix.shape[1] - 1):
        community += point >= upto[unit, k]
    return community


def race_mask(rng: np.random.Generator, community: NDArray[np.int16]) -> Masks:
    """The races a member of each community reports, as bits; mostly one."""
    first = community % 6
    mask = np.left_shift(1, first).astype(np.uint8)
    more = np.flatnonzero(rng.random(len(mask)) < SECOND_RACE[first])
    while len(more):
        extra = rng.choice(6, size=len(more), p=OTHER_RACE)
        mask[more] |= np.left_shift(1, extra).astype(np.uint8)
        more = more[rng.random(len(more)) < ANOTHER_RACE]
    return mask
