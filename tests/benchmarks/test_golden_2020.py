"""Golden problems of 2020: read and judged; a stored answer better than ours is noticed."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from benchmarks import golden_2020
from benchmarks.golden import measure
from benchmarks.golden_2020 import (
    CELLS,
    QUERIES,
    SHAPE,
    Golden2020,
    distance,
    judge_2020,
    read_golden_2020,
)
from benchmarks.golden_files import golden_problems
from headcount.errors import InputError
from headcount.topdown.choices import LevelPasses
from headcount.topdown.solve.rounding import round_passes
from tests.support.dense import on_variables, to_dense
from tests.support.solver_answers import solve_passes, target_distance


def write(folder, name, *, level, seed, paired):
    """A problem with stored answers of our own."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(8, (24, 3))
    cells = truth.reshape(*SHAPE, 3)
    arrays = {
        "parent": truth.sum(axis=1),
        "detail": truth + np.rint(rng.normal(0, 3, truth.shape)),
        "detail_variance": np.float64(9.0),
        "low": np.zeros((2, 3), int),
        "high": np.full((2, 3), 10_000),
        "group_of_child": np.array([0, 0, 1] if paired else [-1] * 3),
        "group_total": np.array([truth[:, :2].sum(), truth[:, 2].sum()] if paired else [], int),
        "l2": truth.astype(float),
        "rounded": truth,
    }
    for k, (query, keep) in enumerate(QUERIES.items()):
        exact = cells.sum(axis=tuple(a for a in CELLS if a not in keep)).reshape(-1, 3)
        arrays[f"answer_{query}"] = (exact + np.rint(rng.normal(0, 2 + k, exact.shape))).T
        arrays[f"variance_{query}"] = np.float64((2 + k) ** 2)
    entry = {"file": f"{name}.npz", "level": level}
    np.savez(folder / entry["file"], **arrays)
    golden = read_golden_2020(folder / entry["file"], entry)
    x = solve_passes(golden.batch, golden.fits, threads=1)[0].x
    counts = round_passes(golden.batch, x, golden.roundings)[0].counts
    arrays["l2"] = to_dense(golden.batch, x, n=24)
    arrays["rounded"] = to_dense(golden.batch, counts, n=24)
    np.savez(folder / entry["file"], **arrays)
    return entry, arrays


@pytest.fixture
def folder(tmp_path):
    index = [
        write(tmp_path, "state", level="State", seed=1, paired=True)[0],
        write(tmp_path, "block", level="Block", seed=2, paired=False)[0],
        write(tmp_path, "tract", level="Tract", seed=3, paired=False)[0],
    ]
    (tmp_path / "index.json").write_text(json.dumps(index))
    return tmp_path


def passed(readings):
    return {r.what: (r.value, r.note) for r in readings if "pass" in r.unit}


def test_a_folder_of_right_answers_passes(folder):
    state, block, _ = golden_problems(folder)
    assert isinstance(state, Golden2020)
    assert isinstance(block, Golden2020)
    assert len(state.batch.joint_total) == 2
    assert (len(state.fits), len(state.roundings)) == (2, 2)
    assert (len(block.fits), len(block.roundings)) == (1, 1)
    assert passed(measure(folder)) == {
        "passes: estimates": (3, ""),
        "passes: rounding from the stored estimate": (3, ""),
    }


def test_a_better_stored_estimate_fails_by_name(folder):
    """Lower objective of the last pass: the stored estimate left its band around the totals."""
    entry, arrays = write(folder, "tract", level="Tract", seed=3, paired=False)
    free = read_golden_2020(folder / "tract.npz", entry)
    x = solve_passes(free.batch, free.fits[1:], threads=1)[0].x
    np.savez(folder / "tract.npz", **(arrays | {"l2": to_dense(free.batch, x, n=24)}))
    assert passed(measure(folder))["passes: estimates"] == (2, "failed: tract")


@pytest.mark.parametrize("slack", ["1/2", "0.1001", "1/20"])
def test_a_build_with_another_slack_than_that_of_2020_fails(folder, slack, monkeypatch):
    """Neither looser nor tighter: the judge's number is its own."""
    monkeypatch.setattr(golden_2020, "LevelPasses", partial(LevelPasses, within=slack))
    assert passed(measure(folder))["passes: estimates"] == (2, "failed: tract")


def test_a_build_that_forgets_the_first_pass_fails(folder, monkeypatch):
    """Its last pass fits better than the stored one; the totals are not those of the first."""

    def without(batch, fits, **settings):
        return solve_passes(batch, fits[-1:], **settings)

    monkeypatch.setattr(golden_2020, "solve_passes", without)
    assert passed(measure(folder))["passes: estimates"] == (2, "failed: tract")


def test_a_rounding_farther_than_ours_fails_by_name(folder):
    entry, arrays = write(folder, "block", level="Block", seed=2, paired=False)
    far = arrays["rounded"].copy()
    cell = int(np.argmax((far[:, 0] > 1) & (far[:, 1] > 0)))
    far[cell, :2] += 1, -1
    np.savez(folder / "block.npz", **(arrays | {"rounded": far}))
    verdict = judge_2020(read_golden_2020(folder / "block.npz", entry))
    assert verdict.distances[0] < 0
    what = "passes: rounding from the stored estimate"
    assert passed(measure(folder))[what] == (2, "failed: block")


def test_the_distance_of_the_judge_is_the_one_that_rounding_makes_small(folder):
    rng = np.random.default_rng(4)
    for golden in golden_problems(folder):
        assert isinstance(golden, Golden2020)
        batch, stored = golden.batch, on_variables(golden.batch, golden.estimate)
        counts = np.floor(stored).astype(np.int64) + rng.integers(0, 2, stored.size)
        for one in golden.roundings:
            assert distance(golden, counts, one) == target_distance(batch, stored, counts, one)[0]


def test_files_that_are_missing_or_incomplete_are_named(folder):
    with np.load(folder / "state.npz") as arrays:
        some = {key: arrays[key] for key in arrays.files if key != "variance_race"}
    np.savez(folder / "state.npz", **some)
    with pytest.raises(InputError, match=r"state\.npz: found no array variance_race"):
        list(golden_problems(folder))
    (folder / "state.npz").unlink()
    with pytest.raises(InputError, match=r"state\.npz: found no such file"):
        list(golden_problems(folder))
    (folder / "index.json").write_text('[{"size": 3}]')
    with pytest.raises(InputError, match=r"found an entry with size, expected a name \(problems"):
        list(golden_problems(folder))
