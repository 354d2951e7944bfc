"""Refusals that depend on the truth, bounds from a table, recodes: from files to files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.load import load_config
from headcount.errors import ConfigError, HeadcountError, InputError, RunError
from headcount.privacy import SpendState
from headcount.release.directory import RunDirectory
from headcount.run.evaluate import _open_run
from headcount.run.protect import prepare_run, protect_run
from tests.run.test_topdown_protect import (
    BOUNDS,
    HEAD,
    INVARIANT,
    QUERIES,
    TOWN,
    spends,
    town,
)
from tests.run.town import LEDGER, UNITS, people, write_config

__all__ = ["town"]  # a fixture

TABLE = """
[[mechanism.bounds]]
query = "sex"
level = "county"
file = "sexes.csv"
public = true
"""


def counted(county: str, sex: str) -> int:
    return sum(1 for c, _, s, _ in people() if (c, s) == (county, sex))


def write_bounds(folder: Path, *, below: int = 0, above: int = 2) -> None:
    """Bounds around the number of each sex in each county."""
    rows = [
        f"{county},{sex},{counted(county, sex) - below},{counted(county, sex) + above}"
        for county in sorted({county for county, _ in UNITS})
        for sex in "fm"
    ]
    (folder / "sexes.csv").write_text("\n".join(["county,sex,low,high", *rows]) + "\n")


def refused(config: Path) -> tuple[str, str]:
    """What the terminal is told, and what the file says."""
    with pytest.raises(RunError) as error:
        protect_run(config)
    return str(error.value), RunDirectory(config.parent / "out").refusal.read_text()


def test_why_data_are_refused_is_for_the_curator_only(town: Path):
    mechanism = HEAD + QUERIES + BOUNDS.replace("99, 99", "1, 1")
    config = write_config(town, population=TOWN, mechanism=mechanism, run=LEDGER)
    told, kept = refused(config)
    assert "the data violate a bound of the mechanism" in told
    assert str(town / "out/internal/refused.txt") in told
    assert "it reveals something about the data" in told
    for secret in ("tract", "'sex'", "true count"):
        assert secret not in told.replace(str(town), "")
    assert kept.startswith("topdown: level 'tract', unit '")
    assert "bound on 'sex' (" in kept
    assert "found a true count outside the bound" in kept
    assert spends(town) == []
    assert (town / "out/internal").stat().st_mode & 0o777 == 0o700
    assert RunDirectory(town / "out").facts() is None
    # No cause hangs on the error: a traceback would show it.
    with pytest.raises(RunError) as error:
        protect_run(config)
    assert error.value.__suppress_context__


def test_check_refuses_in_the_same_way(town: Path):
    mechanism = HEAD + QUERIES + BOUNDS.replace("99, 99", "1, 1")
    config = write_config(town, population=TOWN, mechanism=mechanism, run=LEDGER)
    result = CliRunner().invoke(app, ["check", str(config)])
    assert isinstance(result.exception, RunError)
    assert "outside" not in result.output + str(result.exception)
    assert "outside the bound" in (town / "out/internal/refused.txt").read_text()


def test_a_refusal_does_not_stand_in_the_way_of_a_run(town: Path):
    narrow = HEAD + QUERIES + BOUNDS.replace("99, 99", "1, 1")
    refused(write_config(town, population=TOWN, mechanism=narrow, run=LEDGER))
    wide = HEAD + QUERIES + BOUNDS
    out = protect_run(write_config(town, population=TOWN, mechanism=wide, run=LEDGER))
    assert not RunDirectory(out).refusal.exists()
    assert spends(town) == [SpendState.COMPLETE]


def test_bounds_that_contradict_each_other_are_told_from_those_that_miss_the_truth(town: Path):
    """Lows above what an exact total leaves: no counts at all could keep both."""
    rows = [f"{county},{sex},900," for county in sorted({c for c, _ in UNITS}) for sex in "fm"]
    (town / "sexes.csv").write_text("\n".join(["county,sex,low,high", *rows]) + "\n")
    mechanism = HEAD + QUERIES + INVARIANT + TABLE
    told, kept = refused(write_config(town, population=TOWN, mechanism=mechanism, run=LEDGER))
    assert "found bounds that no counts can meet (in conflict: the bound on" in kept
    assert "the bound on 'sex' (m) of county '" in kept
    assert "no counts" not in told
    assert spends(town) == []


def test_a_table_of_bounds_is_kept_and_said(town: Path):
    write_bounds(town)
    run = f"{LEDGER}\nseed = 4"
    config = write_config(town, population=TOWN, mechanism=HEAD + QUERIES + TABLE, run=run)
    out = protect_run(config)
    release, planned = _open_run(out)
    counties = release.geography.units[1].tolist()
    table = np.asarray(release.at("county")).reshape(len(counties), 2, 3).sum(axis=2)
    for county, both in zip(counties, table.tolist(), strict=True):
        for sex, number in zip("fm", both, strict=True):
            assert counted(county, sex) <= number <= counted(county, sex) + 2
    said = " ".join(planned.guarantee.sentences())
    assert "that 'sex' of every county is within the bounds of a public table (sexes.csv)" in said
    receipt = (out / "release/receipt.json").read_text()
    assert "sexes.csv" in receipt
    assert str(town) not in receipt


def test_a_confidential_table_is_listed_as_released_exactly(town: Path):
    write_bounds(town)
    mechanism = HEAD + QUERIES + TABLE.replace("true", "false")
    planned = prepare_run(load_config(write_config(town, population=TOWN, mechanism=mechanism)))
    (said,) = planned.guarantee.released_exactly
    assert said == (
        "the bounds on 'sex' of every county, worked out from confidential data (sexes.csv)"
    )


def test_another_table_is_another_run(town: Path):
    write_bounds(town)
    config = write_config(town, population=TOWN, mechanism=HEAD + QUERIES + TABLE, run=LEDGER)
    protect_run(config)
    write_bounds(town, above=5)
    with pytest.raises(RunError, match="made with a different config"):
        protect_run(config)
    _, made = _open_run(town / "out")  # the people are those of the run
    with pytest.raises(
        HeadcountError, match=r"sexes.csv: found different content, expected sha256"
    ):
        made.design.check(made.data)


WRONG = {
    "both forms": (TABLE + "caps = [9, 9]\n", "bounds 1: found keys ['caps', 'file', "),
    "no word on whether it is public": (
        TABLE.replace("public = true", ""),
        "bounds 1.public: found nothing, expected a value",
    ),
    "unions of a table": (TABLE + "unions = true\n", "bounds 1.unions: found an unknown key"),
    "a level without a file": (
        BOUNDS + 'level = "county"\n',
        "1.level: found an unknown key",
    ),
    "a pinned table that changed": (TABLE + 'sha256 = "00"\n', "expected sha256 00, as configured"),
    "no such file": (TABLE.replace("sexes", "none"), "none.csv: found no such file"),
    "an unknown query": (TABLE.replace('"sex"', '"sax"'), "query 'sax': found an unknown query"),
    "an unknown key": (
        TABLE + "lvl = 1\n",
        "found an unknown key, expected one of 'query', 'level', 'file'",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_table_in_a_config_is_refused(town: Path, what: str):
    write_bounds(town)
    bounds, message = WRONG[what]
    config = write_config(town, population=TOWN, mechanism=HEAD + QUERIES + bounds, run=LEDGER)
    with pytest.raises(InputError) as error:
        protect_run(config)
    assert message in str(error.value)
    assert spends(town) == []


RECODED = """
[mechanism.recodes.grown]
of = "age"
groups = { no = ["minor"], yes = ["adult", "old"] }
[mechanism.queries]
cells = { share = "1/2" }
grown = { by = ["sex", "grown"], share = "1/2" }
total = { by = [] }
"""


def test_recoded_queries_are_measured_and_bounded(town: Path):
    rows = ["county,sex,grown,low,high"]
    for county in sorted({county for county, _ in UNITS}):
        for sex in "fm":
            for grown, ages in (("no", ["minor"]), ("yes", ["adult", "old"])):
                n = sum(1 for c, _, s, a in people() if (c, s) == (county, sex) and a in ages)
                rows.append(f"{county},{sex},{grown},{n},{n}")
    (town / "sexes.csv").write_text("\n".join(rows) + "\n")
    mechanism = HEAD + RECODED + TABLE.replace('"sex"', '"grown"')
    run = f'{LEDGER}\npublish = ["measurements"]'
    out = protect_run(write_config(town, population=TOWN, mechanism=mechanism, run=run))
    release, planned = _open_run(out)
    made = np.asarray(release.at("county")).reshape(-1, 2, 3)
    truth = planned.counts.at("county").dense().reshape(-1, 2, 3)
    assert np.array_equal(made[:, :, 0], truth[:, :, 0])
    assert np.array_equal(made[:, :, 1:].sum(axis=2), truth[:, :, 1:].sum(axis=2))
    import polars as pl

    frame = pl.read_parquet(out / "release/measurements/county.parquet/DPQuery/*.parquet")
    asked = frame.filter(query_name="grown_dpq")
    assert asked["query_shape"].to_list() == [[2, 2], [2, 2]]
    assert asked.select("sex", "age").unique().rows() == [("sex", "grown")]
    assert asked["value"].list.len().to_list() == [4, 4]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["adult", "old"]', '["adult"]', "found level 'old' in no group"),
        ('["adult", "old"]', '["adult", "minor"]', "found level 'minor' in two groups"),
        ('["adult", "old"]', '["adult", "aged"]', "found level 'aged'"),
        ('of = "age"', 'of = "aged"', "found attribute 'aged', expected one of"),
        ('"sex", "grown"]', '"sex"]', "recodes.grown: found a recode that no query"),
        ("recodes.grown]", "recodes.sex]", "found the name of an attribute"),
        ('of = "age"', 'from = "age"', "recodes.grown"),
    ],
)
def test_a_wrong_recode_is_refused(town: Path, old: str, new: str, message: str):
    assert old in RECODED
    mechanism = HEAD + RECODED.replace(old, new)
    if "sex]" in new and "recodes" in new:
        mechanism = mechanism.replace('"sex", "grown"]', '"sex"]')
    with pytest.raises(InputError) as error:
        protect_run(write_config(town, population=TOWN, mechanism=mechanism, run=LEDGER))
    assert message in str(error.value)
    assert spends(town) == []


def test_measurements_with_two_columns_of_a_name_are_refused_before_a_loss(town: Path):
    for name in ("people.csv", "quarters.csv"):
        if (town / name).exists():
            text = (town / name).read_text().replace("age", "value")
            (town / name).write_text(text)
    population = TOWN.replace("age", "value")
    run = f'{LEDGER}\npublish = ["measurements"]'
    config = write_config(town, population=population, mechanism=HEAD + QUERIES, run=run)
    with pytest.raises(InputError, match=r"measurements: column 'value': found an attribute of"):
        protect_run(config)
    assert spends(town) == []


def test_a_loss_of_nothing_is_in_the_currency_of_the_others(town: Path):
    """One total cannot be moved by a changed record: rho 0, not epsilon 0."""
    mechanism = 'name = "topdown"\nrho = "1/2"\nunit = "add-remove"\n' + QUERIES.replace(
        "total = { by = [] }", 'total = { by = [], share = "1/4" }'
    ).replace('by = ["sex"], share = "1/2"', 'by = ["sex"], share = "1/4"')
    out = protect_run(write_config(town, population=TOWN, mechanism=mechanism))
    receipt = json.loads((out / "release/receipt.json").read_text())
    for one in receipt["measurements"]:
        assert not [key for key in one if key.startswith("epsilon")]
    (total,) = [
        m for m in receipt["measurements"] if (m["level"], m["query"]) == ("whole", "total")
    ]
    assert total["rho change-one"] == "0"


def test_config_errors_are_config_errors(town: Path):
    with pytest.raises(ConfigError):
        load_config(write_config(town, population=TOWN, mechanism=HEAD + QUERIES + TABLE + "x = 1"))
