"""Feasibility repair: an estimate that leaves its children no slack moves, as little as it can.

Bounds that hold the truth can be met by some counts, but not from every estimate above: sums of
bounds need not say all that the children's bounds ask of their parent. A parent whose children
cannot be met makes its nearest ancestor share its counts anew, so that there is slack: with y the
counts of the children's level and its ancestors' sums, in *atoms* (sets of cells that no bound
tells apart),

    minimise    sum over units between the ancestor and the children of |y - estimate|
    subject to  y of the ancestor as it is; every bound of every unit below it, and every total
                that several of them have together; y whole, >= 0

first with the parent itself as the ancestor, then with the unit above it, and so on. If even the
whole must move, nothing is kept as it is, and the truth itself is a solution: there is one.
Within the atoms' counts any sharing of cells keeps every bound, so cells are then estimated from
their noisy answers as usual, with the atoms' counts as exact bounds.

All of this looks at noisy estimates and at bounds that are published: it costs no privacy.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.errors import ConfigError, RunError
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.tabulate import Query
from headcount.tabulate.counts import adder
from headcount.topdown._estimate import (
    LevelPlan,
    NodeProblem,
    pose,
    solve_batch,
)
from headcount.topdown._tighten import always_shared, atoms
from headcount.topdown.answers import Answers
from headcount.topdown.parts import SparseRows, Triples
from headcount.topdown.restrict import JointTotals, Restrictions, units_outside
from headcount.topdown.solve.batch import NO_BOUND, forest_of

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
class _RepairPlan:
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
class RepairPlanner:
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
    ) -> _RepairPlan | None:
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
        return _RepairPlan({d: span.start for d, span in spans.items()}, counts, moved)

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
        _log.warning("topdown: making room: HiGHS has found no solution")
    return None


def _open(ends: Ints, sign: float) -> Floats:
    return np.where(np.abs(ends) >= NO_BOUND, sign * np.inf, ends.astype(np.float64))


@dataclass(frozen=True, eq=False, kw_only=True)
class Repair:
    """What a repair needs to know: the bounds, the noisy answers, and levels by name."""

    planner: RepairPlanner
    measurements: Answers
    level: Callable[[str], LevelPlan]

    def whole(self, cell: Ints, wanted: Floats) -> tuple[Triples, int]:
        """Counts of the whole that keep its bounds, near estimates of cells; and how far moved."""
        sums = np.bincount(self.planner.atom[cell], weights=wanted, minlength=self.planner.size)
        plan = self.planner.plan(0, WHOLE, 0, {0: np.rint(sums)[None].astype(np.int64)})
        if plan is None:
            raise self._impossible(self.planner.geography.levels[0])
        return self._share(0, range(1), None, plan.counts[0]), plan.moved

    def kept(self, level: str, above: Any, rescued: Mapping[int, Triples]) -> dict[int, Triples]:
        """Those rescued parents whose children, added up, break no bound of a unit above them.

        A failsafe gives up the parent's cells, and with them what its own bounds are about.
        """
        depth = self.planner.geography.depth(level) - 1
        names, sums = self.planner.geography.levels, self.summed(above, rescued)
        good = set(rescued)
        for d in range(depth + 1):
            here = self.planner.adds(d, depth) @ sums
            bad = {
                unit
                for one in self.planner.restrictions[names[d]]
                for unit in units_outside(
                    one, (here @ one.query.matrix(self.planner.schema)).toarray()
                )
            }
            good = {p for p in good if self.planner.ancestor(depth, p, d) not in bad}
        return {p: children for p, children in rescued.items() if p in good}

    def summed(self, above: Any, children: Mapping[int, Triples]) -> Any:
        """The parents' counts, with the sums of their children where these are given."""
        from scipy.sparse import csr_array

        if not children:
            return above
        mine = np.array(sorted(children))
        keep = np.ones(above.shape[0], dtype=np.int64)
        keep[mine] = 0
        parent = np.concatenate([np.full(len(children[p][0]), p) for p in mine])
        cell = np.concatenate([children[p][1] for p in mine])
        count = np.concatenate([children[p][2] for p in mine])
        sums = csr_array((count, (parent, cell)), shape=above.shape)
        return (above.multiply(keep[:, None]) + sums).tocsr()

    def make(self, level: str, stuck: Sequence[int], above: Any) -> tuple[dict[int, Triples], int]:
        """Counts of the children of stuck parents, and of those of all parents that must move.

        ``above`` holds the parents' counts (sparse, units x cells). Also how far estimates moved:
        the objectives of all programmes, added up.
        """
        depth = self.planner.geography.depth(level)
        now = _Now(self.planner, depth - 1, above)
        left: Sequence[int] = stuck
        children: dict[int, Triples] = {}
        moved = 0
        for top in range(depth - 1, WHOLE - 1, -1):
            below = defaultdict(list)
            for p in left:
                below[self.planner.ancestor(depth - 1, p, top)].append(p)
            left = []
            for ancestor, here in sorted(below.items()):
                plan = self.planner.plan(depth, top, ancestor, now.atoms(top, ancestor))
                if plan is None:
                    left += here
                    continue
                moved += plan.moved
                changed = self._cells(depth, top, ancestor, plan, now)
                for p in sorted({*here, *changed}):
                    children[p] = self._children(depth, p, now.cells(depth - 1, p), plan)
            if not left:
                return children, moved
        raise self._impossible(level)

    def _impossible(self, level: str) -> RunError:
        return RunError(
            f"topdown: level {level!r}: found no counts that keep every bound down to this level, "
            "expected some, since bounds that the data meet can be met: run the same command "
            "again, with more memory if solvers ran out of it, or give the run up with "
            "headcount close"
        )

    def _cells(
        self, depth: int, top: int, ancestor: int, plan: _RepairPlan, now: _Now
    ) -> dict[int, Ints]:
        """New cells of the parents whose atoms move, shared anew from the ancestor down."""
        new: dict[int, dict[int, Ints]] = {d: {} for d in range(depth)}
        at = max(top, 0)
        if top == WHOLE and (plan.counts[0] != now.atoms_of(0, range(1))).any():
            new[0][0] = self._dense(self._share(0, range(1), None, plan.counts[0]), range(1))[0]
        for d in range(at + 1, depth):
            for unit in self.planner.units(d - 1, top, ancestor):
                kids = self.planner.units(d, d - 1, unit)
                remade = unit in new[d - 1]
                wanted = plan.of(d, kids)
                moves = np.full(len(kids), remade)
                moves |= (wanted != now.atoms_of(d, kids)).any(axis=1)
                if not moves.any():
                    continue
                rest = (new[d - 1][unit] if remade else now.cells(d - 1, unit)).copy()
                for kid in np.array(kids)[~moves]:
                    rest -= now.cells(d, int(kid))
                shared = self._share(d, kids, rest, np.where(moves[:, None], wanted, 0))
                cells = self._dense(shared, kids)
                new[d] |= {int(kids[k]): cells[k] for k in np.flatnonzero(moves)}
        now.move(new[depth - 1])
        return new[depth - 1]

    def _children(self, depth: int, parent: int, cells: Ints, plan: _RepairPlan) -> Triples:
        """The children of a parent that now has room: estimated as usual, else as planned."""
        kids = self.planner.units(depth, depth - 1, parent)
        level = self.level(self.planner.geography.levels[depth])
        if cells.any():
            problem = self._problem(level, kids, cells)
            counts, stuck, _, broken = solve_batch(problem.batch, problem.passes)
            if not len(stuck) and not broken:
                return problem.unit, problem.cell, counts
        return self._share(depth, kids, cells, plan.of(depth, kids))

    def _share(self, depth: int, kids: range, cells: Ints | None, wanted: Ints) -> Triples:
        """Cells of a parent (None for the whole) shared so that each child has its atoms' counts.

        Estimated from the noisy answers; should every solver fail, dealt out in order.
        """
        level = self.level(self.planner.geography.levels[depth])
        problem = self._problem(self._exactly(level), kids, cells, limits=(wanted, wanted))
        if not len(problem.unit):
            return problem.unit, problem.cell, np.zeros(0, dtype=np.int64)
        counts, stuck, _, broken = solve_batch(problem.batch, problem.passes)
        if not len(stuck) and not broken:
            return problem.unit, problem.cell, counts
        return _dealt(self.planner.atom, kids, cells, wanted)

    def _problem(
        self,
        level: LevelPlan,
        kids: range,
        cells: Ints | None,
        *,
        limits: tuple[Ints, Ints] | None = None,
    ) -> NodeProblem:
        which = np.flatnonzero(self.planner.schema.possible if cells is None else cells)
        values = np.zeros(len(which), dtype=np.int64) if cells is None else cells[which]
        rows = SparseRows(np.array([0, len(which)]), which.astype(np.int32), values)
        posed = pose(rows, np.array([kids.start, kids.stop]), level, limits=limits)
        problem = self.measurements.answered(level, posed)
        if cells is None:
            return replace(problem, batch=replace(problem.batch, is_root=True))
        return problem

    def _exactly(self, level: LevelPlan) -> LevelPlan:
        """The level's queries, with the counts of atoms as the only bounds.

        These are everybody's, so that totals that units have together say nothing more.
        """
        size = self.planner.size
        atom = np.maximum(self.planner.atom, 0).astype(np.int32)
        group = np.concatenate([level.group, atom[None]])
        bound_start = np.append(np.zeros(len(level.group) + 1, dtype=np.int64), size)
        return replace(
            level,
            families=(*level.families, "atoms"),
            family_start=np.append(level.family_start, level.family_start[-1] + size),
            group=group,
            family_weight=np.append(level.family_weight, 0.0),
            classes=level.with_one_more(),
            bound_start=bound_start,
            limits=(),
            joint=None,
            forest=forest_of(np.arange(size), group=group, bound_start=bound_start),
        )

    def _dense(self, found: Triples, units: range) -> Ints:
        made = np.zeros((len(units), self.planner.schema.size), dtype=np.int64)
        unit, cell, count = found
        made[unit - units.start, cell] = count
        return made


