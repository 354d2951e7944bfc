"""Exact beside released answers to a query: what errors are taken of.

At each level the total, each attribute and every cell are asked for. The truth's side is worked out
once for all releases that are held against it. A release of tables publishes sums of cells: where
the tables of a level publish every group of a query, the answer can be set beside that of a
release of counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from headcount.arrays import Flags, Ints
from headcount.evaluation.representation import SIZE_BANDS
from headcount.evaluation.tally import (
    SUMS,
    CellSet,
    CountPairs,
    band_bounds,
    pair_counts,
    sums_by,
    tally,
)
from headcount.geography import Geography
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.release.layout import LevelTable
from headcount.release.published import PublishedCells
from headcount.release.readers_estimate import ReadersEstimate
from headcount.schema import Schema
from headcount.tabulate import CELLS, TOTAL, Counts, Query, every_cell
from headcount.tabulate.published import TableCells

PAIRS_AT_ONCE = 1 << 22
"""Counts that are not zero, of both sides together, that are compared at once."""
MOST_KEPT = 1 << 22
"""Answers of more counts that are not zero are worked out again: they would fill the memory."""
_KEPT: WeakKeyDictionary[Counts, dict[Any, Any]] = WeakKeyDictionary()
"""By counts, for as long as somebody holds them."""


def _answers(
    counts: Counts, release: Release, level: str, cells: CellSet, *, only: Sequence[str] = ()
) -> Iterator[tuple[Query, CountPairs]]:
    """Exact beside released answers at a level: the total, each attribute, every cell.

    ``only`` are the names of the queries that are wanted; all if empty. Tables give the answers
    that they publish.
    """
    yield from answers_to(counts, release, level, cells, _queries(release.schema, only))


def answers_to(
    counts: Counts, release: Release, level: str, cells: CellSet, queries: Sequence[Query]
) -> Iterator[tuple[Query, CountPairs]]:
    """Exact beside released answers to some queries at a level; of tables those they publish."""
    schema = release.schema
    if isinstance(release, TablesRelease):
        yield from published_answers(counts, release, level, queries, cells)
        return
    if isinstance(release, ReadersEstimate):
        yield from _estimated_answers(counts, release, level, cells, queries)
        return
    clipped = release.clipped_after_summing
    released = release.table(level)
    missing = release.as_counts().missing_at(level)
    for query in queries:
        answer = possible_answer(query, schema)
        gone = None if missing is None else (missing @ answer) > 0
        exact = true_answers(counts, level, query, schema)
        yield query, _pairs(exact, released, answer, cells, clipped, missing=gone)


def tallied_answers(
    counts: Counts, release: Release, level: str, cells: CellSet, *, only: Sequence[str] = ()
) -> Iterator[tuple[Query, CountPairs]]:
    """The same as ``_answers``, but of a table too large to be held twice: pairs without places.

    It is then read some units at a time.
    """
    told = isinstance(release, TablesRelease | ReadersEstimate)
    if told or release.as_counts().missing_at(level) is not None:
        yield from _answers(counts, release, level, cells, only=only)
        return
    truth, table = _counts_at(counts, level).matrix, release.table(level)
    if len(runs := _runs(truth, table)) < 2:
        yield from _answers(counts, release, level, cells, only=only)
        return
    clipped = release.clipped_after_summing
    for query in _queries(release.schema, only):
        answer = possible_answer(query, release.schema)
        pieces = (
            _pairs(truth[some] @ answer, table[some], answer, cells, clipped) for some in runs
        )
        yield query, tally(pieces, cells, by_column=len(query.by) == 1)


def _queries(schema: Schema, only: Sequence[str]) -> list[Query]:
    """The total, each attribute, every cell; or those of them that are named."""
    queries = [TOTAL, *(Query(name, (name,)) for name in schema.names)]
    if len(schema.attributes) > 1:
        queries.append(every_cell(schema))
    return [one for one in queries if not only or one.name in only]


def _pairs(
    exact: Any,
    released: Any,
    answer: Any,
    cells: CellSet,
    clipped: bool,
    *,
    missing: Any = None,
) -> CountPairs:
    """Exact beside released answers of some units."""
    made: Any = released @ answer
    if clipped:
        made = np.maximum(made, 0) if isinstance(made, np.ndarray) else made.maximum(0)
    return pair_counts(exact, made, cells=cells, missing=missing)


def _runs(truth: Any, released: LevelTable) -> list[slice]:
    """Runs of units with about as many counts that are not zero; one if all are few, or dense."""
    if isinstance(released, np.ndarray) or not np.issubdtype(released.dtype, np.integer):
        return [slice(None)]
    ends = truth.indptr.astype(np.int64) + released.indptr
    pieces = -(-int(ends[-1]) // PAIRS_AT_ONCE)
    targets = np.arange(1, pieces) * (int(ends[-1]) // max(pieces, 1))
    cuts = [0, *np.unique(np.searchsorted(ends, targets)).tolist(), len(ends) - 1]
    return [slice(a, b) for a, b in pairwise(cuts) if a < b]


def _counts_at(counts: Counts, level: str) -> Counts:
    """``counts.at(level)``, kept."""
    if level == counts.level:
        return counts
    kept = _KEPT.setdefault(counts, {})
    found: Counts | None = kept.get(level)
    if found is None:
        found = counts.at(level)
        if found.matrix.nnz <= MOST_KEPT:
            kept[level] = found
    return found


def possible_groups(query: Query, schema: Schema) -> np.ndarray[Any, Any]:
    """The groups of an answer that can hold anyone, by number."""
    return np.unique(query.groups(schema)[schema.possible])


def possible_answer(query: Query, schema: Schema) -> Any:
    """What a query adds up, without the groups that nobody can be in."""
    return query.matrix(schema)[:, possible_groups(query, schema)]


def group_names(query: Query, schema: Schema) -> list[str]:
    """Names of the groups that can hold anyone, of a query by one attribute."""
    (attribute,) = query.attributes(schema)
    return [attribute.levels[number] for number in possible_groups(query, schema)]


def true_answers(counts: Counts, level: str, query: Query, schema: Schema) -> Any:
    """The exact answers to a query at a level, groups that nobody can be in left out; kept."""
    kept = _KEPT.setdefault(counts, {})
    key = (level, query, schema)
    if (found := kept.get(key)) is None:
        found = _counts_at(counts, level).matrix @ possible_answer(query, schema)
        if found.nnz <= MOST_KEPT:
            kept[key] = found
    return found


def published_answers(
    counts: Counts, release: TablesRelease, level: str, queries: Sequence[Query], cells: CellSet
) -> Iterator[tuple[Query, CountPairs]]:
    """Each query that the tables of a level answer in full, exact beside published.

    A count that several tables publish is taken from the first of them; one that is withheld is
    missing.
    """
    value, withheld, known = _published(release, level)
    if value is None:
        return
    for query in queries:
        answer = possible_answer(query, release.schema)
        found = [known.get(name) for name in counted_people(answer, release.schema)]
        if None in found:
            continue
        columns = np.array(found, dtype=np.int64)
        yield (
            query,
            pair_counts(
                true_answers(counts, level, query, release.schema),
                value[:, columns],
                cells=cells,
                missing=withheld[:, columns],
            ),
        )


def _estimated_answers(
    counts: Counts, release: ReadersEstimate, level: str, cells: CellSet, queries: Sequence[Query]
) -> Iterator[tuple[Query, CountPairs]]:
    """Exact beside estimated answers; where tables answer a query, what they show is taken."""
    value: Any = None
    withheld: Any = None
    known: dict[bytes, int] = {}
    tables = release.read.geography
    if level in tables.levels:
        depth, own = tables.depth(level), release.geography.depth(level)
        if np.array_equal(tables.units[depth], release.geography.units[own]):
            value, withheld, known = _published(release.read, level)
    for query in queries:
        answer = possible_answer(query, release.schema)
        made: Any = release.table(level) @ answer
        names = counted_people(answer, release.schema) if known else iter([b""])
        found = [known.get(name) for name in names]
        if None not in found:
            columns = np.array(found, dtype=np.int64)
            made = np.where(withheld[:, columns], made.toarray(), value[:, columns])
        exact = true_answers(counts, level, query, release.schema)
        yield query, pair_counts(exact, made, cells=cells)


def _published(release: TablesRelease, level: str) -> tuple[Any, Any, dict[bytes, int]]:
    """All values of a level side by side, which are withheld, and the column of each count."""
    here = [one for one in release.published if one.level == level]
    if not here:
        return None, None, {}
    value: Ints = np.hstack([one.value for one in here])
    withheld: Flags = np.hstack([one.withheld for one in here])
    names = (name for one in here for name in counted_people(one.cells.matrix, release.schema))
    known: dict[bytes, int] = {}
    for column, name in enumerate(names):
        known.setdefault(name, column)
    return value, withheld, known


def counted_people(matrix: Any, schema: Schema) -> Iterator[bytes]:
    """Whom each column counts: the same bytes for columns that count the same people."""
    by_column = matrix[np.flatnonzero(schema.possible)].tocsc()
    by_column.sort_indices()
    ends = by_column.indptr
    for column in range(by_column.shape[1]):
        part = slice(ends[column], ends[column + 1])
        rows = by_column.indices[part].astype(np.int64).tobytes()
        yield rows + by_column.data[part].astype(np.int64).tobytes()


def shown_as_tables(
    release: CountsRelease, tables: Sequence[tuple[TableCells, str]]
) -> tuple[PublishedCells, ...]:
    """Tables at their levels as the counts of a release make them, to the nearest whole person."""
    found = []
    for cells, level in tables:
        made: Any = release.table(level) @ cells.matrix
        value = np.asarray(made if isinstance(made, np.ndarray) else made.toarray())
        whole = np.rint(value).astype(np.int64)
        found.append(
            PublishedCells(
                cells=cells, level=level, value=whole, withheld=np.zeros(whole.shape, dtype=bool)
            )
        )
    return tuple(found)


COUNT_BANDS = (1, 10, 100, 1_000, 10_000)
"""Edges of the sizes of a count: nobody, 1 to 9 people, and so on."""
MOST_LARGEST = 20
EVERYONE, EVERY_CELL = "everyone", "every cell"
"""What stands for an attribute where people are not told apart, and where they are by all."""

_BANDED = {"low": pl.Int64, "high": pl.Int64, **SUMS}

_GROUP = {"level": pl.String, "attribute": pl.String, "group": pl.String}
_LARGEST = {
    **_GROUP,
    "unit": pl.String,
    "truth": pl.Float64,
    "released": pl.Float64,
    "error": pl.Float64,
}
_SPREAD = {
    "level": pl.String,
    "attribute": pl.String,
    "median": pl.Float64,
    "p95": pl.Float64,
    "largest": pl.Float64,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Breakdown:
    """Errors of one release; computed from the truth, and as confidential.

    where
        by_place   a row for each level, attribute, group and band of people in the unit
        by_count   a row for each level, attribute and band of the true count itself
        spread     a row for each level and attribute: median, 95th percentile and largest error
        largest    the largest errors of all, with where they are

    The columns of sums are those of ``sums_by``. The last band is open: its ``high`` is null.
    """

    by_place: pl.DataFrame
    by_count: pl.DataFrame
    spread: pl.DataFrame
    largest: pl.DataFrame

    @classmethod
    def nothing(cls) -> Breakdown:
        """Of a release that has no counts to be compared."""
        return cls(
            by_place=pl.DataFrame(schema={**_GROUP, **_BANDED}),
            by_count=pl.DataFrame(schema={"level": pl.String, "attribute": pl.String, **_BANDED}),
            spread=pl.DataFrame(schema=_SPREAD),
            largest=pl.DataFrame(schema=_LARGEST),
        )


def break_down(
    counts: Counts,
    release: Release,
    *,
    cells: CellSet = "all",
    edges: Sequence[int] = SIZE_BANDS,
) -> Breakdown:
    """Compare released with exact counts: totals, each attribute and every cell, at all levels."""
    schema, geography = release.schema, release.geography
    places, sizes, spread, largest = [], [], [], []
    for level in geography.levels:
        band = np.searchsorted(edges, _counts_at(counts, level).totals(), side="right")
        for query, pairs in _answers(counts, release, level, cells):
            if not pairs.n:
                continue
            attribute = _attribute_of(query)
            # All cells are one group, because they are too many.
            names = group_names(query, schema) if len(query.by) == 1 else [attribute]
            about = {"level": level, "attribute": attribute}
            place = _by_place(pairs, band, groups=len(names), edges=edges)
            places += [{**about, "group": names[group], **row} for group, row in place]
            sizes += [{**about, **row} for row in _by_count(pairs)]
            found = pairs.summary()
            spread.append(
                {
                    **about,
                    "median": found.median_absolute,
                    "p95": found.p95_absolute,
                    "largest": found.max_absolute,
                }
            )
            if query.name != CELLS:
                largest += [{**about, **row} for row in _largest(pairs, names, geography, level)]
    top = pl.DataFrame(largest, schema=_LARGEST).sort(
        pl.col("error").abs(), descending=True, maintain_order=True
    )
    nothing = Breakdown.nothing()
    return Breakdown(
        by_place=pl.DataFrame(places, schema=nothing.by_place.schema),
        by_count=pl.DataFrame(sizes, schema=nothing.by_count.schema),
        spread=pl.DataFrame(spread, schema=_SPREAD),
        largest=top.head(MOST_LARGEST),
    )


def _attribute_of(query: Query) -> str:
    """What tells the groups of a query apart."""
    if query.name == CELLS:
        return EVERY_CELL
    return query.name if query.by else EVERYONE


def _by_place(
    pairs: CountPairs, band: Ints, *, groups: int, edges: Sequence[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Sums by group and by people in the unit; bands without a unit are left out."""
    columns, bands = pairs.shape[1], len(edges) + 1

    def key_of(place: Ints) -> Ints:
        group = place % columns if groups > 1 else np.zeros_like(place)
        found: Ints = group * bands + band[place // columns]
        return found

    every, keys = None, groups * bands
    if pairs.cells == "all":
        units = np.bincount(band, minlength=bands) * (1 if groups > 1 else columns)
        every = np.tile(units, groups) - np.bincount(key_of(pairs.missing), minlength=keys)
    for number, row in _rows(sums_by(pairs, key_of(pairs.place), keys=keys, counts=every)):
        yield number // bands, {**band_bounds(number % bands, edges), **row}


def _by_count(pairs: CountPairs) -> Iterator[dict[str, Any]]:
    """Sums by the true count; counts that are zero on both sides are in the first band."""
    key = np.searchsorted(COUNT_BANDS, pairs.truth, side="right")
    for number, row in _rows(sums_by(pairs, key, keys=len(COUNT_BANDS) + 1)):
        yield {**band_bounds(number, COUNT_BANDS), **row}


def _rows(sums: Mapping[str, NDArray[Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The classes that have any counts, by number."""
    for number in np.flatnonzero(sums["counts"]).tolist():
        yield number, {name: column[number].item() for name, column in sums.items()}


def _largest(
    pairs: CountPairs, names: Sequence[str], geography: Geography, level: str
) -> Iterator[dict[str, Any]]:
    error = pairs.residuals()
    most = min(MOST_LARGEST, error.size)
    top = np.argpartition(-np.abs(error), most - 1)[:most] if most else np.empty(0, dtype=np.int64)
    for at in top[error[top] != 0].tolist():
        unit, group = divmod(int(pairs.place[at]), pairs.shape[1])
        yield {
            "group": names[group],
            "unit": str(geography.units[geography.depth(level)][unit]),
            "truth": float(pairs.truth[at]),
            "released": float(pairs.released[at]),
            "error": float(error[at]),
        }
