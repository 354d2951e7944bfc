"""Scores of a release against the truth: every level, the total, each attribute, every cell."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl

from headcount.errors import InputError
from headcount.evaluate.error import residuals, summarise
from headcount.release import Release
from headcount.tabulate import TOTAL, Counts, Query, every_cell


def score(counts: Counts, release: Release) -> pl.DataFrame:
    """One row per level and query: how far the released counts are from the true ones.

    Computed from the truth: for the curator, never for publication unless the data are public.
    """
    schema = release.schema
    queries = [TOTAL, *(Query(name, (name,)) for name in schema.names)]
    if len(schema.attributes) > 1:
        queries.append(every_cell(schema))
    rows = []
    for level in release.geography.levels:
        truth, released = counts.at(level).dense(), release.at(level)
        for query in queries:
            answer = query.matrix(schema)
            errors = residuals(truth @ answer, released @ answer)
            if errors.size:
                rows.append({"level": level, "query": query.name, **asdict(summarise(errors))})
    if not rows:
        raise InputError("release", found="no count but zeros", expected="at least one person")
    return pl.DataFrame(rows).drop("sign")
