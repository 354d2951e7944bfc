"""How long does TopDown take on a nation of the size of 1940, and does it keep constraints?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.figures import Reading, apart, peak_gib, timed
from benchmarks.recheck import add_children, recheck
from headcount.population import Population
from headcount.privacy.loss import positive

SEED = 1
WARM_UP = ("DE", "RI")
BUREAU = "the Bureau's code of 2018 on this nation: 5 to 6 hours on 4 cores (its README)"

QUICK = {"states": ("DE", "VT")}


def measure(
    *, epsilon: Fraction | int | str = 1, states: Sequence[str] | None = None
) -> list[Reading]:
    """Run once on all cores in a fresh process, so that its peak memory is that of this alone."""
    return apart(run_nation, positive(epsilon, name="--epsilon"), states=states)


def run_nation(epsilon: Fraction, *, states: Sequence[str] | None = None) -> list[Reading]:
    """One release with a key from the operating system, timed, and then rechecked.

    The time is that of the whole mechanism: restrictions, measurements, least squares, rounding,
    its own checks, and finished levels on disk. Making the population and, by a first run on two
    small states, compiling are left out.
    """
    _release(_population(WARM_UP), epsilon)
    population = _population(states)
    before = peak_gib()
    (tables, estimated, notes), wall, cpu = timed(lambda: _release(population, epsilon))
    peak = peak_gib()
    how = f"{os.cpu_count()} cores; compiled before by a run on {' and '.join(WARM_UP)}"
    return [
        *_describe(population),
        Reading(
            f"measure, optimise and round at epsilon {float(epsilon):g}",
            wall,
            "s wall",
            how,
            published="" if states else BUREAU,
        ),
        Reading("  all threads", cpu, "s CPU"),
        Reading(
            "  peak memory of the process",
            peak,
            "GiB",
            f"{before:.2f} GiB when the population was made",
        ),
        *_constraints(population, tables, estimated, notes),
        *_solvers(population, notes),
    ]


def _population(states: Sequence[str] | None) -> Population:
    from headcount_papers.us1940 import us1940

    population, quarters = us1940(seed=SEED, states=states)
    return replace(population, quarters=quarters)


def _release(
    population: Population, epsilon: Fraction
) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, float | str]]:
    """Released tables, the counts that were estimated at each level, and notes."""
    from headcount.engines import LocalEngine
    from headcount.mechanisms import Context, protect
    from headcount.storage import storage_at
    from headcount.topdown.mechanism import TopDown
    from headcount.topdown.parts import PartFiles

    mechanism = TopDown.from_preset("e2e-2018", epsilon=epsilon)
    with TemporaryDirectory() as folder:
        workspace = storage_at(folder)
        context = Context(engine=LocalEngine(), workspace=workspace)
        release = protect(population, mechanism, context=context)
        parts = PartFiles(workspace, run=0)
        estimated = {}
        for level in population.geography.levels:
            rows = parts.level(level)
            assert rows is not None
            estimated[level] = rows.matrix(population.schema.size)
    return release.as_counts().tables, estimated, release.notes


def _describe(population: Population) -> list[Reading]:
    """The figures of the population that the time depends on."""
    geography, quarters = population.geography, population.quarters
    assert population.count is not None
    assert quarters is not None
    leaves = geography.size(geography.leaf)
    size = np.bincount(population.unit, weights=population.count, minlength=leaves)
    cells = np.bincount(population.unit[population.count > 0], minlength=leaves)
    facilities = int((quarters.occupied[:, 1:].sum(axis=1) > 0).sum())
    tree = ", ".join(f"{level} {geography.size(level):,}" for level in geography.levels[1:])
    return [
        Reading("people", float(size.sum()), "people", tree),
        Reading("  district size, median", float(np.median(size)), "people"),
        Reading("  district size, standard deviation", float(size.std()), "people"),
        Reading(
            "  non-empty cells a district", float(cells.mean()), f"of {population.schema.size}"
        ),
        Reading("  districts with facilities", facilities, f"of {leaves:,}"),
    ]


def _constraints(
    population: Population,
    tables: Mapping[str, Any],
    estimated: Mapping[str, Any],
    notes: Mapping[str, float | str],
) -> list[Reading]:
    """What of each kind of constraint is broken, and parents whose children say otherwise."""
    found = recheck(population, tables, exact="state")
    many, broken = (sum(pair[i] for pair in found.values()) for i in (0, 1))
    readings = [
        Reading(
            "constraints that are exact",
            100 * (many - broken) / many,
            "%",
            f"{broken:,} broken of {many:,}, rechecked in integers",
        ),
        *(
            Reading(f"  broken: {kind}", bad, f"of {checked:,}", at_most=0)
            for kind, (checked, bad) in found.items()
        ),
    ]
    geography = population.geography
    moved = 0
    for depth in range(1, len(geography.levels)):
        sums = add_children(geography, depth, estimated[geography.levels[depth]])
        above = estimated[geography.levels[depth - 1]].toarray()
        moved += int((sums != above).any(axis=1).sum())
    rescued = sum(int(value) for name, value in notes.items() if name.endswith(": failsafe"))
    readings.append(
        Reading(
            "  estimated parents that their children changed",
            moved,
            "parents",
            f"{rescued} went through the failsafe",
        )
    )
    return readings


def _solvers(population: Population, notes: Mapping[str, float | str]) -> list[Reading]:
    """What the solvers did, level by level."""
    readings = []
    for level in population.geography.levels:
        said = {
            name.removeprefix(f"{level}: "): value
            for name, value in notes.items()
            if name.startswith(f"{level}: ") and value
        }
        parents = float(said.pop("parents", 0))
        note = ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) and value < 1 else f"{name} {value}"
            for name, value in said.items()
        )
        readings.append(Reading(f"  {level}: parents solved", parents, "parents", note))
    return readings
