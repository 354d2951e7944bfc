"""Simulated measurements of made-up places: only noise is drawn, by the shipped samplers.

Errors of a linear estimate do not depend on the counts, so that all counts are the same here but
for structural zeros, and large, so that no interval is cut at 0. Estimates of cells in leaves are
added up to all queries and levels: best linear estimates of parts add up to those of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.pool import AGES, GROUPS, QUERIES
from headcount.addresses import step_words
from headcount.arrays import Floats, Ints
from headcount.domain import Domain
from headcount.geography import Geography
from headcount.noise import KeyedNoise, Law, RunKey
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import CELLS, Counts, Query, every_cell
from headcount.tabulate.counts import every_level
from headcount.topdown.accuracy import ExpectedErrors
from headcount.topdown.answers import Classes, Planned, unit_classes
from headcount.topdown.linear.estimate import BestEstimates, Coordinates
from headcount.topdown.linear.variances import AnswerClasses, AnswerVariances, unit_paths
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from headcount.topdown.settings import PlannedNoise, planned_noise

SCHEMA = Schema((Attribute("group", GROUPS), Attribute("age", AGES)))
WITH_ZEROS = Schema(
    SCHEMA.attributes,
    (
        impossible({"group": GROUPS[:5], "age": ["minor"]}),
        impossible({"group": GROUPS[5:7], "age": ["adult"]}),
    ),
)
"""The same, of whose 16 cells 7 are structural zeros."""
PEOPLE = 10_000
"""In every cell of every leaf that can hold anybody."""


def places(counties: int = 200, *, blocks: tuple[int, ...] = (5,)) -> Geography:
    """Counties of 3 and of 5 tracts in turn, and tracts of so many blocks in turn."""
    tracts = np.repeat(np.arange(counties), np.resize([3, 5], counties))
    below = np.repeat(np.arange(len(tracts)), np.resize(blocks, len(tracts)))
    units = (counties, len(tracts), len(below))
    codes = [np.array(["whole"]), *(np.char.zfill(np.arange(n).astype(str), 5) for n in units)]
    parents = [np.zeros(0), np.zeros(counties), tracts, below]
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


def all_at_once(rho: str) -> TopDown:
    """A recode, totals of counties that are exact, and only children without answers."""
    exact = {"cells": "1/2", "group": "1/4", "few by age": "1/4"}
    table: Mapping[str, Any] = {
        "rho": rho,
        "unit": "change-one",
        "recodes": {"few": {"of": "group", "groups": {"one": GROUPS[:3], "others": GROUPS[3:]}}},
        "queries": {
            "cells": {"share": "1/4"},
            "group": {"share": "1/4", "by": ("group",)},
            "few by age": {"share": "1/4", "by": ("few", "age")},
            "total": {"share": "1/4", "by": ()},
        },
        "level_queries": {"whole": exact, "county": exact},
        "invariant": [{"query": "total", "level": "county"}],
        "bypass": "tract",
    }
    return TopDown(**table)


@dataclass(frozen=True, eq=False)
class NoisyTree:
    """Measurements of one made-up population under some settings."""

    mechanism: TopDown
    geography: Geography
    schema: Schema = SCHEMA

    @cached_property
    def errors(self) -> ExpectedErrors:
        """What the plan says of them."""
        return self.mechanism.on(Domain(self.schema, self.geography)).errors

    @cached_property
    def completed(self) -> TopDown:
        """The settings with all that follows from cells and places."""
        return self.mechanism.completed(self.schema, self.geography)

    @cached_property
    def queries(self) -> dict[str, Query]:
        """Every query by name."""
        asked = [every_cell(self.schema), *self.completed.marginals]
        return {query.name: query.on(self.schema) for query in asked}

    @cached_property
    def _best(self) -> tuple[BestEstimates, dict[tuple[str, str], Ints | Floats]]:
        """Estimates of cells, and the answers that they are made from, which can be changed."""
        errors, answers = self.errors, dict[tuple[str, str], Ints | Floats]()
        coordinates = Coordinates(errors.components, CELLS, self.queries, self.schema.names)
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
                found[level, name] = np.asarray(table @ query.matrix(self.schema))
            if level != self.geography.levels[0]:
                parents = self.geography.parents[self.geography.depth(level)]
                first = np.searchsorted(parents, np.arange(int(parents[-1]) + 1))
                table = np.add.reduceat(table, first, axis=0)
        return found

    def runs(self, many: int, *, seed: int) -> Iterator[dict[tuple[str, str], Floats]]:
        """Estimates of every level and query, for noise drawn again and again."""
        from scipy.sparse import csr_array

        leaves = np.tile(PEOPLE * self.schema.possible, (self.geography.size("block"), 1))
        counts = Counts(Domain(self.schema, self.geography), "block", csr_array(leaves))
        levels, exact = every_level(counts), {pair: self.true(*pair) for pair in self._exact}
        settings = step_words(self.completed).encode()
        noise = KeyedNoise(RunKey.from_seed(seed), "intervals", b"made-up", settings)
        for run in range(many):
            drawn = Measurements(levels, self.completed, noise, run=run)
            answers: dict[tuple[str, str], Ints | Floats] = {
                (level, query): drawn.values(level, query, range(self.geography.size(level)))
                for level, query in drawn.planned
            }
            yield self.summed(self.estimated(answers | exact))

    @property
    def _exact(self) -> list[tuple[str, str]]:
        """Levels and queries that are published exactly."""
        return [(one.level, one.query) for one in self.completed.invariant]

    def true(self, level: str, query: str) -> Floats:
        """The true answers: units x answers."""
        inside = np.bincount(self.geography.ancestors(level), minlength=self.geography.size(level))
        return np.asarray(np.multiply.outer(inside * float(PEOPLE), self.cells_of(query)))

    def cells_of(self, query: str) -> Ints:
        """How many cells that can hold anybody each answer counts."""
        matrix = self.queries[query].matrix(self.schema)
        return np.asarray(self.schema.possible.astype(np.int64) @ matrix)

    def deviations(self, level: str, query: str) -> Floats:
        """The standard deviation of each estimate: units x answers."""
        depth, errors = self.geography.depth(level), self.errors
        found = AnswerVariances.of(errors.tree, errors.components, query, depth)
        return np.sqrt(found.units(range(self.geography.size(level))))

    def classes(self, level: str) -> tuple[Ints, Ints]:
        """Units of a level with the same errors: the class of each, and one of each class."""
        found = unit_paths(self.errors.tree, self.geography.depth(level))[-1]
        return found.of_unit, found.units

    def answer_classes(self, query: str) -> tuple[Ints, Ints]:
        """Answers that can count anybody, with the same errors: the class of each, and one each.

        Those that can count nobody have the class -1.
        """
        found = AnswerClasses.of(self.errors.components, query).of_answer
        possible = np.flatnonzero(self.cells_of(query))
        _, first, own = np.unique(found[possible], return_index=True, return_inverse=True)
        of_answer = np.full(len(found), -1, dtype=np.int64)
        of_answer[possible] = own
        return of_answer, possible[first]

    def weights(
        self, level: str, query: str, unit: int, answer: int = 0
    ) -> list[tuple[Law, Floats]]:
        """What one estimate takes of every noisy answer, with the law of the noise.

        An estimate r'x has the weights w Q V r', and V r' is what the estimates become if r'x
        itself is answered with 1 / w and everything else with 0. A unit that was not asked is an
        only child: its estimates are its parent's.
        """
        while (own := self._noise_in(level, query, unit)) is None:
            depth = self.geography.depth(level)
            unit = int(self.geography.parents[depth][unit])
            level = self.geography.levels[depth - 1]
        answers: dict[tuple[str, str], Floats] = {
            (at, name): np.zeros((self.geography.size(at), self.queries[name].size(self.schema)))
            for at, name in (*self.planned, *self._exact)
        }
        answers[level, query][unit, answer] = 1 / own.weight
        estimated = self.summed(self.estimated(answers))
        found: list[tuple[Law, Floats]] = []
        for at, name in self.planned:
            every, of_unit = self._noise(at, name)
            for number, one in enumerate(every):
                if one is not None:
                    assert one.law is not None
                    taken = one.weight * estimated[at, name][of_unit == number]
                    if taken.any():
                        found.append((one.law, taken))
        return found

    def _noise_in(self, level: str, query: str, unit: int) -> PlannedNoise | None:
        """The noise of a query in a unit; None where it is not asked."""
        every, of_unit = self._noise(level, query)
        return every[int(of_unit[unit])]

    def _noise(self, level: str, query: str) -> tuple[Sequence[PlannedNoise | None], Ints]:
        """The noise of a query in each class of units of a level, and the class of each unit."""
        one, same = self.planned.get((level, query)), np.zeros(self.geography.size(level), int)
        if one is None or level not in self._classes:
            return (one,), same
        return one.classes, self._classes[level].astype(np.int64)

    @cached_property
    def _classes(self) -> Classes:
        return unit_classes(self.completed, self.geography)

    @cached_property
    def planned(self) -> Planned:
        """The noise of every level and query."""
        return planned_noise(self.completed, self.schema, self.geography)
