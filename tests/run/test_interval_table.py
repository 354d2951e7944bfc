"""``headcount errors``, intervals: from a run to a table of intervals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.release.store import read_release
from headcount.run.estimate import estimate_run
from headcount.run.protect import protect_run

CONFIG = """
[population]
kind = "microdata"
file = "people.csv"
units = "tracts.csv"
geography = {{ columns = ["county", "tract"] }}
attribute = [{{ name = "sex", levels = ["f", "m"] }}]

[mechanism]
name = "topdown"
rho = 1
{queries}

[run]
out = "{out}"
seed = 3
{publish}
"""
QUERIES = """unit = "add-remove"
queries = { total = { by = [], share = "1/2" }, cells = { share = "1/2" } }"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that published its measurements, and one that did not."""
    place = tmp_path_factory.mktemp("intervals")
    tracts = ["a1", "a2", "b1", "b2", "b3"]
    rows = [f"{t[0]},{t},{'fm'[k % 2]}" for t in tracts for k in range(30 + 7 * int(t[1]))]
    (place / "people.csv").write_text("\n".join(["county,tract,sex", *rows]) + "\n")
    units = [f"{tract[0]},{tract}" for tract in tracts]
    (place / "tracts.csv").write_text("\n".join(["county,tract", *units]) + "\n")
    for out, publish in (("kept", 'publish = ["measurements"]'), ("bare", "")):
        config = place / f"{out}.toml"
        config.write_text(CONFIG.format(out=out, queries=QUERIES, publish=publish))
        protect_run(config)
    return place


def test_a_run_gives_a_table_with_its_released_counts_beside(folder: Path) -> None:
    out = folder / "tracts.parquet"
    run = str(folder / "kept")
    shown = CliRunner().invoke(
        app, ["errors", run, "--query", "cells", "--level", "tract", "--out", str(out)]
    )
    assert shown.exit_code == 0
    table = pl.read_parquet(out)
    released = read_release(folder / "kept" / "release").at("tract")
    assert table["released"].to_list() == released.reshape(-1).tolist()
    assert table.schema["low"] == table.schema["high"] == pl.Int64
    inside = table.select(pl.col("released").is_between("low", "high").mean()).item()
    assert f"of 10 released counts {100 * inside:.1f} % are inside their interval" in shown.stdout
    assert f"table: {out}" in shown.stdout
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_areas_are_read_from_a_table_or_typed(folder: Path) -> None:
    (folder / "areas.csv").write_text("area,tract\nsouth,a2\nsouth,b1\nwhole b,b1\nwhole b,b2\n")
    out = folder / "areas-out.csv"
    call = ["errors", str(folder / "kept" / "release"), "--out", str(out)]
    CliRunner().invoke(app, [*call, "--areas", str(folder / "areas.csv"), "--area", "a=county:a"])
    table = pl.read_csv(out)
    assert table["place"].to_list() == ["a", "south", "whole b"]
    assert (table["low"] <= table["high"]).all()


def test_measurements_alone_are_enough_and_programs_are_answered(folder: Path) -> None:
    config = folder / "again.toml"
    measurements = folder / "kept" / "release" / "measurements"
    config.write_text(f'[measurements]\nfolder = "{measurements}"\n[run]\nout = "again"\n')
    for source in (measurements, config):
        shown = CliRunner().invoke(
            app, ["errors", str(source), "--query", "total", "--level", "county", "--json"]
        )
        answer = json.loads(shown.stdout)
        assert (answer["rows"], answer["exact"], answer["zero"]) == (2, 0, 0)


def test_a_release_that_was_not_made_from_the_measurements_is_not_set_beside_them(
    folder: Path, tmp_path: Path
) -> None:
    measurements = folder / "kept" / "release" / "measurements"
    config = tmp_path / "other.toml"
    out = folder / "bare"
    config.write_text(f'[measurements]\nfolder = "{measurements}"\n[run]\nout = "{out}"\n')
    options = ["--query", "total", "--level", "county"]
    shown = CliRunner().invoke(app, ["errors", str(config), *options])
    assert "found a release that was made without them, expected one of" in str(shown.exception)
    shutil.copytree(out, tmp_path / "bare")
    shutil.copytree(measurements, tmp_path / "bare" / "release" / "measurements")
    shown = CliRunner().invoke(app, ["errors", str(tmp_path / "bare"), *options])
    assert "found a release that was made without them, expected one of" in str(shown.exception)


