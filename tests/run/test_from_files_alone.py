"""Plan, pooled estimate, intervals and error report, when nothing but measurements is left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import headcount as hc
from headcount.cli.app import app
from headcount.run.protect import protect_run
from headcount.topdown.from_measurements import start_from
from tests.run.town import MICRODATA, write_config, write_town

SETTINGS = """name = "topdown"
rho = 1
[mechanism.queries]
cells = { share = "1/2" }
sex = { by = ["sex"], share = "1/2" }
total = { by = [] }
[[mechanism.invariant]]
query = "total"
level = "county"
"""
AGAIN = """[measurements]
folder = "published"
[mechanism]
name = "topdown"
rho = 1
pool = true
pool_from = "tract"
queries = { cells = { share = "1/2" }, sex = { by = ["sex"], share = "1/2" }, total = { by = [] } }
invariant = [{ query = "total", level = "county" }]
[run]
out = "again"
"""


def test_everything_goes_on_when_the_truth_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_town(tmp_path)
    asked = 'publish = ["measurements"]'
    protect_run(write_config(tmp_path, population=MICRODATA, mechanism=SETTINGS, run=asked))
    shutil.move(tmp_path / "out/release/measurements", tmp_path / "published")
    shutil.rmtree(tmp_path / "out")
    for file in (*tmp_path.glob("*.csv*"), *tmp_path.glob("*.toml")):
        file.unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["published"]
    monkeypatch.chdir(tmp_path)
    Path("again.toml").write_text(AGAIN)

    start = start_from("published")
    known = hc.Domain(start.measurements.schema, start.measurements.geography)
    linear = start.mechanism.on(known).errors.by_level()
    county = next(one for one in linear if (one.level, one.query) == ("county", "sex"))
    assert 0 < county.best <= county.pooled < county.own
    run = CliRunner().invoke
    told = json.loads(run(app, ["plan", "again.toml", "--json", "--area", "a=tract:a1,b1"]).stdout)
    rows = {(one["level"], one["query"]): one for one in told["tables"]["as published"]}
    assert rows["county", "sex"]["best"] == pytest.approx(county.best)
    assert rows["a", "sex"]["units"] == 2
    refused = run(app, ["plan", "again.toml", "--set", "rho=1"])
    assert "found published answers, whose noise is drawn" in str(refused.exception)

    made = run(app, ["estimate", "again.toml", "--quiet"])
    assert made.exit_code == 0, made.output
    receipt = json.loads(Path("again/release/receipt.json").read_text())
    assert receipt["mechanism"].startswith("TopDown with pooling(")
    assert receipt["ledger"].startswith("nothing was spent")
    assert receipt["data_digest"] is None

    between = hc.errors_of("again.toml", areas="county", query="sex", confidence=0.9)
    released = hc.read_release(Path("again/release")).as_counts().at("county")
    assert (
        between["released"].to_list() == released.reshape(2, 2, 3).sum(axis=2).reshape(-1).tolist()
    )
    assert between.select((pl.col("low") <= pl.col("high")).all()).item()
    assert between.equals(hc.errors_of(release="again.toml", areas="county", query="sex"))
    variance = (between["deviation"] ** 2).to_numpy().mean()  # as planned, over both counties
    assert variance**0.5 == pytest.approx(county.best)

    named = ["errors", "again", "--runs", "2", "--measurements", "published"]
    told = run(app, [*named, "--quiet"])
    assert told.exit_code == 0, told.output
    errors = pl.read_csv("again/errors/errors.csv").filter(sizes="all")
    exact = errors.filter(level="county", query="total")
    assert exact["rmse"].to_list() == [0.0]
    assert errors.filter(level="tract", query="cells")["rmse"][0] > 0
