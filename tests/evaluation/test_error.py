"""Scores equal a count by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import InputError
from headcount.evaluation import Truth
from headcount.evaluation.error import _score
from headcount.evaluation.impossible_counts import ImpossibleCounts
from headcount.evaluation.tally import CELL_SETS
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population, uniform
from headcount.release import Release
from headcount.release.store import guarantee_to_json, read_release, write_release
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import Counts, Tabulated, tabulate
from headcount_papers.histogram import Histogram
from headcount_papers.raked import Raked

SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult", "old"))))
GEOGRAPHY = regular(children=2, depth=2)


def town(people: int = 40) -> Counts:
    generator = np.random.default_rng(3)
    unit = generator.integers(0, 3, people).astype(np.int32)  # the last leaf is empty
    cell = generator.integers(0, SCHEMA.size, people).astype(np.int32)
    return tabulate(Population("town", Domain(SCHEMA, GEOGRAPHY), unit, cell))


def by_hand(
    counts: Counts, release: Release, level: str, query: str, cells: str, *, clip: bool = False
) -> dict[str, float]:
    """Sums with loops, the set of counts by its rule, and plain statistics."""
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
    if clip:
        released = {key: max(count, 0) for key, count in released.items()}
    chosen = [
        key
        for key in truth
        if cells == "all" or truth[key] or (cells == "either" and released[key])
    ]
    errors = sorted(float(released[key] - truth[key]) for key in chosen)
    size = sorted(abs(error) for error in errors)
    there = [key for key in chosen if truth[key]]
    lost = [key for key in there if released[key] <= 0]
    n, middle = len(size), len(size) // 2
    rank = 0.95 * (n - 1)
    low = int(rank)
    return {
        "n": n,
        "mean_count": sum(truth[key] for key in chosen) / n,
        "median_count": median(truth[key] for key in there),
        "median_absolute": (size[middle] + size[(n - 1) // 2]) / 2,
        "mean_absolute": sum(size) / n,
        "p95_absolute": size[low] + (rank - low) * (size[min(low + 1, n - 1)] - size[low]),
        "max_absolute": size[-1],
        "rmse": (sum(error**2 for error in errors) / n) ** 0.5,
        "bias": sum(errors) / n,
        "percent_of_mean": 100 * sum(size) / sum(truth[key] for key in there),
        "median_percent": median(
            100 * abs(released[key] - truth[key]) / truth[key] for key in there
        ),
        "lost": len(lost),
        "lost_people": sum(truth[key] for key in lost),
        "negative": sum(released[key] < 0 for key in chosen),
    }


@pytest.mark.parametrize("cells", CELL_SETS)
@pytest.mark.parametrize(
    "mechanism",
    [
        Geometric(epsilon=Fraction(1)),
        Raked(epsilon=Fraction(2)),
        Histogram(epsilon=Fraction(1), clip="query"),
        Histogram(epsilon=Fraction(1), clip="cell"),
    ],
    ids=["geometric", "raked", "clip-query", "clip-cell"],
)
def test_scores_equal_a_count_by_hand(mechanism, cells):
    counts = town()
    release = protect(
        Tabulated.of(counts), mechanism, KeyedNoise(RunKey.from_seed(1), "test", b"d", b"c")
    )
    errors, _ = _score(counts, release, cells=cells)
    clip = getattr(mechanism, "clip", "") == "query"
    expected = {
        (level, query): by_hand(counts, release, level, query, cells, clip=clip)
        for level in GEOGRAPHY.levels
        for query in ("total", "sex", "age", "cells")
    }
    rows = {(row.pop("level"), row.pop("query")): row for row in errors.to_dicts()}
    assert list(rows) == list(expected)
    for key, row in rows.items():
        assert row.pop("cells") == cells
        assert row == pytest.approx(expected[key], abs=1e-9), key


def test_answers_to_be_clipped_after_summing_are():
    """The noisy histogram at its default has negative cells, but no negative answer is scored."""
    counts = town()
    noise = KeyedNoise(RunKey.from_seed(1), "test", b"d", b"c")
    made = protect(Tabulated.of(counts), Histogram(epsilon=Fraction(1, 4)), noise)
    plain = protect(Tabulated.of(counts), Geometric(epsilon=Fraction(1, 4)), noise)
    assert np.array_equal(made.at(GEOGRAPHY.leaf), plain.at(GEOGRAPHY.leaf))
    clipped, raw = _score(counts, made)[0], _score(counts, plain)[0]
    assert clipped["negative"].sum() == 0
    assert raw["negative"].sum() > 0
    finest = {"level": GEOGRAPHY.leaf, "query": "cells"}
    one, other = (f.filter(**finest)["mean_absolute"].item() for f in (clipped, raw))
    assert one < other


@pytest.mark.parametrize("cells", CELL_SETS)
def test_groups_are_the_columns_of_the_marginals(cells):
    counts = town()
    noise = KeyedNoise(RunKey.from_seed(2), "test", b"d", b"c")
    release = protect(Tabulated.of(counts), Geometric(epsilon=Fraction(1)), noise)
    _, groups = _score(counts, release, cells=cells)
    assert len(groups.unique(["level", "attribute", "group"])) == groups.height
    for level, (axis, name) in product(GEOGRAPHY.levels, enumerate(SCHEMA.names)):
        other = 1 - axis
        truth, made = (
            table.reshape(-1, 2, 3).sum(axis=1 + other)
            for table in (counts.at(level).dense(), release.at(level))
        )
        for number, group in enumerate(SCHEMA.attribute(name).levels):
            x, y = truth[:, number], made[:, number]
            keep = {"all": x == x, "truth": x != 0, "either": (x != 0) | (y != 0)}[cells]
            row = groups.filter(level=level, attribute=name, group=group)
            if not keep.any():
                assert row.is_empty()
                continue
            found = row.row(0, named=True)
            assert found["n"] == keep.sum()
            assert found["mean_absolute"] == pytest.approx(np.abs(y - x)[keep].mean())
            assert found["bias"] == pytest.approx((y - x)[keep].mean())
            assert found["lost"] == ((x > 0) & (y <= 0)).sum()


def test_structural_zeros_belong_to_no_set_and_what_stands_there_is_counted():
    zeros = (impossible({"sex": ["m"], "age": ["old"]}),)
    schema = Schema(SCHEMA.attributes, zeros)
    unit, cell = np.array([0, 1, 2], dtype=np.int32), np.array([0, 1, 4], dtype=np.int32)
    counts = tabulate(Population("town", Domain(schema, GEOGRAPHY), unit, cell))
    release = protect(Tabulated.of(counts), Identity())
    errors, _ = _score(counts, release)
    cells = errors.filter(query="cells", level=GEOGRAPHY.leaf)
    assert cells["n"].to_list() == [4 * 5]
    counted = ImpossibleCounts()
    assert counted.compute(release, Truth.of(counts)).table["not_zero"].to_list() == [0, 0, 0]
    table = release.at(GEOGRAPHY.leaf).copy()
    table[3, 5] = 2
    strange = replace(release.as_counts(), tables={GEOGRAPHY.leaf: table})
    errors, _ = _score(counts, strange)
    strange_ones = counted.compute(strange, Truth.of(counts))
    assert strange_ones.table["not_zero"].to_list() == [1, 1, 1]
    assert strange_ones.table["people"].to_list() == [2, 2, 2]
    assert strange_ones.warnings() == (
        "1 released counts are not 0 where the schema says that nobody can be",
    )
    found = errors.filter(level=GEOGRAPHY.leaf)
    assert dict(zip(found["query"], found["max_absolute"], strict=True)) == {
        "total": 2,
        "sex": 2,
        "age": 2,
        "cells": 0,
    }


def test_a_schema_of_one_attribute_has_no_second_row_for_its_cells():
    schema = Schema((Attribute("sex", ("f", "m")),))
    zeros = np.zeros(1, dtype=np.int32)
    counts = tabulate(Population("one", Domain(schema, regular(children=1, depth=1)), zeros, zeros))
    errors, _ = _score(counts, protect(Tabulated.of(counts), Identity()))
    assert errors["query"].unique(maintain_order=True).to_list() == ["total", "sex"]
    assert errors["max_absolute"].to_list() == [0.0] * 4


def test_a_release_from_disk_meets_the_truth_unit_by_unit(tmp_path: Path):
    """Codes of more than nine siblings do not sort as they count; scores must not care."""
    counts = tabulate(uniform(people=4000, depth=1, mean=100))
    release = protect(Tabulated.of(counts), Identity())
    receipt = {
        "mechanism": release.mechanism,
        "guarantee": guarantee_to_json(release.guarantee),
        "key_kind": "none",
        "noise_backend": "none",
        "notes": {},
    }
    write_release(release, tmp_path, receipt=receipt)
    errors, groups = _score(counts, read_release(tmp_path))
    assert errors["max_absolute"].to_list() == [0.0, 0.0]
    assert groups.is_empty()  # a schema without attributes
    assert groups.columns[:3] == ["level", "attribute", "group"]


def test_nothing_to_score_is_said():
    none = np.empty(0, dtype=np.int32)
    counts = tabulate(Population("empty", Domain(SCHEMA, GEOGRAPHY), none, none))
    with pytest.raises(InputError, match="found only counts of 0, expected at least one person"):
        _score(counts, protect(Tabulated.of(counts), Identity()))