def test_an_estimate_is_set_beside_its_own_measurements_alone(folder: Path, tmp_path: Path) -> None:
    measurements = folder / "kept" / "release" / "measurements"
    config, run = tmp_path / "estimate.toml", '[run]\nout = "estimate"\n'
    config.write_text(f'[measurements]\nfolder = "{measurements}"\n{run}')
    estimate_run(config)
    options = ["--query", "total", "--level", "county", "--json"]
    shown = CliRunner().invoke(app, ["errors", str(config), *options])
    assert json.loads(shown.stdout)["released"] == 2
    text = (folder / "kept.toml").read_text().replace("seed = 3", "seed = 4")
    (folder / "second.toml").write_text(text.replace('"kept"', '"second"'))
    protect_run(folder / "second.toml")
    second = folder / "second" / "release" / "measurements"
    config.write_text(f'[measurements]\nfolder = "{second}"\n{run}')
    shown = CliRunner().invoke(app, ["errors", str(config), *options])
    assert "found a release that was made from those with digest" in str(shown.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["kept", "--level", "tract", "--query", "race"], "query: found 'race', expected"),
        (["kept", "--level", "block", "--query", "total"], "found level 'block', expected one of"),
        (["kept", "--query", "total"], "found no level and no areas, expected one or the other"),
        (
            ["kept", "--query", "total", "--level", "tract", "--area", "a=county:a"],
            "found a level and areas, expected one or the other",
        ),
        (["kept", "--query", "total", "--area", "a=county"], "expected NAME=LEVEL:CODE,CODE"),
        (["kept", "--query", "total", "--area", "a=county:x"], "area 'a': found county 'x'"),
        (
            ["kept", "--query", "total", "--level", "tract", "--confidence", "1"],
            "confidence: found 1, expected a share between 0 and 1",
        ),
        (
            ["kept", "--query", "total", "--level", "tract", "--out", "table.xlsx"],
            "found the ending '.xlsx', expected .csv or .parquet",
        ),
        (["bare", "--query", "total", "--level", "tract"], "found a release without measurements"),
        (["none", "--query", "total", "--level", "tract"], "found no folder, expected a run"),
        (
            ["kept", "--query", "total", "--areas", "tracts.csv"],
            "found the columns county, tract, expected two: area, and one named as a level",
        ),
        (["kept", "--query", "total", "--areas", "gone.csv"], "found what cannot be read"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(folder)
    shown = CliRunner().invoke(app, ["errors", *options])
    assert message in str(shown.exception)
    assert not (folder / "table.xlsx").exists()


def test_areas_without_codes_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    Path("holes.csv").write_text("area,tract\nsouth,\n")
    shown = CliRunner().invoke(app, ["errors", "kept", "--query", "total", "--areas", "holes.csv"])
    assert "found rows without a name or a code, expected a name and the code of a tract" in str(
        shown.exception
    )


def test_the_old_name_works_and_says_the_new_one(folder: Path) -> None:
    asked = [str(folder / "kept"), "--query", "total", "--level", "county", "--json"]
    new, old = (CliRunner().invoke(app, [name, *asked]) for name in ("errors", "intervals"))
    assert old.stderr == "headcount intervals is now headcount errors: use that name\n"
    assert (old.exit_code, old.stdout, new.stderr) == (0, new.stdout, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--level", "tract", "--runs", "3"], "--runs is not for intervals"),
        (["--query", "total", "--seed", "0"], "--seed is not for intervals"),
        (["--confidence", "0.95"], "--confidence is not for a report"),
        (["--out", "errors.csv"], "a report needs a folder; intervals need --level"),
    ],
)
def test_options_of_the_report_and_of_intervals_are_not_mixed(
    folder: Path, options: list[str], message: str
) -> None:
    shown = CliRunner().invoke(app, ["errors", str(folder / "kept"), *options])
    assert shown.exit_code == 2
    assert message in " ".join(shown.stderr.split())
