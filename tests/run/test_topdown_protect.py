"""protect with TopDown, from files to files: published, resumed, refused before a loss."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.errors import ConfigError, HeadcountError, InputError, PrivacyError
from headcount.evaluation.evaluate import evaluation_report
from headcount.privacy import Ledger, SpendState, UnitOfPrivacy
from headcount.release.directory import RunDirectory
from headcount.run.evaluate import _open_run
from headcount.run.protect import protect_run
from headcount.topdown._estimate import prepare_level
from tests.run.town import (
    LEDGER,
    MICRODATA,
    UNITS,
    Stop,
    break_after_rehearsal,
    contents,
    make_ledger,
    people,
    write_config,
    write_town,
)

TOWN = MICRODATA + '\nquarters = { file = "quarters.csv", attribute = "sex" }\n'
QUERIES = """
[mechanism.queries]
cells = { share = "1/2" }
sex = { by = ["sex"], share = "1/2" }
total = { by = [] }
"""
INVARIANT = '[[mechanism.invariant]]\nquery = "total"\nlevel = "county"\n'
BOUNDS = '[[mechanism.bounds]]\nquery = "sex"\ncaps = [99, 99]\n'
HEAD = 'name = "topdown"\nepsilon = 1\nreport_epsilon = "1/100"\n'
WHOLE = HEAD + QUERIES + INVARIANT + BOUNDS
ALL = f'{LEDGER}\npublish = ["microdata", "measurements"]'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    lived_in = {(tract, sex) for _, tract, sex, _ in people()}
    rows = [f"{c},{t},{int((t, 'f') in lived_in)},{int((t, 'm') in lived_in)}" for c, t in UNITS]
    (tmp_path / "quarters.csv").write_text("\n".join(["county,tract,f,m", *rows]) + "\n")
    make_ledger(tmp_path, total="100", unit=UnitOfPrivacy.CHANGE_ONE)
    return tmp_path


def spends(town: Path) -> list[SpendState]:
    return [spend.state for spend in Ledger.open(town / "ledger.db").history("town")]


def tables(release: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(release).items() if name.endswith(".parquet")}


def test_counts_people_quarters_measurements_and_receipt(town: Path):
    config = write_config(town, population=TOWN, mechanism=WHOLE, run=ALL)
    out = protect_run(config)
    release, planned = _open_run(out)
    measured = {
        f"measurements/{level}.parquet/{table}/part-00000.parquet"
        for level in ("whole", "county", "tract")
        for table in ("DPQuery", "Constraint")
    } | {"measurements/units.parquet"}
    listed = json.loads((out / "release/manifest.json").read_text())
    assert measured <= set(contents(out / "release"))
    assert all(name in json.dumps(listed) for name in measured)
    residents = pl.read_parquet(out / "release/microdata/people.parquet")
    whole = release.at("whole").sum()
    assert residents.height == whole == planned.counts.totals().sum()
    counted = [residents.filter(pl.col("tract") == tract).height for _, tract in UNITS]
    assert counted == release.at("tract").sum(axis=1).tolist()
    receipt = json.loads((out / "release/receipt.json").read_text())
    assert "seconds" not in receipt  # of steps that read the truth
    seconds = json.loads((out / "internal/seconds.json").read_text())
    assert set(seconds) == {"whole", "county", "tract"}
    assert receipt["notes"]["tract: violations"] == receipt["notes"]["tract: failsafe"] == 0
    assert receipt["guarantee"]["losses"][0]["amount"] == "101/100"
    assert {"piqp", "clarabel", "highspy"} <= set(receipt["versions"])
    assert spends(town) == [SpendState.COMPLETE]
    kept = ["config.json", "lock", "run.json", "seconds.json"]
    assert sorted(contents(out / "internal")) == kept


@pytest.mark.parametrize("level", ["county", "tract"])
def test_a_run_broken_at_a_level_resumes_to_the_same_tables(
    town: Path, level: str, monkeypatch: pytest.MonkeyPatch
):
    """All noise is keyed: a second end of the same run is the first one."""
    config = write_config(town, population=TOWN, mechanism=WHOLE, run=ALL)

    def stop(name, **named):
        if name == level:
            raise Stop
        return prepare_level(name, **named)

    with monkeypatch.context() as patch:
        break_after_rehearsal(patch, "headcount.topdown.descend.prepare_level", stop)
        with pytest.raises(Stop):
            protect_run(config)
    done = ["whole", "county", "tract"].index(level)
    assert len(list((town / "out/internal/levels/run-0").iterdir())) == done
    undisturbed = town.with_name(f"{town.name}-undisturbed")
    shutil.copytree(town, undisturbed)
    shutil.rmtree(undisturbed / "out/internal/levels")  # all levels are estimated again
    expected = tables(protect_run(undisturbed / "config.toml") / "release")
    # A file that a killed process left half written, in a folder of the release.
    half = town / "out/release/measurements/county.parquet/DPQuery/.part-0.parquet.0123.tmp"
    half.write_bytes(b"half")
    assert tables(protect_run(config) / "release") == expected
    assert spends(town) == [SpendState.COMPLETE]
    assert not half.exists()


def test_what_is_published_is_what_was_used(town: Path):
    """A root that is neither bounded nor measured otherwise is its answers, negative ones 0."""
    alone = 'name = "topdown"\nepsilon = 1\n[mechanism.queries]\ncells = { share = 1 }\n'
    run = f'{LEDGER}\npublish = ["measurements"]'
    out = protect_run(write_config(town, population=TOWN, mechanism=alone, run=run))
    release, planned = _open_run(out)
    frame = pl.read_parquet(out / "release/measurements/whole.parquet/DPQuery/*.parquet")
    answers = np.maximum(np.array(frame["value"].to_list()), 0)
    np.testing.assert_array_equal(answers, release.at("whole"))
    assert (answers != planned.counts.at("whole").dense()).any()  # there was noise to tell


REFUSED = {
    "people placed without bounds": (
        HEAD + QUERIES + INVARIANT,
        f'{LEDGER}\npublish = ["microdata"]',
        ConfigError,
        r"found \'microdata\' with \'topdown\', expected .* \[\[mechanism.bounds\]\] with caps",
    ),
    "a layout for other attributes": (
        WHOLE,
        f'{LEDGER}\npublish = ["mdf"]',
        InputError,
        r"MDF layout: found attributes \['sex', 'age'\]",
    ),
    "an invariant that every neighbour breaks": (
        HEAD + 'unit = "add-remove"\n' + QUERIES + INVARIANT,
        LEDGER,
        ConfigError,
        r"unit: found 'add-remove' with an invariant, expected 'change-one'",
    ),
    "a cap beyond 64 bits": (
        HEAD + QUERIES + INVARIANT + BOUNDS.replace("99, 99", f"99, {10**18}"),
        LEDGER,
        ConfigError,
        r"found a cap of 1000000000000000000, expected people in one living quarters",
    ),
    "a cap below 1": (
        HEAD + QUERIES + INVARIANT + BOUNDS.replace("99, 99", "99, 0"),
        LEDGER,
        ConfigError,
        r"found a cap of 0, expected people in one living quarters",
    ),
    "a measured query over an unknown attribute": (
        HEAD + QUERIES.replace('["sex"]', '["sax"]') + INVARIANT,
        "",
        InputError,
        r"found attribute 'sax', expected one of 'sex', 'age'",
    ),
    "an unmeasured query over an unknown attribute": (
        HEAD + QUERIES + 'idle = { by = ["nope"] }\n' + INVARIANT,
        LEDGER,
        InputError,
        r"found attribute 'nope', expected one of 'sex', 'age'",
    ),
    "shares of unknown levels": (
        HEAD + 'levels = { whole = "1/2", moon = "1/2" }\n' + QUERIES + INVARIANT,
        "",
        PrivacyError,
        r"level shares: found 'moon', expected one of 'whole', 'county', 'tract'",
    ),
    "shares that do not sum to 1": (
        HEAD + QUERIES.replace("1/2", "1/3") + INVARIANT,
        LEDGER,
        ConfigError,
        r"found a sum of 2/3 \(~0.666667\), expected exactly 1",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_is_refused_before_anything_is_spent(town: Path, what: str):
    mechanism, run, kind, message = REFUSED[what]
    config = write_config(town, population=TOWN, mechanism=mechanism, run=run)
    with pytest.raises(HeadcountError, match=message) as refused:
        protect_run(config)
    assert isinstance(refused.value, kind)
    assert spends(town) == []
    assert RunDirectory(town / "out").facts() is None


def test_names_of_queries_and_levels_stay_inside_the_release(town: Path):
    queries = QUERIES.replace("sex =", '"../sex" =')
    run = f'{LEDGER}\npublish = ["measurements"]'
    out = protect_run(write_config(town, population=TOWN, mechanism=HEAD + queries, run=run))
    names = sorted(path.name for path in (out / "release/measurements").iterdir())
    assert names == [f"{name}.parquet" for name in ("county", "tract", "units", "whole")]
    frame = pl.read_parquet(out / "release/measurements/county.parquet/DPQuery/*.parquet")
    assert "../sex_dpq" in frame["query_name"].to_list()


def test_pooled_answers_spend_the_same_and_the_receipt_has_another_name(town: Path):
    for pool in ("", "pool = true\n"):
        config = write_config(
            town,
            population=TOWN,
            mechanism=HEAD + pool + QUERIES,
            run=LEDGER,
            out=f"out{len(pool)}",
        )
        protect_run(config)
    plain, pooled = Ledger.open(town / "ledger.db").history("town")
    assert plain.loss == pooled.loss
    receipts = [
        json.loads((town / out / "release/receipt.json").read_text()) for out in ("out0", "out12")
    ]
    assert receipts[0]["measurements"] == receipts[1]["measurements"]
    assert receipts[1]["mechanism"].startswith("TopDown with pooling(")
    assert receipts[1]["notes"]["answers pooled"] == "from tract up"
    assert "pooled" not in json.dumps(receipts[0])
    report = evaluation_report(_open_run(town / "out12")[0], (), recipe="evaluate", public=True)
    assert report.subtitle == "A release by TopDown with pooling, scored against the truth"
