from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.golden_files import Golden, golden_problems
from headcount.errors import InputError
from headcount.topdown.solve.batch import violation
from headcount.topdown.solve.leastsquares import least_squares
from tests.support.dense import to_dense
from tests.support.solver_answers import objective

SHAPE, KIDS = (3, 2, 2), 2


def write(directory, *, parent=True, **changes):
    """A problem of 12 cells with one family measured and bounded, one measured, one fixed."""
    rng = np.random.default_rng(8)
    truth = rng.poisson(6, (*SHAPE, KIDS))
    truth[0, 1, 1] = 0
    by_type = truth.sum(axis=(1, 2))
    arrays = {
        "noisy_detail": truth + rng.normal(0, 4, truth.shape),
        "w_detail": np.float64(0.1),
        "l2": truth.astype(float),
        "rounded": truth,
        "q0_answer": by_type + rng.normal(0, 2, by_type.shape),
        "q0_w": np.float64(0.5),
        "q0_over": np.array([1, 2]),
        "q1_answer": truth.sum(axis=0) + rng.normal(0, 1, (2, 2, KIDS)),
        "q1_w": np.float64(2.0),
        "q1_over": np.array([0]),
        "c_lb_rhs": by_type // 2,
        "c_lb_sign": np.array("ge"),
        "c_lb_over": np.array([1, 2]),
        "c_ub_rhs": by_type + 3,
        "c_ub_sign": np.array("le"),
        "c_ub_over": np.array([1, 2]),
        "c_total_rhs": truth.sum(axis=(0, 1, 2)),
        "c_total_sign": np.array("="),
        "c_total_over": np.array([0, 1, 2]),
    }
    if parent:
        arrays["parent"] = truth.sum(axis=-1)
    np.savez(directory / "one.npz", **(arrays | changes))
    entry = {"name": "one", "l2_objective_solver": 1.5, "round_L1": 0.25, "backup": False}
    (directory / "index.json").write_text(json.dumps([entry]))
    return truth


def test_a_problem_is_read_with_any_sizes(tmp_path):
    truth = write(tmp_path)
    [golden] = golden_problems(tmp_path)
    assert isinstance(golden, Golden)
    batch = golden.batch
    assert (golden.name, golden.shape, golden.failsafe) == ("one", SHAPE, False)
    assert (golden.objective, golden.distance) == (1.5, 0.25)
    assert len(batch.cell) == 11  # the empty cell is dropped
    assert sorted(np.diff(batch.family_start)) == [1, 3, 4]
    assert violation(batch, truth.reshape(12, KIDS)[batch.cell].ravel())[0] == 0
    with np.load(tmp_path / "one.npz") as file:
        arrays = dict(file)
    x = least_squares(batch, threads=1).x
    dense = to_dense(batch, x, n=12).reshape(*SHAPE, KIDS)
    assert dense.sum(axis=-1) == pytest.approx(truth.sum(axis=-1), abs=1e-6)
    assert dense.sum(axis=(0, 1, 2)) == pytest.approx(truth.sum(axis=(0, 1, 2)), abs=1e-6)
    kept = truth.sum(axis=-1) > 0
    cost = 0.1 * ((dense - arrays["noisy_detail"])[kept] ** 2).sum()
    cost += 0.5 * ((dense.sum(axis=(1, 2)) - arrays["q0_answer"]) ** 2).sum()
    cost += 2.0 * ((dense.sum(axis=0) - arrays["q1_answer"]) ** 2).sum()
    assert objective(batch, x)[0] == pytest.approx(cost)


def test_a_problem_without_parent_is_the_root(tmp_path):
    write(tmp_path, parent=False)
    [golden] = golden_problems(tmp_path)
    assert isinstance(golden, Golden)
    assert golden.batch.is_root
    assert golden.parent is None
    assert len(golden.batch.cell) == 12


def test_a_directory_without_index_is_named(tmp_path):
    with pytest.raises(InputError, match=r"found no index\.json, expected a directory with one"):
        list(golden_problems(tmp_path))


def test_a_missing_problem_is_named(tmp_path):
    write(tmp_path)
    (tmp_path / "one.npz").unlink()
    with pytest.raises(InputError, match=r"one\.npz: found no such file"):
        list(golden_problems(tmp_path))


def test_an_unknown_sign_is_named(tmp_path):
    write(tmp_path, c_lb_sign=np.array("<>"))
    with pytest.raises(InputError, match=r"one\.npz: c_lb_sign: found '<>', expected one of =, eq"):
        list(golden_problems(tmp_path))


def test_a_marginal_measured_twice_is_named(tmp_path):
    write(tmp_path, q1_over=np.array([1, 2]), q1_answer=np.zeros((3, KIDS)))
    with pytest.raises(InputError, match=r"q1_over: found a marginal measured twice"):
        list(golden_problems(tmp_path))
