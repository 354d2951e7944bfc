"""The same seed gives the same release, however the work is cut, spread or broken off."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from headcount.engines import InOrder, LocalEngine
from headcount.errors import RunError
from headcount.storage import storage_at
from headcount.topdown import descend as _task
from headcount.topdown import descend as descending
from headcount.topdown._estimate import NodeWork, estimate
from headcount.topdown.choices import Invariant, QuartersBounds, TableBounds
from headcount.topdown.parts import (
    Estimates,
    LevelPart,
    PartFiles,
    PartsInMemory,
    SparseRows,
    chunks,
)
from tests.topdown.small import (
    AGE,
    KIND,
    SCHEMA,
    STATE_TOTAL,
    answers,
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


def crash_after(monkeypatch, pieces):
    """Break off after so many pieces of work."""
    done: list[NodeWork] = []

    def stop(work):
        if len(done) == pieces:
            raise Broken
        done.append(work)
        return estimate(work)

    monkeypatch.setattr(_task, "estimate", stop)
    return done


@pytest.mark.parametrize("pieces", [0, 1, 2, 4, 7])
def test_a_broken_run_resumes_to_the_same_release(pieces, tmp_path, monkeypatch):
    """Parts that are there are taken as they are, and no piece of work is done twice."""
    mechanism = WAYS["as in 2018"]
    monkeypatch.setattr(descending, "chunks", partial(chunks, children_at_once=7))
    expected = run(mechanism, TOWN)
    with monkeypatch.context() as patch:
        crash_after(patch, pieces)
        with pytest.raises(Broken):
            run(mechanism, TOWN, workspace=storage_at(tmp_path), engine=InOrder())
    assert len(list(tmp_path.rglob("*-*.arrow"))) == pieces + 1
    again = crash_after(monkeypatch, 10_000)
    made = run(mechanism, TOWN, workspace=storage_at(tmp_path))
    assert same(dense(made), dense(expected))
    assert made.notes == expected.notes
    every = [one for level in PLACE.levels[1:] for one in chunks(PLACE, level, children_at_once=7)]
    assert len(again) == len(every) - pieces
    assert len(list(tmp_path.rglob("*-*.arrow"))) == 1 + len(every)


def _rewritten(path, *, counts=None, about=None):
    """The file again, sound as an Arrow file, with other content."""
    with pa.memory_map(str(path)) as source:
        batch = ipc.open_file(source).get_batch(0)
        metadata = batch.schema.metadata
        values = batch["counts"].values
        count = values.field("count").to_numpy().copy()
        column = pa.ListArray.from_arrays(
            batch["counts"].offsets,
            pa.StructArray.from_arrays(
                [values.field("cell"), pa.array(counts(count) if counts else count)],
                names=["cell", "count"],
            ),
        )
        made = pa.record_batch([column], names=["counts"])
        sink = pa.BufferOutputStream()
        made = made.replace_schema_metadata(about(metadata) if about else metadata)
        with ipc.new_file(sink, made.schema) as writer:
            writer.write_batch(made)
    path.write_bytes(sink.getvalue())


def damage_by_cutting(path):
    path.write_bytes(path.read_bytes()[:-40])


def damage_by_emptying(path):
    path.write_bytes(b"")


def damage_one_count(path):
    def more(count):
        count[0] += 1
        return count

    _rewritten(path, counts=more)


def damage_by_another_level(path):
    path.write_bytes((path.parent.with_name("whole") / "0-1.arrow").read_bytes())


def damage_what_is_said(path):
    key = b"headcount"
    old, new = b'"notes": {', b'"notes": {"x": 1, '
    _rewritten(path, about=lambda said: {key: said[key].replace(old, new)})


def damage_by_a_stranger(path):
    _rewritten(path, about=lambda said: {})


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
def test_a_damaged_part_is_reported_and_estimated_again(damage, tmp_path, caplog):
    mechanism = WAYS["as in 2018"]
    expected = run(mechanism, TOWN, workspace=storage_at(tmp_path))
    path = tmp_path / "run-0" / "county" / "0-11.arrow"
    good = path.read_bytes()
    damage(path)
    assert path.read_bytes() != good
    with caplog.at_level(logging.WARNING):
        made = run(mechanism, TOWN, workspace=storage_at(tmp_path))
    assert same(dense(made), dense(expected))
    assert made.notes == expected.notes
    assert "0-11.arrow cannot be used" in caplog.text
    assert "estimated again" in caplog.text
    assert path.read_bytes() == good


def test_a_part_that_is_lost_or_damaged_while_the_run_goes_on_stops_it(tmp_path):
    """The children of its units would be estimated from other counts."""
    run(WAYS["as in 2018"], TOWN, workspace=storage_at(tmp_path))
    estimates = Estimates(PartFiles(storage_at(tmp_path), 0))
    estimates.finish("whole", [range(1)])
    assert estimates.rows("whole", range(1)).units == 1
    path = tmp_path / "run-0" / "whole" / "0-1.arrow"
    for damage in (damage_one_count, Path.unlink):
        damage(path)
        with pytest.raises(RunError, match="units 0 to 1: found no sound file of estimates"):
            estimates.rows("whole", range(1))


def test_one_wrong_bit_is_found_or_harmless(tmp_path):
    run(WAYS["as in 2018"], TOWN, workspace=storage_at(tmp_path))
    kept = PartFiles(storage_at(tmp_path), 0)
    path = tmp_path / "run-0" / "county" / "0-11.arrow"
    good, found = path.read_bytes(), 0
    expected = kept.load("county", range(11))
    assert expected is not None
    for place in range(0, len(good), 11):
        path.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        loaded = kept.load("county", range(11))
        if loaded is None:
            found += 1
            continue
        assert loaded.notes == expected.notes
        for name in ("start", "cell", "value"):
            assert np.array_equal(getattr(loaded.rows, name), getattr(expected.rows, name))
    assert found > len(good) / 11 / 4


def test_parts_of_other_runs_are_not_taken(tmp_path):
    both = PartFiles(storage_at(tmp_path), 0), PartFiles(storage_at(tmp_path), 1)
    rows = SparseRows(np.array([0, 1]), np.array([3], dtype=np.int32), np.array([7]))
    both[0].save("whole", range(1), LevelPart(rows, {"parents": 1}))
    assert both[1].load("whole", range(1)) is None
    found = both[0].load("whole", range(1))
    assert found is not None
    assert found.notes == {"parents": 1}
    assert (found.rows.start.tolist(), found.rows.cell.tolist()) == ([0, 1], [3])
    assert found.rows.value.tolist() == [7]


def _some_rows(units, chance):
    sizes = chance.integers(0, 4, size=units)
    start = np.concatenate([[0], np.cumsum(sizes)])
    cell = np.concatenate([np.sort(chance.choice(9, n, replace=False)) for n in sizes])
    return SparseRows(start, cell.astype(np.int32), chance.integers(1, 300, size=len(cell)))


def test_any_range_of_a_level_is_read_across_parts_and_mends(tmp_path):
    """Against a dense table of the same counts, in memory and in files."""
    chance = np.random.default_rng(8)
    pieces = [range(4), range(4, 5), range(5, 12)]
    made = [_some_rows(len(units), chance) for units in pieces]
    mend = LevelPart(_some_rows(12, chance), {}, mended=np.array([3, 4, 9]))
    table = np.concatenate([rows.matrix(9).toarray() for rows in made])
    table[mend.mended] = mend.rows.matrix(9).toarray()[mend.mended]
    for parts in (PartsInMemory(), PartFiles(storage_at(tmp_path), 0)):
        for units, rows in zip(pieces, made, strict=True):
            parts.save("leaf", units, LevelPart(rows, {}))
        estimates = Estimates(parts)
        estimates.finish("leaf", pieces, mend)
        for first in range(12):
            for last in range(first + 1, 13):
                rows = estimates.rows("leaf", range(first, last))
                assert np.array_equal(rows.matrix(9).toarray(), table[first:last])


def test_parts_hold_nothing_but_estimates(tmp_path):
    """The columns of a part, and the release they lead to, are all there is."""
    mechanism = bounded(pure("1/2"), bounds=(CAPS,), report_epsilon=Fraction(1, 10))
    made = dense(run(mechanism, TOWN, workspace=storage_at(tmp_path)))
    units = PLACE.size("leaf")
    path = tmp_path / "run-0" / "leaf" / f"0-{units}.arrow"
    with pa.memory_map(str(path)) as source:
        batch = ipc.open_file(source).get_batch(0)
        about = json.loads(batch.schema.metadata[b"headcount"])
        rows = batch.to_pylist()
    said = {"level", "units", "notes", "stuck", "mended", "made_from", "digest"}
    assert set(about) == said
    assert set(rows[0]) == {"counts"}
    again = np.zeros_like(made["leaf"])
    for unit, row in enumerate(rows):
        for entry in row["counts"]:
            again[unit, entry["cell"]] = entry["count"]
    assert np.array_equal(again, made["leaf"])


def test_parts_of_other_data_or_settings_are_not_taken(tmp_path, caplog):
    """A workspace that is used again by hand: nothing of the first run slips into the second."""
    first, second = WAYS["as in 2018"], bounded(pure(3), bounds=(CAPS,))
    run(first, TOWN, workspace=storage_at(tmp_path))
    with caplog.at_level(logging.WARNING):
        made = run(second, TOWN, workspace=storage_at(tmp_path))
    assert same(dense(made), dense(run(second, TOWN)))
    assert "made from other data, or with other noise or settings" in caplog.text
    free, doubled = settings(pure(3)), replace(TOWN, matrix=TOWN.matrix * 2)
    run(free, TOWN, workspace=storage_at(tmp_path))
    made = run(free, doubled, workspace=storage_at(tmp_path))
    assert same(dense(made), dense(run(free, doubled)))


def _overlapping(folder, seed):
    """Bounds on two queries that cross, each of which binds in some leaves only."""
    chance = np.random.default_rng(seed)
    truth = TOWN.dense()
    bounds = []
    for name, query in (("kind", KIND), ("age", AGE)):
        sums = answers(truth, query)
        levels = SCHEMA.attribute(name).levels
        lines = [f"leaf,{name},low,high"]
        for leaf, code in enumerate(PLACE.units[-1]):
            binds = chance.random() < 0.15
            for group, level in enumerate(levels):
                n = int(sums[leaf, group])
                lines.append(f"{code},{level}," + (f"{max(n - 1, 0)},{n + 1}" if binds else ","))
        file = folder / f"{name}-{seed}.csv"
        file.write_text("\n".join(lines) + "\n")
        bounds.append(TableBounds(query=name, level="leaf", file=file, public=True))
    return settings(pure("1/2"), bounds=tuple(bounds), failsafe_over=("kind",))


def test_bounds_that_cross_and_bind_in_some_units_only_do_not_make_chunks_matter(
    tmp_path, monkeypatch
):
    """Which bounds cross is decided for the level: a chunk may hold some of them only."""
    by_programme = 0
    for seed in range(10):
        mechanism = _overlapping(tmp_path, seed)
        expected = run(mechanism, TOWN, seed=seed)
        by_programme += int(expected.notes["leaf: rounded by MIP"])
        for children in (1, 5):
            with monkeypatch.context() as patch:
                patch.setattr(descending, "chunks", partial(chunks, children_at_once=children))
                made = run(mechanism, TOWN, seed=seed)
            assert same(dense(made), dense(expected)), seed
            assert made.notes == expected.notes, seed
    assert by_programme > 0
