"""All studies at once: each with its own settings, and one page with their main claims."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.comparison.study import study_names
from headcount.run import study
from headcount.run.study import write_index

CLAIMS = """headline,section,claim,paper,finding,outcome
0,4,not a main one,1,2,reproduced
2,4,second,0.5,0.4,not reproduced here
1,3,first,1.0,1.1,compatible
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Two studies that have been run, of which one has claims."""
    for name in ("flaxman-2019", "christ-2022"):
        (tmp_path / name / "tables").mkdir(parents=True)
        (tmp_path / name / "report.html").write_text("a report")
    (tmp_path / "flaxman-2019" / "tables" / "claims.csv").write_text(CLAIMS)
    (tmp_path / "christ-2022" / "tables" / "areas.csv").write_text("county\nAlameda\n")
    return tmp_path


def test_the_index_has_the_main_claims_in_their_order_and_links_to_every_report(made: Path):
    page = write_index(made).read_text(encoding="utf-8")
    for name in ("flaxman-2019", "christ-2022"):
        assert f'href="{name}/report.html"' in page
    assert page.index(">first<") < page.index(">second<")
    assert "not a main one" not in page
    assert "compatible" in page
    assert "not reproduced here" in page
    assert "petti-flaxman-2020" not in page  # it was not run


def test_every_study_is_run_with_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ran = []

    def run(name: str, out: Path, settings: object, **_: object) -> Path:
        ran.append((name, out, type(settings).__module__))
        return out / "report.html"

    monkeypatch.setattr(study, "run_study", run)
    found = CliRunner().invoke(app, ["study", "all", "--out", str(tmp_path / "all"), "--quiet"])
    assert found.exit_code == 0, found.output
    assert "index.html" in found.output
    assert [name for name, *_ in ran] == study_names()
    assert all(out == tmp_path / "all" / name for name, out, _ in ran)
