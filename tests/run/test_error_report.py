"""The error report of a release: from published files alone, at no cost, the same from one seed."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

import headcount as hc
from headcount.cli.app import app
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, RunError
from headcount.noise import KeyedNoise, RunKey
from headcount.release.store import read_stored
from headcount.run.error_report import _made_how, report_errors
from headcount.run.estimate import estimate_run
from headcount.run.protect import protect_run
from headcount.topdown.from_measurements import PublishedStart, start_from
from headcount.topdown.rerun import released_counts, rerun
from tests.run.test_topdown_protect import INVARIANT, QUERIES, TOWN, WHOLE
from tests.run.town import UNITS, contents, people, write_config, write_town

PLAIN = 'name = "topdown"\nepsilon = 1\n' + QUERIES + INVARIANT
ALONE = hc.TopDown(rho=Fraction(1), unit=hc.UnitOfPrivacy.ADD_REMOVE)
VILLAGE = hc.uniform(people=100, depth=2, mean=10, seed=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on a town, bounded with measurements and plain, whose data and keys are gone."""
    town = tmp_path_factory.mktemp("town")
    write_town(town)
    lived_in = {(tract, sex) for _, tract, sex, _ in people()}
    rows = [f"{c},{t},{int((t, 'f') in lived_in)},{int((t, 'm') in lived_in)}" for c, t in UNITS]
    (town / "quarters.csv").write_text("\n".join(["county,tract,f,m", *rows]) + "\n")
    asked = 'publish = ["measurements"]'
    for name, mechanism in (("bounded", WHOLE), ("plain", PLAIN)):
        protect_run(write_config(town, population=TOWN, mechanism=mechanism, run=asked, out=name))
    protect_run(write_config(town, population=TOWN, mechanism=WHOLE, out="hidden"))
    for data in town.glob("*.csv"):
        data.unlink()
    for internal in town.glob("*/internal"):
        shutil.rmtree(internal)
    (town / "again.toml").write_text(
        '[measurements]\nfolder = "bounded/release/measurements"\n[run]\nout = "again"\n'
        '[mechanism]\nname = "topdown"\nepsilon = 1\npool = true\n' + QUERIES + INVARIANT
    )
    estimate_run(town / "again.toml")
    return town


def test_it_is_made_from_the_release_alone_when_data_and_keys_are_gone(made: Path, tmp_path: Path):
    before = contents(made / "plain")
    done = report_errors(made / "plain", out=tmp_path / "errors", runs=3)
    assert contents(made / "plain") == before
    table = pl.read_parquet(tmp_path / "errors/errors.parquet")
    assert table.equals(pl.read_csv(tmp_path / "errors/errors.csv", schema=table.schema))
    assert set(table["best_by"]) == {"reruns"}  # few units: measurements would tell little
    assert set(table["query"]) == {"sex", "total", "cells"}
    assert set(table["level"]) == {"whole", "county", "tract"}
    exact = table.filter(query="total", sizes="all")
    assert dict(exact.select("level", "rmse").rows())["county"] == 0
    assert dict(exact.select("level", "rmse").rows())["tract"] > 0
    text = done.report.read_text()
    for words in (
        "No true count was looked at",
        "costs no privacy",
        "ordinary seeded",
        "understated in small areas",
        "Shrunk releases understate themselves",
    ):
        assert words in text
    assert "do not publish" not in text.split("<script", 1)[0]


def test_the_same_seed_gives_the_same_table_and_another_another(made: Path):
    first, again, other = (
        hc.errors_of(made / "plain", runs=2, seed=seed).table for seed in (3, 3, 4)
    )
    assert first.equals(again)
    assert not first.equals(other)


