"""The outputs of a thousandth of the made-up nation of 2020: 2,016 cells, long tables."""

from __future__ import annotations

import pytest

from benchmarks import nation_outputs as bench
from benchmarks.figures import Reading
from headcount.errors import ConfigError


def test_every_output_is_made_and_read_back(monkeypatch: pytest.MonkeyPatch):
    ran = bench.run_outputs(0.001)
    assert list(ran) == [
        "all measurements",
        "tables",
        "microdata",
        "reading the release",
        "evaluation",
    ]
    assert all(most >= before > 0 for _, _, before, most in ran.values())
    monkeypatch.setattr(bench, "apart", lambda *_, **__: ran)
    readings = {one.what: one for one in bench.measure(share=0.05)}
    measured = readings["all measurements"]
    assert isinstance(measured, Reading)
    assert (measured.value, measured.at_most) == (ran["all measurements"][1], 360)
    assert "slope 0.00" in measured.note
    slow = ran | {bench.MEASURING: (181.0, 361.0, 0.4, 0.95)}
    monkeypatch.setattr(bench, "apart", lambda *_, **__: slow)
    missed = [one.what for one in bench.measure(share=0.05) if not one.passed]
    assert missed == ["all measurements", "  wall time", "  that it adds"]


def test_a_share_without_sense_is_refused():
    with pytest.raises(ConfigError, match=r"nation-outputs: --share: found 2, expected the part"):
        bench.measure(share=2)
