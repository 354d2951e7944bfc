"""How long do figure 1 and the direct estimate of Flaxman (2019) take: 20 s and 2 hours there?"""

from __future__ import annotations

from benchmarks.figures import Reading, timed
from headcount.studies.flaxman_2019.direct import direct_runs
from headcount.studies.flaxman_2019.pooled import figure_1
from headcount.studies.flaxman_2019.settings import Settings
from headcount.studies.frame.cache import Cache
from headcount.studies.frame.study import Work

RUNS = 500


def measure() -> list[Reading]:
    """Wall and CPU seconds on this machine, compiling included."""
    work = Work(cache=Cache())
    _, wall, cpu = timed(lambda: figure_1(Settings(replicates=1), work))
    readings = [
        Reading("figure 1, less-obvious estimate", wall, "s wall", published="20 s"),
        Reading("figure 1, less-obvious estimate", cpu, "s CPU"),
    ]
    settings = Settings()
    epsilon = settings.direct_epsilon
    _, wall, cpu = timed(lambda: direct_runs(settings, work, runs=RUNS, epsilon=epsilon))
    what = f"direct estimate, {RUNS} + {RUNS} runs, three mechanisms"
    readings.append(Reading(what, wall, "s wall", published="2 hours"))
    readings.append(Reading(what, cpu, "s CPU"))
    return readings
