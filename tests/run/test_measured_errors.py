"""Errors of a release by its measurements: right where the release understates itself."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

import headcount as hc
from headcount.domain import Domain
from headcount.evaluation.error_report import FEW_UNITS
from headcount.mechanisms import Context
from headcount.noise import KeyedNoise, RunKey
from headcount.processes import silent
from headcount.tabulate import TOTAL, every_cell
from headcount.topdown import rerun
from headcount.topdown.answers import Answers
from headcount.topdown.from_measurements import PublishedStart, estimate_from, start_from
from headcount.topdown.linear import matrices
from headcount.topdown.place_estimates import interval_pieces
from headcount.topdown.rerun import PART, SQUARES, Made, _measured_squares, _nudged, with_measured
from tests.topdown import test_topdown_spine as spine
from tests.topdown.small import keyed, zcdp

SCHEMA = hc.Schema((hc.Attribute("kind", ("a", "b", "c")), hc.Attribute("age", ("x", "y"))))
COUNTIES, TRACTS = 12, 480
KEYS: dict[str, Any] = {
    "levels": {"whole": "1/10", "county": "17/20", "tract": "1/20"},
    "queries": {"cells": {"share": "9/10"}, "total": {"by": (), "share": "1/10"}},
}
MECHANISM = hc.TopDown(rho=Fraction(1, 2), unit=hc.UnitOfPrivacy.ADD_REMOVE, pool=True, **KEYS)
"""Tracts are hardly measured, and their small counts cannot be negative."""


class Published(NamedTuple):
    """A release with its measurements, and the true mean squared errors of tracts."""

    start: PublishedStart
    release: hc.CountsRelease
    true: dict[str, float]


def _release(tables: Any, places: hc.Geography, schema: hc.Schema = SCHEMA) -> hc.CountsRelease:
    return hc.CountsRelease(
        domain=Domain(schema, places),
        tables={level: csr_array(one[0]) for level, one in tables.items()},
        mechanism=repr(MECHANISM),
        guarantee=hc.Guarantee.none("a test"),
        key_kind="seed",
        backend="table",
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Six runs on sparse tracts tell the true errors; the first has its measurements published."""
    folder = tmp_path_factory.mktemp("measured")
    parents = [np.zeros(0, np.int32), np.zeros(COUNTIES, np.int32)]
    parents.append(np.repeat(np.arange(COUNTIES, dtype=np.int32), TRACTS // COUNTIES))
    codes = [np.array([f"{k:03}" for k in range(size)]) for size in (1, COUNTIES, TRACTS)]
    places = hc.Geography(("whole", "county", "tract"), tuple(codes), tuple(parents))
    leaf = np.random.default_rng(2).poisson(np.random.default_rng(1).gamma(0.3, 30.0, (TRACTS, 6)))
    counts = hc.Counts(Domain(SCHEMA, places), "tract", csr_array(leaf))
    squares: dict[str, list[float]] = {"cells": [], "total": []}
    first = None
    for seed in range(6):
        noise = KeyedNoise(RunKey.from_seed(seed), "topdown", b"", b"")
        context = Context(measurements=folder if first is None else None)
        design = MECHANISM.on(counts.domain)
        tables = design.run(counts, noise, runs=range(1), context=context).as_counts().tables
        first = first or _release(tables, places)
        off = csr_array(tables["tract"][0]).toarray() - leaf
        squares["cells"].append(float(np.square(off).mean()))
        squares["total"].append(float(np.square(off.sum(axis=1)).mean()))
    assert first is not None
    beside = MECHANISM.publications()["measurements"]
    beside.write(first, folder, quarters=None, progress=silent)
    true = {query: float(np.mean(own)) for query, own in squares.items()}
    return Published(start_from(folder), first, true)


def _rows(table: pl.DataFrame, query: str) -> dict[str, Any]:
    return table.filter(level="tract", query=query, sizes="all").row(0, named=True)


def test_measurements_tell_the_true_errors(published: Published):
    found = hc.errors_of(published.release, published.start, runs=6)
    assert found.without_measurements == ""
    total, cells = (_rows(found.table, query) for query in ("total", "cells"))
    for row, query in ((total, "total"), (cells, "cells")):
        true = np.sqrt(published.true[query])
        assert abs(row["measured"] - true) < max(0.05 * true, 3 * row["measured_error"])
        assert row["measured_error"] < 0.15 * true
    assert set(found.table.filter(level="county")["measured"]) == {None}  # 12 units
    text = found.notes() + str(found.blocks())
    assert "By the measurements" in text


def test_without_how_the_release_follows_its_answers_errors_come_out_wrong(published: Published):
    noise = KeyedNoise(RunKey.from_seed(1), "nudges", b"", b"")
    queries = [every_cell(SCHEMA)]
    moved = [_nudged(published.start, noise, run=run, part=PART) for run in range(3)]
    as_is = (published.start, published.release)
    followed, rigid = (
        _measured_squares(as_is, [(one, made(one)) for one in moved], queries, few=FEW_UNITS)[
            "square"
        ][0]
        for made in (estimate_from, lambda _: published.release)
    )
    assert followed == pytest.approx(published.true["cells"], rel=0.3)
    assert rigid < 0.5 * published.true["cells"]


def test_answers_are_read_for_all_queries_at_once_and_say_the_same_as_for_each(
    published: Published, monkeypatch: pytest.MonkeyPatch
):
    noise = KeyedNoise(RunKey.from_seed(1), "nudges", b"", b"")
    moved = _nudged(published.start, noise, run=0, part=PART)
    made = (published.start, published.release), (moved, estimate_from(moved))
    read: list[int] = []
    values = Answers.values

    def counted(self: Answers, level: str, query: str, units: range) -> Any:
        asked = (level, query) == ("tract", "cells") and self.nudge is not None
        read.extend([len(units)] * asked)
        return values(self, level, query, units)

    with monkeypatch.context() as patch:
        patch.setattr(Answers, "values", counted)
        found = _measured_squares(made[0], made[1:], [TOTAL, every_cell(SCHEMA)], few=FEW_UNITS)
    assert sum(read) == 2 * TRACTS  # up, and down again
    assert found.height == 2
    _agrees_with_intervals(found, made)


def test_along_a_spine_errors_are_those_of_published_places(tmp_path: Path):
    """Of leaves, and of towns, which the spine has in parts."""
    mechanism, counts = spine.along(zcdp("1/200")), spine.people()
    context = Context(measurements=tmp_path)
    design = mechanism.on(counts.domain)
    tables = design.run(counts, keyed(1), runs=range(1), context=context).as_counts().tables
    release = _release(tables, counts.geography, counts.schema)
    beside = mechanism.publications()["measurements"]
    beside.write(release, tmp_path, quarters=None, progress=silent)
    start = start_from(tmp_path)
    moved = _nudged(start, keyed(2), run=0, part=PART)
    made = (start, release), (moved, estimate_from(moved))
    queries = [*mechanism.marginals, every_cell(counts.schema)]
    found = _measured_squares(made[0], made[1:], queries, few=3)
    assert set(found["level"]) == {"town", counts.geography.leaf}
    _agrees_with_intervals(found, made)


def _agrees_with_intervals(squares: pl.DataFrame, made: Sequence[Made]) -> None:
    """Each mean square is that of the intervals of its query alone, without what is known."""
    for row in squares.iter_rows(named=True):
        level, query = row["level"], row["query"]
        tables = [_table(start, level, query, release) for start, release in made]
        before, after = (one.select("estimate", "released").to_numpy().T for one in tables)
        move, follow = (after - before) / PART
        squares_of_counts = (before[1] - before[0]) ** 2 + move * (2 * follow - move)
        square = squares_of_counts[(tables[0]["known"] != "zero").to_numpy()].mean()
        assert row["square"] == pytest.approx(square, rel=1e-9)


def _table(
    start: PublishedStart, level: str, query: str, release: hc.CountsRelease
) -> pl.DataFrame:
    return pl.concat(interval_pieces(start, level, query, release=release))


def test_what_least_squares_cannot_take_together_is_not_asked_and_the_report_says_so(
    published: Published, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(matrices, "MOST_TOGETHER", 0)
    monkeypatch.setattr("headcount.topdown.rerun._nudged", None)  # known before that work
    found = hc.errors_of(published.release, published.start, runs=2)
    assert "found" not in found.without_measurements
    assert "1 combinations of levels that they tell apart" in found.notes()
    assert found.table["measured"].null_count() == found.table.height


def test_what_memory_cannot_hold_is_not_asked_and_the_report_says_so(
    published: Published, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(matrices, "LITTLE", 0)
    monkeypatch.setattr(matrices, "memory_limit", lambda: 0)
    found = hc.errors_of(published.release, published.start, runs=2)
    assert "which needs" in found.without_measurements
    assert found.table["measured"].null_count() == found.table.height


def test_where_whole_numbers_hide_how_a_release_follows_the_reruns_are_believed(tmp_path: Path):
    sizes = (1, 4, 200)
    parents = tuple(np.arange(n, dtype=np.int32) * above // n for above, n in pairwise(sizes))
    codes = tuple(np.array([f"{k:03}" for k in range(size)]) for size in sizes)
    levels = ("whole", "county", "tract")
    places = hc.Geography(levels, codes, (np.zeros(0, np.int32), *parents))
    leaf = np.random.default_rng(3).poisson(60, (200, 6))
    counts = hc.Counts(Domain(SCHEMA, places), "tract", csr_array(leaf))
    shares: dict[str, Any] = {
        "levels": dict.fromkeys(levels, "1/3"),
        "queries": {"cells": {"share": "1"}},
    }
    cells = hc.TopDown(rho=Fraction(3, 2), unit=hc.UnitOfPrivacy.ADD_REMOVE, **shares)
    noise = KeyedNoise(RunKey.from_seed(1), "topdown", b"", b"")
    context = Context(measurements=tmp_path)
    made = cells.on(counts.domain).run(counts, noise, runs=range(1), context=context)
    tables = made.as_counts().tables
    release = _release(tables, places)
    cells.publications()["measurements"].write(release, tmp_path, quarters=None, progress=silent)
    start, true = start_from(tmp_path), float(np.square(release.at("tract") - leaf).mean())
    row = _rows(hc.errors_of(release, start, runs=2).table, "cells")  # deviations are 1
    assert (row["measured"], row["best_by"]) == (None, "reruns")
    assert row["best"] == pytest.approx(np.sqrt(true), rel=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rerun, "LEAST_MOVE", 0.0)
        without = _rows(hc.errors_of(release, start, runs=2).table, "cells")
    assert without["measured"] > 1.2 * row["best"]  # so far off would they be


def test_a_little_noise_is_added_to_every_answer_and_to_nothing_else(published: Published):
    noise = KeyedNoise(RunKey.from_seed(1), "nudges", b"", b"")
    start, units = published.start, range(TRACTS)
    before = start.answers.values("tract", "cells", units)
    one, again, other = (
        _nudged(start, noise, run=run, part=PART).answers.values("tract", "cells", units) - before
        for run in (0, 0, 1)
    )
    law = start.answers.planned["tract", "cells"].law
    assert law is not None
    assert (one == again).all()
    assert (one != other).any()
    assert np.var(one / PART) == pytest.approx(law.variance, rel=0.1)
    few, cell = np.arange(0, TRACTS, 7), np.full(len(range(0, TRACTS, 7)), 4)
    picked = _nudged(start, noise, run=0, part=PART).answers.picker("tract", few)(
        "cells", few, cell
    )
    assert (picked == (before + one)[few, 4]).all()


def test_another_release_and_too_many_answers_are_not_asked(
    published: Published, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    noise = KeyedNoise(RunKey.from_seed(9), "topdown", b"", b"")
    again = estimate_from(_nudged(published.start, noise, run=0, part=1.0))
    found = hc.errors_of(again, published.start, runs=2)
    assert "lead to another release" in found.without_measurements
    assert "lead to another release" in caplog.text
    assert found.table["measured"].null_count() == found.table.height
    monkeypatch.setattr(rerun, "MOST_ANSWERS", 100)
    found = hc.errors_of(published.release, published.start, runs=2)
    assert "more than 100 answers" in found.notes()


def test_the_best_figure_is_that_of_the_reruns_raised_where_measurements_say_so():
    table = pl.DataFrame(
        {"level": "x", "query": list("abcde"), "sizes": "all", "rmse": 9.0, "rmse_error": 0.3}
    )
    rows = [("x", "a", 100.0, 8.0), ("x", "b", 100.0, 40.0), ("x", "c", 64.0, 1.6)]
    rows.append(("x", "d", -1.0, 2.0))  # e is not told
    found = with_measured(table, pl.DataFrame(rows, schema=SQUARES, orient="row"))
    assert found["measured"].to_list() == [10.0, 10.0, 8.0, None, None]
    assert found["measured_error"].to_list() == [0.4, 2.0, 0.1, None, None]
    sure, unsure = (0.9**2 / (0.9**2 + 0.3**2 + error**2) for error in (0.4, 2.0))
    assert [sure, unsure] == pytest.approx([0.764, 0.165], abs=1e-3)
    expected = [pytest.approx(9 + weight) for weight in (sure, unsure)]
    assert found["best"].to_list() == [*expected, 9.0, 9.0, 9.0]
    errors = [np.sqrt(sure * 0.4**2 + 0.3**2), np.sqrt(unsure * 2.0**2 + 0.3**2)]
    assert found["best_error"].to_list() == [*map(pytest.approx, errors), 0.3, 0.3, 0.3]
    assert found["best_by"].to_list() == ["both", "both", *["reruns"] * 3]
