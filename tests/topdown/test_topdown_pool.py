"""Answers pooled with those of the levels below, before the descent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.engines import LocalEngine
from headcount.errors import ConfigError
from headcount.mechanisms import Context
from headcount.schema import Attribute, Schema
from headcount.storage import storage_at
from headcount.tabulate import CELLS, Counts
from headcount.tabulate.counts import every_level
from headcount.topdown import _pool
from headcount.topdown._pool import BEST_TOTAL, Pool, PoolPlan, pooled
from headcount.topdown.accuracy import noise_tree
from headcount.topdown.answers import Answers
from headcount.topdown.linear.tree import LevelNoise, NoiseTree
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from tests.topdown.linear.oracle import dense_errors
from tests.topdown.small import counts_of, dense, keyed, run, same, tree

SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "old", "oldest"))))
PLACES = tree(("county", [3]), ("tract", [2, 1, 4]), ("block", [3, 2, 1, 2, 5, 2, 3]))
QUERIES: dict[str, dict[str, Any]] = {
    "total": {"by": (), "share": "0.2"},
    "sex": {"by": ("sex",), "share": "0.3"},
    "cells": {"share": "0.5"},
}


def topdown(**keys: Any) -> TopDown:
    """Equal shares at every level; 2 rho is 4, so that a share is a precision."""
    return TopDown(**{"rho": 2, "unit": "add-remove", "queries": QUERIES, **keys})


def people(seed: int = 0, *, places: Any = PLACES) -> Counts:
    """Some people in every block."""
    counts = np.random.default_rng(seed).poisson(8, size=(places.size(places.leaf), SCHEMA.size))
    return counts_of(counts, places, schema=SCHEMA)


def answers(mechanism: TopDown, counts: Counts) -> Answers:
    """Pooled answers of a run; in memory they stay."""
    drawn = Measurements(every_level(counts), mechanism, keyed(), run=0)
    places = counts.geography
    plan = PoolPlan.of(
        mechanism, SCHEMA, places, planned=drawn.planned, classes=drawn.classes, published=places
    )
    return pooled(drawn.answers, plan, places, context=Context())


def stage(pooled: Answers) -> Pool:
    assert pooled.pool is not None
    return pooled.pool


def estimates(mechanism: TopDown, counts: Counts, level: str) -> Iterator[tuple[int, Any, Any]]:
    """For each unit of a level its number, and what dense least squares below it gives.

    The cells of the unit, and the variance of its total.
    """
    drawn = Measurements(every_level(counts), mechanism, keyed(), run=0)
    places, depth = counts.geography, counts.geography.depth(level)
    noise = noise_tree(
        mechanism, places, planned=drawn.planned, classes=drawn.classes, published=places
    )
    queries = {q.name: q.matrix(SCHEMA).toarray().T.astype(float) for q in mechanism.marginals}
    queries[CELLS] = np.eye(SCHEMA.size)
    for unit in range(places.size(level)):
        below = [np.array([unit])]
        for deeper in range(depth + 1, len(places.levels)):
            below.append(np.flatnonzero(np.isin(places.parents[deeper], below[-1])))
        parents = [np.zeros(0, dtype=np.int32)]
        for above, own, deeper in zip(below, below[1:], range(depth + 1, 9), strict=False):
            parents.append(np.searchsorted(above, places.parents[deeper][own]).astype(np.int32))
        levels = [LevelNoise(noise.levels[depth + k].weights) for k in range(len(below))]
        found = dense_errors(NoiseTree(parents, levels), queries, SCHEMA.possible)
        right = np.zeros(len(found.covariance))
        for at, units in enumerate(below):
            for name, matrix in queries.items():
                for number, one in enumerate(units.tolist()):
                    values = drawn.values(places.levels[depth + at], name, range(one, one + 1))[0]
                    weight = levels[at].weights[0][name]
                    right += weight * (matrix @ found.units[at, number]).T @ values
        own = found.units[0, 0]
        ones = np.ones(SCHEMA.size) @ own
        yield unit, own @ found.covariance @ right, ones @ found.covariance @ ones


@pytest.mark.parametrize("level", ["whole", "county", "tract"])
def test_with_shares_alike_pooled_answers_are_least_squares_from_below(level: str) -> None:
    """The estimate from pooled answers of a unit alone is that from all answers below it."""
    mechanism, counts = topdown(pool=True, pool_from="block"), people()
    found = answers(mechanism, counts)
    own = stage(found).plan.levels[level]
    for unit, cells, _ in estimates(mechanism, counts, level):
        precision, right = np.zeros((SCHEMA.size, SCHEMA.size)), np.zeros(SCHEMA.size)
        for query, weight in own.weight.items():
            matrix = np.zeros((stage(found).plan.sizes[query], SCHEMA.size))
            matrix[stage(found).plan.groups[query], np.arange(SCHEMA.size)] = 1
            values = found.values(level, query, range(unit, unit + 1))[0]
            precision += weight[own.of_unit[unit]] * matrix.T @ matrix
            right += weight[own.of_unit[unit]] * matrix.T @ values
        assert np.linalg.solve(precision, right) == pytest.approx(cells, abs=1e-10)


TOTALS_FIRST = {
    level: {"fit": [["total"], ["sex", "cells"]]} for level in ("whole", "county", "tract")
}


@pytest.mark.parametrize("level", ["county", "tract"])
def test_the_total_that_is_fitted_first_is_the_best_linear_one(level: str) -> None:
    mechanism = topdown(pool=True, pool_from="block", passes=TOTALS_FIRST)
    counts = people()
    found = answers(mechanism, counts)
    column = stage(found).plan.levels[level].columns[BEST_TOTAL]
    weights, kinds = stage(found).plan.class_weights(level, ("total",))
    for unit, cells, variance in estimates(mechanism, counts, level):
        total = stage(found).rows[level][range(unit, unit + 1)][0, column]
        assert total == pytest.approx(cells.sum(), abs=1e-10)
        assert 1 / weights[kinds[unit], 0] == pytest.approx(variance)


def test_answers_that_tell_next_to_nothing_of_a_total_are_not_drawn_for_it() -> None:
    """At the lowest level alone; above it they are pooled anyway."""
    shares = {"total": "0.95", "sex": "0.048", "cells": "0.002"}
    queries = {name: {**QUERIES[name], "share": share} for name, share in shares.items()}
    mechanism = topdown(pool=True, pool_from="tract", passes=TOTALS_FIRST, queries=queries)
    found, counts = answers(mechanism, people()), people()
    assert stage(found).plan.levels["tract"].made_from == ("sex", "total")
    assert set(stage(found).plan.levels["county"].made_from) == {"sex", "total", CELLS}
    drawn = Measurements(every_level(counts), mechanism, keyed(), run=0)
    whole = range(PLACES.size("tract"))
    sexes, total = (drawn.values("tract", one, whole) for one in ("sex", "total"))
    noise = {one: drawn.planned["tract", one].weight for one in ("sex", "total")}
    parts = noise["total"] * total[:, 0] + noise["sex"] / 2 * sexes.sum(axis=1)
    best = parts / (noise["total"] + noise["sex"] / 2)
    assert stage(found).rows["tract"][whole][:, 0] == pytest.approx(best)


def test_the_lowest_level_keeps_its_answers_and_may_have_a_better_total() -> None:
    mechanism = topdown(pool=True, pool_from="tract", passes=TOTALS_FIRST)
    counts = people()
    found, drawn = (
        answers(mechanism, counts),
        Measurements(every_level(counts), mechanism, keyed(), run=0),
    )
    whole = range(counts.geography.size("tract"))
    assert np.array_equal(found.values("tract", CELLS, whole), drawn.values("tract", CELLS, whole))
    assert set(stage(found).plan.levels["tract"].columns) == {BEST_TOTAL}
    assert "block" not in stage(found).rows


def test_the_release_is_the_same_from_files_threads_and_pieces_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, counts = topdown(pool=True, pool_from="block", passes=TOTALS_FIRST), people()
    here = dense(run(mechanism, counts))
    workspace = storage_at(tmp_path)
    assert same(here, dense(run(mechanism, counts, engine=LocalEngine(2), workspace=workspace)))
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(_pool.POOLED)]
    monkeypatch.setattr(_pool, "NUMBERS_AT_ONCE", 1)
    assert same(here, dense(run(mechanism, counts)))


def test_a_pooled_release_keeps_what_a_release_keeps() -> None:
    mechanism = topdown(
        pool=True,
        unit="change-one",
        levels={"whole": 0, "county": "0.3", "tract": "0.3", "block": "0.4"},
        queries={
            "sex": QUERIES["sex"] | {"share": "0.5"},
            "cells": {"share": "0.5"},
            "total": {"by": ()},
        },
        invariant=[{"query": "total", "level": "county"}],
    )
    counts = people()
    tables = dense(run(mechanism, counts))
    for level, table in tables.items():
        assert table.min() >= 0
        assert table.sum() == counts.totals().sum(), level
    assert np.array_equal(tables["county"].sum(axis=1), counts.at("county").totals())


def test_middle_levels_gain_and_leaves_lose_nothing() -> None:
    """Paired by seed: the same noise, 40 runs of 24 tracts."""
    places = tree(("county", [6]), ("tract", [4] * 6), ("block", [3] * 24))
    counts = people(places=places)
    squares: dict[tuple[bool, str], list[float]] = {}
    for seed in range(40):
        for pool in (False, True):
            tables = dense(run(topdown(pool=pool, rho="1/5"), counts, seed=seed))
            for level in ("county", "tract", "block"):
                off = tables[level] - counts.at(level).dense()
                squares.setdefault((pool, level), []).append(float(np.mean(off**2)))
    for level, most in (("county", 0.85), ("tract", 0.85), ("block", 1.03)):
        assert np.mean(squares[True, level]) < most * np.mean(squares[False, level])


def test_a_pooled_run_asks_for_the_answers_of_the_plan_alone_and_gets_the_same_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer may be looked at twice: noise is a function of its address, drawn once for all.

    No address is drawn twice with keyed noise either: it has one law and one value.
    """
    asked: dict[tuple[str, str, str], set[int]] = {}
    values: dict[tuple[Any, ...], tuple[str, int]] = {}
    noise, drawn = keyed(), type(keyed()).draw_at

    def watched(self: Any, stream: Any, law: Any, *, draw: int, index: Any) -> Any:
        found = drawn(self, stream, law, draw=draw, index=index)
        for at, value in zip(np.asarray(index).tolist(), found.tolist(), strict=True):
            asked.setdefault((stream.level, stream.query, stream.purpose), set()).add(at)
            once = (repr(law), value)
            assert values.setdefault((stream.address, draw, at), once) == once
        return found

    monkeypatch.setattr(type(noise), "draw_at", watched)
    counts = people()
    mechanism = topdown(pool=True, pool_from="block")
    run(mechanism, counts)
    planned = {
        (one.level, one.query): one for one in mechanism.on(Domain(SCHEMA, counts.geography)).plan
    }
    for (level, query, _), positions in asked.items():
        if level:  # noise that marks a run's files belongs to no level
            assert max(positions) < planned[level, query].entries
    assert {(level, query) for level, query, _ in asked if level} == set(planned)


