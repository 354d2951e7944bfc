"""The same seed gives the same release, however the work is cut, spread or broken off."""

from __future__ import annotations

import logging
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from headcount.engines.local import LocalEngine
from headcount.engines.protocol import InOrder
from headcount.mechanisms.topdown import descend as descending
from headcount.mechanisms.topdown._estimate import SparseRows
from headcount.mechanisms.topdown._level import prepare_level
from headcount.mechanisms.topdown._parents import chunks
from headcount.mechanisms.topdown.checkpoint import FinishedLevels
from headcount.mechanisms.topdown.choices import Invariant, QuartersBounds
from tests.mechanisms.topdown.small import (
    STATE_TOTAL,
    bounded,
    counts_of,
    dense,
    pure,
    run,
    same,
    settings,
    tree,
    zcdp,
)

_CHANCE = np.random.default_rng(5)
PLACE = tree(
    ("state", [4]),
    ("county", [3, 1, 5, 2]),
    ("leaf", _CHANCE.integers(1, 9, size=11).tolist()),
)


def _town():
    leaves = PLACE.size("leaf")
    occupied = _CHANCE.choice([0, 1, 2, 6], size=(leaves, 3))
    people = occupied * _CHANCE.integers(1, 5, size=(leaves, 3))
    young = people // 3
    young[:, 2] = 0
    cells = np.stack([young, people - young], axis=2).reshape(leaves, -1)
    return counts_of(cells, PLACE, occupied=occupied)


TOWN = _town()
CAPS = QuartersBounds(query="kind", caps=(4, 4, 4), total_level="state")
WAYS = {
    "as in 2018": bounded(pure("1/2"), bounds=(CAPS,)),
    "Gaussian": bounded(zcdp("1/2"), bounds=(CAPS,)),
    "crossing": bounded(
        pure(1), bounds=(CAPS,), invariants=(STATE_TOTAL, Invariant(query="age", level="county"))
    ),
    "unions": bounded(
        pure(1),
        bounds=(QuartersBounds(query="kind", caps=(4, 4, 4), total_level="state", unions=True),),
    ),
}
each_way = pytest.mark.parametrize("mechanism", WAYS.values(), ids=WAYS)


@each_way
def test_chunks_do_not_matter(mechanism, monkeypatch):
    expected = dense(run(mechanism, TOWN))
    for children in (1, 3, 7, 20, 10_000):
        cut = partial(chunks, children_at_once=children)
        monkeypatch.setattr(descending, "chunks", cut)
        assert same(dense(run(mechanism, TOWN)), expected)


@each_way
def test_engines_do_not_matter(mechanism, monkeypatch):
    monkeypatch.setattr(descending, "chunks", partial(chunks, children_at_once=4))
    expected = run(mechanism, TOWN, engine=InOrder())
    for workers in (1, 2, 4):
        made = run(mechanism, TOWN, engine=LocalEngine(workers=workers))
        assert same(dense(made), dense(expected))
        assert made.notes == expected.notes


def test_another_seed_or_run_is_another_release():
    mechanism = WAYS["as in 2018"]
    first = dense(run(mechanism, TOWN, seed=1))
    assert not same(first, dense(run(mechanism, TOWN, seed=2)))


def test_chunks_cover_every_parent_and_child_once():
    for level in ("county", "leaf"):
        for size in (1, 2, 5, 1000):
            cut = chunks(PLACE, level, children_at_once=size)
            above = PLACE.levels[PLACE.depth(level) - 1]
            assert [p for one in cut for p in one.parents] == list(range(PLACE.size(above)))
            assert [c for one in cut for c in one.children] == list(range(PLACE.size(level)))
            for one in cut:
                parents = PLACE.parents[PLACE.depth(level)][list(one.children)]
                assert set(parents) == set(one.parents)
                assert len(one.children) <= size or len(one.parents) == 1


class Broken(Exception):
    """Stands for a crash."""


def crash_at(monkeypatch, level):
    """Break off when this level is about to be estimated."""
    prepare = prepare_level

    def stop(name, **named):
        if name == level:
            raise Broken
        return prepare(name, **named)

    monkeypatch.setattr(descending, "prepare_level", stop)


@pytest.mark.parametrize("level", PLACE.levels)
def test_a_broken_run_resumes_to_the_same_release(level, tmp_path, monkeypatch):
    mechanism = WAYS["as in 2018"]
    expected = run(mechanism, TOWN)
    with monkeypatch.context() as patch:
        crash_at(patch, level)
        with pytest.raises(Broken):
            run(mechanism, TOWN, workspace=tmp_path)
    done = PLACE.levels[: PLACE.depth(level)]
    assert sorted(p.stem for p in tmp_path.rglob("*.parquet")) == sorted(done)
    estimated = []
    prepare = prepare_level

    def watched(name, **named):
        estimated.append(name)
        return prepare(name, **named)

    monkeypatch.setattr(descending, "prepare_level", watched)
    made = run(mechanism, TOWN, workspace=tmp_path)
    assert same(dense(made), dense(expected))
    assert made.notes == expected.notes
    assert estimated == list(PLACE.levels[PLACE.depth(level) :])


