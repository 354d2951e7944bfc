"""Simulated measurements of made-up places: only noise is drawn, by the shipped samplers.

Errors of a linear estimate do not depend on the counts, so that all counts are the same here, and
large, so that no interval is cut at 0. Estimates of cells in leaves are added up to all queries and
levels: best linear estimates of parts add up to those of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from headcount.accuracy.estimate import BestEstimates, Coordinates
from headcount.accuracy.units import AnswerVariances, unit_paths
from headcount.arrays import Floats, Ints
from headcount.bench.pool import AGES, GROUPS, QUERIES
from headcount.geography import Geography
from headcount.mechanisms.topdown.accuracy import ExpectedErrors
from headcount.mechanisms.topdown.answers import Planned
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.planned import planned_noise
from headcount.noise import KeyedNoise, RunKey
from headcount.schema import Attribute, Schema
from headcount.tabulate import CELLS, Counts, Query, every_cell
from headcount.tabulate.counts import every_level

SCHEMA = Schema((Attribute("group", GROUPS), Attribute("age", AGES)))
PEOPLE = 10_000
"""In every cell of every leaf."""


def places(counties: int = 200) -> Geography:
    """Counties of 3 and of 5 tracts in turn, and tracts of 5 blocks."""
    tracts = np.repeat(np.arange(counties), np.resize([3, 5], counties))
    blocks = np.repeat(np.arange(len(tracts)), 5)
    units = (counties, len(tracts), len(blocks))
    codes = [np.array(["whole"]), *(np.char.zfill(np.arange(n).astype(str), 5) for n in units)]
    parents = [np.zeros(0), np.zeros(counties), tracts, blocks]
    return Geography(
        ("whole", "county", "tract", "block"),
        tuple(codes),
        tuple(one.astype(np.int32) for one in parents),
    )


def settings(*, cells: str = "1/4", **keys: Any) -> TopDown:
    """Four queries at four levels: a share for cells, and equal ones for the others."""
    rest = str((1 - Fraction(cells)) / (len(QUERIES) - 1))
    queries = {
        name: {"share": rest, "by": by} if by is not None else {"share": cells}
        for name, by in QUERIES.items()
    }
    table: Mapping[str, Any] = {"unit": "add-remove", "queries": queries, **keys}
    return TopDown(**table)


@dataclass(frozen=True, eq=False)
class NoisyTree:
    """Measurements of one made-up population under some settings."""

    mechanism: TopDown
    geography: Geography

    @cached_property
    def errors(self) -> ExpectedErrors:
        """What the plan says of them."""
        return ExpectedErrors.of(self.mechanism, SCHEMA, self.geography)

    @cached_property
    def queries(self) -> dict[str, Query]:
        """Every query by name."""
        asked = [every_cell(SCHEMA), *self.mechanism.completed(SCHEMA, self.geography).marginals]
        return {query.name: query for query in asked}

    @cached_property
    def _best(self) -> tuple[BestEstimates, dict[tuple[str, str], Ints | Floats]]:
        """Estimates of cells, and the answers that they are made from, which can be changed."""
        errors, answers = self.errors, dict[tuple[str, str], Ints | Floats]()
        coordinates = Coordinates(errors.components, CELLS, self.queries, SCHEMA.names)
        levels = self.geography.levels
        best = BestEstimates(
            errors.tree,
            coordinates,
            lambda depth, query, units: answers[levels[depth], query][units.start : units.stop],
        )
        return best, answers

    def estimated(self, answers: Mapping[tuple[str, str], Ints | Floats]) -> Floats:
        """Best linear estimates of the cells of every leaf."""
        best, own = self._best
        own.update(answers)
        depth = len(self.geography.levels) - 1
        return np.concatenate([found for _, found in best.at(depth)])

    def summed(self, leaves: Floats) -> dict[tuple[str, str], Floats]:
        """Cells of leaves added up to every level and query: units x answers."""
        found, table = {}, leaves
        for level in reversed(self.geography.levels):
            for name, query in self.queries.items():
                found[level, name] = np.asarray(table @ query.matrix(SCHEMA))
            if level != self.geography.levels[0]:
                parents = self.geography.parents[self.geography.depth(level)]
                first = np.searchsorted(parents, np.arange(int(parents[-1]) + 1))
                table = np.add.reduceat(table, first, axis=0)
        return found

    def runs(self, many: int, *, seed: int) -> Iterator[dict[tuple[str, str], Floats]]:
        """Estimates of every level and query, for noise drawn again and again."""
        from scipy.sparse import csr_array

        leaves = np.full((self.geography.size("block"), SCHEMA.size), PEOPLE)
        counts = Counts(SCHEMA, self.geography, "block", csr_array(leaves))
        levels, mechanism = every_level(counts), self.mechanism.completed(SCHEMA, self.geography)
        noise = KeyedNoise(
            RunKey.from_seed(seed), "intervals", b"made-up", repr(mechanism).encode()
        )
        for run in range(many):
            drawn = Measurements(levels, mechanism, noise, run=run)
            answers: dict[tuple[str, str], Ints | Floats] = {
                (level, query): drawn.values(level, query, range(self.geography.size(level)))
                for level, query in drawn.planned
            }
            yield self.summed(self.estimated(answers))

    def true(self, level: str, query: str) -> Floats:
        """The true answers: units x answers."""
        inside = np.bincount(self.geography.ancestors(level), minlength=self.geography.size(level))
        cells = SCHEMA.size // self.queries[query].size(SCHEMA)
        return np.repeat(inside[:, None] * PEOPLE * cells, self.queries[query].size(SCHEMA), axis=1)

    def deviations(self, level: str, query: str) -> Floats:
        """The standard deviation of each estimate: units x answers."""
        depth, errors = self.geography.depth(level), self.errors
        found = AnswerVariances.of(errors.tree, errors.components, query, depth)
        return np.sqrt(found.units(range(self.geography.size(level))))

    def classes(self, level: str) -> tuple[Ints, Ints]:
        """Units of a level with the same errors: the class of each, and one of each class."""
        found = unit_paths(self.errors.tree, self.geography.depth(level))[-1]
        return found.of_unit, found.units

    def weights(self, level: str, query: str, unit: int) -> list[tuple[str, str, Floats]]:
        """What one estimate takes of every noisy answer, by level and query.

        An estimate r'x has the weights w Q V r', and V r' is what the estimates become if r'x
        itself is answered with 1 / w and everything else with 0.
        """
        planned = self.planned
        answers: dict[tuple[str, str], Floats] = {
            (at, name): np.zeros((self.geography.size(at), self.queries[name].size(SCHEMA)))
            for at, name in planned
        }
        answers[level, query][unit, 0] = 1 / planned[level, query].weight
        found = self.summed(self.estimated(answers))
        return [(at, name, one.weight * found[at, name]) for (at, name), one in planned.items()]

    @cached_property
    def planned(self) -> Planned:
        """The noise of every level and query."""
        completed = self.mechanism.completed(SCHEMA, self.geography)
        return planned_noise(completed, SCHEMA, self.geography)
