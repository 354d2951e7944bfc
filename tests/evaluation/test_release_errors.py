"""Errors of runs on a release, by level, query and class, beside sums written out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from headcount.evaluation.answers import COUNT_BANDS
from headcount.evaluation.error_report import ReleaseErrors
from headcount.geography import Geography
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import Query, every_cell

SCHEMA = Schema(
    (Attribute("kind", ("home", "school")), Attribute("age", ("minor", "adult"))),
    (impossible({"kind": ["school"], "age": ["adult"]}),),
)
PLACES = Geography(
    ("whole", "town"),
    (np.array(["whole"]), np.array(["a", "b", "c"])),
    (np.zeros(0, dtype=np.int32), np.zeros(3, dtype=np.int32)),
)
KIND = Query("kind", ("kind",))
BEFORE = np.array([[400, 30, 2, 0], [0, 0, 0, 0], [1, 2, 50, 0]])
MADE = [
    np.array([[401, 28, 0, 0], [3, 0, 0, 0], [0, 1, 47, 0]]),
    np.array([[395, 31, 4, 0], [0, 0, 2, 0], [2, 2, 51, 0]]),
    np.array([[400, 30, 2, 0], [0, 0, 0, 0], [1, 0, 90, 0]]),
]


def tables(leaf: Any) -> dict[str, Any]:
    return {"whole": csr_array(leaf.sum(axis=0)[None]), "town": csr_array(leaf)}


@pytest.fixture
def found() -> Any:
    errors = ReleaseErrors(
        schema=SCHEMA,
        geography=PLACES,
        queries=[Query("total"), KIND, every_cell(SCHEMA)],
        before=tables(BEFORE),
    )
    for leaf in MADE:
        errors.add(tables(leaf))
    return errors.table()


def by_hand(query: str, leaf: Any) -> Any:
    if query == "total":
        return leaf.sum(axis=1)[:, None]
    if query == "kind":
        return leaf.reshape(-1, 2, 2).sum(axis=2)
    return leaf[:, :3]  # what nobody can be is not counted


@pytest.mark.parametrize("query", ["total", "kind", "cells"])
@pytest.mark.parametrize("sizes", ["all", "published", "before"])
def test_means_are_those_of_every_count_of_a_class(found: Any, query: str, sizes: str):
    rows = found.filter(level="town", query=query, sizes=sizes)
    assert rows.height > (0 if sizes == "all" else 1)
    before = by_hand(query, BEFORE)
    for row in rows.iter_rows(named=True):
        errors, counts = [], 0
        for leaf in MADE:
            made = by_hand(query, leaf)
            of = {"published": made, "before": before, "all": np.zeros_like(made)}[sizes]
            low, high = row["low"] or 0, row["high"] or np.inf
            own = (of >= low) & (of < high)
            errors += (made - before)[own].tolist()
            counts += int(own.sum())
        off = np.array(errors, dtype=float)
        assert row["counts"] == counts / 3
        assert row["rmse"] == pytest.approx(np.sqrt((off**2).mean()))
        assert row["mae"] == pytest.approx(np.abs(off).mean())
        assert row["bias"] == pytest.approx(off.mean())
        assert row["units"] == 3


def test_standard_errors_are_those_of_the_means_of_runs_of_as_many_counts(found: Any):
    row = found.filter(level="town", query="total", sizes="all").row(0, named=True)
    off = np.array([by_hand("total", leaf) - by_hand("total", BEFORE) for leaf in MADE])
    own = np.sqrt(3)

    def error(per_count: Any) -> Any:
        return per_count.reshape(3, -1).mean(axis=1).std(ddof=1) / own

    assert row["bias_error"] == pytest.approx(error(off))
    assert row["mae_error"] == pytest.approx(error(np.abs(off)))
    assert row["rmse_error"] == pytest.approx(error(off**2) / (2 * row["rmse"]))


def test_classes_are_bands_of_counts_with_an_open_end(found: Any):
    rows = found.filter(level="town", query="cells", sizes="before")
    assert rows["low"].to_list() == [0, 1, 10, 100]
    assert rows["high"].to_list() == [1, 10, 100, 1000]
    assert set(rows["low"][1:]) <= set(COUNT_BANDS)


def test_a_group_that_is_most_of_a_place_and_few_of_its_parent_is_told_apart(found: Any):
    rows = found.filter(sizes="unlike parent")
    # School is 50 of 53 people in c, and 52 of 485 in all.
    assert rows.select("level", "query", "counts").rows() == [
        ("town", "kind", 1.0),
        ("town", "cells", 1.0),
    ]
    off = np.array([47, 51, 90]) - 50
    assert rows["bias"].to_list() == pytest.approx([off.mean()] * 2)


def test_counts_that_never_move_have_no_error_and_no_standard_error():
    errors = ReleaseErrors(
        schema=SCHEMA, geography=PLACES, queries=[Query("total")], before=tables(BEFORE)
    )
    for _ in range(2):
        errors.add(tables(BEFORE))
    row = errors.table().filter(level="whole", sizes="all").row(0, named=True)
    assert [row[name] for name in ("rmse", "rmse_error", "mae", "bias", "bias_error")] == [0.0] * 5