def test_the_spend_and_the_guarantee_are_those_of_the_same_answers_unpooled() -> None:
    one, other = (topdown(pool=pool).on(Domain(SCHEMA, PLACES)).guarantee for pool in (False, True))
    assert one.losses == other.losses


def test_a_receipt_says_from_where_answers_were_pooled() -> None:
    assert run(topdown(pool=True), people()).notes["answers pooled"] == "from block up"
    assert "answers pooled" not in run(topdown(), people()).notes


def test_the_name_does_not_say_that_answers_are_pooled_where_no_level_gains_by_it() -> None:
    """Sixty blocks below the whole make it less than 1 % more exact."""
    counts, mechanism = people(places=tree(("block", [60]))), topdown(pool=True)
    made = run(mechanism, counts)
    assert made.notes["answers pooled"] == "none: no level gains 1 %"
    assert mechanism.called == "TopDown with pooling"
    assert (dense(made)["block"] == dense(run(topdown(), counts))["block"]).all()


def test_the_method_says_where_answers_are_pooled_or_that_none_may_be() -> None:
    assert "wherever a level gains 1 % by it" in topdown(pool=True).method
    assert "or that no level gains 1 % and none are" in topdown(pool=True).method
    assert "from tract up" in topdown(pool=True, pool_from="tract").method


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pool_from": "tract"}, "pool_from: found 'tract' without pool, expected pool = true"),
        ({"pool": True, "pool_from": "parish"}, "pool_from"),
        (
            {"pool": True, "pool_from": PLACES.levels[0]},
            "the top level: nothing would be pooled, expected one of",
        ),
    ],
)
def test_settings_that_cannot_be_pooled_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        topdown(**keys).on(people().domain).check(people())
    assert message in str(refused.value)
