"""The mechanism that benchmarks of the redistricting product of 2020 run, and its control."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headcount.mechanisms.topdown.mechanism import TopDown


def preset_2020(**keys: object) -> TopDown:
    """TopDown as the persons of the redistricting product of the United States were protected."""
    return TopDown.from_preset("redistricting-2020-us", **keys)


def one_pass(preset: TopDown) -> TopDown:
    """The same with all queries fitted at once, and rounded by cells as in 2018.

    It is the rounding that costs totals their accuracy: cells that are rounded one by one add up
    to another total than the one that was fitted.
    """
    return replace(preset, passes=())


def one_fit(preset: TopDown) -> TopDown:
    """The same with all queries fitted at once, but rounded as they are: to totals first."""
    return replace(
        preset, passes=tuple((level, replace(one, fit=())) for level, one in preset.passes)
    )


BY_CELLS = "one pass, rounded by cells"
CONTROLS: Mapping[str, Callable[[TopDown], TopDown]] = {
    BY_CELLS: one_pass,
    "one fit, rounded to totals first": one_fit,
}
"""What two passes are set beside."""
