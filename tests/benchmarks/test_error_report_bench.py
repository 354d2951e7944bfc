"""Predicted beside true errors, on a made-up file of counts."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks import error_report
from benchmarks.pool import settings_for
from tests.benchmarks.test_pool_bench import write


def test_predictions_are_set_beside_true_errors_at_levels_of_many_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, blocks=9)
    monkeypatch.setattr(error_report, "RHOS", ("0.5",))
    # Equal shares alone: with those like 2020 the comparison of pooled answers is tried.
    monkeypatch.setattr(
        error_report, "settings_for", lambda counts: islice(settings_for(counts), 1)
    )
    found = {one.what: one for one in error_report.measure(tmp_path, replicates=3)}
    head = "made_up, equal shares, rho 0.5"
    for method in ("topdown", "pooled"):
        reading = found[f"{head}, {method}: cells at block"]
        assert reading.value < 8
        assert reading.at_most is not None
        assert reading.at_most >= 5
        assert "by reruns alone" in reading.note
        assert found[f"{head}, {method}: bias of block totals from 10 people"].at_most is None
    assert not [name for name in found if "at tract" in name]  # 12 units say little


def test_a_reading_may_be_off_by_5_percent_or_two_standard_errors():
    row = {"query": "total", "level": "block", "best": 1.06, "best_by": "both"}
    row |= {"rmse": 0.9, "rmse_right": 1.0}
    sure = error_report._reading("x", {**row, "best_error": 0.0, "rmse_error_right": 0.01})
    unsure = error_report._reading("x", {**row, "best_error": 0.03, "rmse_error_right": 0.04})
    assert (sure.passed, unsure.passed) == (False, True)
    assert "by reruns alone -10.0 %" in sure.note
