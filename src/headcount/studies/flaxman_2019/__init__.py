"""Flaxman (2019), "Empirical quantification of privacy loss", run again and extended.

A. D. Flaxman, "Empirical quantification of privacy loss with examples relevant to the 2020 US
Census". One million synthetic people are counted in 9,261 areas; three mechanisms protect the
counts; how much of the promised loss epsilon can be seen in the result?

Two variants of the noise are run. ``exact`` is the mechanism the paper describes and headcount
ships. ``published`` is what the paper's code did: see ``PublishedNoise``.
"""

from headcount.studies.flaxman_2019.claims import PUBLISHED_ROWS, compare
from headcount.studies.flaxman_2019.direct import DirectRuns, direct_runs, move_one
from headcount.studies.flaxman_2019.noise import PublishedNoise, published_loss
from headcount.studies.flaxman_2019.pooled import Figure1, figure_1
from headcount.studies.flaxman_2019.settings import (
    EXACT,
    MECHANISMS,
    PUBLISHED,
    Settings,
    Variant,
)
from headcount.studies.flaxman_2019.study import FlaxmanStudy, run_study
from headcount.studies.flaxman_2019.sweep import SWEEP

__all__ = [
    "EXACT",
    "MECHANISMS",
    "PUBLISHED",
    "PUBLISHED_ROWS",
    "SWEEP",
    "DirectRuns",
    "Figure1",
    "FlaxmanStudy",
    "PublishedNoise",
    "Settings",
    "Variant",
    "compare",
    "direct_runs",
    "figure_1",
    "move_one",
    "published_loss",
    "run_study",
]
