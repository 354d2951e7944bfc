"""Exact beside released answers to a query: what errors are taken of.

At each level the total, each attribute and every cell are asked for. The truth's side is worked out
once for all releases that are held against it. A release of tables publishes sums of cells: where
the tables of a level publish every group of a query, the answer can be set beside that of a
release of counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.evaluation.tally import CellSet, ComparedPairs, CountPairs, pair_counts, tally
from headcount.release import CountsRelease, Release, TablesRelease
from headcount.release.frames import LevelTable
from headcount.release.published import PublishedCells
from headcount.schema import Schema
from headcount.tabulate import TOTAL, Counts, Query, every_cell
from headcount.tabulate.published import TableCells

PAIRS_AT_ONCE = 1 << 22
"""Counts that are not zero, of both sides together, that are compared at once."""
MOST_KEPT = 1 << 22
"""Answers of more counts that are not zero are worked out again: they would fill the memory."""
_KEPT: WeakKeyDictionary[Counts, dict[Any, Any]] = WeakKeyDictionary()
"""By counts, for as long as somebody holds them."""


def answers(
    counts: Counts, release: Release, level: str, cells: CellSet, *, only: Sequence[str] = ()
) -> Iterator[tuple[Query, CountPairs]]:
    """Exact beside released answers at a level: the total, each attribute, every cell.

    ``only`` are the names of the queries that are wanted; all if empty. Tables give the answers
    that they publish.
    """
    schema, queries = release.schema, _queries(release.schema, only)
    if isinstance(release, TablesRelease):
        yield from published_answers(counts, release, level, queries, cells)
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
) -> Iterator[tuple[Query, ComparedPairs]]:
    """The same as ``answers``, but of a table too large to be held twice: pairs without places.

    It is then read some units at a time.
    """
    if isinstance(release, TablesRelease) or release.as_counts().missing_at(level) is not None:
        yield from answers(counts, release, level, cells, only=only)
        return
    truth, table = counts_at(counts, level).matrix, release.table(level)
    if len(runs := _runs(truth, table)) < 2:
        yield from answers(counts, release, level, cells, only=only)
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


def counts_at(counts: Counts, level: str) -> Counts:
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
        found = counts_at(counts, level).matrix @ possible_answer(query, schema)
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
