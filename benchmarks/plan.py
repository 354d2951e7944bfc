"""Does a plan say how exact estimates and releases turn out, and how long does it take?

Measurements of made-up places are drawn 400 times by the shipped samplers, without any release:
the standard deviation of their best linear estimates stands beside what the plan said of it, for
every level of 200 units or more. What a release has, after its counts are made whole and not
negative, is another number, and is shown beside as such. Then a plan is made for a nation of eight
million blocks, by kinds of units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter, process_time

import numpy as np

from benchmarks.figures import Reading, apart
from benchmarks.intervals import LEAST_UNITS, LOSSES, ZEROS, nation_tree
from benchmarks.noisy_trees import WITH_ZEROS, NoisyTree, all_at_once, places, settings
from benchmarks.product_2020 import preset_2020
from headcount.domain import Domain
from headcount.engines import LocalEngine
from headcount.geography import Geography
from headcount.mechanisms import Context
from headcount.noise import KeyedNoise, RunKey
from headcount.run.plan import plan
from headcount.schema import load_schema
from headcount.tabulate import Counts

QUICK = {"replicates": 100, "share": 0.05}
SEED, RELEASES = 6, 3
OFF = 0.01
"""The most by which a predicted standard deviation may be off 400 runs."""
ENOUGH = 400
SECONDS = 1.0


def measure(*, replicates: int = ENOUGH, share: float = 1.0) -> list[Reading]:
    """Predicted against simulated deviations, releases beside, and seconds of a plan."""
    readings: list[Reading] = []
    for name, keys in LOSSES:
        readings += _compared(name, NoisyTree(settings(**keys), places()), replicates)
    with_zeros = NoisyTree(all_at_once("1/10"), places(blocks=(5, 1)), WITH_ZEROS)
    readings += _compared(ZEROS, with_zeros, replicates)
    return [*readings, *apart(seconds_of_nation, share)]


def _compared(name: str, tree: NoisyTree, replicates: int) -> Iterator[Reading]:
    """Of each level and query: what was planned, what noise gave, and what releases have."""
    geography = tree.geography
    squares: dict[tuple[str, str], float] = {}
    for found in tree.runs(replicates, seed=SEED):
        for pair, estimate in found.items():
            noisy = tree.cells_of(pair[1]) > 0
            own = float(np.mean((estimate - tree.true(*pair))[:, noisy] ** 2))
            squares[pair] = squares.get(pair, 0.0) + own
    released = _released(name, tree)
    limit = OFF if replicates >= ENOUGH else None
    for one in tree.errors.by_level():
        if geography.size(one.level) < LEAST_UNITS or not one.best:  # 0: it is exact
            continue
        simulated = float(np.sqrt(squares[one.level, one.query] / replicates))
        about = f"{name}: {one.query} at {one.level}"
        note = f"planned {one.best:.3f}, of {replicates} runs {simulated:.3f}"
        off = abs(simulated / one.best - 1)
        yield Reading(f"{about}: estimate off plan", 100 * off, "%", note, limit and 100 * limit)
        yield Reading(
            f"{about}: release, root mean square error",
            released[one.level, one.query],
            "people",
            f"counts that are whole and not negative; planned: an answer {one.own:.3f}, an "
            f"estimate {one.best:.3f}",
        )


def _released(name: str, tree: NoisyTree) -> dict[tuple[str, str], float]:
    """The root mean square errors of a few releases of made-up people."""
    from scipy.sparse import csr_array

    chance, geography, schema = np.random.default_rng(SEED), tree.geography, tree.schema
    shape = (geography.size("block"), schema.size)
    people = chance.poisson(chance.gamma(0.3, 20, size=shape)) * schema.possible
    counts = Counts(Domain(schema, geography), "block", csr_array(people))
    squares: dict[tuple[str, str], float] = {}
    for seed in range(RELEASES):
        noise = KeyedNoise(RunKey.from_seed(seed), "topdown", b"made-up", name.encode())
        context = Context(engine=LocalEngine(1))
        made = tree.mechanism.on(counts.domain).run(counts, noise, runs=range(1), context=context)
        off = np.asarray(made.as_counts().dense("block")[0]) - people
        for pair, errors in tree.summed(off.astype(np.float64)).items():
            noisy = tree.cells_of(pair[1]) > 0
            squares[pair] = squares.get(pair, 0.0) + float(np.mean(errors[:, noisy] ** 2))
    return {pair: float(np.sqrt(own / RELEASES)) for pair, own in squares.items()}


def seconds_of_nation(share: float) -> list[Reading]:
    """A plan with the preset of 2020 on a tree like a nation's, and shares that suit a goal.

    The first plan of a process, after its libraries are there.
    """
    import scipy.optimize
    import scipy.sparse  # noqa: F401 - loaded, so that its time is not the plan's

    schema = load_schema("redistricting-2020")
    preset = replace(preset_2020(), spine=False, bypass="")
    levels = ("us", "state", "county", "tract", "block_group", "block")
    parents = nation_tree(share).parents
    codes = [np.array(["0"]), *(np.arange(len(one)).astype(str) for one in parents[1:])]
    geography = Geography(levels, tuple(map(np.sort, codes)), tuple(parents))
    wall, cpu = perf_counter(), process_time()
    domain = Domain(schema, geography)
    plan(preset, domain)
    cpu, wall = process_time() - cpu, perf_counter() - wall
    about = f"{geography.size('block'):,} blocks"
    found = [Reading(f"{about}: plan", cpu, "s of CPU", f"{wall:.2f} s", at_most=SECONDS)]
    for goal in ("balanced", "minimax"):
        began = process_time()
        preset.on(domain).suggested(goal)
        found.append(Reading(f"{about}: shares, {goal}", process_time() - began, "s of CPU"))
    return found