def test_measurements_and_settings_of_a_run_lead_to_the_same_reruns(made: Path, tmp_path: Path):
    stored = read_stored(made / "plain/release")
    release, start = stored.release, _made_how(made / "plain/release", stored)
    shutil.copytree(made / "plain/release", tmp_path / "release")
    shutil.rmtree(tmp_path / "release/measurements")
    said = json.loads((tmp_path / "release/receipt.json").read_text())["settings"]
    settings = hc.TopDown(**{key: value for key, value in said.items() if key != "name"})
    noise = KeyedNoise(RunKey.from_seed(1), "rerun", b"", b"")
    for run in range(2):
        by_files, by_settings = (
            rerun(released_counts(release, how), how, noise, run=run) for how in (start, settings)
        )
        for level, table in by_files.items():
            assert (csr_array(table) != csr_array(by_settings[level])).nnz == 0


def test_a_rerun_keeps_the_bounds_that_the_release_keeps(made: Path):
    stored = read_stored(made / "bounded/release")
    release, start = stored.release, _made_how(made / "bounded/release", stored)
    counts = released_counts(release, start)
    noise = KeyedNoise(RunKey.from_seed(1), "rerun", b"", b"")
    tract = csr_array(rerun(counts, start, noise, run=0)["tract"]).toarray()
    assert isinstance(start, PublishedStart)
    own = next(one for one in start.restrictions["tract"] if one.query.name == "sex")
    answers = tract @ own.query.matrix(counts.schema).toarray()
    assert (answers >= np.asarray(own.low[0:5])).all()
    assert (answers <= np.asarray(own.high[0:5])).all()
    assert (answers != counts.dense() @ own.query.matrix(counts.schema).toarray()).any()


def test_an_estimate_is_reported_on_with_its_measurements_and_its_own_settings(made: Path):
    folder = made / "bounded/release/measurements"
    stored = read_stored(made / "again/release")
    release, start = stored.release, _made_how(made / "again/release", stored, measurements=folder)
    assert isinstance(start, PublishedStart)
    assert start.mechanism.pool
    found = hc.errors_of(release, start, runs=2)
    assert found.table.filter(level="tract", query="cells", sizes="all")["rmse"][0] > 0


def test_an_estimate_without_its_measurements_is_refused(made: Path):
    with pytest.raises(RunError, match="an estimate from published measurements, expected their"):
        hc.errors_of(made / "again")


def test_measurements_of_another_run_are_refused(made: Path, tmp_path: Path):
    other = made / "plain/release/measurements"
    with pytest.raises(RunError, match="other measurements than the release was made from"):
        report_errors(made / "again", measurements=other, out=tmp_path)
    with pytest.raises(RunError, match="not made from measurements, expected none named"):
        report_errors(made / "plain", measurements=other, out=tmp_path)


def test_bounds_that_the_tables_do_not_show_are_refused(made: Path):
    with pytest.raises(InputError, match=r"settings with bounds, .*expected measurements beside"):
        hc.errors_of(made / "hidden")


def test_a_release_of_other_places_than_the_measurements_is_refused(made: Path):
    start = start_from(made / "plain/release/measurements")
    release = hc.protect(VILLAGE, ALONE, seed=1)
    with pytest.raises(InputError, match="other places than the measurements have"):
        hc.errors_of(release, start)


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (hc.TopDown(epsilon="inf"), "no noise: epsilon is infinite"),
        (hc.TopDown(rho=Fraction(1), spine=True), "settings with a spine"),
    ],
)
def test_settings_that_cannot_be_run_again_are_refused(mechanism: Any, said: str):
    release = hc.protect(VILLAGE, ALONE, seed=1)
    with pytest.raises((ConfigError, InputError), match=said):
        hc.errors_of(release, mechanism)


def test_counts_that_topdown_cannot_have_made_are_refused():
    noisy = hc.protect(VILLAGE, hc.Geometric(epsilon=Fraction(1, 10)), seed=1)
    with pytest.raises(InputError, match="counts below 0 or with fractions"):
        hc.errors_of(noisy, ALONE)
    with pytest.raises(ConfigError, match="a release without its settings"):
        hc.errors_of(noisy)
    sample = hc.protect(VILLAGE, hc.Sampling(fraction=Fraction(1, 2)), seed=1)
    with pytest.raises(InputError, match="withheld, changed, weighted or missing counts"):
        hc.errors_of(sample, ALONE)


