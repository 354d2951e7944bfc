"""Scores of a release against the truth: every level, the total, each attribute, every cell."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl

from headcount.errors import InputError
from headcount.evaluate.error import residuals, summarise
from headcount.release import Release
from headcount.release.release import Table
from headcount.tabulate import TOTAL, Counts, Query, every_cell
from headcount.tabulate.counts import adder


def released_at(release: Release, level: str) -> Table:
    """Protected counts at a level, sparse where they were made so: 63 races by age are wide."""
    leaf = release.geography.leaf
    if leaf not in release.tables:
        return release.at(level)  # refuses
    if level in release.tables:
        return release.tables[level]
    added: Table = adder(release.geography, level, of=leaf) @ release.tables[leaf]
    return added


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
        truth, released = counts.at(level).matrix, released_at(release, level)
        for query in queries:
            answer = query.matrix(schema)
            errors = residuals(truth @ answer, released @ answer)
            if errors.size:
                rows.append({"level": level, "query": query.name, **asdict(summarise(errors))})
    if not rows:
        raise InputError("release", found="no count but zeros", expected="at least one person")
    return pl.DataFrame(rows).drop("sign")
