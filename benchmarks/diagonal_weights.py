"""What becomes of totals if the descent is given one weight for each cell and no queries.

The best linear estimate of a unit's cells from its own answers is

    x = V Q'W y,   V = (Q'W Q)^-1

and the trap is to go on with the diagonal of V alone, as if the errors of its cells were
independent: what the answers say of sums of cells is lost. TopDown offers no such setting; this is
how much it would cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.engines.protocol import InOrder
from headcount.mechanisms.topdown.answers import with_answers
from headcount.mechanisms.topdown.descend import descend
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.restrict import restrict
from headcount.noise import Noise
from headcount.tabulate import CELLS, Counts
from headcount.tabulate.counts import every_level


@dataclass(frozen=True, eq=False)
class DiagonalAnswers:
    """Best linear cells of each unit, with weights that have forgotten the queries.

    where
        drawn      the answers
        matrices   of every query: answers x cells
    """

    drawn: Measurements
    matrices: Mapping[str, Floats]

    def open(self) -> DiagonalAnswers:
        """Itself."""
        return self

    @property
    def planned(self) -> Any:
        """The noise that was drawn."""
        return self.drawn.planned

    @property
    def classes(self) -> Any:
        """Which share of the loss each unit has."""
        return self.drawn.classes

    def values(self, level: str, query: str, units: range) -> Ints:
        """Answers as they were drawn."""
        return self.drawn.values(level, query, units)

    def picked(self, level: str, query: str, unit: Ints, group: Ints) -> Ints:
        """Answers as they were drawn."""
        return self.drawn.picked(level, query, unit, group)

    def said(self) -> dict[str, str]:
        """Nothing: there is no receipt."""
        return {}

    def weighted(self, level: Any) -> Any:
        """The level with a weight for cells alone."""
        weight = float(np.mean(1 / np.diag(self._covariance(level.name))))
        return replace(level, weight=weight, family_weight=0 * level.family_weight)

    def answered(self, level: Any, problem: Any) -> Any:
        """The problem with the best linear estimate of each cell."""
        some = range(int(problem.child.min()), int(problem.child.max()) + 1)
        right = np.zeros((len(some), next(iter(self.matrices.values())).shape[1]))
        for query, weight in self._weights(level.name).items():
            right += weight * self.values(level.name, query, some) @ self.matrices[query]
        cells = right @ self._covariance(level.name)
        return with_answers(
            level,
            problem,
            detail=lambda unit, cell: np.asarray(cells[unit - some.start, cell]),
            groups=self._no_groups,
        )

    def _no_groups(self, query: str, unit: Ints, group: Ints) -> Floats:
        raise AssertionError("no query has a weight")

    def _weights(self, level: str) -> dict[str, float]:
        return {query: one.weight for (at, query), one in self.planned.items() if at == level}

    def _covariance(self, level: str) -> Floats:
        """V."""
        parts = (
            weight * self.matrices[query].T @ self.matrices[query]
            for query, weight in self._weights(level).items()
        )
        return np.linalg.inv(sum(parts, start=np.zeros(()))).astype(np.float64)


def with_diagonal_weights(mechanism: TopDown, counts: Counts, noise: Noise) -> Mapping[str, Any]:
    """The tables that TopDown would make in one pass, from the same answers."""
    levels, schema = every_level(counts), counts.schema
    settings = replace(mechanism, passes=(), pool=False)
    drawn = Measurements(levels, settings, noise, run=0)
    matrices = {CELLS: np.eye(schema.size)}
    for query in settings.marginals:
        matrices[query.name] = query.matrix(schema).toarray().T.astype(np.float64)
    made = descend(
        schema=schema,
        geography=counts.geography,
        settings=settings,
        measurements=DiagonalAnswers(drawn, matrices),
        restrictions=restrict(settings, levels, {}),
        engine=InOrder(),
    )
    return made.tables
