"""Is the plan that ``init`` writes better than the shares of a config that names none?

Populations of different shape are protected by both at the same loss: equal shares of levels, a
fifth of them for the total; and ``pool``, ``shares = "totals"`` and the exact number of people, as
``init`` writes. Ratios of root mean square errors, new to old, are of noise apart from each other.
Below the top totals and attributes must not be worse beyond chance, and in the median a tenth
better. What may be worse is shown beside: cells, and what is counted of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import exp, log, sqrt
from pathlib import Path

import numpy as np

from benchmarks.figures import Reading
from benchmarks.predicted_errors import populations
from headcount.mechanisms import Chain
from headcount.population import Population
from headcount.privacy import UnitOfPrivacy
from headcount.run.how_far_off import Off, how_far_off
from headcount.run.public_facts import Facts
from headcount.tabulate import CELLS
from headcount.topdown.choices import Invariant
from headcount.topdown.mechanism import TopDown

QUICK = {"replicates": 16}
BETTER = 0.9
"""In the median."""
CHANCE = 3.0
"""Standard errors by which a ratio may be above 1."""


def measure(*, replicates: int = 60, directory: Path | None = None) -> list[Reading]:
    """The ratio of each level: total, attributes and cells."""
    readings, judged = [], []
    for name, people in populations(directory):
        for level, kind, ratio, chance in _ratios(people, replicates):
            top = level == people.geography.levels[0]
            must = kind != "cells" and not top
            at_most = exp(CHANCE * chance) if must else None
            note = f"chance {100 * chance:.0f} %{', the whole' if top else ''}"
            readings.append(Reading(f"{name}: {kind} of {level}", ratio, "x", note, at_most))
            if must:
                judged.append(ratio)
    middle = float(np.median(judged))
    readings.append(
        Reading("totals and attributes below the top: median", middle, "x", at_most=BETTER)
    )
    return readings


def _ratios(people: Population, replicates: int) -> Iterator[tuple[str, str, float, float]]:
    """Level, kind of count, new error by old, and its relative standard error."""
    top = people.geography.levels[0]
    counted = people.domain.cells > 1
    unit = UnitOfPrivacy.CHANGE_ONE if counted else UnitOfPrivacy.ADD_REMOVE
    old = TopDown(epsilon=Fraction(1), unit=unit)
    exact = (Invariant(query="total", level=top),) if counted else ()
    new = TopDown(epsilon=Fraction(1), unit=unit, pool=True, shares="totals", invariant=exact)
    truth = Facts("the truth", (people,), 0.0)
    found = [
        how_far_off(
            Chain.of(one).on(people.domain), truth, runs=replicates, seed=seed, by_formula=False
        )
        for seed, one in enumerate((old, new))
    ]
    pairs: dict[tuple[str, str], list[tuple[Off, Off]]] = {}
    for before, after in zip(found[0].rows, found[1].rows, strict=True):
        kind = before.query if before.query in ("total", CELLS) else "attributes"
        if before.rmse and after.rmse:
            pairs.setdefault((before.level, kind), []).append((before, after))
    for (level, kind), those in pairs.items():
        logs = [log((after.rmse or 1) / (before.rmse or 1)) for before, after in those]
        chances = [_chance(one) for both in those for one in both]
        # Errors of attributes of one release depend on each other: their chance is no smaller.
        yield level, kind, exp(float(np.mean(logs))), sqrt(2) * max(chances)


def _chance(one: Off) -> float:
    """The relative standard error of a root mean square error, by the interval around it."""
    return log((one.high or 1) / (one.rmse or 1)) / 1.645
