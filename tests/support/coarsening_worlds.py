"""All populations of a few people, grouped by what a coarsened release shows of them.

The oracle of the audit: it writes each release down with sums of its own, knows neither zeros nor
moves nor programs, and looks at every population that gives the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.geography import Geography
from headcount.mechanisms.coarsening.check_witnesses import areas_again, shown_as
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts

Population = tuple[int, ...]


@dataclass(frozen=True)
class Scene:
    """A few blocks in one county, attributes by their number of levels, and a method."""

    blocks: int
    levels: tuple[tuple[str, int], ...]
    method: Coarsening

    @cached_property
    def domain(self) -> Domain:
        """The public domain."""
        attributes = tuple(
            Attribute(name, tuple(f"{name}{n}" for n in range(size))) for name, size in self.levels
        )
        return Domain(Schema(attributes), blocks(self.blocks))

    @property
    def shape(self) -> tuple[int, ...]:
        """Blocks x levels of each attribute."""
        return (self.blocks, *(size for _, size in self.levels))

    def counts(self, population: Population) -> Counts:
        """The counts of a population: how many are in each cell of ``shape``."""
        cells = np.array(population, dtype=np.int64).reshape(self.blocks, -1)
        return Counts(self.domain, "block", csr_array(cells))

    def populations(self, people: int) -> Iterator[Population]:
        """All populations of so many people."""
        cells = int(np.prod(self.shape))
        for where in combinations_with_replacement(range(cells), people):
            yield tuple(np.bincount(where, minlength=cells).tolist())

    def areas(self, population: Population) -> dict[int | str, list[int]]:
        """The area of each block on each rung, by the checker's rule."""
        people = np.array(population).reshape(self.blocks, -1).sum(axis=1).tolist()
        tree = [
            {"whole": "w", "county": "c", "block": str(n), "size": str(size)}
            for n, size in enumerate(people)
        ]
        made = areas_again(tree, ["whole", "county", "block"], self.method.ladder)
        found: dict[int | str, list[int]] = dict(zip(self.method.ladder, made, strict=True))
        return {**found, "block": [*range(self.blocks)], "whole": [0] * self.blocks}

    def seen(self, population: Population) -> tuple[Any, ...]:
        """All that an attacker has: the tables, the areas, the keys of each block."""
        x = np.array(population).reshape(self.shape)
        names = ["block", *(name for name, _ in self.levels)]
        assert self.method.audit is not None
        known = ("block", *self.method.audit.known)
        keys = x.sum(axis=tuple(n for n, one in enumerate(names) if one not in known))
        areas = self.areas(population)
        shown: list[Any] = [keys.ravel().tolist(), sorted(map(str, areas.items()))]
        rungs = ["block", *self.method.ladder, "whole"]
        for _, table in self.method.wanted:
            for rung in rungs[rungs.index(table.at) :]:
                shown.append(self._table(x, names, table, areas[rung]))
        return tuple(map(str, shown))

    def _table(self, x: Any, names: Sequence[str], table: Any, area: Sequence[int]) -> Any:
        """The cells of a table, and where they are rounded all its sums."""
        up = np.array([[int(a == n) for a in area] for n in sorted(set(area))])
        y = np.tensordot(up, x, axes=1)
        y = y.sum(axis=tuple(n for n, one in enumerate(names) if n and one not in table.by))
        for name, groups in table.joined:
            axis = 1 + [one for one in names[1:] if one in table.by].index(name)
            held = {level: label for label, levels in groups for level in levels}
            labels = [held.get(one, one) for one in self.domain.schema.attribute(name).levels]
            order = list(dict.fromkeys(labels))
            to = np.array([[int(one == label) for one in labels] for label in order])
            y = np.moveaxis(np.tensordot(to, y, axes=(1, axis)), 0, axis)
        show, sums = table.show, []
        if show.base == 1 and not show.steps:
            return y.tolist()
        step = [(one.at, one.base, one.value) for one in show.steps] or [(0, show.base, None)]
        rule = {"steps": step, "halves": show.halves, "below": show.below}
        for mask in range(1 << (y.ndim - 1)):
            axes = tuple(n + 1 for n in range(y.ndim - 1) if mask >> n & 1)
            sums.append([shown_as(one, rule) for one in y.sum(axis=axes).ravel().tolist()])
        return sums

    def classes(self, people: int) -> list[list[Population]]:
        """Populations by what an attacker has of them."""
        found: dict[Any, list[Population]] = defaultdict(list)
        for population in self.populations(people):
            found[self.seen(population)].append(population)
        return list(found.values())


def blocks(number: int) -> Geography:
    """One county of so many blocks."""
    codes = np.array([f"b{n}" for n in range(number)])
    zero = np.zeros(1, dtype=np.int32)
    return Geography(
        ("whole", "county", "block"),
        (np.array(["whole"]), np.array(["c"]), codes),
        (zero[:0], zero, np.zeros(number, dtype=np.int32)),
    )
