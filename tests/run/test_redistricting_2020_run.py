"""The redistricting product of 2020 from files to a release: its ledger, its records, bad input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from headcount.cli.check import check
from headcount.comparison.settings import Settings
from headcount.domain import CountsOf
from headcount.errors import HeadcountError, InputError, RunError
from headcount.geography.spine import UnitShares
from headcount.mechanisms import protect
from headcount.population.redistricting_2020 import read_persons_2020
from headcount.privacy import Ledger, UnitOfPrivacy, ZCDPLoss
from headcount.release import _mdf_2020
from headcount.release.directory import RunDirectory
from headcount.release.release import CountsRelease
from headcount.release.store import read_release
from headcount.run.compare import compare_run
from headcount.run.error_report import error_report
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from headcount.topdown.rerun import settings_from_json
from tests.topdown.presets_2020 import tables

RHO, RHO_OF_HOMES = Fraction(293_764, 114_921), Fraction(11_417_641, 152_349_649)
LEDGER, DATASET = "ledger.db", "census"


@pytest.fixture
def island(tmp_path: Path) -> Path:
    """The files of one state, and a ledger."""
    for name, table in zip(("blocks", "units", "persons"), tables(state="72"), strict=True):
        table.write_parquet(tmp_path / f"{name}.parquet")
    declare(tmp_path, UnitOfPrivacy.CHANGE_ONE)
    return tmp_path


def declare(folder: Path, unit: UnitOfPrivacy) -> None:
    ledger = Ledger.create(folder / LEDGER)
    ledger.declare(DATASET, total=ZCDPLoss(rho=Fraction(3), unit=unit))


def config(folder: Path, product: str, *, mechanism: str = "", run: str = "") -> Path:
    kind, files = "redistricting-2020", 'persons = "persons.parquet"\n'
    preset = "redistricting-2020-pr"
    if product == "units":
        kind, files, preset = "h1-2020", "", "h1-2020-pr"
    path = folder / f"{product}.toml"
    path.write_text(
        f'[population]\nkind = "{kind}"\n{files}units = "units.parquet"\n'
        f'blocks = "blocks.parquet"\nwhole = "state"\n'
        f'[mechanism]\nname = "topdown"\npreset = "{preset}"\n{mechanism}\n'
        f'[run]\nout = "{product}"\npublish = ["mdf"]\nledger = "{LEDGER}"\n'
        f'dataset = "{DATASET}"\n{run}\n'
    )
    return path


def spent(folder: Path) -> Fraction:
    return Ledger.open(folder / LEDGER).balance(DATASET).spent


def test_persons_and_units_add_up_for_a_person_who_moves(island: Path):
    persons = RunDirectory(protect_run(config(island, "persons"))).release
    assert spent(island) == RHO
    units = RunDirectory(protect_run(config(island, "units", run="new_content = true"))).release
    assert spent(island) == RHO + 2 * RHO_OF_HOMES
    lines = (persons / "mdf" / "MDF_PER_2020.txt").read_text("utf-8").splitlines()
    assert len(lines) - 1 == pl.read_parquet(island / "persons.parquet").height
    lines = (units / "mdf" / "MDF_UNIT_2020.txt").read_text("utf-8").splitlines()
    assert len(lines) - 1 == pl.read_parquet(island / "units.parquet")["count"].sum()


def test_the_release_describes_the_places_of_its_tables_and_those_that_were_measured(island: Path):
    folder = RunDirectory(protect_run(config(island, "persons"))).release
    receipt = json.loads((folder / "receipt.json").read_text("utf-8"))
    people = read_persons_2020(
        island / "persons.parquet",
        blocks=island / "blocks.parquet",
        units=island / "units.parquet",
        whole="state",
    )
    spine = people.geography.spine
    assert spine is not None
    assert receipt["geography"] == {
        "published": read_release(folder).geography.description(),
        "measured": spine.description(),
    }
    package = json.loads((folder / "datapackage.json").read_text("utf-8"))
    assert package["geography"] == receipt["geography"]
    assert (
        "the spine (state 1, county 2, tract 3, block_group 9, block 19)"
        in (package["description"])
    )
    assert spine.digest != people.geography.digest


def test_a_total_of_housing_units_is_charged_with_theirs(island: Path):
    (island / LEDGER).unlink()
    declare(island, UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE)
    protect_run(config(island, "units"))
    assert spent(island) == RHO_OF_HOMES


def test_a_broken_file_of_records_ends_the_run_which_can_resume(
    island: Path, monkeypatch: pytest.MonkeyPatch
):
    right = _mdf_2020._traits
    with monkeypatch.context() as broken:
        broken.setattr(_mdf_2020, "_traits", lambda *levels: right(*levels)[:-2] + "99")
        with pytest.raises(RunError, match=r"MDF_PER_2020.txt: found CENRACE '99' is no value"):
            protect_run(config(island, "persons"))
    assert not RunDirectory(island / "persons").is_complete
    protect_run(config(island, "persons"))
    assert RunDirectory(island / "persons").is_complete
    assert spent(island) == RHO


@pytest.mark.parametrize(
    ("product", "said"),
    [
        ("persons", r"MDF_PER_2020.txt: found state 72: [\d,]+ people, published"),
        ("units", r"MDF_UNIT_2020.txt: found block \d{15}: [\d,]+ housing units, published"),
    ],
)
def test_a_release_that_has_other_totals_than_the_exact_ones_ends_the_run(
    island: Path, monkeypatch: pytest.MonkeyPatch, product: str, said: str
):
    """Seven records too many where some are already, so that nothing else is wrong."""

    def wrong(*given: Any, **keys: Any) -> CountsRelease:
        release = protect(*given, **keys).as_counts()
        leaf = csr_array(release.tables["block"])
        leaf.data[0] += 7
        return replace(release, tables={**release.tables, "block": leaf})

    monkeypatch.setattr("headcount.run.protect.rehearse", lambda *_given, **_keys: None)
    monkeypatch.setattr("headcount.run._beforehand.protect", wrong)
    with pytest.raises(RunError, match=said):
        protect_run(config(island, product))
    assert not RunDirectory(island / product).is_complete


def first(column: str, value: object) -> pl.Expr:
    return pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(value)).otherwise(column).alias(column)


def in_two_tracts(folder: Path) -> None:
    table = pl.read_parquet(folder / "blocks.parquet")
    again = table.head(1).with_columns(pl.lit("72001000009").alias("tract"))
    pl.concat([table, again]).write_parquet(folder / "blocks.parquet")


def unknown_area(folder: Path) -> None:
    table = pl.read_parquet(folder / "blocks.parquet")
    table.with_columns(first("area", "4990")).write_parquet(folder / "blocks.parquet")


def no_homes(folder: Path) -> None:
    table = pl.read_parquet(folder / "units.parquet")
    block = table["block"][0]
    table.filter((pl.col("block") != block) | (pl.col("gqtype") != "000")).write_parquet(
        folder / "units.parquet"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (in_two_tracts, "found a second row for block '720010000001000', expected one row"),
        (unknown_area, "'area', row 1: found '4990', expected a code of an area"),
        (no_homes, "found someone in 'household' in block '720010000001000', expected living"),
    ],
)
def test_tables_that_contradict_themselves_are_refused_before_any_loss(island: Path, change, said):
    change(island)
    with pytest.raises(HeadcountError, match=said):
        protect_run(config(island, "persons"))
    assert Ledger.open(island / LEDGER).history(DATASET) == ()
    assert not (island / "persons" / "release").exists()


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (
            'passes.county = { round = [["total"], ["total", "cells"]] }',
            "round: found 'total' in two passes, expected it in one",
        ),
        (
            'passes.county = { fit = [["total"], ["total", "cells"]] }',
            "fit: found 'total' twice, expected each query in one pass",
        ),
        (
            'passes.county = { fit = [["hhgq*hispanic"], ["cells"]] }',
            r"passes\.county\.fit: found 'hhgq\*hispanic', expected a query measured there",
        ),
        (
            'passes.county = { round = [["hhgq", "cenrace"]], nested = true }',
            "queries in pass 1 that cross each other, .* as nested = true asks",
        ),
        (
            'levels = { state = "1/2", county = "1/4", tract = "1/8", block_group = "1/16", '
            'block = "1/8" }',
            r"levels: found shares that add up to 17/16.*, expected exactly 1: 1/16.* too much",
        ),
    ],
)
def test_settings_that_contradict_themselves_are_refused_before_any_loss(
    island: Path, mechanism: str, said: str
):
    with pytest.raises(HeadcountError, match=said):
        protect_run(config(island, "persons", mechanism=mechanism))
    assert Ledger.open(island / LEDGER).history(DATASET) == ()


def test_unequal_sums_along_paths_are_refused_before_any_loss(
    island: Path, monkeypatch: pytest.MonkeyPatch
):
    """A build that forgets to move the share of a bypassed unit up."""
    right = UnitShares.classes
    monkeypatch.setattr(
        UnitShares,
        "classes",
        lambda self, level: (right(self, level)[0], np.minimum(right(self, level)[1], 1)),
    )
    with pytest.raises(HeadcountError, match="found paths with other sums of shares, expected 1"):
        protect_run(config(island, "persons"))
    assert Ledger.open(island / LEDGER).history(DATASET) == ()
    assert not (island / "persons" / "release").exists()


PEOPLE = re.compile(r"people|everyone|anybody|somebody", re.I)


def read_by_people(report: Path) -> list[str]:
    """The texts of a report that speak of people, but for its promise and its limits."""
    page = re.sub(r"<(script|style|svg).*?</\1>", "", report.read_text("utf-8"), flags=re.S)
    texts = (unescape(one).strip() for one in re.split(r"<[^>]+>", page))
    return [one for one in texts if PEOPLE.search(one) and "other releases about" not in one]


def test_reports_on_housing_units_do_not_call_them_people(island: Path):
    evaluated = evaluate_run(protect_run(config(island, "units")))
    assert read_by_people(evaluated.report) == []
    errors = evaluated.evaluation["error"]
    assert errors.value_words == "mean error, in housing units, of the same counts"
    assert list(errors.terminal()) == [
        "errors of the totals, in housing units",
        "errors at 'block', in housing units",
    ]
    assert evaluated.release.counted is CountsOf.HOUSING_UNITS  # as it was read from its files


def test_comparisons_of_housing_units_do_not_call_them_people(island: Path):
    out = island / "compared"
    path = config(island, "units")
    population, _, _ = path.read_text("utf-8").partition("[mechanism]")
    path.write_text(population, encoding="utf-8")
    compare_run(path, Settings(methods=("sampling", "rounding"), replicates=1), out=out)
    said = read_by_people(out / "internal" / "report.html")
    assert [one for one in said if "may still protect some people" not in one] == []
    assert read_by_people(out / "publish" / "report.html") == []


def test_a_check_of_housing_units_does_not_call_them_people(
    island: Path, capsys: pytest.CaptureFixture[str]
):
    check(config(island, "units"))
    said = capsys.readouterr().out
    assert "how far off counts will be, in housing units" in said
    assert "with people" not in said
    check(config(island, "persons"))
    assert "how far off counts will be, in people" in capsys.readouterr().out


def test_errors_are_reported_from_the_measurements_of_a_spine_and_not_without_them(island: Path):
    path = config(island, "persons", mechanism="pool = true")
    path.write_text(path.read_text().replace('["mdf"]', '["measurements"]'))
    done = protect_run(path)
    for name in ("blocks", "units", "persons"):
        (island / f"{name}.parquet").unlink()
    found = error_report(done, runs=2).table.filter(sizes="all")
    errors = {(level, query): rmse for level, query, rmse in found["level", "query", "rmse"].rows()}
    assert errors["state", "total"] == 0  # invariant, whatever the spine's parts have
    assert errors["block", "total"] > 0
    assert found["level"].unique(maintain_order=True).to_list()[-1] == "block"
    said = json.loads((done / "release" / "receipt.json").read_text())["settings"]
    settings = settings_from_json(said, source="receipt.json")
    with pytest.raises(InputError, match=r"settings with bounds, .*expected measurements beside"):
        error_report(read_release(done / "release"), settings, runs=2)
