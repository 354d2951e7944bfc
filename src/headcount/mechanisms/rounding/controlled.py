"""Controlled rounding: multiples of a base that keep every sum, as near to the counts as can be.

    minimise    sum_i |a_i - z_i|
    subject to  every total is the sum of its parts, in a as in z
                a_i a multiple of b, a_i >= 0
                floor(z_i / b) b - K b <= a_i <= ceil(z_i / b) b + K b

where
    z    true counts
    a    published ones
    b    the base
    K    0, unless nothing fits; then as small as possible for each set of linked tables

With K = 0 a multiple of b stays as it is, and whoever sees a knows that z was in [0, b - 1] where
a = 0, else in [a - b + 1, a + b - 1]; each step more widens that by b (``cells.adjacent``). Nothing
is drawn: an intruder who works out which tables would become the same numbers can learn more.

Sets of cells that no relation links are solved one by one. The linear relaxation comes first: where
the relations are those of a network (a table of two dimensions, one of them nested) its corners are
whole, and that is the optimum; else an integer programme follows. Cox and Ernst 1982, "Controlled
rounding", INFOR 20(4); Salazar-Gonzalez 2006, "Controlled rounding and cell perturbation",
Mathematical Programming 105.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.errors import InputError
from headcount.mechanisms.rounding.cells import check_base, check_counts
from headcount.solve.mip import Program, SolverError, minimise, search
from headcount.tabulate import Counts
from headcount.tabulate.additive import Additive
from headcount.tabulate.linked_tables import all_values, link_tables
from headcount.tabulate.published import TableCells

TablePlace = tuple[str, str]
"""A table by its name, and a level."""
MOST_STEPS = 3
"""Steps beyond the adjacent multiples before tables count as impossible to round."""
WHOLE = 1e-6


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class _Controlled:
    """Rounded counts of all cells of linked tables.

    where
        counts    multiples of the base that add up
        steps     for each cell the K of the set that it is in
        proved    whether each set's distance was proved to be the smallest: not so where the
                  search of an integer programme was given up after its fixed number of nodes
    """

    counts: Ints
    steps: Ints
    proved: bool


def round_controlled(
    additive: Additive, counts: Ints, *, base: int, most_steps: int = MOST_STEPS
) -> _Controlled:
    """Round all cells so that every relation holds."""
    check_base(base)
    check_counts(counts)
    additive.check(counts)
    rounded, steps, proved = counts.copy(), np.zeros(additive.size, dtype=np.int64), True
    for block in _blocks(additive, np.ones(additive.size, dtype=bool)):
        answer = None
        for wider in range(most_steps + 1):
            answer = _block(additive, counts, block, base=base, wider=wider)
            if answer is not None:
                break
        if answer is None:
            raise InputError(
                "controlled rounding",
                place=f"the set of linked cells with cell {block[0]}",
                found=f"no rounding to base {base} within {most_steps} steps that keeps all sums",
                expected="another base, or fewer tables that share cells",
            )
        rounded[block], best = answer
        steps[block] = wider
        proved &= best
    additive.check(rounded)  # in whole numbers: what a solver says in decimals is not trusted
    return _Controlled(counts=rounded, steps=steps, proved=proved)


def _blocks(additive: Additive, free: Flags) -> Iterator[Ints]:
    """Sets of free cells that relations link to each other, directly or by way of others."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    row = np.repeat(np.arange(len(additive.total)), np.diff(additive.start))
    row = np.concatenate([row, np.arange(len(additive.total))])
    cell = np.concatenate([additive.part, additive.total])
    kept = free[cell]
    size = additive.size + len(additive.total)
    links = csr_array(
        (np.ones(int(kept.sum())), (cell[kept], additive.size + row[kept])), shape=(size, size)
    )
    label = connected_components(links, directed=False)[1][: additive.size]
    cells = np.flatnonzero(free)
    cells = cells[np.argsort(label[cells], kind="stable")]
    yield from np.split(cells, np.flatnonzero(np.diff(label[cells])) + 1) if len(cells) else ()


def _block(
    additive: Additive, counts: Ints, block: Ints, *, base: int, wider: int
) -> tuple[Ints, bool] | None:
    """One set of linked cells at some K, and whether it is proved optimal; None if nothing fits."""
    if wider:
        return _solve(additive, counts, block, base=base, wider=wider)
    inside = np.zeros(additive.size, dtype=bool)
    inside[block] = counts[block] % base > 0  # multiples stay, and cut the set into smaller ones
    rounded, proved = counts.copy(), True
    for some in _blocks(additive, inside):
        answer = _solve(additive, counts, some, base=base, wider=0)
        if answer is None:
            return None
        rounded[some], best = answer
        proved &= best
    return rounded[block], proved


def _solve(
    additive: Additive, counts: Ints, cells: Ints, *, base: int, wider: int
) -> tuple[Ints, bool] | None:
    program = _program(additive, counts, cells, base=base, wider=wider)
    relaxed = minimise(program)
    if relaxed is None:
        return None
    whole = np.rint(relaxed)
    proved = True
    if np.abs(relaxed - whole).max() > WHOLE or np.any(program.matrix @ whole != program.row_low):
        found = search(Program(**(vars(program) | {"integer": True})))
        if found.x is None and found.proved:
            return None
        if found.x is None:
            raise SolverError(
                "controlled rounding: the integer programme neither rounded some linked cells nor "
                "proved that they cannot be rounded. Publish fewer tables that share cells."
            )
        whole, proved = found.x, found.proved
    up, far, down = whole.astype(np.int64).reshape(3, len(cells))
    return (counts[cells] // base + up + far - down) * base, proved


def _program(additive: Additive, counts: Ints, cells: Ints, *, base: int, wider: int) -> Program:
    """The relaxation for some cells, with their multiples in three parts, k + up + far - down.

        minimise  sum (1 - 2 r / b) up + far + down
        0 <= up <= 1 where r > 0 and 0 else, 0 <= far <= K, 0 <= down <= K and <= k

    where z = k b + r, and distances are in units of b. Cells outside that share a relation with
    those inside are multiples of b, which stay, and so are part of the right hand side.
    """
    from scipy.sparse import hstack

    floor, rest = np.divmod(counts, base)
    used = np.unique(additive.columns[:, cells].indices)
    matrix = additive.matrix[used][:, cells]
    right = -(additive.matrix[used] @ floor)
    up = (rest[cells] > 0).astype(np.float64)
    ones = np.ones(len(cells))
    return Program(
        cost=np.concatenate([1 - 2 * rest[cells] / base, ones, ones]),
        low=np.zeros(3 * len(cells)),
        high=np.concatenate([up, wider * ones, np.minimum(floor[cells], wider).astype(np.float64)]),
        matrix=hstack([matrix, matrix, -matrix], format="csc"),
        row_low=right,
        row_high=right,
        integer=False,
    )


def controlled_tables(
    counts: Counts, made: Sequence[TableCells], *, base: int, lowest: str
) -> tuple[Mapping[TablePlace, Ints], int, bool]:
    """Rounded tables by (name, level); the most steps K; whether all were proved the nearest."""
    values = all_values(counts, tuple(cells.crossed for cells in made), lowest=lowest)
    found: dict[TablePlace, Ints] = {}
    steps, proved = 0, True
    for linked in link_tables(made, counts.geography, lowest=lowest):
        rounded = round_controlled(linked.additive, linked.gather(values), base=base)
        steps, proved = max(steps, int(rounded.steps.max(initial=0))), proved & rounded.proved
        found |= {where: rounded.counts[number] for where, number in linked.number.items()}
    return found, steps, proved