class _Now:
    """The counts of every unit above the children's level, as they are now."""

    def __init__(self, planner: RepairPlanner, depth: int, above: Any) -> None:
        self._planner, self._depth, self._above = planner, depth, above
        self._atoms = planner.by_atom(above)
        self._moved: dict[int, Ints] = {}

    def move(self, moved: dict[int, Ints]) -> None:
        """Other cells for some units of the lowest level."""
        self._moved |= moved
        for unit, cells in moved.items():
            self._atoms[unit] = self._planner.by_atom(cells[None])[0]

    def cells(self, depth: int, unit: int) -> Ints:
        """The cells of one unit."""
        below = self._planner.units(self._depth, depth, unit)
        made = np.asarray(self._above[below.start : below.stop].sum(axis=0), np.int64).ravel()
        for p in (p for p in self._moved if p in below):
            made = made + self._moved[p] - self._above[p : p + 1].toarray()[0]
        return made

    def atoms(self, top: int, ancestor: int) -> dict[int, Ints]:
        """Counts of atoms of an ancestor and of all units below it, by depth."""
        spans = {
            d: self._planner.units(d, top, ancestor) for d in range(max(top, 0), self._depth + 1)
        }
        return {d: self.atoms_of(d, span) for d, span in spans.items()}

    def atoms_of(self, depth: int, units: range) -> Ints:
        """Counts of atoms of some units of a level."""
        up = self._planner.adds(depth, self._depth)
        return np.asarray(up[units.start : units.stop] @ self._atoms)


def _dealt(atom: Ints, kids: range, cells: Ints | None, wanted: Ints) -> Triples:
    """People in the order of their cells, dealt to children in order, atom by atom.

    The whole has no cells to deal from: each atom's people are put into its first cell.
    """
    units, found, counts = [], [], []
    for a in range(wanted.shape[1]):
        own = np.flatnonzero(atom == a)
        have = cells[own] if cells is not None else np.append(wanted[0, a], [0] * (len(own) - 1))
        cuts = np.concatenate([[0], np.cumsum(have)])
        ends = np.concatenate([[0], np.cumsum(wanted[:, a])])
        start = np.maximum(cuts[:-1, None], ends[None, :-1])
        stop = np.minimum(cuts[1:, None], ends[None, 1:])
        cell, kid = np.nonzero(stop > start)
        units.append(kid + kids.start)
        found.append(own[cell])
        counts.append((stop - start)[cell, kid])
    return np.concatenate(units), np.concatenate(found), np.concatenate(counts)
