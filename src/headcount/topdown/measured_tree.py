"""Published measurements as least squares sees them: their tree, their noise and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from headcount.arrays import Flags, Floats, Ints, Ints32
from headcount.errors import ConfigError, one_of
from headcount.tabulate import every_cell
from headcount.topdown.accuracy import components_of, noise_tree, together_tree
from headcount.topdown.from_measurements import PublishedStart
from headcount.topdown.linear.areas import AreaErrors, Members
from headcount.topdown.linear.estimate import BestEstimates, Coordinates
from headcount.topdown.linear.kinds import NoiseTree
from headcount.topdown.linear.units import AnswerClasses, AnswerVariances


class MeasuredTree:
    """The estimates of one query, in units of the tree that was measured.

    where
        together   that tree, with totals that units have exactly together
        queries    all that were asked
        asked      the one that is estimated
    """

    def __init__(self, start: PublishedStart, query: str) -> None:
        self.start, self.query = start, query
        self.schema, self.published = start.measurements.schema, start.measurements.geography
        self.tree, settings = start.measurements.tree, start.mechanism
        self.queries = {
            one.name: one.on(self.schema) for one in (every_cell(self.schema), *settings.marginals)
        }
        if query not in self.queries:
            raise ConfigError(
                "intervals", place="query", found=repr(query), expected=one_of(list(self.queries))
            )
        self.asked = self.queries[query]
        self.components = components_of(settings, self.schema)
        self.together = together_tree(settings, noise_of(start), self.tree, groups_of(start))
        self._matrix = self.asked.matrix(self.schema)

    def _coordinates(self, query: str) -> Coordinates:
        return Coordinates(self.components, query, self.queries, self.schema.names)

    def of_level(
        self, level: str, told: Sequence[str]
    ) -> Iterator[tuple[Ints, Floats, dict[str, Floats]]]:
        """Some units of a level after others: their places there, estimates, and variances.

        These are units x answers; variances are of the queries in ``told``, and infinite where the
        answers do not tell.
        """
        depth, tree = self.together.depth(self.tree.depth(level)), self.together.tree
        of = {query: AnswerVariances.of(tree, self.components, query, depth) for query in told}
        for places, estimate, units in self._estimates(depth):
            variance = {
                query: self._coordinates(query).in_own_order(one.units(units))
                for query, one in of.items()
            }
            yield places, estimate, variance

    def estimates(self, level: str) -> Iterator[tuple[Ints, Floats]]:
        """The same without variances."""
        for places, estimate, _ in self._estimates(self.together.depth(self.tree.depth(level))):
            yield places, estimate

    def _estimates(self, depth: int) -> Iterator[tuple[Ints, Floats, range]]:
        best = BestEstimates(self.together.tree, self._coordinates(self.query), self._answered)
        for units, estimate in best.at(depth):
            yield self.together.places[depth][units.start : units.stop], estimate, units

    def area_variances(self, members: Members, told: Sequence[str]) -> dict[str, Floats]:
        """The variances of some queries in areas, given by places of leaves: areas x answers."""
        now = np.empty_like(self.together.places[-1])
        now[self.together.places[-1]] = np.arange(len(now))
        moved = Members(members.areas, members.area, now[members.leaf])
        errors = AreaErrors.of(self.together.tree, self.components, moved, told)
        variances = {}
        for query in told:
            classes = AnswerClasses.of(self.components, query)
            found = np.stack([errors.variance(query, one) for one in classes.examples], axis=1)
            own = self._coordinates(query).in_own_order(found[:, classes.of_answer])
            variances[query] = own
        return variances

    def possible(self, level: str, places: Ints) -> Flags:
        """For some units whether anybody can be counted by each answer: units x answers.

        Nobody can in cells that are structural zeros, nor where what is published says so: that
        there is no facility, or nobody at all.
        """
        cells = np.broadcast_to(self.schema.possible, (len(places), self.schema.size))
        for one in self.start.restrictions[level]:
            high = [one.high[run.start : run.stop] for run in _runs(places)]
            if (none := np.concatenate(high) <= 0).any():
                cells = cells & ~none[:, one.query.groups(self.schema)]
        return np.asarray(cells.astype(np.int64) @ self._matrix > 0)

    def _answered(self, depth: int, query: str, units: range) -> Floats | Ints:
        """Answers of some units; what is exact comes from what is published exactly."""
        places = self.together.places[depth][units.start : units.stop]
        before = self.together.levels[depth]
        if before < 0:  # published units that the spine has in parts: the level of these is next
            level = self.tree.levels[self.together.levels[depth + 1]]
            return self.start.joint[level].total[places][:, None]
        level = self.tree.levels[before]
        return np.concatenate([self._read(level, query, run) for run in _runs(places)])

    def _read(self, level: str, query: str, units: range) -> Floats | Ints:
        """Answers of units that stand side by side in the files."""
        if query in self.together.tree.levels[self.together.depth(self.tree.depth(level))].exact:
            own = next(one for one in self.start.restrictions[level] if one.query.name == query)
            return np.asarray(own.low[units.start : units.stop], dtype=np.int64)
        return self.start.answers.values(level, query, units)


def noise_of(start: PublishedStart) -> NoiseTree:
    """The noise of published measurements, in the tree that was measured."""
    return noise_tree(
        start.mechanism,
        start.measurements.tree,
        planned=start.answers.planned,
        classes=start.answers.classes,
        published=start.measurements.geography,
    )


def groups_of(start: PublishedStart) -> dict[str, Ints32]:
    """For some levels the published unit of each unit: totals of these are exact."""
    return {level: joint.group for level, joint in start.joint.items()}


def _runs(places: Ints) -> list[range]:
    """Places in the order of the tree, as ranges that stand side by side in the files."""
    ends = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    return [range(int(places[a]), int(places[b - 1]) + 1) for a, b in pairwise(ends)]
