"""What a coarsened release proves of people: an audit for an attacker who knows the rules.

The secret of the people (a, k) is *proven* if it is one and the same in all worlds (``worlds``). So
one other world, a *witness*, shows that it is not. In this order:

1. *Zeros*: a hidden combination is possible for (a, k) only if no table says that nobody has it.
   One possible secret is a proof.
2. *Moves*: two people of an area exchange what is not known of them, and in another area of the
   same unit of the table that crosses it with keys two people change it back. No sum changes.
   Which areas have two such people is read off B'B, B the 0/1 matrix (areas x combinations).
3. *Programs*: the most people of other secrets that sums allow. Less than 1 in a linear program is
   a proof, a whole solution is a witness, for others too; between these an integer program decides.

What no step decides counts as proven. How long a step may take is counted in its own steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headcount.arrays import Flags, Floats, Ints
from headcount.mechanisms.coarsening.worlds import Worlds
from headcount.processes import Progress, silent
from headcount.solve.mip import STOPPED, Program, SolverError, load, search

AT_ONCE = 1 << 22
"""Numbers held at once where all hidden combinations of many cells are looked at."""
LARGEST = 150_000
"""Unknowns of the largest program: what would need more counts as proven."""
PIVOTS, NODES = 300_000, 300
"""Of all linear programs of a piece, and nodes of an integer one, before they are given up."""
SURE = 1e-6
"""How much below 1 a float must be to be less: what is nearer counts as proven."""

OPEN, NOT_PROVEN, PROVEN, UNDECIDED = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class _Witness:
    """A world by how it differs from the truth: (area, combination, change)."""

    area: Ints
    atom: Ints
    change: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class _Statements:
    """What may be proven, one statement each.

    where
        area, key   whose
        secret      what they have in truth, all of them or, to an insider, all others
        cell        number of the (area, key) of the truth
        insider     the secret of the one who knows himself; -1 where nobody does
        said        OPEN at first, then NOT_PROVEN, PROVEN or UNDECIDED
        witness     number of the world that shows it not proven; 0 is the truth, -1 none
    """

    area: Ints
    key: Ints
    secret: Ints
    cell: Ints
    insider: Ints
    said: Ints
    witness: Ints

    def where(self, said: int) -> Ints:
        """Statements of which this is said."""
        return np.flatnonzero(self.said == said)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Audit:
    """What is proven, as numbers of people; all of it is computed from the truth.

    where
        people       everybody
        unlike       those whose secret is not the most frequent one of their leaf
        proven       whose secret is proven to anybody who reads the release
        proven_unlike   of these, those who are unlike their leaf's majority
        insiders     whose secret is proven besides to somebody of the same area and key
        certain      combinations of leaf, key and secret that somebody certainly has, at most
        undecided    of the proven, those whom no step has decided
        statements   what was asked, an outsider's first
        worlds       the witnesses, the truth first
    """

    people: int
    unlike: int
    proven: int
    proven_unlike: int
    insiders: int
    certain: int
    undecided: int
    statements: _Statements
    worlds: tuple[_Witness, ...]

    def in_areas(self, of: Worlds, *, insiders: bool = False) -> Ints:
        """How many people of each area have a proven secret, or one that an insider proves."""
        asked = self.statements
        held = np.isin(asked.said, (PROVEN, UNDECIDED)) & ((asked.insider >= 0) == insiders)
        many = of.people[asked.cell[held]]
        return np.bincount(asked.area[held], weights=many, minlength=of.areas).astype(np.int64)


@dataclass(eq=False)
class _Search:
    """The statements while they are decided, and the worlds that were found."""

    of: Worlds
    asked: _Statements
    found: list[_Witness] = field(default_factory=list)
    pivots: int = PIVOTS

    def witness(self, statement: Ints, world: _Witness) -> None:
        """Note a world that shows some statements not proven."""
        if not len(statement):
            return
        self.found.append(world)
        self.asked.said[statement] = NOT_PROVEN
        self.asked.witness[statement] = len(self.found) - 1

    def left(self) -> Ints:
        """Statements that nothing has decided yet."""
        return self.asked.where(OPEN)


def audit(
    worlds: Worlds,
    *,
    insiders: bool = True,
    finer: tuple[Worlds, Audit] | None = None,
    pivots: int = PIVOTS,
    progress: Progress = silent,
) -> Audit:
    """Decide every statement of a release, or count it as proven.

    where
        insiders   whether those who know themselves are asked about too
        finer      a release from which this one follows, by sums alone, and its audit: what it does
                   not prove this one does not, and there is no witness for it here
        pivots     of the linear programs of a piece
    """
    nothing = np.zeros(0, dtype=np.int64)
    asked = _statements(worlds, insiders=insiders)
    search_for = _Search(worlds, asked, [_Witness(nothing, nothing, nothing)], pivots)
    if finer is not None:
        _by_finer(search_for, *finer)
    _by_zeros(search_for)
    _by_single_changes(search_for)
    for fixed, unit in _ways(worlds):
        _by_moves(search_for, fixed, unit)
    _by_programs(search_for, progress)
    asked.said[search_for.left()] = UNDECIDED
    return _counted(worlds, asked, search_for.found)


def _statements(of: Worlds, *, insiders: bool) -> _Statements:
    """All (area, key): where two secrets are, the truth is a witness; insiders beside them."""
    cell, secret, many = of.secrets
    kinds = np.bincount(cell, minlength=len(of.first))
    begin = np.searchsorted(cell, np.arange(len(of.first)))
    area, key = of.area[of.first], of.key[of.first]
    alike = kinds == 1
    asked = [(np.arange(len(of.first)), secret[begin], np.full(len(begin), -1))]
    if insiders:
        own = np.flatnonzero(alike & (of.people > 1))
        asked.append((own, secret[begin[own]], secret[begin[own]]))
        pair = np.flatnonzero(kinds == 2)
        for one, other in ((begin[pair], begin[pair] + 1), (begin[pair] + 1, begin[pair])):
            alone = many[one] == 1
            asked.append((pair[alone], secret[other[alone]], secret[one[alone]]))
    cells, theirs, insider = (np.concatenate(some) for some in zip(*asked, strict=True))
    shown = (insider < 0) & ~alike[cells]
    return _Statements(
        area=area[cells],
        key=key[cells],
        secret=theirs,
        cell=cells,
        insider=insider,
        said=np.where(shown, NOT_PROVEN, OPEN),
        witness=np.where(shown, 0, -1),
    )


def _by_finer(search_for: _Search, of: Worlds, found: Audit) -> None:
    """Not proven by a finer release: its worlds are worlds of this one."""
    mine, theirs, asked = search_for.of.atoms, of.atoms, search_for.asked
    _, cell_of = np.unique(theirs.of_cell // theirs.hidden, return_index=True)
    _, leaf_of = np.unique(of.of_leaf, return_index=True)
    own = found.statements
    some = np.flatnonzero((own.said == NOT_PROVEN) & (own.insider < 0))
    area = search_for.of.of_leaf[leaf_of[own.area[some]]]
    key = mine.of_cell[cell_of[own.key[some]]] // mine.hidden
    known = np.isin(asked.area * mine.keys + asked.key, area * mine.keys + key)
    asked.said[known & (asked.said == OPEN) & (asked.insider < 0)] = NOT_PROVEN


def _by_zeros(search_for: _Search) -> None:
    """Proofs: no other secret is possible by the most that each table allows."""
    of, asked = search_for.of, search_for.asked
    left = search_for.left()
    for some in _pieces(left, of.atoms.hidden):
        most = of.most(asked.area[some], asked.key[some])
        # An insider who has another secret himself is one of those who have it.
        own = of.atoms.secret[None, :] == asked.insider[some][:, None]
        other = of.atoms.secret[None, :] != asked.secret[some][:, None]
        room = np.where(other & ~own, most, 0).max(axis=1) >= 1
        room |= np.where(other & own, most, 0).sum(axis=1) >= 2
        asked.said[some[~room]] = PROVEN


def _pieces(statements: Ints, width: int) -> Iterator[Ints]:
    step = max(1, AT_ONCE // max(1, width))
    for start in range(0, len(statements), step):
        yield statements[start : start + step]


def _by_single_changes(search_for: _Search) -> None:
    """Witnesses where values leave room: one person has another secret, and no value changes.

    Of a secret that no table shows there is always room.
    """
    of, asked = search_for.of, search_for.asked
    true = [of.values(one) for one in of.known]
    left = search_for.left()
    entry = _entries_of(of, asked, left)
    for which, i in _pairs_of_pieces(*entry, of.atoms.hidden):
        to = of.key[i][:, None] * of.atoms.hidden + np.arange(of.atoms.hidden)
        fits = of.atoms.possible[of.key[i]]
        fits &= of.atoms.secret[None, :] != asked.secret[which][:, None]
        for one, value in zip(of.known, true, strict=True):
            unit, here = one.place[of.area[i]], one.group[of.atom[i]]
            there = one.group[to]
            less = value[unit, here] - 1 >= one.low[unit, here]
            more = value[unit[:, None], there] + 1 <= one.high[unit[:, None], there]
            fits &= (there == here[:, None]) | (less[:, None] & more)
        good = np.flatnonzero(fits.any(axis=1))
        for row in good[np.unique(which[good], return_index=True)[1]].tolist():
            atoms = np.array([of.atom[i[row]], to[row, fits[row].argmax()]])
            world = _Witness(np.repeat(of.area[i[row]], 2), atoms, np.array([-1, 1]))
            search_for.witness(which[row : row + 1], world)


def _entries_of(of: Worlds, asked: _Statements, left: Ints) -> tuple[Ints, Ints]:
    """For each statement the entries of its people who have the secret: pairs of numbers."""
    ends = np.append(of.first, len(of.n))
    begin, many = ends[asked.cell[left]], np.diff(ends)[asked.cell[left]]
    which = np.repeat(left, many)
    entry = np.repeat(begin - np.cumsum(many) + many, many) + np.arange(many.sum())
    theirs = of.atoms.secret[of.hide[entry]] == asked.secret[which]
    return which[theirs], entry[theirs]


def _pairs_of_pieces(which: Ints, entry: Ints, width: int) -> Iterator[tuple[Ints, Ints]]:
    for rows in _pieces(np.arange(len(which)), width):
        yield which[rows], entry[rows]


def _ways(of: Worlds) -> Iterator[tuple[Ints, Ints | None]]:
    """Ways to move people about: which keys are one to the tables that are left alone in each
    area, and the unit within which the other tables are kept by moves back (None: there is none).
    """
    crossing = [one for one in of.known if one.crosses]
    for depth in (*sorted({one.depth for one in crossing}, reverse=True), -1):
        within = [one.kind for one in crossing if one.depth > depth]
        alike = np.zeros(of.atoms.keys, dtype=np.int64)
        if within:
            alike = np.unique(np.column_stack(within), axis=0, return_inverse=True)[1].reshape(-1)
        if len(np.unique(alike)) == of.atoms.keys:
            continue
        place = next((one.place for one in crossing if one.depth == depth), None)
        if depth < 0 or place is None:
            yield alike, None
        elif len(np.unique(place)) < of.areas:
            yield alike, place


def _by_moves(search_for: _Search, alike: Ints, unit: Ints | None) -> None:
    """Witnesses by exchanges of two, with an exchange back elsewhere in the unit if there is one.

    (k, s0) and (k', s) of area a exchange what is hidden; so do (k, s) and (k', s0) of area a'.
    """
    of = search_for.of
    within = np.zeros(of.areas, dtype=np.int64) if unit is None else unit
    order = np.argsort(within[of.area], kind="stable")
    ends = np.flatnonzero(np.diff(within[of.area[order]], prepend=-1, append=-1))
    bound = np.append(ends[:-1], len(order)) if len(order) else ends
    left = search_for.left()
    open_here = np.zeros(int(within.max(initial=0)) + 1, dtype=bool)
    open_here[within[search_for.asked.area[left]]] = True
    for start, stop in zip(bound[:-1].tolist(), bound[1:].tolist(), strict=True):
        entries = np.sort(order[start:stop])
        if len(entries) and open_here[within[of.area[entries[0]]]]:
            _moves_in(search_for, entries, alike, back=unit is not None)


def _moves_in(search_for: _Search, entries: Ints, alike: Ints, *, back: bool) -> None:
    """Moves among the areas of one unit."""
    from scipy.sparse import csr_array

    of, asked = search_for.of, search_for.asked
    left = search_for.left()
    left = left[np.isin(asked.area[left], of.area[entries])]
    which, own = _entries_of(of, asked, left)
    areas, place = np.unique(of.area[entries], return_inverse=True)
    start = np.searchsorted(of.area[entries], areas)
    many = np.diff(np.append(start, len(entries)))
    atoms, column = np.unique(of.atom[entries], return_inverse=True)
    ones = np.ones(len(entries), dtype=np.int32)
    has = csr_array((ones, (place, column)), shape=(len(areas), len(atoms)))
    both = csr_array(has.T @ has).tocoo() if back else None
    code, areas_with = _sorted_codes(both, len(atoms))
    columns = has.tocsc()
    done = np.zeros(len(asked.said), dtype=bool)
    at = np.searchsorted(areas, of.area[own])
    for rows in _chunks(many[at]):
        ask, i = np.repeat(which[rows], many[at[rows]]), np.repeat(own[rows], many[at[rows]])
        j = np.concatenate([entries[start[a] : start[a] + many[a]] for a in at[rows].tolist()])
        k, other, h0, h = of.key[i], of.key[j], of.hide[i], of.hide[j]
        fine = (k != other) & (alike[k] == alike[other]) & ~done[ask]
        fine &= of.atoms.secret[h] != asked.secret[ask]
        fine &= of.atoms.possible[k, h] & of.atoms.possible[other, h0]
        ask, i, j = ask[fine], i[fine], j[fine]
        k, other, h0, h = of.key[i], of.key[j], of.hide[i], of.hide[j]
        first, second = k * of.atoms.hidden + h, other * of.atoms.hidden + h0
        if back:
            u, v = np.searchsorted(atoms, first), np.searchsorted(atoms, second)
            there = _at(atoms, u, first) & _at(atoms, v, second)
            pair = u * len(atoms) + v
            spot = np.searchsorted(code, pair)
            there &= _at(code, spot, pair)
            elsewhere = np.where(there, areas_with[np.minimum(spot, len(code) - 1)], 0)
            here = np.searchsorted(areas, of.area[i])
            elsewhere = elsewhere - there * (_has(has, here, u) & _has(has, here, v))
            good = np.flatnonzero(elsewhere >= 1)
        else:
            good = np.arange(len(ask))
        for row in good[np.unique(ask[good], return_index=True)[1]].tolist():
            cells = np.array([of.atom[i[row]], first[row], of.atom[j[row]], second[row]])
            change, area = np.array([-1, 1, -1, 1]), np.repeat(of.area[i[row]], 4)
            if back:
                with_both = np.intersect1d(_rows(columns, u[row]), _rows(columns, v[row]))
                away = areas[with_both[areas[with_both] != of.area[i[row]]][0]]
                area = np.append(area, np.repeat(away, 4))
                cells, change = np.append(cells, cells), np.append(change, -change)
            search_for.witness(ask[row : row + 1], _Witness(area, cells, change))
            done[ask[row]] = True


def _sorted_codes(both: Any, size: int) -> tuple[Ints, Ints]:
    """Pairs of combinations that some area has both of, as sorted numbers, and in how many."""
    if both is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    code = both.coords[0].astype(np.int64) * size + both.coords[1]
    order = np.argsort(code)
    return code[order], both.data[order].astype(np.int64)


def _at(values: Ints, spot: Ints, wanted: Ints) -> Flags:
    """Whether the values that were looked up are there."""
    if not len(values):
        return np.zeros(len(wanted), dtype=bool)
    return np.asarray(values[np.minimum(spot, len(values) - 1)] == wanted)


def _has(has: Any, row: Ints, column: Ints) -> Flags:
    """Whether areas have combinations; a combination that is nowhere counts as the last."""
    spot = np.minimum(column, has.shape[1] - 1)
    return np.asarray(has[row, spot]).reshape(-1) > 0 if len(row) else np.zeros(0, dtype=bool)


def _rows(columns: Any, number: int) -> Ints:
    return np.asarray(columns.indices[columns.indptr[number] : columns.indptr[number + 1]])


def _chunks(many: Ints) -> Iterator[slice]:
    """Runs of rows whose pairs are held at once."""
    total = np.cumsum(many)
    start = 0
    while start < len(many):
        done = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + AT_ONCE)))
        yield slice(start, stop)
        start = stop


def _by_programs(search_for: _Search, progress: Progress) -> None:
    """Proofs and witnesses by linear and integer programs, one for each piece of the country.

    A piece is a unit that no exact table links to another. What rounded sums above it leave
    undecided is asked again of larger pieces, as far as these are small enough.
    """
    of, asked = search_for.of, search_for.asked
    depths = {one.depth: one.place for one in of.known}
    exact = [one.depth for one in of.known if (one.low == one.high).all()]
    first = min(exact, default=max(depths, default=0))
    for depth in sorted((one for one in depths if one <= first), reverse=True):
        asked.said[asked.where(UNDECIDED)] = OPEN
        left, piece = search_for.left(), depths[depth]
        pieces = np.unique(piece[asked.area[left]])
        for number in progress(pieces, what="solving programs", total=len(pieces)):
            areas = np.flatnonzero(piece == number)
            here = left[piece[asked.area[left]] == number]
            _Piece(search_for, areas, depth).decide(here)


class _Piece:
    """The program of one piece: unknowns x[a, k, h], all of them possible by every table.

        A x = n of each (a, k);  low <= sums of cells <= high

    Sums of rounded tables at levels above the piece are left out: a proof without them is one with
    them, and a witness is looked at with all of them.
    """

    def __init__(self, search_for: _Search, areas: Ints, depth: int) -> None:
        self.search, self.depth, self.pivots = search_for, depth, 0
        of = self.of = search_for.of
        self.mine = np.flatnonzero(np.isin(of.area, areas))
        cells = np.unique(of.cell[self.mine])
        area, key = of.area[of.first[cells]], of.key[of.first[cells]]
        self.too_large = len(cells) * of.atoms.hidden > 20 * LARGEST
        if self.too_large:
            return
        most = np.minimum(of.most(area, key), of.people[cells][:, None])
        row, hide = np.nonzero(most > 0)
        self.too_large = len(row) > LARGEST
        if self.too_large:
            return
        self.cell, self.hide, self.area = cells[row], hide, area[row]
        self.atom = key[row] * of.atoms.hidden + hide
        code = self.area * of.atoms.keys * of.atoms.hidden + self.atom
        mine = of.area[self.mine] * of.atoms.keys * of.atoms.hidden + of.atom[self.mine]
        self.true = np.zeros(len(code), dtype=np.int64)
        self.true[np.searchsorted(code, mine)] = of.n[self.mine]
        self.program = self._program(row, most[row, hide].astype(float), of.people[cells])
        self.solver: Any = None

    def _program(self, row: Ints, most: Floats, people: Ints) -> Program:
        from scipy.sparse import csr_array, vstack

        of, rows = self.of, [row]
        low, high = [people.astype(float)], [people.astype(float)]
        for one in of.known:
            if one.depth < self.depth:
                continue  # a sum over other pieces too
            cell = one.place[self.area] * one.low.shape[1] + one.group[self.atom]
            code, number = np.unique(cell, return_inverse=True)
            rows.append(number)
            low.append(one.low.reshape(-1)[code].astype(float))
            high.append(one.high.reshape(-1)[code].astype(float))
        size = len(row)
        matrix = vstack(
            [
                csr_array((np.ones(size), (number, np.arange(size))), shape=(len(ends), size))
                for number, ends in zip(rows, low, strict=True)
            ],
            format="csr",
        )
        return Program(
            cost=np.zeros(size),
            low=np.zeros(size),
            high=most,
            matrix=matrix,
            row_low=np.concatenate(low),
            row_high=np.concatenate(high),
            integer=False,
        )

    def decide(self, statements: Ints) -> None:
        """Decide statements, each by what is known from those before or by a program of its own."""
        asked = self.search.asked
        for one in statements.tolist():
            if asked.said[one] != OPEN:
                continue
            if self.too_large or self.pivots > self.search.pivots:
                asked.said[one] = UNDECIDED
                continue
            asked.said[one] = self._decide(one, statements)

    def _decide(self, one: int, statements: Ints) -> int:
        """What is said of a statement; a world that is found is held against others too."""
        asked = self.search.asked
        other, insider = self._unlike(one)
        if not other.any():
            return PROVEN
        x = self._most(other, insider, float(asked.insider[one] >= 0))
        goal = self._goal(one)
        if x is not None and x[other].sum() < goal - SURE:
            return PROVEN
        if x is None or not self._rounded(x, statements):
            point = self._whole(other, insider, goal)
            if point is None:
                return UNDECIDED
            if not len(point):
                return PROVEN
            self._world(point, statements)
        return int(asked.said[one]) if asked.said[one] != OPEN else UNDECIDED

    def _rounded(self, x: Floats, statements: Ints) -> bool:
        """Note the world that a linear optimum is, if it is one: whole, and with all sums."""
        whole = np.rint(x)
        near = np.abs(whole - x).max() <= SURE
        return bool(near) and self._world(whole.astype(np.int64), statements)

    def _goal(self, one: int) -> int:
        """How many people of other secrets it takes: one, and the insider if he is among them."""
        asked = self.search.asked
        return 1 + int(asked.insider[one] >= 0 and asked.insider[one] != asked.secret[one])

    def _unlike(self, one: int) -> tuple[Flags, Flags]:
        """The unknowns of other secrets, and those of the insider's own."""
        asked, secret = self.search.asked, self.of.atoms.secret[self.hide]
        here = self.cell == asked.cell[one]
        return here & (secret != asked.secret[one]), here & (secret == asked.insider[one])

    def _most(self, other: Flags, insider: Flags, least: float) -> Floats | None:
        """The linear optimum, None if it was given up.

        The same program is solved again and again from where it was.
        """
        import highspy

        if self.solver is None:
            self.solver = load(self.program, simplex_iteration_limit=self.search.pivots)
            self.solver.setOptionValue("presolve", "off")
            self.solver.setOptionValue("solver", "simplex")
            self.last = np.zeros(0, dtype=np.int64)
        columns = np.flatnonzero(other)
        for numbers, cost in ((self.last, 0.0), (columns, -1.0)):
            costs = np.full(len(numbers), cost)
            self.solver.changeColsCost(len(numbers), numbers.astype(np.int32), costs)
        self.last = columns
        bound = None
        if least and insider.any():
            row = np.flatnonzero(insider).astype(np.int32)
            self.solver.addRow(least, highspy.kHighsInf, len(row), row, np.ones(len(row)))
            bound = self.solver.getNumRow() - 1
        self.solver.run()
        self.pivots += max(0, self.solver.getInfo().simplex_iteration_count)
        status = self.solver.modelStatusToString(self.solver.getModelStatus())
        x = np.array(self.solver.getSolution().col_value)
        if bound is not None:
            self.solver.deleteRows(1, np.array([bound], dtype=np.int32))
        if status == "Optimal":
            return x
        if status in STOPPED:
            return None
        raise SolverError(f"HiGHS: found status {status!r}, expected an optimum")

    def _whole(self, other: Flags, insider: Flags, goal: int) -> Ints | None:
        """A whole solution that reaches the goal; none (empty) if proved, None if not found."""
        from scipy.sparse import csr_array, vstack

        p = self.program
        more = [other.astype(float), *([insider.astype(float)] if insider.any() else [])]
        found = search(
            Program(
                cost=np.zeros(len(p.cost)),
                low=p.low,
                high=p.high,
                matrix=vstack([p.matrix, csr_array(np.array(more))], format="csr"),
                row_low=np.append(p.row_low, [float(goal), 1.0][: len(more)]),
                row_high=np.append(p.row_high, np.full(len(more), np.inf)),
                integer=True,
            ),
            nodes=NODES,
        )
        if found.x is not None:
            return np.asarray(np.rint(found.x), dtype=np.int64)
        return np.zeros(0, dtype=np.int64) if found.proved else None

    def _world(self, x: Ints, statements: Ints) -> bool:
        """Note what a whole point shows of open statements, if it is a world."""
        asked, of = self.search.asked, self.of
        change = x - self.true
        where = np.flatnonzero(change)
        world = _Witness(self.area[where], self.atom[where], change[where])
        if not of.fits(world.area, world.atom, world.change):
            return False
        left = statements[asked.said[statements] == OPEN]
        secret = of.atoms.secret[self.hide]
        size = int(of.atoms.secret.max()) + 1
        held = np.bincount(self.cell * size + secret, weights=x, minlength=len(of.first) * size)
        held = held.reshape(-1, size)[asked.cell[left]]
        theirs = held[np.arange(len(left)), asked.secret[left]]
        inside = asked.insider[left]
        knows = inside >= 0
        there = held[np.arange(len(left)), np.where(knows, inside, 0)] >= 1
        goal = 1 + (knows & (inside != asked.secret[left]))
        shown = (held.sum(axis=1) - theirs >= goal) & (there | ~knows)
        self.search.witness(left[shown], world)
        return True


