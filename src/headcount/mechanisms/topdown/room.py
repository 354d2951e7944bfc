"""Room for children's bounds: where a parent's estimate leaves none, it moves as little as it can.

Bounds that hold the truth can be met by some counts, but not from every estimate above: sums of
bounds need not say all that the children's bounds ask of their parent. A parent whose children
cannot be met makes its nearest ancestor share its counts anew, so that there is room: with y the
counts of the children's level and its ancestors' sums, in *atoms* (sets of cells that no bound
tells apart),

    minimise    sum over units between the ancestor and the children of |y - estimate|
    subject to  y of the ancestor as it is; every bound of every unit below it; y whole, >= 0

first with the parent itself as the ancestor, then with the unit above it, and so on. If even the
whole must move, nothing is kept as it is, and the truth itself is a solution: there is one.
Within the atoms' counts any sharing of cells keeps every bound, so cells are then estimated from
their noisy answers as usual, with the atoms' counts as exact bounds.

All of this looks at noisy estimates and at bounds that are published: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.errors import ConfigError, RunError
from headcount.geography import Geography
from headcount.mechanisms.topdown.estimate import Problem, Rows, Triples, solve_batch
from headcount.mechanisms.topdown.level import Level
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.parents import build_problem
from headcount.mechanisms.topdown.restrict import Restrictions, units_outside
from headcount.mechanisms.topdown.tighten import always_shared, atoms
from headcount.schema import Schema
from headcount.solve.batch import NO_BOUND
from headcount.tabulate.counts import adder

Integers = NDArray[np.int64]

WIDEST = 2**21
"""The most counts of atoms in one integer programme: about what HiGHS can be trusted with."""

WHOLE = -1
"""The depth above the whole: nothing is kept as it is."""


def refuse_too_wide(restrictions: Restrictions, *, schema: Schema, geography: Geography) -> None:
    """Refuse bounds that could need a larger programme than ``WIDEST`` allows, before any loss."""
    size = int(atoms(restrictions, schema).max()) + 1
    for depth, level in enumerate(geography.levels):
        wide = geography.size(level) * size
        if depth == 0 or wide <= WIDEST:
            continue
        above = geography.levels[depth - 1]
        if not always_shared(
            restrictions[above], restrictions[level], schema=schema, geography=geography,
            levels=(above, level),
        ):  # fmt: skip
            names = sorted({repr(one.query.name) for one in restrictions[level]})
            raise ConfigError(
                "topdown", place=f"bounds on {', '.join(names)} at {level!r}",
                found=f"bounds of several queries at once in {wide:,} units x groups of cells",
                expected=f"at most {WIDEST:,}, or bounds on the groups of one query: it cannot be "
                "shown that every estimate above leaves room for them",
            )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Plan:
    """Counts of atoms (units x atoms) for each depth below the ancestor, with the first unit."""

    first: dict[int, int]
    counts: dict[int, Integers]

    def of(self, depth: int, units: range) -> Integers:
        start = self.first[depth]
        return self.counts[depth][units.start - start : units.stop - start]


@dataclass(frozen=True, eq=False, kw_only=True)
class Room:
    """What making room needs to know: the bounds, the noisy answers, and levels by name."""

    schema: Schema
    geography: Geography
    restrictions: Restrictions
    measurements: Measurements
    level: Callable[[str], Level]

    def whole(self, cell: Integers, wanted: NDArray[np.float64]) -> Triples:
        """Counts of the whole that keep its bounds, near the estimates of some cells."""
        sums = np.bincount(self.atom[cell], weights=wanted, minlength=self.size)
        plan = self._plan(0, WHOLE, 0, {0: np.rint(sums)[None].astype(np.int64)})
        if plan is None:
            raise self._impossible(self.geography.levels[0])
        return self._share(0, range(1), None, plan.counts[0])

    def kept(self, level: str, above: Any, rescued: Mapping[int, Triples]) -> dict[int, Triples]:
        """Those rescued parents whose children, added up, break no bound of a unit above them.

        A failsafe gives up the parent's cells, and with them what its own bounds are about.
        """
        depth = self.geography.depth(level) - 1
        names, sums = self.geography.levels, self.summed(above, rescued)
        good = set(rescued)
        for d in range(depth + 1):
            here = adder(self.geography, names[d], of=names[depth]) @ sums
            bad = {
                unit
                for one in self.restrictions[names[d]]
                for unit in units_outside(one, (here @ one.query.matrix(self.schema)).toarray())
            }
            good = {p for p in good if self._ancestor(depth, p, d) not in bad}
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

    def make(self, level: str, stuck: Sequence[int], above: Any) -> dict[int, Triples]:
        """Counts of the children of stuck parents, and of those of all parents that must move.

        ``above`` holds the parents' counts (sparse, units x cells).
        """
        depth = self.geography.depth(level)
        left, children = list(stuck), {}
        moved: dict[int, Integers] = {}
        for top in range(depth - 1, WHOLE - 1, -1):
            for ancestor in sorted({self._ancestor(depth - 1, p, top) for p in left}):
                here = [p for p in left if self._ancestor(depth - 1, p, top) == ancestor]
                now = _Now(self, depth - 1, above, moved)
                plan = self._plan(depth, top, ancestor, now.atoms(top, ancestor))
                if plan is None:
                    continue
                changed = self._cells(depth, top, ancestor, plan, now)
                moved |= changed
                for p in sorted({*here, *changed}):
                    children[p] = self._children(depth, p, now.cells(depth - 1, p), plan)
                left = [p for p in left if p not in here]
            if not left:
                return children
        raise self._impossible(level)

    def _impossible(self, level: str) -> RunError:
        return RunError(
            f"topdown: level {level!r}: found no counts that keep every bound down to this level, "
            f"expected some, since bounds that the data meet can be met"
        )

    @cached_property
    def atom(self) -> Integers:
        """For each cell the number of its atom, -1 for an impossible cell."""
        return atoms(self.restrictions, self.schema)

    @cached_property
    def size(self) -> int:
        """How many atoms there are."""
        return int(self.atom.max()) + 1

    def by_atom(self, cells: Any) -> Integers:
        """Counts (units x cells, sparse or not) added up by atoms."""
        from scipy.sparse import csr_array

        held = np.flatnonzero(self.atom >= 0)
        shape = (self.schema.size, self.size)
        onto = csr_array((np.ones(len(held), dtype=np.int64), (held, self.atom[held])), shape=shape)
        made = cells @ onto
        return np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.int64)

    def _ancestor(self, depth: int, unit: int, top: int) -> int:
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

    def _plan(
        self, depth: int, top: int, ancestor: int, estimate: dict[int, Integers]
    ) -> _Plan | None:
        """Counts of atoms below the ancestor that keep every bound, None if there are none.

        ``estimate`` has the counts of atoms now: of the ancestor and of the units below it.
        """
        from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

        from headcount.solve.mip import Program, SolverError, best_within

        names = self.geography.levels
        size, last = self.size, self.units(depth, top, ancestor)
        spans = {d: self.units(d, top, ancestor) for d in range(max(top, 0), depth + 1)}
        ups = {
            d: adder(self.geography, names[d], of=names[depth])[span.start : span.stop][
                :, last.start : last.stop
            ]
            for d, span in spans.items()
        }
        eye = eye_array(size, dtype=np.int64)
        rows: list[Any] = []
        lows: list[Integers] = []
        highs: list[Integers] = []
        for d in range(top + 1, depth + 1):
            for one in self.restrictions[names[d]]:
                part = kron(ups[d], self._groups(one.query), format="csr")
                low = one.low[spans[d].start : spans[d].stop].ravel()
                high = one.high[spans[d].start : spans[d].stop].ravel()
                binds = np.flatnonzero((low > 0) | (high < NO_BOUND))
                rows.append(part[binds])
                lows.append(low[binds])
                highs.append(high[binds])
        if top != WHOLE:
            rows.append(kron(ups[top], eye, format="csr"))
            lows.append(estimate[top].ravel())
            highs.append(estimate[top].ravel())
        between = [d for d in range(top + 1, depth + 1) if d in estimate]
        kept = [kron(ups[d], eye, format="csr") for d in between]
        target = np.concatenate([np.zeros(0, np.int64), *(estimate[d].ravel() for d in between)])
        width, slack = len(last) * size, eye_array(len(target))
        empty = csr_array((sum(r.shape[0] for r in rows), 2 * len(target)))
        bounds = hstack([vstack(rows, format="csr"), empty])
        nearness = hstack([vstack(kept, format="csr"), slack, -slack]) if kept else None
        program = Program(
            cost=np.concatenate([np.zeros(width), np.ones(2 * len(target))]),
            low=np.zeros(width + 2 * len(target)),
            high=np.full(width + 2 * len(target), np.inf),
            matrix=vstack([bounds, nearness] if nearness is not None else [bounds], format="csc"),
            row_low=_open(np.concatenate([*lows, target]), -1.0),
            row_high=_open(np.concatenate([*highs, target]), 1.0),
            integer=True,
        )
        try:
            found = best_within(program)
        except SolverError:
            if top == WHOLE:
                raise
            return None  # the unit above leaves more room
        if found is None:
            return None
        y = found[:width].astype(np.int64).reshape(len(last), size)
        counts = {d: np.asarray(ups[d] @ y) for d in range(max(top, 0), depth + 1)}
        return _Plan({d: span.start for d, span in spans.items()}, counts)

    def _groups(self, query: Any) -> Any:
        """Groups x atoms, 1 where the group holds the atom."""
        from scipy.sparse import csr_array

        possible = np.flatnonzero(self.schema.possible)
        pairs = np.unique(
            np.stack([query.groups(self.schema)[possible], self.atom[possible]]), axis=1
        )
        shape = (query.size(self.schema), self.size)
        return csr_array((np.ones(pairs.shape[1], dtype=np.int64), tuple(pairs)), shape=shape)

    def _cells(
        self, depth: int, top: int, ancestor: int, plan: _Plan, now: _Now
    ) -> dict[int, Integers]:
        """New cells of the parents whose atoms move, shared anew from the ancestor down."""
        new: dict[int, dict[int, Integers]] = {d: {} for d in range(depth)}
        at = max(top, 0)
        if top == WHOLE and (plan.counts[0] != now.atoms_of(0, range(1))).any():
            new[0][0] = self._dense(self._share(0, range(1), None, plan.counts[0]), range(1))[0]
        for d in range(at + 1, depth):
            for unit in self.units(d - 1, top, ancestor):
                kids = self.units(d, d - 1, unit)
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

    def _children(self, depth: int, parent: int, cells: Integers, plan: _Plan) -> Triples:
        """The children of a parent that now has room: estimated as usual, else as planned."""
        kids = self.units(depth, depth - 1, parent)
        level = self.level(self.geography.levels[depth])
        if cells.any():
            problem = self._problem(level, kids, cells)
            counts, stuck, _, broken = solve_batch(problem.batch)
            if not len(stuck) and not broken:
                return problem.unit, problem.cell, counts
        return self._share(depth, kids, cells, plan.of(depth, kids))

    def _share(self, depth: int, kids: range, cells: Integers | None, wanted: Integers) -> Triples:
        """Cells of a parent (None for the whole) shared so that each child has its atoms' counts.

        Estimated from the noisy answers; should every solver fail, dealt out in order.
        """
        level = self.level(self.geography.levels[depth])
        problem = self._problem(self._exactly(level, kids, wanted), kids, cells, sliced=True)
        if not len(problem.unit):
            return problem.unit, problem.cell, np.zeros(0, dtype=np.int64)
        counts, stuck, _, broken = solve_batch(problem.batch)
        if not len(stuck) and not broken:
            return problem.unit, problem.cell, counts
        return _dealt(self.atom, kids, cells, wanted)

    def _problem(
        self, level: Level, kids: range, cells: Integers | None, *, sliced: bool = False
    ) -> Problem:
        own = level if sliced else _slice(level, kids)
        which = np.flatnonzero(self.schema.possible if cells is None else cells)
        values = np.zeros(len(which), dtype=np.int64) if cells is None else cells[which]
        rows = Rows(np.array([0, len(which)]), which.astype(np.int32), values)
        first = np.array([0, len(kids)])
        only = np.zeros(1, dtype=np.int64)
        problem = build_problem(rows, only, first, own, self.measurements, offset=kids.start)
        if cells is None:
            return replace(problem, batch=replace(problem.batch, is_root=True))
        return problem

    def _exactly(self, level: Level, kids: range, wanted: Integers) -> Level:
        """The level's answers for some children, with their atoms' counts as the only bounds."""
        own = _slice(level, kids)
        free = np.full(own.low.shape, NO_BOUND)
        atom = np.maximum(self.atom, 0).astype(np.int32)
        return replace(
            own,
            families=(*own.families, "atoms"),
            family_start=np.append(own.family_start, own.family_start[-1] + self.size),
            group=np.concatenate([own.group, atom[None]]),
            family_weight=np.append(own.family_weight, 0.0),
            margin=np.concatenate([own.margin, np.zeros(wanted.shape)], axis=1),
            low=np.concatenate([-free, wanted], axis=1),
            high=np.concatenate([free, wanted], axis=1),
        )

    def _dense(self, found: Triples, units: range) -> Integers:
        made = np.zeros((len(units), self.schema.size), dtype=np.int64)
        unit, cell, count = found
        made[unit - units.start, cell] = count
        return made


class _Now:
    """The counts of every unit above the children's level, as they are now."""

    def __init__(self, room: Room, depth: int, above: Any, moved: dict[int, Integers]) -> None:
        self._room, self._depth, self._above = room, depth, above
        self._atoms = room.by_atom(above)
        self._moved: dict[int, Integers] = {}
        self.move(moved)

    def move(self, moved: dict[int, Integers]) -> None:
        """Other cells for some units of the lowest level."""
        self._moved |= moved
        for unit, cells in moved.items():
            self._atoms[unit] = self._room.by_atom(cells[None])[0]

    def cells(self, depth: int, unit: int) -> Integers:
        """The cells of one unit."""
        below = self._room.units(self._depth, depth, unit)
        made = np.asarray(self._above[below.start : below.stop].sum(axis=0), np.int64).ravel()
        for p in self._moved.keys() & set(below):
            made = made + self._moved[p] - self._above[p : p + 1].toarray()[0]
        return made

    def atoms(self, top: int, ancestor: int) -> dict[int, Integers]:
        """Counts of atoms of an ancestor and of all units below it, by depth."""
        spans = {d: self._room.units(d, top, ancestor) for d in range(max(top, 0), self._depth + 1)}
        return {d: self.atoms_of(d, span) for d, span in spans.items()}

    def atoms_of(self, depth: int, units: range) -> Integers:
        """Counts of atoms of some units of a level."""
        names = self._room.geography.levels
        up = adder(self._room.geography, names[depth], of=names[self._depth])
        return np.asarray(up[units.start : units.stop] @ self._atoms)


def _slice(level: Level, kids: range) -> Level:
    own = slice(kids.start, kids.stop)
    return replace(level, margin=level.margin[own], low=level.low[own], high=level.high[own])


def _open(ends: Integers, sign: float) -> NDArray[np.float64]:
    return np.where(np.abs(ends) >= NO_BOUND, sign * np.inf, ends.astype(np.float64))


def _dealt(atom: Integers, kids: range, cells: Integers | None, wanted: Integers) -> Triples:
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
    return tuple(np.concatenate(part).astype(np.int64) for part in (units, found, counts))  # type: ignore[return-value]
