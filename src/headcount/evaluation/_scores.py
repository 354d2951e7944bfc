"""Scores of a release against the truth: every level, the total, each attribute, every cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from headcount.errors import InputError
from headcount.evaluation._relative import beside_size
from headcount.evaluation._tallied import ComparedPairs, tally
from headcount.evaluation._true_answers import (
    counts_at,
    possible_answer,
    possible_groups,
    true_answers,
)
from headcount.evaluation.error import CellSet, CountPairs, pair_counts
from headcount.evaluation.published_answers import published_answers
from headcount.release import Release, TablesRelease
from headcount.release.frames import LevelTable
from headcount.schema import Schema
from headcount.tabulate import TOTAL, Counts, Query, every_cell

PAIRS_AT_ONCE = 1 << 22
"""Counts that are not zero, of both sides together, that are compared at once."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """How far a release is from the truth.

    Computed from the truth: for the curator, never for publication unless the data are public.

    where
        errors       a row for each level and query
        groups       a row for each level and level of an attribute: the counts of that group, one
                     a unit; empty for a schema without attributes
    """

    cells: CellSet
    errors: pl.DataFrame
    groups: pl.DataFrame


def score(counts: Counts, release: Release, *, cells: CellSet = "all") -> Scores:
    """Compare released with exact counts on a set of counts: see `headcount.evaluation.error`.

    Structural zeros belong to no set. Where a release is to be clipped at 0 after summing, as the
    noisy histogram says of itself, its answers are.
    """
    if not counts.matrix.count_nonzero():
        raise InputError("release", found="only counts of 0", expected="at least one person")
    errors: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    for level in release.geography.levels:
        for query, pairs in tallied_answers(counts, release, level, cells):
            if not pairs.n:
                continue
            errors.append({"level": level, "query": query.name, **_row(pairs)})
            if len(query.by) == 1:
                groups += _group_rows(level, query, release.schema, pairs)
    return Scores(
        cells=cells,
        errors=pl.DataFrame(errors, infer_schema_length=None),
        groups=_frame(groups, errors),
    )


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


def _runs(truth: Any, released: LevelTable) -> list[slice]:
    """Runs of units with about as many counts that are not zero; one if all are few, or dense."""
    if isinstance(released, np.ndarray) or not np.issubdtype(released.dtype, np.integer):
        return [slice(None)]
    ends = truth.indptr.astype(np.int64) + released.indptr
    pieces = -(-int(ends[-1]) // PAIRS_AT_ONCE)
    targets = np.arange(1, pieces) * (int(ends[-1]) // max(pieces, 1))
    cuts = [0, *np.unique(np.searchsorted(ends, targets)).tolist(), len(ends) - 1]
    return [slice(a, b) for a, b in pairwise(cuts) if a < b]


def _row(pairs: ComparedPairs) -> dict[str, Any]:
    """Figures of a set of counts: what is counted, then its errors, then what is missing."""
    error, size = asdict(pairs.summary()), asdict(beside_size(pairs))
    first = {"cells": error.pop("cells"), "n": error.pop("n")}
    sizes = {name: size.pop(name) for name in ("mean_count", "median_count")}
    error.pop("sign")
    return {**first, **sizes, **error, **size}


def _group_rows(
    level: str, query: Query, schema: Schema, pairs: ComparedPairs
) -> Iterator[dict[str, Any]]:
    (attribute,) = query.attributes(schema)
    names = [attribute.levels[number] for number in possible_groups(query, schema)]
    columns: Iterator[ComparedPairs] = pairs.columns()
    for name, own in zip(names, columns, strict=True):
        if own.n:
            yield {"level": level, "attribute": attribute.name, "group": name, **_row(own)}


def _frame(rows: list[dict[str, Any]], like: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame, with its columns even where there are none."""
    shaped = pl.DataFrame(like, infer_schema_length=None).drop("level", "query").schema
    names = dict.fromkeys(("level", "attribute", "group"), pl.String())
    return pl.DataFrame(rows, schema={**names, **shaped})
