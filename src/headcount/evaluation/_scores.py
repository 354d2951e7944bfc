"""Scores of a release against the truth: every level, the total, each attribute, every cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from headcount.errors import InputError
from headcount.evaluation._relative import beside_size
from headcount.evaluation.error import CellSet, CountPairs, pair_counts
from headcount.evaluation.published_answers import published_answers
from headcount.mechanisms.histogram import clips_answers
from headcount.release import Release, TablesRelease
from headcount.schema import Schema
from headcount.tabulate import TOTAL, Counts, Query, every_cell


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
        for query, pairs in answers(counts, release, level, cells):
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
    schema = release.schema
    queries = [TOTAL, *(Query(name, (name,)) for name in schema.names)]
    if len(schema.attributes) > 1:
        queries.append(every_cell(schema))
    queries = [one for one in queries if not only or one.name in only]
    if isinstance(release, TablesRelease):
        yield from published_answers(counts, release, level, queries, cells)
        return
    clipped = clips_answers(release)
    truth, released = counts.at(level).matrix, release.table(level)
    missing = release.as_counts().missing_at(level)
    for query in queries:
        answer = query.matrix(schema)[:, possible_groups(query, schema)]
        made: Any = released @ answer
        if clipped:
            made = np.maximum(made, 0) if isinstance(made, np.ndarray) else made.maximum(0)
        gone = None if missing is None else (missing @ answer) > 0
        yield query, pair_counts(truth @ answer, made, cells=cells, missing=gone)


def possible_groups(query: Query, schema: Schema) -> np.ndarray[Any, Any]:
    """The groups of an answer that can hold anyone, by number."""
    return np.unique(query.groups(schema)[schema.possible])


def _row(pairs: CountPairs) -> dict[str, Any]:
    """Figures of a set of counts: what is counted, then its errors, then what is missing."""
    error, size = asdict(pairs.summary()), asdict(beside_size(pairs))
    first = {"cells": error.pop("cells"), "n": error.pop("n")}
    sizes = {name: size.pop(name) for name in ("mean_count", "median_count")}
    error.pop("sign")
    return {**first, **sizes, **error, **size}


def _group_rows(
    level: str, query: Query, schema: Schema, pairs: CountPairs
) -> Iterator[dict[str, Any]]:
    (attribute,) = query.attributes(schema)
    names = [attribute.levels[number] for number in possible_groups(query, schema)]
    for name, own in zip(names, pairs.columns(), strict=True):
        if own.n:
            yield {"level": level, "attribute": attribute.name, "group": name, **_row(own)}


def _frame(rows: list[dict[str, Any]], like: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame, with its columns even where there are none."""
    shaped = pl.DataFrame(like, infer_schema_length=None).drop("level", "query").schema
    names = dict.fromkeys(("level", "attribute", "group"), pl.String())
    return pl.DataFrame(rows, schema={**names, **shaped})