def _counted(of: Worlds, asked: _Statements, found: Sequence[_Witness]) -> Audit:
    """The numbers of people behind the statements."""
    held = np.isin(asked.said, (PROVEN, UNDECIDED))
    outside = asked.insider < 0
    proven = np.zeros(len(of.first), dtype=bool)
    proven[asked.cell[held & outside]] = True
    inside = held & ~outside & ~proven[asked.cell]
    # Who has another secret is proven nothing of; among those who are alike each is, by another.
    others = of.people[asked.cell] - (asked.insider != asked.secret)
    told = np.zeros(len(of.first), dtype=np.int64)
    np.add.at(told, asked.cell[inside], others[inside])
    unsure = held & outside & (asked.said == UNDECIDED)
    unlike, proven_unlike = _unlike_their_leaf(of, proven)
    return Audit(
        people=int(of.n.sum()),
        unlike=unlike,
        proven=int(of.people[proven].sum()),
        proven_unlike=proven_unlike,
        insiders=int(told.sum()),
        certain=_certain(of, found),
        undecided=int(of.people[asked.cell[unsure]].sum()),
        statements=asked,
        worlds=tuple(found),
    )


def _by_leaf(of: Worlds) -> tuple[Ints, Ints, Ints, Ints]:
    """Leaf, number of the (area, key), secret and how many."""
    leaf, atom = (one.astype(np.int64) for one in of.leaf.coords)
    key = atom // of.atoms.hidden
    code = of.area[of.first] * of.atoms.keys + of.key[of.first]
    cell = np.searchsorted(code, of.of_leaf[leaf] * of.atoms.keys + key)
    return leaf, cell, of.atoms.secret[atom % of.atoms.hidden], of.leaf.data.astype(np.int64)


