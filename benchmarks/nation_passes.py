"""What do the passes of 2020 cost on a nation, and does all that is written of it hold?

The part of ``nation-2020`` about the preset, by itself: for the whole nation, which takes a while.
"""

from __future__ import annotations

from benchmarks.figures import Reading
from benchmarks.nation_2020 import beside_one_pass, in_one_pass_and_in_two, refuse_share

QUICK = {"share": 0.004}


def measure(*, share: float = 0.01) -> list[Reading]:
    """The preset along a spine, beside the same in one pass, each in a process of its own."""
    refuse_share(share, "nation-passes")
    one, two = in_one_pass_and_in_two(share)
    return [Reading("people", two["people"], "people"), *beside_one_pass(one, two)]
