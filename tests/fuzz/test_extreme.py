"""What ``check`` lets pass, ``protect`` completes: some of the cases of ``make extreme``."""

from __future__ import annotations

import pytest

from headcount.errors import RunError
from tests.fuzz import extreme


def test_what_passes_check_completes():
    tally = extreme.run_cases(50, seed=3)
    assert tally.failures == []
    assert tally.valid == 50
    assert {"geometric", "averaged", "topdown", "rounding", "cell_key"} <= set(tally.passed)
    assert tally.measured > 5  # that publish measurements
    assert tally.refused  # extreme enough that some are


def test_a_run_that_fails_after_check_is_noticed(monkeypatch: pytest.MonkeyPatch):
    """Negative control: a fault that shows after the loss only."""

    def broken(*_arguments: object, **_named: object) -> None:
        raise RunError("found a fault, expected none")

    monkeypatch.setattr("headcount.run.protect.make_release", broken)
    tally = extreme.run_cases(3, seed=4)
    assert len(tally.failures) == 3
    assert "found a fault, expected none" in tally.failures[0]
