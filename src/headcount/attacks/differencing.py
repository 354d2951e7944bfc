"""The differencing attack: two divisions that overlap tell of the pieces between them.

Areas and squares of a grid cut each other into pieces that nobody publishes. A piece that is left
of a square when whole areas are taken away has the difference of published counts,

    x(piece) = x(square) - sum x(areas within it),

and with exact counts it is known. With changed ones each count is a range, and so is the piece:
the relations of both divisions at once give the narrowest one (see ``feasible_intervals``). Pieces
that are a whole area, or a whole square, are published, and what is said of both is true of both.

With exact counts it is the graph of overlaps that decides: areas and squares are its nodes, pieces
its edges. A piece that is a *bridge* of it (without it the graph falls into two) is known, in every
cell of every table that both publish: on one side of it areas less squares leave just this piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from headcount.arrays import Ends, Flags, Ints
from headcount.attacks._base import (
    Attack,
    ClaimedCounts,
    CountRanges,
    People,
    changed_tables,
)
from headcount.attacks.changed_cells import (
    INFORMED,
    UNINFORMED,
    NarrowedCells,
    NarrowedTables,
    adding_tables,
    hides_a_change,
    narrowed_tables,
)
from headcount.attacks.feasible_intervals import EFFORTS, Narrowing, intervals_around
from headcount.attacks.intervals import UNKNOWN, Contradiction, among, tighten
from headcount.engines import Engine
from headcount.errors import ConfigError, InputError, one_of
from headcount.fields import FilePath
from headcount.release import Release, TablesRelease
from headcount.release.crosswalk import Crosswalk, Division, by_leaf_codes, read_crosswalk
from headcount.release.published import cell_names
from headcount.release.store import read_release, release_folder
from headcount.report.finding import SUPPORTED, Support
from headcount.tabulate.additive import Additive, from_relations
from headcount.tabulate.published import TableCells

PIECE = "piece"
"""Stands for the level of pieces."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Pieces:
    """What both releases publish, and the pieces into which their units cut each other.

    where
        first, second   units of the two releases
        crosswalk       the units of each leaf
        overlaid        the pieces
        tables          those that both publish, by name
        chosen          the pieces that are attacked, of those that nobody publishes
    """

    first: Division
    second: Division
    crosswalk: Crosswalk
    overlaid: _Overlay
    tables: Mapping[str, TableCells]
    chosen: Ints

    @property
    def bridges(self) -> int:
        """How many pieces that nobody publishes are known where counts are exact."""
        return int(self.overlaid.known[self.overlaid.unpublished].sum())

    @cached_property
    def codes(self) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """For each chosen piece the codes of its unit in the first and in the second release."""
        leaf = np.full(self.overlaid.pieces, -1)
        leaf[self.overlaid.of_leaf] = np.arange(len(self.overlaid.of_leaf))
        own = leaf[self.chosen]
        return (
            self.first.codes[self.crosswalk.first[own]],
            self.second.codes[self.crosswalk.second[own]],
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Slivers(ClaimedCounts):
    """Ranges of the counts in pieces that neither release publishes (chosen pieces x cells)."""

    pieces: Pieces

    def frames(self, ids: pl.Series) -> Mapping[str, pl.DataFrame]:
        """A row for each piece, cell and attacker."""
        first, second = self.pieces.codes
        rows = []
        for one in self.ranges:
            for (table, _), low in one.low.items():
                names, width = cell_names(self.pieces.tables[table]), low.shape[1]
                rows.append(
                    pl.DataFrame(
                        {
                            "first": np.repeat(first, width),
                            "second": np.repeat(second, width),
                            "table": [table] * low.size,
                            "cell": names * len(low),
                            "attacker": [one.attacker] * low.size,
                            "low": low.ravel(),
                            "high": one.high[table, PIECE].ravel(),
                        }
                    )
                )
        return {"slivers": pl.concat(rows)}


@dataclass(frozen=True, kw_only=True)
class Difference(Attack):
    """Subtract units of two overlapping divisions, and bound the counts of the pieces.

    where
        other            the second release, of the same people with other units: a run or release
                         directory
        crosswalk        a table with the columns leaf, first and second: a leaf unit, and the
                         units of both releases that it lies in; not needed where both releases
                         have the same leaf units
        level            units of the first release; by default the finest that it publishes
        other_level      units of the second release; likewise
        largest_change   what the attacker knows of the largest change, where neither the releases
                         say it nor an evaluation gives him the settings; 0 if nothing
        effort           "relations": one sum at a time; "programs": linear programs; "whole":
                         integer programs besides
        steps            of the solver for each end of a count, with whole numbers; 1,000 take
                         about a second
        sample           pieces that are attacked by programs or whole numbers, drawn at random; 0
                         for all. By one sum at a time all are attacked
        seed             of the sample

    What an evaluation tells of the first release's settings is taken to hold for the second too.
    """

    name = "differencing"
    whole = True
    leaves = True
    at_least_0 = ("largest_change", "sample", "seed")
    at_least_1 = ("steps",)
    choices = EFFORTS
    other: FilePath | None = None
    crosswalk: FilePath | None = None
    level: str = ""
    other_level: str = ""
    largest_change: int = 0
    effort: Narrowing = "relations"
    steps: int = 10_000
    sample: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for place in ("other", "crosswalk"):
            if (path := getattr(self, place)) is not None:
                object.__setattr__(self, place, Path(path))
        super().__post_init__()
        if self.crosswalk is not None and self.other is None:
            raise ConfigError(
                self.name,
                place="crosswalk",
                found="it without a second release",
                expected="the setting other as well",
            )

    def supports(self, release: Release) -> Support:
        """Tables whose counts were changed, and another release to subtract."""
        if not (changed := changed_tables(release)):
            return changed
        if self.other is None:
            return Support("no second release with other units is given (the setting other)")
        return SUPPORTED

    def run(self, release: Release, people: People, *, engine: Engine | None = None) -> Slivers:
        """Claim what the count of each piece is at least and at most."""
        first, second = release.as_tables(), self._second()
        pieces = self.pieces(first, second)
        known = first.published[0].known
        told = replace(second, published=tuple(replace(o, known=known) for o in second.published))
        ranges = []
        if self.largest_change or not hides_a_change((*first.published, *told.published)):
            ranges.append(self._ranges(INFORMED, pieces, first, told))
        alone = first.without_settings(), second
        if hides_a_change(one for release in alone for one in release.published):
            ranges.append(replace(self, largest_change=0)._ranges(UNINFORMED, pieces, *alone))
        return Slivers(
            attack=self.name,
            title="Do overlapping areas give away those who live between them?",
            schema=release.schema,
            geography=release.geography,
            pieces=pieces,
            ranges=tuple(ranges),
            facts={
                "kind": self.name,
                "effort": self.effort,
                "pieces": pieces.overlaid.pieces,
                "not_published": len(pieces.overlaid.unpublished),
                "bridges": pieces.bridges,
                "attacked": len(pieces.chosen),
                "tables": list(pieces.tables),
            },
            words=(
                f"Units of {pieces.first.level} in one release and of {pieces.second.level} in "
                f"another cut each other into {pieces.overlaid.pieces:,} pieces, of which "
                f"{len(pieces.overlaid.unpublished):,} are not published by either; "
                f"{len(pieces.chosen):,} of these were attacked. Were all counts exact, "
                f"{pieces.bridges:,} of all these would be known in every cell. The attacker "
                "narrows what each published count may be by all sums of its release, then "
                "subtracts: a piece is what is left of a unit without its other pieces. A count "
                "whose range is one number is known for certain."
            ),
        )

    def _second(self) -> TablesRelease:
        assert self.other is not None  # supports says so
        found = read_release(release_folder(self.other)).unweighted()
        if not (support := changed_tables(found)):
            raise InputError(
                str(self.other), found=support.why_not, expected="tables whose counts were changed"
            )
        return found.as_tables()

    def pieces(self, first: TablesRelease, second: TablesRelease) -> Pieces:
        """The pieces of two releases, and the tables that both publish of them."""
        one = _division("the first release", first, self.level, "level")
        two = _division(str(self.other), second, self.other_level, "other_level")
        crosswalk = (
            by_leaf_codes(one, two)
            if self.crosswalk is None
            else read_crosswalk(self.crosswalk, one, two)
        )
        tables = {
            cells.table.name: cells
            for cells in _tables(first, one.level)
            for others in _tables(second, two.level)
            if first.schema == second.schema
            and replace(cells.table, lowest="") == replace(others.table, lowest="")
        }
        if not tables:
            raise InputError(
                two.name,
                place=f"level {two.level!r}",
                found=f"tables {_names(second, two.level)}",
                expected=f"a table that the first release publishes at {one.level!r}: "
                f"{_names(first, one.level)}, of the same attributes",
            )
        made = _overlay(crosswalk.first, crosswalk.second)
        chosen = made.unpublished
        if self.effort != "relations" and 0 < self.sample < len(chosen):
            order = np.random.default_rng(self.seed).permutation(len(chosen))
            chosen = np.sort(chosen[order[: self.sample]])
        return Pieces(
            first=one, second=two, crosswalk=crosswalk, overlaid=made, tables=tables, chosen=chosen
        )

    def _ranges(
        self, attacker: str, pieces: Pieces, first: TablesRelease, second: TablesRelease
    ) -> CountRanges:
        """Ranges of the chosen pieces, from those of both releases by their own sums."""
        largest = self.largest_change
        while True:
            both = [narrowed_tables(one, largest_change=largest) for one in (first, second)]
            try:
                return self._between(attacker, pieces, *both)
            except Contradiction:  # both together prove more than each of them
                if attacker == INFORMED:
                    raise
                largest = 1 + max(one.largest_change or 0 for one in both)

    def _between(
        self, attacker: str, pieces: Pieces, first: NarrowedTables, second: NarrowedTables
    ) -> CountRanges:
        low: dict[tuple[str, str], Ints] = {}
        high: dict[tuple[str, str], Ints] = {}
        attacked: dict[tuple[str, str], Flags] = {}
        for name, cells in pieces.tables.items():
            where = name, PIECE
            low[where], high[where] = _difference(
                pieces.overlaid,
                _ends(first, name, pieces.first.level),
                _ends(second, name, pieces.second.level),
                cells=cells,
                effort=self.effort,
                pieces=pieces.chosen,
                steps=self.steps,
            )
            attacked[where] = np.ones(low[where].shape, dtype=bool)
        return CountRanges(attacker=attacker, low=low, high=high, attacked=attacked)


def _ends(release: NarrowedTables, name: str, level: str) -> Ends:
    found = [one for one in release.published if isinstance(one, NarrowedCells)]
    own = {(one.name, one.level): one for one in found}[name, level]
    return own.low, own.high


def _division(source: str, release: TablesRelease, level: str, place: str) -> Division:
    levels = list(dict.fromkeys(one.level for one in release.published))
    if level and level not in levels:
        raise InputError(source, place=place, found=repr(level), expected=one_of(levels))
    return Division(name=source, geography=release.geography, level=level or release.finest)


def _tables(release: TablesRelease, level: str) -> list[TableCells]:
    """Tables of a level whose cells add up."""
    return [one.cells for one in adding_tables(release) if one.level == level]


def _names(release: TablesRelease, level: str) -> str:
    return ", ".join(cells.table.name for cells in _tables(release, level)) or "none"


@dataclass(frozen=True, eq=False, kw_only=True)
class _Overlay:
    """Two divisions and their pieces as cells that add up.

    where
        additive   cells are pieces first, then areas and squares that have more than one
        first      the cell of each area
        second     the cell of each square
        of_leaf    the piece in which each leaf unit lies
        known      whether each piece is known where counts are exact
    """

    additive: Additive
    first: Ints
    second: Ints
    of_leaf: Ints
    known: Flags

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        return int(self.of_leaf.max()) + 1

    @property
    def unpublished(self) -> Ints:
        """Pieces that are neither an area nor a square of their own: those to be attacked."""
        return np.setdiff1d(np.arange(self.pieces), np.concatenate([self.first, self.second]))

    def around(self, piece: int) -> Flags:
        """Whether each cell is a piece, its area, its square, or another piece of these."""
        close = np.zeros(self.additive.size, dtype=bool)
        close[piece] = True
        start = self.additive.start
        for number, total in enumerate(self.additive.total.tolist()):
            parts = self.additive.part[start[number] : start[number + 1]]
            if piece in parts:
                close[parts], close[total] = True, True
        return close


def _overlay(first: ArrayLike, second: ArrayLike) -> _Overlay:
    """Two divisions from the area and the square of each leaf unit, numbered from 0."""
    one, two = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    for name, labels in (("first", one), ("second", two)):
        if labels.shape != one.shape or not len(labels) or labels.min() != 0:
            raise InputError(
                "divisions",
                place=name,
                found=f"{labels.shape} numbers",
                expected="a number from 0 on for each leaf unit, the same units in both",
            )
        if len(np.unique(labels)) != labels.max() + 1:
            raise InputError(
                "divisions", place=name, found="a number without a unit", expected="all in use"
            )
    pairs, of_leaf = np.unique(np.stack([one, two]), axis=1, return_inverse=True)
    size, relations, cells = pairs.shape[1], [], []
    for labels in pairs:
        own = np.empty(int(labels.max()) + 1, dtype=np.int64)
        for label in range(len(own)):
            inside = np.flatnonzero(labels == label)
            if len(inside) == 1:  # the same people
                own[label] = inside[0]
            else:
                own[label] = size
                relations.append((size, inside.tolist()))
                size += 1
        cells.append(own)
    return _Overlay(
        additive=from_relations(size, relations),
        first=cells[0],
        second=cells[1],
        of_leaf=of_leaf.reshape(-1).astype(np.int64),
        known=bridges(*pairs),
    )


def bridges(first: Ints, second: Ints) -> Flags:
    """Which edges of a graph of areas and squares are bridges, in linear time (Tarjan 1974).

    where
        first, second   the area and the square of each edge, no pair of them twice

    Nodes are numbered in the order in which a search in depth comes to them. An edge down to a node
    is a bridge if from there on no edge but itself leads to a smaller number than the node's own.
    """
    areas = int(first.max(initial=-1)) + 1
    ends = np.stack([first, areas + second]).T
    nodes = int(ends.max(initial=-1)) + 1
    order = np.argsort(ends.ravel(), kind="stable")
    begin = np.searchsorted(ends.ravel()[order], np.arange(nodes + 1)).tolist()
    edge_at, ends_of = (order // 2).tolist(), ends.tolist()
    number, lowest = [0] * nodes, [0] * nodes
    found = np.zeros(len(first), dtype=bool)
    come = 0
    following = begin[:-1]
    for root in range(nodes):
        if number[root]:
            continue
        come += 1
        number[root] = lowest[root] = come
        path = [(root, -1)]
        while path:
            node, by = path[-1]
            if following[node] < begin[node + 1]:
                edge = edge_at[following[node]]
                following[node] += 1
                one, other = ends_of[edge]
                there = other if one == node else one
                if edge == by:
                    continue
                if number[there]:
                    lowest[node] = min(lowest[node], number[there])
                else:
                    come += 1
                    number[there] = lowest[there] = come
                    path.append((there, edge))
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                    found[by] = lowest[node] > number[above]
    return found


def _difference(
    overlaid: _Overlay,
    first: Ends,
    second: Ends,
    *,
    cells: TableCells | None = None,
    effort: Narrowing = "programs",
    pieces: ArrayLike | None = None,
    steps: int = 10_000,
) -> Ends:
    """The narrowest ranges of the pieces that nobody publishes (pieces x cells).

    where
        first    smallest and largest count of each area (areas x cells)
        second   smallest and largest count of each square (squares x cells)
        cells    the table that both publish, whose own sums hold in every piece too; by default
                 one count for each place
        pieces   those that are attacked; by default all that nobody publishes

    Programs for a piece take the sums of its area and of its square, and of their other pieces:
    what lies farther is taken one sum at a time.
    """
    width = 1 if cells is None else cells.size
    additive = _of_table(overlaid.additive, cells, width)
    low = np.zeros((overlaid.additive.size, width), dtype=np.int64)
    high = np.full((overlaid.additive.size, width), UNKNOWN)
    for place, (least, most) in ((overlaid.first, first), (overlaid.second, second)):
        np.maximum.at(low, place, np.reshape(least, (len(place), width)))
        np.minimum.at(high, place, np.reshape(most, (len(place), width)))
    asked = overlaid.unpublished if pieces is None else np.asarray(pieces, dtype=np.int64)
    wanted = (asked[:, None] * width + np.arange(width)).ravel()
    least, most = tighten(additive, low.ravel(), high.ravel())
    around = [
        (
            among(additive, np.repeat(overlaid.around(piece), width)),
            piece * width + np.arange(width),
        )
        for piece in (asked.tolist() if effort != "relations" else ())
    ]
    found = intervals_around(around, least, most, wanted, effort, steps)
    return found.low.reshape(-1, width), found.high.reshape(-1, width)


def _of_table(places: Additive, cells: TableCells | None, width: int) -> Additive:
    """Every place x cell: places add up in each cell, and cells in each place."""
    column = np.arange(width)
    own = np.repeat(np.diff(places.start), width)
    parts = [
        (places.part[a:b, None] * width + column).T.ravel()
        for a, b in pairwise(places.start.tolist())
    ]
    total = [(places.total[:, None] * width + column).ravel()]
    lengths, place = [own], np.arange(places.size) * width
    if cells is not None and cells.relations.shape[0]:
        for row in cells.relations.toarray():
            inside = np.flatnonzero(row > 0)
            total.append(place + int(np.flatnonzero(row < 0)[0]))
            lengths.append(np.full(places.size, len(inside)))
            parts.append((place[:, None] + inside).ravel())
    return Additive(
        size=places.size * width,
        total=np.concatenate(total),
        start=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        part=np.concatenate([np.empty(0, dtype=np.int64), *parts]),
        unit=np.repeat(np.arange(places.size), width),
        parent=np.full(places.size, -1),
    )
