"""What a draft reads, shown before it is used: first rows, places, levels, in true numbers.

These numbers are for whoever holds the data: they are shown, and written nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headcount.arrays import Ints, Ints32
from headcount.init.decide import Draft
from headcount.population import Population

ROWS, COLUMNS, SHOWN = 3, 8, 8
"""Rows and columns that are shown of the file, and places and levels of each."""


@dataclass(frozen=True)
class Preview:
    """What is shown.

    where
        header, rows   the first rows that are read, of the columns that are used
        places         for each level how many units it has, and the largest with their people
        levels         for each attribute its levels with their people
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    places: tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]
    levels: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]

    def lines(self) -> list[str]:
        """As text."""
        found = ["first rows:", f"  {' | '.join(self.header)}"]
        found += [f"  {' | '.join(row)}" for row in self.rows]
        for depth, (level, number, largest) in enumerate(self.places):
            found.append(f"{'  ' * depth}{level}: {number:,}{_listed(largest, number)}")
        for name, levels in self.levels:
            found.append(f"{name}: {len(levels)} levels{_listed(levels[:SHOWN], len(levels))}")
        return found


def _listed(some: tuple[tuple[str, int], ...], number: int) -> str:
    more = ", ..." if number > len(some) else ""
    return f" ({', '.join(f'{name} {people:,}' for name, people in some)}{more})"


def preview(made: Draft, people: Population) -> Preview:
    """What a draft has read."""
    counts = np.ones(len(people.unit), dtype=np.int64) if people.count is None else people.count
    cells = () if made.cells is None else tuple(made.cells.levels_of)
    own = [*made.places.columns, *(one.column for one in made.attributes), made.count, *cells]
    known = made.look.frame.columns
    columns = [one for one in dict.fromkeys(own) if one in known][:COLUMNS]
    frame = made.look.frame.select(columns)
    for column, values in made.exclude.items():
        if column in columns:
            frame = frame.filter(~frame[column].fill_null("").is_in(values))
    rows = tuple(tuple(str(one) for one in row) for row in frame.head(ROWS).iter_rows())
    codes = np.unravel_index(people.cell, people.schema.shape) if people.schema.names else ()
    levels = tuple(
        (one.name, tuple(zip(one.levels, _sums(code, counts, len(one.levels)), strict=True)))
        for one, code in zip(people.schema.attributes, codes, strict=True)
    )
    return Preview(tuple(columns), rows, _places(people, counts), levels)


def _sums(codes: Ints | Ints32, counts: Ints, size: int) -> list[int]:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, codes, counts)
    found: list[int] = sums.tolist()
    return found


def _places(
    people: Population, counts: Ints
) -> tuple[tuple[str, int, tuple[tuple[str, int], ...]], ...]:
    tree = people.geography
    found = []
    for level in tree.levels[1:]:
        own = tree.ancestors(level, of=tree.leaf)[people.unit]
        sums = _sums(own, counts, tree.size(level))
        largest = sorted(range(len(sums)), key=lambda k: -sums[k])[:SHOWN]
        names = tree.units[tree.depth(level)]
        some = tuple((str(names[k]), sums[k]) for k in largest)
        found.append((level, tree.size(level), some))
    return tuple(found)
