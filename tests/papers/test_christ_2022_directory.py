"""The study christ-2022 as the command runs it: files, resuming, and a report in a browser."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from headcount.cli.study import app
from headcount.errors import RunError
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.run.study import run_study
from headcount_papers.christ_2022.people import Synthetic
from headcount_papers.christ_2022.settings import Settings
from headcount_papers.frame.verdict import OUTCOMES
from tests.engines.by_files import ByFiles
from tests.report.browser import choose, open_report
from tests.report.layout import layout_faults

ACCURACY = "county,draw,mechanism,parameter,buckets,query,group,metric,mean,sd"
PRIVACY = "county,draw,mechanism,rate,bucket_width,group,identity_rule,matched,confirmed,percent"
NAME = "christ-2022"
SETTINGS = Settings(
    counties=("Alameda", "Cibola"), draws=2, rates=6, epsilons=6, replicates=2, pool=5_000
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "christ"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headcount.run.study.engine_named", lambda *_: ByFiles())
        assert run_study(NAME, folder, SETTINGS) == folder / "report.html"
    return folder


def test_tables_begin_with_the_promised_columns(out: Path):
    for name, header in (
        ("accuracy", ACCURACY),
        ("privacy", PRIVACY),
        ("claims", "id,section,source,claim,paper,finding"),
    ):
        first = (out / "tables" / f"{name}.csv").read_text("utf-8").splitlines()[0]
        assert first.startswith(header + ",")


def test_every_mechanism_rate_and_epsilon_is_there(out: Path):
    accuracy = pl.read_csv(out / "tables" / "accuracy.csv", infer_schema_length=None)
    swaps = accuracy.filter(pl.col("mechanism") != "dp", pl.col("attributes") == 6)
    cases = swaps.select("county", "mechanism", "parameter").unique()
    assert cases.height == 2 * 5 * 7  # with the rate 0
    noise = accuracy.filter(mechanism="dp").select("county", "parameter", "buckets").unique()
    assert noise.height == 2 * 6 * 3
    assert set(accuracy["mu"].drop_nulls()) == {1e-2, 1e-3, 1e-4, 1e-5}
    privacy = pl.read_csv(out / "tables" / "privacy.csv", infer_schema_length=None)
    assert set(privacy["identity_rule"]) == {"slot", "person", "value"}
    assert set(privacy["bucket_width"]) == {2, 15, 45}
    assert set(privacy.filter(attributes=15)["county"]) == {"Cibola"}


def test_claims_are_judged_by_stated_rules(out: Path):
    with (out / "tables" / "claims.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["outcome"] for row in rows} <= {*OUTCOMES}
    assert all(row[name] for row in rows for name in ("claim", "paper", "finding", "rule"))
    missed = {"not reproduced here", "the paper errs"}
    assert all(bool(row["cause"]) == (row["outcome"] in missed) for row in rows)
    assert all(row["needed"] for row in rows if row["share"] == "1.0" and row["draws"] == "2")
    figures = {path.stem for path in (out / "figures").glob("*.svg")}
    assert {row["figure"] for row in rows} - {""} <= figures
    by_claim = {row["id"]: row for row in rows}
    assert by_claim["variances"]["outcome"] == "reproduced"
    assert by_claim["combinations, rounded"]["outcome"] == "the paper errs"
    assert by_claim["age buckets"]["finding"].endswith("true in 4 of 4 block groups")
    fifteen = by_claim["fifteen, identified"]["finding"]
    assert fifteen.endswith(" of 2 block groups")
    assert by_claim["combinations"]["finding"] == "off by 0; true in 4 of 4 counts"
    assert not any("Washington" in row["claim"] for row in rows)  # it was not run


def test_a_second_call_keeps_the_result_and_another_is_refused(out: Path):
    before = (out / "report.html").stat().st_mtime_ns
    run_study(NAME, out, SETTINGS)
    assert (out / "report.html").stat().st_mtime_ns == before
    with pytest.raises(RunError, match=r"found another run .* expected a new"):
        run_study(NAME, out, Settings(draws=2, rates=7, pool=5_000))


def test_pieces_are_kept_for_other_counties_too(out: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: object, **_more: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr("headcount.report.directory.save_figures", lambda *_: None)  # slow
    for name in ("score_swaps", "score_noise", "theorem_1", "run_detailed"):
        monkeypatch.setattr(f"headcount_papers.christ_2022.pieces.{name}", refuse)
    again, cache = out.with_name("again"), out.with_name("christ.cache")
    run_study(NAME, again, replace(SETTINGS, counties=("Cibola",)), cache=cache)
    both = pl.read_csv(out / "tables" / "privacy.csv", infer_schema_length=None)
    one = pl.read_csv(again / "tables" / "privacy.csv", infer_schema_length=None)
    assert one.equals(both.filter(county="Cibola"))
    with pytest.raises(AssertionError, match="made again"):
        run_study(NAME, out.with_name("other"), replace(SETTINGS, seed=1), cache=cache)


def test_a_table_of_ones_own_is_confidential_and_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headcount.report.directory.save_figures", lambda *_: None)  # slow
    source = Synthetic(seed=5, pool=3_000)
    parts = []
    # Codes that look like numbers stay codes.
    for name, code in (("Washington", "0101"), ("Armstrong", "0102"), ("Jefferson", "0103")):
        rows = source.area(name).rows
        parts.append(
            pl.DataFrame({k: rows[k] for k in ("age", "sex", "race", "hispanic")}).with_columns(
                pl.lit(code).alias("area")
            )
        )
    pl.concat(parts).write_parquet(tmp_path / "people.parquet")
    options = "--rates 3 --epsilons 3 --replicates 2 --counties 0103"
    made = CliRunner().invoke(
        app,
        [
            "christ-2022",
            "--out",
            str(tmp_path / "out"),
            "--persons",
            str(tmp_path / "people.parquet"),
            *options.split(),
        ],
        catch_exceptions=False,
    )
    assert made.exit_code == 0
    text = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert CONFIDENTIAL_BANNER in text
    assert str(tmp_path) not in text
    assert "Does it agree with the paper?" not in text
    assert not (tmp_path / "out" / "tables" / "claims.csv").exists()


def test_kink_table_has_both_ranges(out: Path):
    kinks = pl.read_csv(out / "tables" / "kinks.csv", infer_schema_length=None)
    assert set(kinks["fitted_to"]) == {0.5, 1.0}
    assert kinks.filter(curve="kl", attributes=6, fitted_to=1.0).height == 2 * 5


@pytest.mark.browser
def test_the_report_opens_and_its_controls_change_the_figures(out: Path):
    names = sorted(path.stem for path in (out / "figures").glob("*.svg"))
    assert len(names) >= 11
    facts = open_report(out / "report.html", figures=names)
    assert facts.problems() == []
    assert facts.console_warnings == ()
    before = {figure.name: figure.marks for figure in facts.figures}

    def use(page):
        choose(page, "four-attributes", column="county", value="Cibola")
        choose(page, "identified", column="ages", value="45 years")

    after = open_report(out / "report.html", use=use)
    assert after.problems() == []
    changed = {figure.name for figure in after.figures if figure.marks != before[figure.name]}
    assert changed == {"four-attributes", "identified"}


@pytest.mark.browser
def test_the_report_can_be_read_on_every_screen_and_on_paper(out: Path):
    assert layout_faults(out / "report.html") == []
