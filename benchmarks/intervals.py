"""How often do intervals hold the true count, beside what the exact law of the noise says?

Measurements of made-up places are drawn again and again, of three losses, and for every level of
200 units or more and every query it is counted how often an interval for 9 of 10 holds. Beside it
stands what the exact law of the estimate's discrete noise says (exact_law.py). Counts are large:
coverage is judged before intervals are cut at 0. The same is done with structural zeros, a recode,
totals that are exact, and only children whose share went to their parents. Then one run is
published, estimated and released, to see how many released counts are inside; and a nation's blocks
are gone through in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from benchmarks.exact_law import within
from benchmarks.figures import Reading, apart, peak_gib
from benchmarks.noisy_trees import (
    SCHEMA,
    WITH_ZEROS,
    NoisyTree,
    all_at_once,
    places,
    settings,
)
from headcount.arrays import Floats, Ints
from headcount.domain import Domain
from headcount.mechanisms import Context
from headcount.noise import KeyedNoise, RunKey
from headcount.run.intervals import IntervalFacts
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, Query, every_cell
from headcount.topdown.from_measurements import estimate_from, start_from
from headcount.topdown.linear.components import Components
from headcount.topdown.linear.estimate import BestEstimates, Coordinates
from headcount.topdown.linear.tree import LevelNoise, NoiseTree
from headcount.topdown.linear.variances import AnswerVariances
from headcount.topdown.place_estimates import ends, interval_pieces

QUICK = {"replicates": 40, "share": 0.005}
LOSSES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Gaussian, rho 0.05", {"rho": "1/20"}),
    ("Gaussian, rho 3", {"rho": "3"}),
    (
        "Gaussian, rho 1/8, nearly all for cells of blocks",
        {
            "rho": "1/8",
            "cells": "97/100",
            "levels": {
                "whole": "1/1000",
                "county": "1/1000",
                "tract": "1/1000",
                "block": "997/1000",
            },
        },
    ),
    ("geometric, epsilon 2", {"epsilon": "2"}),
)
"""Where nearly all is for cells of blocks, single answers decide, and whole numbers show."""
ZEROS = "Gaussian, rho 0.1, structural zeros, exact totals of counties, only children"
SEED, CONFIDENCE = 5, 0.9
APART = 0.01
"""The most by which coverage may differ from that of the exact law; and from 0.9 ..."""
WIDE = 5.0
"""... where a standard deviation is this or more: there whole numbers matter little."""
LEAST_UNITS = 200
MEMORY = 1.5
"""GiB for all leaves of a nation: a few numbers of each, and the answers of one piece."""
FANS = (51, 62, 27, 3, 32)
"""Children of a unit, from the nation to block groups: 8 million blocks."""


def measure(*, replicates: int = 400, share: float = 0.05) -> list[Reading]:
    """Coverage by loss, level and query; released counts inside; memory for many leaves."""
    readings: list[Reading] = []
    for name, keys in LOSSES:
        readings += _coverage(name, NoisyTree(settings(**keys), places()), replicates)
        readings += _released(name, keys)
    with_zeros = NoisyTree(all_at_once("1/10"), places(blocks=(5, 1)), WITH_ZEROS)
    readings += _coverage(ZEROS, with_zeros, replicates)
    return [*readings, *apart(pieces_of_nation, share)]


def _coverage(name: str, tree: NoisyTree, replicates: int) -> Iterator[Reading]:
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    geography = tree.geography
    pairs = [
        (level, query)
        for level in geography.levels
        if geography.size(level) >= LEAST_UNITS
        for query in tree.queries
        if (tree.deviations(level, query) > 0).any()
    ]
    deviations = {pair: tree.deviations(*pair) for pair in pairs}
    inside = {pair: np.zeros(len(deviations[pair])) for pair in pairs}
    for found in tree.runs(replicates, seed=SEED):
        for level, query in pairs:
            pair, noisy = (level, query), tree.cells_of(query) > 0
            low, high = ends(found[pair][:, noisy], deviations[pair][:, noisy], reach)
            true = tree.true(*pair)[:, noisy]
            inside[pair] += ((low <= true) & (true <= high)).mean(axis=1)
    for level, query in pairs:
        covered = float(inside[level, query].mean()) / replicates
        deviation = deviations[level, query][:, tree.cells_of(query) > 0]
        exact = _exact(tree, level, query, deviations[level, query], reach)
        about = f"{name}: {query} at {level}"
        note = f"covered {covered:.4f}, exact law {exact:.4f}, deviation {deviation.mean():.2f}"
        yield Reading(f"{about}: from the exact law", abs(covered - exact), "", note, APART)
        if deviation.min() >= WIDE:
            yield Reading(f"{about}: from 0.9", abs(covered - CONFIDENCE), "", "", APART)


def _exact(tree: NoisyTree, level: str, query: str, deviation: Floats, reach: float) -> float:
    """The coverage that the exact law gives, as a mean over all units of a level and all answers.

    An interval between two whole numbers becomes the nearest: it holds what is within a half.
    """
    of_unit, units = tree.classes(level)
    of_answer, answers = tree.answer_classes(query)
    found = 0.0
    for unit, many in zip(units.tolist(), np.bincount(of_unit).tolist(), strict=True):
        for answer, times in zip(
            answers.tolist(), np.bincount(of_answer[of_answer >= 0]).tolist(), strict=True
        ):
            own = max(reach * float(deviation[unit, answer]), 0.5)
            held = within(own, tree.weights(level, query, unit, answer))
            found += many * times * held
    return found / (len(of_unit) * int((of_answer >= 0).sum()))


def _released(name: str, keys: dict[str, Any]) -> Iterator[Reading]:
    """One run, published, read back and estimated: how many released counts are inside?"""
    from scipy.sparse import csr_array

    chance, geography = np.random.default_rng(SEED), places()
    shape = (geography.size("block"), SCHEMA.size)
    people = chance.poisson(chance.gamma(0.3, 20, size=shape))
    counts = Counts(Domain(SCHEMA, geography), "block", csr_array(people))
    mechanism = settings(**keys)
    noise = KeyedNoise(RunKey.from_seed(SEED), "topdown", b"made-up", name.encode())
    with TemporaryDirectory() as folder:
        context = Context(measurements=Path(folder))
        mechanism.on(counts.domain).run(counts, noise, runs=range(1), context=context)
        _describe(mechanism, counts, Path(folder))
        start = start_from(folder)
        release = estimate_from(start)
        for level in ("county", "block"):
            for query in ("cells", "total"):
                facts = IntervalFacts()
                for piece in interval_pieces(start, level, query, release=release):
                    facts.add(piece)
                what = f"{name}: released counts inside, {query} at {level}"
                yield Reading(what, facts.inside / facts.released, "", f"of {facts.released:,}")


def _describe(mechanism: Any, counts: Counts, folder: Path) -> None:
    """Put the places and settings beside measurements, as a release does."""
    from headcount.processes import silent
    from headcount.release import CountsRelease

    release = CountsRelease(
        domain=counts.domain,
        tables={level: counts.at(level).matrix for level in counts.geography.levels},
        mechanism=repr(mechanism),
        guarantee=mechanism.on(counts.domain).guarantee,
        key_kind="seed",
        backend="table",
        notes={},
    )
    offered = mechanism.publications()["measurements"]
    offered.write(release, folder, quarters=None, progress=silent)


def pieces_of_nation(share: float) -> list[Reading]:
    """Intervals of every leaf of a large tree, in pieces: time and memory.

    Answers are made up where they are asked for, so that memory is that of the estimate alone.
    """
    schema = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "old"))))
    queries = {"cells": every_cell(schema), "total": Query("total")}
    components = Components.of(schema, queries.values())
    tree = nation_tree(share)
    leaf = len(tree.levels) - 1
    before = peak_gib()

    def answered(depth: int, query: str, units: range) -> Ints:
        at = np.arange(units.start, units.stop)[:, None] + np.arange(components.answers[query])
        return at % 7 - 3

    began, rows = process_time(), 0
    for query in queries:
        coordinates = Coordinates(components, query, queries, schema.names)
        variances = AnswerVariances.of(tree, components, query, leaf)
        for units, estimate in BestEstimates(tree, coordinates, answered).at(leaf):
            low, _ = ends(estimate, np.sqrt(variances.units(units)), 1.645)
            rows += low.size
    about = f"{tree.units(leaf):,} leaves in pieces"
    return [
        Reading(f"{about}: intervals", rows, "intervals"),
        Reading(f"{about}: CPU", process_time() - began, "s"),
        Reading(
            f"{about}: peak of memory",
            peak_gib(),
            "GiB",
            f"{before:.2f} before, with the tree",
            at_most=MEMORY,
        ),
    ]


def nation_tree(share: float) -> NoiseTree:
    """A tree like a nation's, with as many leaves as a share of its blocks."""
    chance = np.random.default_rng(SEED)
    states = max(1, round(share * FANS[0]))
    parents = [np.zeros(0, dtype=np.int32), np.zeros(states, dtype=np.int32)]
    for fan in (FANS[0] * share / states * FANS[1], *FANS[2:]):
        above = len(parents[-1])
        many = np.maximum(1, chance.poisson(fan, above))
        parents.append(np.repeat(np.arange(above, dtype=np.int32), many))
    noise = LevelNoise((dict.fromkeys(("cells", "total"), 0.05),))
    return NoiseTree(parents, [noise] * len(parents))