def _unlike_their_leaf(of: Worlds, proven: Flags) -> tuple[int, int]:
    """People whose secret is not their leaf's most frequent one (the first of equals)."""
    leaf, cell, secret, many = _by_leaf(of)
    if not len(leaf):
        return 0, 0
    size = int(of.atoms.secret.max()) + 1
    code, back = np.unique(leaf * size + secret, return_inverse=True)
    total = np.bincount(back, weights=many)
    order = np.lexsort((code, -total, code // size))
    first = order[np.flatnonzero(np.diff(code[order] // size, prepend=-1))]
    most = np.zeros(len(code), dtype=bool)
    most[first] = True
    unlike = ~most[back]
    return int(many[unlike].sum()), int(many[unlike & proven[cell]].sum())


def _certain(of: Worlds, found: Sequence[_Witness]) -> int:
    """Combinations of leaf, key and secret that no known world leaves without anybody.

    In a world the people of (a, k) can be placed at its leaves in any way: those with a secret are
    away from a leaf if they find room at the others.
    """
    leaf, cell, secret, many = _by_leaf(of)
    if not len(leaf):
        return 0
    size = int(of.atoms.secret.max()) + 1
    cells, shown, _ = of.secrets
    least = _least(of, found)
    here = np.searchsorted(cells * size + shown, cell * size + secret)
    _, back = np.unique(leaf * len(of.first) + cell, return_inverse=True)
    at_leaf = np.bincount(back, weights=many).astype(np.int64)[back]
    needed = least[here] > of.people[cell] - at_leaf
    return len(np.unique((leaf * len(of.first) + cell)[needed] * size + secret[needed]))


def _least(of: Worlds, found: Sequence[_Witness]) -> Ints:
    """For each cell and secret of the truth the fewest people in any known world."""
    size = int(of.atoms.secret.max()) + 1
    cells, shown, many = of.secrets
    code = cells * size + shown
    of_cell = of.area[of.first] * of.atoms.keys + of.key[of.first]
    least = many.copy()
    for world in found:
        if not len(world.area):
            continue
        cell = np.searchsorted(of_cell, world.area * of.atoms.keys + world.atom // of.atoms.hidden)
        wanted = cell * size + of.atoms.secret[world.atom % of.atoms.hidden]
        every, back = np.unique(wanted, return_inverse=True)
        change = np.bincount(back, weights=world.change).astype(np.int64)
        spot = np.asarray(np.searchsorted(code, every), dtype=np.int64)
        there = _at(code, spot, every)
        np.minimum.at(least, spot[there], many[spot[there]] + change[there])
    return least
