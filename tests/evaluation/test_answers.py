"""Exact answers are worked out once for all releases, and are those of plain sums."""

import gc

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.evaluation import answers
from headcount.evaluation.answers import counts_at, possible_groups, true_answers
from headcount.geography import regular
from headcount.population import Population
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import TOTAL, Counts, Query, tabulate

SCHEMA = Schema(
    (Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult", "old"))),
    (impossible({"age": ["old"]}),),
)


def people(seed: int = 1) -> Counts:
    rng = np.random.default_rng(seed)
    unit = rng.integers(0, 3, 40).astype(np.int32)
    cell = rng.choice([0, 1, 3, 4], 40).astype(np.int32)
    return tabulate(Population("town", Domain(SCHEMA, regular(children=2, depth=2)), unit, cell))


def test_kept_answers_are_plain_sums_and_made_once():
    counts = people()
    schema = counts.schema
    queries = [TOTAL, *(Query(name, (name,)) for name in schema.names)]
    for level in counts.geography.levels:
        for query in queries:
            groups = query.groups(schema)
            dense = counts.at(level).dense()
            wanted = np.stack(
                [dense[:, groups == one].sum(axis=1) for one in possible_groups(query, schema)],
                axis=1,
            )
            found = true_answers(counts, level, query, schema)
            assert found.toarray().tolist() == wanted.tolist()
            assert true_answers(counts, level, query, schema) is found
        assert counts_at(counts, level) is counts_at(counts, level)


def test_large_answers_are_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(answers, "MOST_KEPT", 0)
    counts = people()
    top = counts.geography.levels[0]
    first, again = (true_answers(counts, top, TOTAL, counts.schema) for _ in range(2))
    assert first is not again
    assert first.toarray().tolist() == again.toarray().tolist()
    assert counts_at(counts, top) is not counts_at(counts, top)


def test_nothing_is_kept_of_counts_that_nobody_holds():
    counts = people(seed=2)
    true_answers(counts, counts.geography.levels[0], TOTAL, counts.schema)
    assert counts in answers._KEPT
    before = len(answers._KEPT)
    del counts
    gc.collect()
    assert len(answers._KEPT) < before
