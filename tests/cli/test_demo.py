"""The demo shows what headcount does: several methods on people that come with it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from headcount.cli import compare
from headcount.cli.app import main
from headcount.comparison.settings import Settings
from headcount.config.load import load_comparison
from headcount.run.compare import ways_of

SMALL = """\
[population]
kind = "uniform"
people = 2000
depth = 2
mean = 50
seed = 1

[[case]]
name = "a little noise"
mechanism = { name = "geometric", epsilon = 2 }
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the demo is over soon."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf-8")
    monkeypatch.setattr(compare, "DEMO", tmp_path / "small.toml")
    monkeypatch.setattr(logging.getLogger("headcount"), "setLevel", lambda _level: None)
    return tmp_path


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["headcount", "demo", *words])
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def test_every_case_of_the_demo_fits_its_people_and_is_a_method_of_its_own():
    config = load_comparison(compare.DEMO)
    assert config.population.kind == "towns"
    ways = ways_of(config, Settings(preset="demo"), config.population.domain())
    assert set(ways) == {"no protection", *(case.name for case in config.case)}
    methods = {way.last.name for way in ways.values()} | {
        part.name for way in ways.values() for part in way.parts
    }
    assert methods >= {
        *("geometric", "topdown", "swapping", "suppression", "cell-key", "rounding"),
    }
    pooled = [name for name, way in ways.items() if getattr(way.last, "pool", False)]
    assert len(pooled) == 2


def test_it_says_what_came_out_and_where_the_report_is(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert ended(monkeypatch) == 0
    said = capsys.readouterr().out
    report = small / "headcount-demo" / "internal" / "report.html"
    assert "a little noise" in said
    answer = "Totals: with a promise usable down to level_2 (a little noise)."
    assert answer in " ".join(said.split())
    assert str(report) in said
    assert "a little noise" in report.read_text(encoding="utf-8")
    assert (small / "headcount-demo.toml").read_text(encoding="utf-8") == SMALL
    assert "headcount compare headcount-demo.toml --out headcount-demo" in report.read_text(
        encoding="utf-8"
    )
    assert ended(monkeypatch, "--quiet") == 0  # finished already
    assert capsys.readouterr().out == "report: headcount-demo/internal/report.html\n"


def test_a_config_that_was_changed_is_left_alone(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    mine = SMALL.replace("epsilon = 2", "epsilon = 3")
    (small / "headcount-demo.toml").write_text(mine, encoding="utf-8")
    assert ended(monkeypatch) == 2
    assert (
        "headcount-demo.toml: found another file than the demo's config, expected no file of that "
        "name, or --out with another name; a config of yours is for headcount compare"
    ) in " ".join(capsys.readouterr().err.split())
    assert (small / "headcount-demo.toml").read_text(encoding="utf-8") == mine
    assert not (small / "headcount-demo").exists()
    assert ended(monkeypatch, "--out", "other", "--quiet") == 0
    assert (small / "other.toml").read_text(encoding="utf-8") == SMALL