def damage_by_cutting(path):
    path.write_bytes(path.read_bytes()[:-40])


def damage_by_emptying(path):
    path.write_bytes(b"")


def damage_one_count(path):
    table = pq.read_table(path)
    counts = table["count"].to_numpy().copy()
    counts[0] += 1
    column = table.schema.get_field_index("count")
    pq.write_table(table.set_column(column, "count", [counts]), path)


def damage_by_another_level(path):
    path.write_bytes(path.with_name("whole.parquet").read_bytes())


def damage_what_is_said(path):
    table = pq.read_table(path)
    about = table.schema.metadata[b"headcount"].replace(b'"notes": {', b'"notes": {"x": 1, ')
    pq.write_table(table.replace_schema_metadata({b"headcount": about}), path)


def damage_by_a_stranger(path):
    pq.write_table(pq.read_table(path).replace_schema_metadata({}), path)


@pytest.mark.parametrize(
    "damage",
    [
        damage_by_cutting,
        damage_by_emptying,
        damage_one_count,
        damage_by_another_level,
        damage_what_is_said,
        damage_by_a_stranger,
    ],
)
def test_a_damaged_level_is_reported_and_estimated_again(damage, tmp_path, caplog):
    mechanism = WAYS["as in 2018"]
    expected = run(mechanism, TOWN, workspace=tmp_path)
    path = tmp_path / "run-0" / "county.parquet"
    good = path.read_bytes()
    damage(path)
    assert path.read_bytes() != good
    with caplog.at_level(logging.WARNING):
        made = run(mechanism, TOWN, workspace=tmp_path)
    assert same(dense(made), dense(expected))
    assert made.notes == expected.notes
    assert "county.parquet cannot be used" in caplog.text
    assert "estimated again" in caplog.text
    assert path.read_bytes() == good


def test_one_wrong_bit_is_found_or_harmless(tmp_path):
    run(WAYS["as in 2018"], TOWN, workspace=tmp_path)
    kept = FinishedLevels(tmp_path, 0)
    path = tmp_path / "run-0" / "county.parquet"
    good, found = path.read_bytes(), 0
    expected = kept.load("county")
    assert expected is not None
    for place in range(0, len(good), 11):
        path.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        loaded = kept.load("county")
        if loaded is None:
            found += 1
            continue
        assert loaded[1] == expected[1]
        for name in ("start", "cell", "value"):
            assert np.array_equal(getattr(loaded[0], name), getattr(expected[0], name))
    assert found > len(good) / 11 / 4


def test_levels_of_other_runs_are_not_taken(tmp_path):
    both = FinishedLevels(tmp_path, 0), FinishedLevels(tmp_path, 1)
    rows = SparseRows(np.array([0, 1]), np.array([3], dtype=np.int32), np.array([7]))
    both[0].save("whole", rows, {"parents": 1})
    assert both[1].load("whole") is None
    found = both[0].load("whole")
    assert found is not None
    assert found[1] == {"parents": 1}
    assert (found[0].start.tolist(), found[0].cell.tolist()) == ([0, 1], [3])
    assert found[0].value.tolist() == [7]


def test_kept_levels_hold_nothing_but_estimates(tmp_path):
    """The columns of a finished level, and the release they lead to, are all there is."""
    mechanism = bounded(pure("1/2"), bounds=(CAPS,), report_epsilon=Fraction(1, 10))
    made = dense(run(mechanism, TOWN, workspace=tmp_path))
    table = pq.read_table(tmp_path / "run-0" / "leaf.parquet")
    assert table.column_names == ["unit", "cell", "count"]
    again = np.zeros_like(made["leaf"])
    again[table["unit"].to_numpy(), table["cell"].to_numpy()] = table["count"].to_numpy()
    assert np.array_equal(again, made["leaf"])


def test_levels_of_other_data_or_settings_are_not_taken(tmp_path, caplog):
    """A workspace that is used again by hand: nothing of the first run slips into the second."""
    first, second = WAYS["as in 2018"], bounded(pure(3), bounds=(CAPS,))
    run(first, TOWN, workspace=tmp_path)
    with caplog.at_level(logging.WARNING):
        made = run(second, TOWN, workspace=tmp_path)
    assert same(dense(made), dense(run(second, TOWN)))
    assert "made from other data or with other settings" in caplog.text
    free, doubled = settings(pure(3)), replace(TOWN, matrix=TOWN.matrix * 2)
    run(free, TOWN, workspace=tmp_path)
    made = run(free, doubled, workspace=tmp_path)
    assert same(dense(made), dense(run(free, doubled)))
