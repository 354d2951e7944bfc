"""The two timings of Flaxman (2019): 20 seconds for figure 1, 2 hours for the direct estimate."""

from __future__ import annotations

from headcount.bench.figures import Reading, timed
from headcount.studies.flaxman_2019 import direct_runs, figure_1

RUNS = 500


def measure() -> list[Reading]:
    """Wall and CPU seconds on this machine, compiling included."""
    _, wall, cpu = timed(lambda: figure_1(seed=12345))
    readings = [
        Reading(
            what="figure 1, less-obvious estimate", value=wall, unit="s wall", note="paper: 20 s"
        ),
        Reading(what="figure 1, less-obvious estimate", value=cpu, unit="s CPU"),
    ]
    _, wall, cpu = timed(lambda: direct_runs(seed=12345, runs=RUNS))
    what = f"direct estimate, {RUNS} + {RUNS} runs, three mechanisms"
    readings.append(Reading(what=what, value=wall, unit="s wall", note="paper: 2 hours"))
    readings.append(Reading(what=what, value=cpu, unit="s CPU"))
    return readings
