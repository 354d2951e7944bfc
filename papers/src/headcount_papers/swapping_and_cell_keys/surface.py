"""The risk surface over swap rate and noise, its contour lines, and what a given risk costs.

Between the chains that were run values are interpolated, linearly from step to step of both axes:

    z(x, y) = (1 - f)(1 - g) z_ij + f (1 - g) z_(i+1)j + (1 - f) g z_i(j+1) + f g z_(i+1)(j+1)

where
    x = i + f   place among the swap rates, y = j + g place among the steps of noise
    z           a risk, which falls along both axes, or an error, which grows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from headcount.arrays import Floats

FINE = 20
"""Places between two swap rates at which a contour line is followed."""


def crossing(values: Floats, level: float) -> float | None:
    """The first place at which values along an axis reach a level; None if they never do."""
    above = float(values[0]) > level
    for place, (here, there) in enumerate(pairwise(map(float, values))):
        if here == level:
            return float(place)
        if (there > level) != above:
            return place + (here - level) / (here - there)
    return float(len(values) - 1) if values[-1] == level else None


def along(values: Floats | Sequence[float], place: float) -> float:
    """The value at a place between two steps."""
    return float(np.interp(place, np.arange(len(values)), values))


def row_at(grid: Floats, place: float) -> Floats:
    """Values along the second axis at a place of the first."""
    first = min(int(place), len(grid) - 1)
    part, last = place - first, min(first + 1, len(grid) - 1)
    found: Floats = (1 - part) * grid[first] + part * grid[last]
    return found


def contour(grid: Floats, level: float) -> Iterator[tuple[float, float]]:
    """Places (x, y) of a contour line, as far as it lies on the grid."""
    for x in np.linspace(0, len(grid) - 1, FINE * (len(grid) - 1) + 1).tolist():
        y = crossing(row_at(grid, x), level)
        if y is not None:
            yield x, y


@dataclass(frozen=True, kw_only=True)
class Surface:
    """Risks and errors of one draw of all chains.

    where
        rates      swap rates
        noise      variances of the steps of noise, 0 first
        risk       (rates x steps)
        errors     the same, by level
    """

    rates: tuple[float, ...]
    noise: tuple[float, ...]
    risk: Floats
    errors: Mapping[str, Floats]

    def prices(self, risk: float) -> Iterator[dict[str, Any]]:
        """What a risk costs: by swapping alone, by noise alone, and by each mix of both."""
        x = crossing(self.risk[:, 0], risk)
        if x is not None:
            yield self._price("swapping", x, 0.0)
        y = crossing(self.risk[0], risk)
        if y is not None:
            yield self._price("noise", 0.0, y)
        for rate in range(1, len(self.rates)):
            y = crossing(self.risk[rate], risk)
            if y is not None and self.risk[rate, 0] > risk:
                yield self._price("mix", float(rate), y)

    def _price(self, by: str, x: float, y: float) -> dict[str, Any]:
        errors = {level: along(row_at(grid, x), y) for level, grid in self.errors.items()}
        return {"by": by, "rate": along(self.rates, x), "noise": along(self.noise, y), **errors}
