"""Scores equal a count by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.evaluate.scores import score
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, Raked, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population, uniform
from headcount.release import Release
from headcount.release.receipt import guarantee_to_json
from headcount.release.store import read_release, write_release
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts, tabulate

SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult", "old"))))
GEOGRAPHY = regular(children=2, depth=2)


def town(people: int = 40) -> Counts:
    generator = np.random.default_rng(3)
    unit = generator.integers(0, 3, people).astype(np.int32)  # the last leaf is empty
    cell = generator.integers(0, SCHEMA.size, people).astype(np.int32)
    return tabulate(Population("town", SCHEMA, GEOGRAPHY, unit, cell))


def by_hand(counts: Counts, release: Release, level: str, query: str) -> dict[str, float]:
    """Sums with loops, errors where either side is not zero, and plain statistics."""
    place = counts.geography.ancestors(level)
    axes = {"total": (), "sex": (0,), "age": (1,), "cells": (0, 1)}[query]
    groups = [tuple(cell[axis] for axis in axes) for cell in product(range(2), range(3))]
    truth: dict[tuple[object, ...], float] = {}
    released: dict[tuple[object, ...], float] = {}
    for leaf, row in enumerate(counts.dense()):
        for cell, count in enumerate(row):
            key = (place[leaf], *groups[cell])
            truth[key] = truth.get(key, 0) + int(count)
    for unit, row in enumerate(release.at(level)):
        for cell, count in enumerate(row):
            key = (unit, *groups[cell])
            released[key] = released.get(key, 0) + count
    errors = sorted(
        float(released[key] - truth[key]) for key in truth if truth[key] or released[key]
    )
    size = sorted(abs(error) for error in errors)
    n, middle = len(size), len(size) // 2
    rank = 0.95 * (n - 1)
    low = int(rank)
    return {
        "n": n,
        "median_absolute": (size[middle] + size[(n - 1) // 2]) / 2,
        "mean_absolute": sum(size) / n,
        "p95_absolute": size[low] + (rank - low) * (size[min(low + 1, n - 1)] - size[low]),
        "max_absolute": size[-1],
        "rmse": (sum(error**2 for error in errors) / n) ** 0.5,
        "bias": sum(errors) / n,
    }


@pytest.mark.parametrize("mechanism", [Geometric(epsilon=Fraction(1)), Raked(epsilon=Fraction(2))])
def test_scores_equal_a_count_by_hand(mechanism):
    counts = town()
    release = protect(counts, mechanism, KeyedNoise(RunKey.from_seed(1), "test", b"d", b"c"))
    scores = score(counts, release)
    expected = {
        (level, query): by_hand(counts, release, level, query)
        for level in GEOGRAPHY.levels
        for query in ("total", "sex", "age", "cells")
    }
    rows = {(row.pop("level"), row.pop("query")): row for row in scores.iter_rows(named=True)}
    assert list(rows) == list(expected)
    for key, row in rows.items():
        assert row == pytest.approx(expected[key], abs=1e-9), key


def test_a_schema_of_one_attribute_has_no_second_row_for_its_cells():
    schema = Schema((Attribute("sex", ("f", "m")),))
    zeros = np.zeros(1, dtype=np.int32)
    counts = tabulate(Population("one", schema, regular(children=1, depth=1), zeros, zeros))
    scores = score(counts, protect(counts, Identity()))
    assert scores["query"].unique(maintain_order=True).to_list() == ["total", "sex"]
    assert scores["max_absolute"].to_list() == [0.0] * 4


def test_a_release_from_disk_meets_the_truth_unit_by_unit(tmp_path: Path):
    """Codes of more than nine siblings do not sort as they count; scores must not care."""
    counts = tabulate(uniform(people=4000, depth=1, mean=100))
    release = protect(counts, Identity())
    receipt = {
        "mechanism": release.mechanism,
        "guarantee": guarantee_to_json(release.guarantee),
        "key_kind": "none",
        "noise_backend": "none",
        "notes": {},
    }
    write_release(release, tmp_path, receipt=receipt)
    assert score(counts, read_release(tmp_path))["max_absolute"].to_list() == [0.0, 0.0]


def test_nothing_to_score_is_said():
    none = np.empty(0, dtype=np.int32)
    counts = tabulate(Population("empty", SCHEMA, GEOGRAPHY, none, none))
    with pytest.raises(InputError, match="found no count but zeros, expected at least one person"):
        score(counts, protect(counts, Identity()))
