"""Room for children's bounds: where a parent's estimate leaves none, it moves as little as it can.

Bounds that hold the truth can be met by some counts, but not from every estimate above: sums of
bounds need not say all that the children's bounds ask of their parent. A parent whose children
cannot be met makes its nearest ancestor share its counts anew, so that there is room: with y the
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

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headcount.arrays import Floats, Ints
from headcount.errors import RunError
from headcount.geography import Geography
from headcount.schema import Schema
from headcount.topdown._estimate import NodeProblem, SparseRows, Triples, solve_batch
from headcount.topdown._level import LevelPlan
from headcount.topdown._parents import pose
from headcount.topdown._room_plan import WHOLE, Planner, RoomPlan
from headcount.topdown.answers import Answers
from headcount.topdown.restrict import units_outside
from headcount.topdown.solve.nesting import forest_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Room:
    """What making room needs to know: the bounds, the noisy answers, and levels by name."""

    planner: Planner
    measurements: Answers
    level: Callable[[str], LevelPlan]

    @property
    def schema(self) -> Schema:
        """What is counted."""
        return self.planner.schema

    @property
    def geography(self) -> Geography:
        """Where."""
        return self.planner.geography

    def whole(self, cell: Ints, wanted: Floats) -> tuple[Triples, int]:
        """Counts of the whole that keep its bounds, near estimates of cells; and how far moved."""
        sums = np.bincount(self.planner.atom[cell], weights=wanted, minlength=self.planner.size)
        plan = self.planner.plan(0, WHOLE, 0, {0: np.rint(sums)[None].astype(np.int64)})
        if plan is None:
            raise self._impossible(self.geography.levels[0])
        return self._share(0, range(1), None, plan.counts[0]), plan.moved

    def kept(self, level: str, above: Any, rescued: Mapping[int, Triples]) -> dict[int, Triples]:
        """Those rescued parents whose children, added up, break no bound of a unit above them.

        A failsafe gives up the parent's cells, and with them what its own bounds are about.
        """
        depth = self.geography.depth(level) - 1
        names, sums = self.geography.levels, self.summed(above, rescued)
        good = set(rescued)
        for d in range(depth + 1):
            here = self.planner.adds(d, depth) @ sums
            bad = {
                unit
                for one in self.planner.restrictions[names[d]]
                for unit in units_outside(one, (here @ one.query.matrix(self.schema)).toarray())
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
        depth = self.geography.depth(level)
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
        self, depth: int, top: int, ancestor: int, plan: RoomPlan, now: _Now
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

    def _children(self, depth: int, parent: int, cells: Ints, plan: RoomPlan) -> Triples:
        """The children of a parent that now has room: estimated as usual, else as planned."""
        kids = self.planner.units(depth, depth - 1, parent)
        level = self.level(self.geography.levels[depth])
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
        level = self.level(self.geography.levels[depth])
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
        which = np.flatnonzero(self.schema.possible if cells is None else cells)
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
        made = np.zeros((len(units), self.schema.size), dtype=np.int64)
        unit, cell, count = found
        made[unit - units.start, cell] = count
        return made


class _Now:
    """The counts of every unit above the children's level, as they are now."""

    def __init__(self, planner: Planner, depth: int, above: Any) -> None:
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
