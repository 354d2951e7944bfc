"""The truth's side of an error, worked out once for all releases that are held against it."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from headcount.schema import Schema
from headcount.tabulate import Counts, Query

MOST_KEPT = 1 << 22
"""Answers of more counts that are not zero are worked out again: they would fill the memory."""

_KEPT: WeakKeyDictionary[Counts, dict[Any, Any]] = WeakKeyDictionary()
"""By counts, for as long as somebody holds them."""


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


def true_answers(counts: Counts, level: str, query: Query, schema: Schema) -> Any:
    """The exact answers to a query at a level, groups that nobody can be in left out; kept."""
    kept = _KEPT.setdefault(counts, {})
    key = (level, query, schema)
    if (found := kept.get(key)) is None:
        found = counts_at(counts, level).matrix @ possible_answer(query, schema)
        if found.nnz <= MOST_KEPT:
            kept[key] = found
    return found
