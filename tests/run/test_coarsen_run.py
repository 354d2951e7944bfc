"""``headcount plan --coarsen``: the page, its files, and what is refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import headcount as hc
from headcount.cli.app import app
from headcount.config.load import load_config
from headcount.files import POSIX
from headcount.mechanisms import Chain

CONFIG = """[population]
kind = "microdata"
file = "people.csv"
geography = {{ columns = ["county", "block"], root = "state" }}
attribute = [
  {{ name = "sex", levels = ["f", "m"] }},
  {{ name = "age", levels = ["0", "1", "2", "3"] }},
  {{ name = "origin", levels = ["a", "b", "c"] }},
]

{mechanism}
[run]
out = "run"
seed = 1
"""
MECHANISM = """[mechanism]
name = "coarsening"
ladder = ["county"]
audit = { known = ["sex", "age"], secret = ["origin"], proven = "1/10" }

[mechanism.tables]
all = { by = ["sex", "age", "origin"], at = "block" }

"""
PEOPLE = "county,block,sex,age,origin\n" + "".join(
    f"{b // 4},{b},{'fm'[n % 2]},{(n + b) % 4},{'aaabc'[(n * b) % 5]}\n"
    for b in range(8)
    for n in range(5 + b)
)
RUN = CliRunner()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "c.toml").write_text(CONFIG.format(mechanism=MECHANISM))
    return tmp_path / "c.toml"


def plan(*given: str) -> str:
    done = RUN.invoke(app, ["plan", "c.toml", *given])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_page_its_table_and_a_file_for_each_plan(config):
    said = plan("--coarsen", "--areas", "10,20", "--join", "age=0,2")
    out = config.parent / "coarsening" / "c" / "internal"
    assert "computed from confidential data" in said
    assert f"page:  {out.relative_to(config.parent)}/report.html (confidential)" in said
    page = (out / "report.html").read_text()
    for words in (
        "do not publish",
        "What was looked at.",
        "Nothing is chosen here",
        "--areas 10,20",
    ):
        assert words in page
    table = pl.read_csv(out / "plans.csv")
    assert set(table["least"]) == {"block", "10", "20"}
    assert len(list((out / "plans").iterdir())) == table.height
    if POSIX:
        assert stat.S_IMODE(out.stat().st_mode) == 0o700


def test_a_plan_in_the_config_passes_check_as_the_table_says(config):
    plan("--coarsen", "--areas", "10", "-q")
    out = config.parent / "coarsening" / "c" / "internal"
    table = pl.read_csv(out / "plans.csv")
    assert set(table["fits"]) == {True, False}
    for fits in (True, False):
        number = table.filter(pl.col("fits") == fits)["plan"][0]
        text = (out / "plans" / f"{number}.toml").read_text()
        (config.parent / "chosen.toml").write_text(CONFIG.format(mechanism=f"{text}\n"))
        done = RUN.invoke(app, ["check", "chosen.toml"])
        assert (done.exit_code == 0) == fits, done.output


def test_the_same_from_python_and_as_json(config):
    given = json.loads(plan("--coarsen", "--areas", "10", "--cross", "county,nowhere", "--json"))
    made = load_config(config)
    wanted: Any = Chain.of(made.mechanism).last
    found = hc.coarsenings(
        made.population.read(), wanted, areas=(10,), crossed=("county", "nowhere")
    )
    assert found.table.drop("fits").to_dicts() == [
        {key: value for key, value in row.items() if key not in ("toml", "fits")}
        for row in given["plans"]
    ]
    assert given["confidential"] is True
    assert given["plans"][1]["toml"] == found.toml(2)
    assert found.mechanism(1).ladder == ("county",)
    assert repr(found) == f"<{found.table.height} plans of coarsening>"
    assert "computed from" in found._repr_html_().lower()
    assert hc.coarsenings(found_counts(made), wanted, areas=()).confidential


def found_counts(made):
    from headcount.tabulate import Tabulated

    return Tabulated.of(made.population.read()).counts


def test_a_second_time_the_folder_is_not_empty(config):
    plan("--coarsen", "--areas", "10", "-q", "--out", "there")
    done = RUN.invoke(app, ["plan", "c.toml", "--coarsen", "--out", "there"])
    assert "found existing content, expected a new or empty folder" in str(done.exception)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--coarsen", "--set", "rho=1"], "--coarsen: found other questions"),
        (["--areas", "10"], "found --areas, --cross, --join or --out, expected --coarsen"),
        (["--coarsen", "--areas", "few"], "--areas: found 'few', expected least people"),
        (["--coarsen", "--join", "age"], "--join: found 'age', expected ATTRIBUTE:LABEL"),
        (["--coarsen", "--cross", "moon"], "cross: found 'moon'"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_anything_is_written(config, given, said):
    done = RUN.invoke(app, ["plan", "c.toml", *given])
    assert said in str(done.exception)
    assert not (config.parent / "coarsening").exists()


def test_another_method_has_no_plans(config):
    config.write_text(CONFIG.format(mechanism='[mechanism]\nname = "identity"\n\n'))
    done = RUN.invoke(app, ["plan", "c.toml", "--coarsen"])
    assert "mechanism: found 'identity', expected [mechanism] name = \"coarsening\"" in str(
        done.exception
    )
