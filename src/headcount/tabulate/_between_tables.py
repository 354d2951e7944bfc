"""How cells of one table are made up of cells of others: what an attacker adds and subtracts.

P12 is the sum of P12A to P12G, a group of ages in P12 that of single years in P14; and P4, of 18
and over, is a part of P2, though no table counts the rest. Such a *rest* is a cell like any other,
but never published: all that is known of it is that it is not negative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from headcount.arrays import Ints
from headcount.tabulate.published import TableCells


@dataclass(frozen=True, kw_only=True)
class Sum:
    """A column that is the sum of columns of other tables, which are ``sources``.

    ``rest`` is the column among ``parts`` that no table has, -1 if they make up the total.
    """

    total: int
    parts: tuple[int, ...]
    rest: int
    sources: frozenset[int]


def sums_between(tables: Sequence[TableCells], columns: Sequence[Ints]) -> tuple[Sum, ...]:
    """Sums that hold between tables, besides those within each.

    ``columns`` numbers the cells of each table, the same for cells that count the same people. The
    detail of each table is made up from tables with the same axes, in their order, as far as these
    go; a rest is left out where a margin of some table is made up, since it follows from the
    detail. Groups of which neither holds the other (0-4 and 3-9) are not compared.
    """
    people = _people(tables, columns)
    inside = _inside(tables, columns)
    alike = [[(j, _detail(tables[j], columns[j])) for j in kin] for kin in _alike(tables)]
    margins = {int(c) for one, own in zip(tables, columns, strict=True) for c in own[~one.inner]}
    number = {who: column for column, who in people.items()}
    new = count(1 + max(people, default=0))
    found: dict[tuple[int, ...], Sum] = {}
    for i, cells in enumerate(tables):
        for total in columns[i][cells.inner].tolist():
            for taken, left in _sums_of(total, i, alike, inside, people, columns):
                parts, sources = [column for column, _ in taken], {i, *(j for _, j in taken)}
                if left and total in margins:
                    continue
                if left:
                    parts.append(number[left] if left in number else next(new))
                    number[left] = parts[-1]
                if left and parts[-1] in people:
                    sources.add(_holder(parts[-1], tables, columns))
                found.setdefault(
                    (total, *sorted(parts)),
                    Sum(
                        total=total,
                        parts=tuple(parts),
                        rest=-1 if parts[-1] in people else parts[-1],
                        sources=frozenset(sources),
                    ),
                )
    return tuple(found.values())


def _holder(column: int, tables: Sequence[TableCells], columns: Sequence[Ints]) -> int:
    """A table that has a column, one that goes down to the blocks if possible."""
    having = [i for i, own in enumerate(columns) if column in own]
    return min(having, key=lambda i: (tables[i].table.lowest != "block", i))


def _people(tables: Sequence[TableCells], columns: Sequence[Ints]) -> dict[int, int]:
    """For each column the cells of the schema that it counts, as the bits of a number."""
    people: dict[int, int] = {}
    for cells, own in zip(tables, columns, strict=True):
        by_cell = cells.matrix.tocsc()
        for i, column in enumerate(own.tolist()):
            if column not in people:
                inside = np.zeros(by_cell.shape[0], dtype=np.uint8)
                inside[by_cell.indices[by_cell.indptr[i] : by_cell.indptr[i + 1]]] = 1
                people[column] = int.from_bytes(np.packbits(inside).tobytes(), "big")
    return people


def _inside(tables: Sequence[TableCells], columns: Sequence[Ints]) -> dict[int, set[int]]:
    """For each column the others that count some of its people and nobody else."""
    from scipy.sparse import coo_array, hstack

    every, first = np.unique(np.concatenate([*columns, np.empty(0, int)]), return_index=True)
    if not len(every):
        return {}
    member = hstack([one.matrix for one in tables], format="csc")[:, first]
    size = np.asarray(member.sum(axis=0)).ravel()
    both = coo_array(member.T @ member)
    part, whole = both.coords
    held = (both.data == size[part]) & (part != whole)
    found: dict[int, set[int]] = {int(column): set() for column in every}
    for a, b in zip(every[part[held]].tolist(), every[whole[held]].tolist(), strict=True):
        found[b].add(a)
    return found


def _detail(cells: TableCells, columns: Ints) -> list[int]:
    return [int(column) for column in columns[cells.inner]]


def _sums_of(
    total: int,
    own: int,
    alike: Sequence[Sequence[tuple[int, Sequence[int]]]],
    inside: Mapping[int, set[int]],
    people: Mapping[int, int],
    columns: Sequence[Ints],
) -> Iterator[tuple[list[tuple[int, int]], int]]:
    """Ways to make up a column: the (column, table) pairs taken, and who is left."""
    whole, parts = people[total], inside[total]
    for kin in alike:
        pool = [(c, j) for j, detail in kin if j != own for c in detail if c in parts]
        while pool:
            left, taken = whole, []
            for c, j in pool:
                if not people[c] & ~left:
                    taken.append((c, j))
                    left &= ~people[c]
            pool = [one for one in pool if one not in taken]
            within = {j for _, j in taken}
            # A table's own margins are known already.
            if left or len(within) > 1 or total not in columns[next(iter(within))]:
                yield taken, left


def _alike(tables: Sequence[TableCells]) -> list[list[int]]:
    """Tables by their axes: iterations of one table stand together."""
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for i, cells in enumerate(tables):
        groups.setdefault(tuple((axis.role, axis.name) for axis in cells.axes), []).append(i)
    return list(groups.values())
