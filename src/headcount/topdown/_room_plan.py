"""The integer programme of making room: counts of atoms near the estimates that keep every bound.

See ``room``. An atom is a set of cells that no bound tells apart.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.tabulate import Query
from headcount.tabulate.counts import adder
from headcount.topdown._joint import JointTotals
from headcount.topdown._tighten import always_shared, atoms
from headcount.topdown.restrict import Restrictions
from headcount.topdown.solve.batch import NO_BOUND

if TYPE_CHECKING:
    from headcount.solve.mip import Program

_log = logging.getLogger(__name__)

MOST_COUNTS = 2**21
"""The most counts of atoms in one integer programme: about what HiGHS can be trusted with."""

WHOLE = -1
"""The depth above the whole: nothing is kept as it is."""


def refuse_too_wide(
    restrictions: Restrictions,
    *,
    schema: Schema,
    geography: Geography,
    joint: Mapping[str, JointTotals] = MappingProxyType({}),
) -> None:
    """Refuse, before any loss, bounds that could need a programme beyond ``MOST_COUNTS``.

    Beside totals that units have together it is never shown that all estimates leave room.
    """
    size = int(atoms(restrictions, schema).max()) + 1
    for depth, level in enumerate(geography.levels):
        wide = geography.size(level) * size
        if depth == 0 or wide <= MOST_COUNTS:
            continue
        above = geography.levels[depth - 1]
        names = sorted({repr(one.query.name) for one in restrictions[level]})
        if level in joint:
            place, found = f"spine, level {level!r}", "exact totals of several units together"
        else:
            place = f"bounds on {', '.join(names)} at {level!r}"
            found = "bounds of several queries at once"
        if level in joint or not always_shared(
            restrictions[above],
            restrictions[level],
            schema=schema,
            geography=geography,
            levels=(above, level),
        ):
            raise ConfigError(
                "topdown",
                place=place,
                found=f"{found} in {wide:,} units x groups of cells",
                expected=f"at most {MOST_COUNTS:,}, or bounds on the groups of one query: it "
                "cannot be shown that every estimate above leaves room for them",
            )


@dataclass(frozen=True, eq=False)
class RoomPlan:
    """Counts of atoms (units x atoms) for each depth below the ancestor, with the first unit.

    ``moved`` is what the programme makes least: the sum of |y - estimate|.
    """

    first: dict[int, int]
    counts: dict[int, Ints]
    moved: int

    def of(self, depth: int, units: range) -> Ints:
        """Those of some units of a level."""
        start = self.first[depth]
        return self.counts[depth][units.start - start : units.stop - start]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows low <= A y <= high."""

    matrix: Any
    low: Ints
    high: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class Planner:
    """The bounds of all levels, totals that units have together, and where units are in the tree.

    Units with a total together have one parent: what is below an ancestor has all of them or none.
    """

    schema: Schema
    geography: Geography
    restrictions: Restrictions
    joint: Mapping[str, JointTotals] = field(default_factory=dict)

    @cached_property
    def atom(self) -> Ints:
        """For each cell the number of its atom, -1 for an impossible cell."""
        return atoms(self.restrictions, self.schema)

    @cached_property
    def size(self) -> int:
        """How many atoms there are."""
        return int(self.atom.max()) + 1

    @cached_property
    def _onto(self) -> Any:
        """Cells x atoms, 1 where the atom holds the cell."""
        from scipy.sparse import csr_array

        held = np.flatnonzero(self.atom >= 0)
        shape = (self.schema.size, self.size)
        return csr_array((np.ones(len(held), dtype=np.int64), (held, self.atom[held])), shape=shape)

    @cached_property
    def _adders(self) -> dict[tuple[int, int], Any]:
        return {}

    def adds(self, depth: int, below: int) -> Any:
        """Sparse 0/1: all units at ``depth`` x the units ``below``; made once for each pair."""
        if (depth, below) not in self._adders:
            names = self.geography.levels
            self._adders[depth, below] = adder(self.geography, names[depth], of=names[below])
        return self._adders[depth, below]

    def by_atom(self, cells: Any) -> Ints:
        """Counts (units x cells, sparse or not) added up by atoms."""
        made = cells @ self._onto
        return np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.int64)

    def ancestor(self, depth: int, unit: int, top: int) -> int:
        """The unit at depth ``top`` that holds a unit at ``depth``."""
        for d in range(depth, max(top, 0), -1):
            unit = int(self.geography.parents[d][unit])
        return unit

    def units(self, depth: int, top: int, ancestor: int) -> range:
        """The units at ``depth`` below an ancestor; they stand side by side."""
        units = range(ancestor, ancestor + 1)
        for d in range(max(top, 0) + 1, depth + 1):
            first = np.searchsorted(self.geography.parents[d], [units.start, units.stop])
            units = range(int(first[0]), int(first[1]))
        return units

    def plan(
        self, depth: int, top: int, ancestor: int, estimate: dict[int, Ints]
    ) -> RoomPlan | None:
        """Counts of atoms below the ancestor that keep every bound, None if there are none.

        ``estimate`` has the counts of atoms now: of the ancestor and of the units below it.
        """
        from scipy.sparse import csr_array, eye_array, hstack, vstack

        from headcount.solve.mip import Program

        spans = {d: self.units(d, top, ancestor) for d in range(max(top, 0), depth + 1)}
        own = slice(spans[depth].start, spans[depth].stop)
        ups = {d: self.adds(d, depth)[span.start : span.stop][:, own] for d, span in spans.items()}
        rows = self._bound_rows(range(top + 1, depth + 1), spans, ups)
        rows += self._joint_rows(range(top + 1, depth + 1), spans, ups)
        if top != WHOLE:
            rows.append(self._sum_rows(ups[top], estimate[top]))
        between = [d for d in range(top + 1, depth + 1) if d in estimate]
        near = [self._sum_rows(ups[d], estimate[d]) for d in between]
        width = len(spans[depth]) * self.size
        off = sum(len(one.low) for one in near)
        slack = eye_array(off)
        matrix = vstack([one.matrix for one in [*rows, *near]], format="csr")
        beside = vstack(
            [csr_array((matrix.shape[0] - off, 2 * off)), hstack([slack, -slack])], format="csr"
        )
        program = Program(
            cost=np.concatenate([np.zeros(width), np.ones(2 * off)]),
            low=np.zeros(width + 2 * off),
            high=np.full(width + 2 * off, np.inf),
            matrix=hstack([matrix, beside], format="csc"),
            row_low=_open(np.concatenate([one.low for one in [*rows, *near]]), -1.0),
            row_high=_open(np.concatenate([one.high for one in [*rows, *near]]), 1.0),
            integer=True,
        )
        found = _solved_somehow(program) if top == WHOLE else _solved(program)
        if found is None:
            return None
        y = found[:width].astype(np.int64).reshape(len(spans[depth]), self.size)
        counts = {d: np.asarray(up @ y) for d, up in ups.items()}
        moved = sum(int(np.abs(counts[d] - estimate[d]).sum()) for d in between)
        return RoomPlan({d: span.start for d, span in spans.items()}, counts, moved)

    def _bound_rows(
        self, depths: range, spans: dict[int, range], ups: dict[int, Any]
    ) -> list[_Rows]:
        """The bounds that can bind of all units in the spans."""
        from scipy.sparse import kron

        made = []
        for d in depths:
            for one in self.restrictions[self.geography.levels[d]]:
                low = one.low[spans[d].start : spans[d].stop].ravel()
                high = one.high[spans[d].start : spans[d].stop].ravel()
                binds = np.flatnonzero((low > 0) | (high < NO_BOUND))
                matrix = kron(ups[d], self._groups(one.query), format="csr")[binds]
                made.append(_Rows(matrix, low[binds], high[binds]))
        return made

    def _joint_rows(
        self, depths: range, spans: dict[int, range], ups: dict[int, Any]
    ) -> list[_Rows]:
        """The totals that units in the spans have together."""
        from scipy.sparse import csr_array, kron

        made = []
        for d in depths:
            if (joint := self.joint.get(self.geography.levels[d])) is None:
                continue
            here = joint.group[spans[d].start : spans[d].stop]
            group, number = np.unique(here, return_inverse=True)
            ones = np.ones(len(number), dtype=np.int64)
            together = csr_array((ones, (number, np.arange(len(number)))))
            everyone = np.ones((1, self.size), dtype=np.int64)
            matrix = kron(together @ ups[d], everyone, format="csr")
            made.append(_Rows(matrix, joint.total[group], joint.total[group]))
        return made

    def _sum_rows(self, up: Any, counts: Ints) -> _Rows:
        """The atoms' counts of some units, exactly."""
        from scipy.sparse import eye_array, kron

        matrix = kron(up, eye_array(self.size, dtype=np.int64), format="csr")
        return _Rows(matrix, counts.ravel(), counts.ravel())

    def _groups(self, query: Query) -> Any:
        """Groups x atoms, 1 where the group holds the atom."""
        from scipy.sparse import csr_array

        possible = np.flatnonzero(self.schema.possible)
        pairs = np.unique(
            np.stack([query.groups(self.schema)[possible], self.atom[possible]]), axis=1
        )
        shape = (query.size(self.schema), self.size)
        return csr_array((np.ones(pairs.shape[1], dtype=np.int64), tuple(pairs)), shape=shape)


