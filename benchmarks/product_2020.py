"""The mechanism that benchmarks of the redistricting product of 2020 run, and its control."""

from __future__ import annotations

from dataclasses import replace

from headcount.topdown.mechanism import TopDown


def preset_2020(**keys: object) -> TopDown:
    """TopDown as the persons of the redistricting product of the United States were protected."""
    return TopDown.from_preset("redistricting-2020-us", **keys)


def one_pass(preset: TopDown) -> TopDown:
    """The same with all queries fitted at once, and rounded by cells as in 2018.

    It is the rounding that costs totals their accuracy: cells that are rounded one by one add up
    to another total than the one that was fitted.
    """
    return replace(preset, passes=())