def test_one_run_has_no_standard_error_and_is_refused(made: Path):
    with pytest.raises(ConfigError, match="runs: found 1, expected 2 or more"):
        hc.errors_of(made / "plain", runs=1)


def test_a_release_by_another_mechanism_is_refused_by_its_name(tmp_path: Path):
    write_town(tmp_path)
    protect_run(write_config(tmp_path))
    with pytest.raises(RunError, match=r"a release by Geometric, without settings that can be run"):
        hc.errors_of(tmp_path / "out")


def test_a_report_is_never_written_into_a_release(made: Path):
    for out in (made / "plain/release", made / "plain/release/errors"):
        with pytest.raises(RunError, match="a release, whose files stay as they are"):
            report_errors(made / "plain", out=out)


def test_the_command_says_what_it_found_and_where(made: Path, tmp_path: Path):
    runner = CliRunner()
    asked = ["errors", str(made / "plain"), "--runs", "2", "--out", str(tmp_path)]
    result = runner.invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "predicted errors, in people" in result.stdout
    assert "No privacy is spent" in result.stdout
    assert f"report: {tmp_path / 'report.html'}" in result.stdout
    refused = runner.invoke(app, asked)
    assert f"{tmp_path}: found existing content, expected a new" in str(refused.exception)
    told = json.loads(runner.invoke(app, [*asked[:-1], str(tmp_path / "two"), "--json"]).stdout)
    assert (told["runs"], told["seed"]) == (2, 0)
    assert told["errors"][0]["level"] == "whole"


def test_the_old_name_of_the_command_works_and_says_the_new_one(made: Path, tmp_path: Path):
    asked = ["report", str(made / "plain"), "--errors", "--runs", "2", "--out", str(tmp_path)]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert told.stderr == "headcount report is now headcount errors: use that name\n"
    assert (tmp_path / "report.html").exists()
    assert "headcount errors plain --runs 2 --seed 0" in (tmp_path / "report.html").read_text()


def test_predicted_errors_are_near_the_true_ones():
    schema = hc.Schema((hc.Attribute("kind", ("a", "b", "c")), hc.Attribute("age", ("x", "y"))))
    parents = [np.zeros(0, dtype=np.int32), np.zeros(20, dtype=np.int32)]
    parents.append(np.repeat(np.arange(20, dtype=np.int32), 20))
    codes = [np.array([f"{k:03}" for k in range(size)]) for size in (1, 20, 400)]
    places = hc.Geography(("whole", "county", "tract"), tuple(codes), tuple(parents))
    means = np.random.default_rng(1).gamma(0.3, 30.0, (400, 6))
    leaf = np.random.default_rng(2).poisson(means)
    counts = hc.Counts(Domain(schema, places), "tract", csr_array(leaf))
    mechanism = hc.TopDown(rho=Fraction(1, 4), pool=True)
    released = []
    for seed in range(6):
        noise = KeyedNoise(RunKey.from_seed(seed), "topdown", b"", b"")
        made = mechanism.on(counts.domain).run(counts, noise, runs=range(1))
        released.append(made.as_counts().tables)
    tables = {level: csr_array(runs[0]) for level, runs in released[0].items()}
    release = hc.CountsRelease(
        domain=Domain(schema, places),
        tables=tables,
        mechanism=repr(mechanism),
        guarantee=hc.Guarantee.none("a test"),
        key_kind="seed",
        backend="table",
    )
    found = hc.errors_of(release, mechanism, runs=6).table.filter(level="tract", sizes="all")
    for query, answer in (("cells", np.eye(6)), ("total", np.ones((6, 1)))):
        off = [(csr_array(made["tract"][0]).toarray() - leaf) @ answer for made in released]
        true = np.sqrt(np.mean(np.square(off)))
        predicted = found.filter(query=query)["rmse"][0]
        assert predicted == pytest.approx(true, rel=0.08)
        assert found.filter(query=query)["rmse_error"][0] < 0.05 * predicted