def _solved(program: Program) -> Floats | None:
    """The nearest counts; None if there are none or HiGHS gives up: there is more room above."""
    from headcount.solve.mip import SolverError, best_within

    try:
        return best_within(program)
    except SolverError:
        return None


def _solved_somehow(program: Program) -> Floats | None:
    """The last resort, after the loss: there are counts, so any will do if HiGHS loses its way.

    The nearest; then any, however long it takes; then any in this process without presolve, for a
    worker that cannot live. None if even that fails, or says that there are none.
    """
    from headcount.solve.mip import ENDLESS, SolverError, best_within

    anything = replace(program, cost=np.zeros(len(program.cost)))
    tries: list[tuple[Program, dict[str, Any]]] = [
        (program, {}),
        (anything, {"nodes": ENDLESS}),
        (anything, {"nodes": ENDLESS, "here": True}),
    ]
    for attempt, options in tries:
        try:
            found = best_within(attempt, **options)
        except SolverError as error:
            _log.warning("topdown: making room: %s", error)
            continue
        if found is not None:
            return found
        _log.warning("topdown: making room: HiGHS: found no solution, expected one")
    return None


def _open(ends: Ints, sign: float) -> Floats:
    return np.where(np.abs(ends) >= NO_BOUND, sign * np.inf, ends.astype(np.float64))
