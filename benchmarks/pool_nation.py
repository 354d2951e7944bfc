"""How much more does a nation of the size of 2020 cost with pooled answers?

The made-up nation by the preset of 2020, along a spine, without ``pool`` and with it: each in a
process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

from benchmarks.figures import Reading, apart
from benchmarks.nation_2020 import ONE_THREAD, Ran, run_nation

QUICK = {"share": 0.004}
JUDGED = 0.01
"""The smallest share whose times are judged: smaller nations take seconds."""
MOST_CPU, MOST_GIB = 1.3, 4.0


def measure(*, share: float = 0.01) -> list[Reading]:
    """CPU, memory, and how long each level takes."""
    workers = 1 if share <= ONE_THREAD else 0
    plain, pooled = (
        apart(run_nation, share, workers=workers, warm=True, passes=2, pool=pool)
        for pool in (False, True)
    )
    ratio = _protect_cpu(pooled) / _protect_cpu(plain)
    whole = f"without: {_protect_cpu(plain):.1f} s"
    return [
        Reading("people", pooled["people"], "people"),
        Reading("protect with pooled answers", _protect_cpu(pooled), "s CPU", whole),
        Reading("  beside none", ratio, "x", at_most=MOST_CPU if share >= JUDGED else None),
        *(
            Reading(f"  {level}", wall, "s wall", _beside(plain, level))
            for level, wall in pooled["levels"].items()
        ),
        Reading(
            "  peak anonymous memory",
            pooled["peak"],
            "GiB",
            f"without: {plain['peak']:.2f} GiB",
            at_most=MOST_GIB,
        ),
        Reading(
            "  constraints broken",
            sum(one["constraints"][1] for one in (plain, pooled)),
            f"of {sum(one['constraints'][0] for one in (plain, pooled)):,}",
            "rechecked in integers, in both",
            at_most=0,
        ),
    ]


def _protect_cpu(ran: Ran) -> float:
    """From tabulated counts to a finished release."""
    return float(sum(cpu for _, cpu in ran["stages"].values()))


def _beside(plain: Ran, level: str) -> str:
    wall = plain["levels"].get(level)
    return "" if wall is None else f"without: {wall:.1f} s"
