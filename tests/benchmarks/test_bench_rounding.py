"""Benchmarks of rounding and of golden problems: they pass what is right and catch the rest."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import topdown_round
from benchmarks.golden import measure
from headcount.solve.mip import minimise
from headcount.topdown.solve.failsafe import estimate, round_kept
from headcount.topdown.solve.integer_programs import rounding_program
from headcount.topdown.solve.leastsquares import programme, solve_clarabel
from headcount.topdown.solve.network import split
from tests.support.dense import Margin, from_dense, reopen
from tests.support.solver_answers import objective

SHAPE = (3, 2, 2)
TYPE = np.repeat(np.arange(3), 4)
REST = np.tile(np.arange(4), 3).astype(np.int32)


def golden(seed: int, *, failsafe: bool):
    """One problem solved by Clarabel and HiGHS, as arrays and index entry of a golden folder."""
    rng = np.random.default_rng(seed)
    truth = rng.poisson(6, (12, 3))
    noisy = np.rint(truth + rng.normal(0, 3, truth.shape))
    by_type = np.array([truth[g == TYPE].sum(axis=0) for g in range(3)])
    by_rest = np.array([truth[g == REST].sum(axis=0) for g in range(4)])
    low = by_type // 2
    total = truth.sum(axis=1)
    if failsafe:
        low[2] = by_type[2] + 2
    margins = [m + np.rint(rng.normal(0, 2, m.shape)) for m in (by_type, by_rest)]
    families = [
        Margin(group=TYPE, weight=0.5, margin=margins[0], low=low),
        Margin(group=REST, weight=2.0, margin=margins[1]),
    ]
    batch = from_dense(noisy, weight=0.1, total=total, families=families)
    if failsafe:
        batch = reopen(batch, keep=REST, total=total, answer=noisy)
        x, _ = estimate(batch, keep=REST)
        counts, _ = round_kept(batch, x, keep=REST)
    else:
        _, x = solve_clarabel(programme(batch), tolerance=1e-11)
        x = np.where(x < 1e-7, 0.0, x)
        whole, cost = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
        split(x, whole, cost)
        steps = minimise(rounding_program(batch, whole, cost))
        assert steps is not None
        up, _, down = np.split(steps.astype(np.int64), 3)
        counts = whole + up - down
    arrays = {
        "noisy_detail": noisy.reshape(*SHAPE, 3),
        "w_detail": 0.1,
        "parent": total.reshape(SHAPE),
        "q0_answer": margins[0],
        "q0_w": 0.5,
        "q0_over": [1, 2],
        "q1_answer": margins[1].reshape(2, 2, 3),
        "q1_w": 2.0,
        "q1_over": [0],
        "c_type_rhs": low,
        "c_type_sign": "ge",
        "c_type_over": [1, 2],
        "l2": _dense(batch, x),
        "rounded": _dense(batch, counts).astype(np.int64),
    }
    entry = {
        "name": f"problem_{seed}",
        "backup": failsafe,
        "l2_objective_solver": float(objective(batch, x)[0]),
        "round_L1": float(np.abs(counts - x).sum()),
    }
    return arrays, entry


def _dense(batch, x):
    out = np.zeros((12, 3))
    out[np.repeat(batch.cell, np.diff(batch.var_start)), batch.var_child] = x
    return out.reshape(*SHAPE, 3)


@pytest.fixture
def folder(tmp_path):
    index = []
    for seed in range(4):
        arrays, entry = golden(seed, failsafe=seed == 3)
        np.savez(tmp_path / f"{entry['name']}.npz", **arrays)
        index.append(entry)
    (tmp_path / "index.json").write_text(json.dumps(index))
    return tmp_path


def passes(readings):
    return {r.what: (r.value, r.note) for r in readings if "pass" in r.unit}


def test_a_folder_of_right_answers_passes(folder):
    assert passes(measure(folder)) == {
        "least squares and rounding: estimates": (3, ""),
        "least squares and rounding: rounding from the stored estimate": (3, ""),
        "failsafe: estimates": (1, ""),
        "failsafe: rounding from the stored estimate": (1, ""),
    }


@pytest.mark.parametrize(
    ("key", "factor", "seed", "what"),
    [
        ("l2_objective_solver", 1 - 1e-4, 1, "least squares and rounding: estimates"),
        ("round_L1", 0.9, 2, "least squares and rounding: rounding from the stored estimate"),
        ("l2_objective_solver", 1 - 1e-4, 3, "failsafe: estimates"),
        ("round_L1", 0.9, 3, "failsafe: rounding from the stored estimate"),
    ],
)
def test_an_answer_worse_than_the_stored_one_fails_by_name(folder, key, factor, seed, what):
    index = json.loads((folder / "index.json").read_text())
    index[seed][key] *= factor
    (folder / "index.json").write_text(json.dumps(index))
    assert passes(measure(folder))[what][1] == f"failed: problem_{seed}"


def test_the_rounding_benchmark_finds_the_same_optimum(monkeypatch):
    monkeypatch.setattr(topdown_round, "CASES", {"49 states, totals fixed": 5})
    monkeypatch.setattr(topdown_round, "PROBLEMS", 2)
    ours, highs = topdown_round.measure()
    assert "0 violations" in ours.note
    assert "same optimum in 2 of 2" in highs.note
    assert highs.unit == "x headcount"
