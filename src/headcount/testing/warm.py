"""Compile beforehand what releases and attacks use: ``python -m headcount.testing.warm``.

Small runs of every kind, in two processes with one cache: each loop is compiled by whoever comes
to it first, and loaded by the other. With names, only those runs. Afterwards nothing has to
be compiled until a loop changes; what is there already is loaded, which takes some seconds.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from time import monotonic

import numpy as np

from headcount.attacks.reconstruction import Reconstruct
from headcount.attacks.reidentification import Reidentify
from headcount.compiled import forced
from headcount.domain import Domain
from headcount.errors import InputError
from headcount.evaluation.evaluate import attack
from headcount.geography import regular
from headcount.mechanisms import Chain, PreTabular, protect
from headcount.mechanisms.identity import Identity
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.risk import Risk
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount.population import Population
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema
from headcount.topdown.choices import LevelPasses, Marginal
from headcount.topdown.mechanism import TopDown
from headcount.topdown.solve.batch import Batch
from headcount.topdown.solve.integer_programs import clashes
from headcount.topdown.solve.rounding import round_batch

log = logging.getLogger(__name__)

PROCESSES = 2
"""More are of no use: half of the time is one chain of loops that call each other."""
HALF, PEOPLE = Fraction(1, 2), 60


def rounding() -> None:
    """Least squares is the longest chain, rounding the next: the second process begins here."""
    batch = _problem()
    round_batch(batch, np.array([0.5, 2.5, 1.5, 3.5]))
    clashes(batch)
    protect(_village(), Rounding(tables={"by_origin": ["hispanic"]}, how="small-counts"), seed=1)


def topdown() -> None:
    """The two ways of estimating, on levels that are summed and pooled."""
    protect(_village(), TopDown(epsilon=1), seed=1)
    protect(_village(), TopDown(epsilon=1, pool=True), seed=1)


def passes() -> None:
    """Totals first, then the rest; rounding to targets."""
    fit = (("total",), ("hispanic", "cells"))
    order = LevelPasses(fit=fit, round=(("total",), ("cells",)))
    queries = {
        "total": Marginal(by=(), share=HALF),
        "hispanic": Marginal(by=("hispanic",), share=HALF / 2),
        "cells": Marginal(share=HALF / 2),
    }
    settings = TopDown(
        epsilon=1,
        unit=UnitOfPrivacy.ADD_REMOVE,
        queries=tuple(queries.items()),
        passes=(("level_1", order), ("level_2", order)),
    )
    protect(_village(), settings, seed=1)


def swapping() -> None:
    """Households at random, by risk, by targets."""
    homes = towns(people=1000, counties=2, seed=1)
    risk = Risk(attributes=("race", "hispanic"), levels=("tract", "block"))
    people = to_population(homes, ("age", "sex", "race", "hispanic"))
    steps: list[PreTabular] = [
        HouseholdSwapping(rate=HALF),
        HouseholdSwapping(rate=Fraction(1, 10), risk=risk),
        TargetedSwapping(rate=Fraction(1, 10), risk_variables=("race", "hispanic")),
    ]
    for step in steps:
        protect(people, Chain.of((step, Identity())), seed=1)


def attacks() -> None:
    """Records from tables, and people from records."""
    tables = {"by_origin": ["hispanic"], "by_sex": ["sex"], "by_both": ["hispanic", "sex"]}
    rounded = protect(_village(), Rounding(tables=tables, base=3), seed=1)
    attack(rounded, _village(), Reconstruct())
    people = to_population(towns(people=1000, counties=1, seed=1), ("age", "sex", "race"))
    attack(protect(people, Identity()), people, Reidentify())


RUNS: dict[str, Callable[[], None]] = {
    run.__name__: run for run in (topdown, rounding, passes, swapping, attacks)
}


def _problem() -> Batch:
    """One parent with two cells and two children, whose totals are bounded."""
    starts = np.array([0, 2])
    return Batch(
        parent=np.array([0]),
        cell_start=starts,
        cell=np.arange(2, dtype=np.int32),
        total=np.array([3, 5]),
        child_start=starts,
        var_start=np.array([0, 2, 4]),
        var_child=np.array([0, 1, 0, 1], np.int32),
        answer=np.zeros(4),
        weight=np.ones(2),
        family_start=np.array([0, 1]),
        group=np.zeros((1, 2), np.int32),
        family_weight=np.zeros((2, 1)),
        margin=np.zeros((2, 1)),
        low=np.array([[1], [2]]),
        high=np.array([[4], [9]]),
    )


def _village() -> Population:
    """Some people of four kinds in nine places."""
    dice = np.random.default_rng(1)
    sex, origin = (
        Attribute("sex", ("male", "female")),
        Attribute("hispanic", ("not_hispanic", "hispanic")),
    )
    return Population(
        "village",
        Domain(Schema((sex, origin)), regular(children=3, depth=2)),
        unit=dice.integers(0, 9, PEOPLE).astype(np.int32),
        cell=dice.integers(0, 4, PEOPLE).astype(np.int32),
        count=np.ones(PEOPLE, np.int64),
        public=True,
    )


def warm(names: Sequence[str]) -> None:
    """Compile, here and now, what some runs use."""
    with forced("compiled"):
        for name in names:
            RUNS[name]()


def main(names: Sequence[str]) -> int:
    """Deal the runs to processes, and wait; how many of them failed."""
    if unknown := set(names) - set(RUNS):
        raise InputError(
            "warm", place="runs", found=", ".join(sorted(unknown)), expected=", ".join(RUNS)
        )
    start, chosen = monotonic(), [name for name in RUNS if name in names] or list(RUNS)
    log.info("Compiling loops, once for this version of headcount: about a minute ...")
    code = "import sys; from headcount.testing.warm import warm; warm(sys.argv[1:])"
    # The second process begins with other runs, so that there is something to share.
    orders = [chosen, chosen[1:] + chosen[:1]][: min(PROCESSES, len(chosen))]
    made = [subprocess.Popen([sys.executable, "-P", "-c", code, *order]) for order in orders]
    failed = sum(one.wait() != 0 for one in made)
    log.info("%s after %.0f s.", "Failed" if failed else "Done", monotonic() - start)
    return failed


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    sys.exit(main(sys.argv[1:]))
