"""Exact beside published answers of tables whose counts are changed.

A table publishes sums of cells. Where the tables of a level publish every group of a query (the
total, an attribute, every cell), the answer can be set beside that of a release of counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headcount.arrays import Flags, Ints
from headcount.evaluation._true_answers import possible_answer, true_answers
from headcount.evaluation.error import CellSet, CountPairs, pair_counts
from headcount.release import CountsRelease, TablesRelease
from headcount.release.published import PublishedCells
from headcount.schema import Schema
from headcount.tabulate import Counts, Query
from headcount.tabulate.published import TableCells


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
