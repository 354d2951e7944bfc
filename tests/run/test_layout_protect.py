"""protect writes the files that a config asks for, and a run that broke off the same ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from headcount.config.load import config_digest, load_config
from headcount.errors import ConfigError, RunError
from headcount.release.store import check_files, read_release
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import prepare_run, protect_run
from tests.run.town import interrupted, write_config, write_town

ALL = 'format = ["csv", "parquet"]\ntidy = true\ntotals = true\nmargins = [["age"], ["age", "sex"]]'
TOPDOWN = """
name = "topdown"
epsilon = 1
unit = "add-remove"
[mechanism.queries]
cells = { share = 1 }
"""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def counted(folder: Path, stem: str) -> pl.DataFrame:
    return pl.read_csv(folder / f"{stem}.csv")


@pytest.mark.parametrize("mechanism", ['name = "geometric"\nepsilon = 1', TOPDOWN])
def test_margins_of_every_level_add_up_from_files_alone(town: Path, mechanism: str):
    out = protect_run(write_config(town, mechanism=mechanism, run=ALL)) / "release"
    n = pl.col("n").sum()
    for level in ("whole", "county", "tract"):
        cells = counted(out, level)
        total = cells.group_by(level).agg(n).sort(level)
        assert counted(out, f"{level}.total").select(level, "n").sort(level).equals(total)
        ages = cells.group_by(level, "age").agg(n).sort(level, "age")
        assert (
            counted(out, f"{level}.age").select(level, "age", "n").sort(level, "age").equals(ages)
        )
        assert pl.read_parquet(out / f"{level}.parquet").equals(cells)
    county = counted(out, "tract").group_by("county", "sex", "age").agg(n)
    keys = ["county", "sex", "age"]
    assert counted(out, "county").sort(keys).equals(county.sort(keys))


def test_a_run_that_broke_off_writes_the_same_files(town: Path, monkeypatch: pytest.MonkeyPatch):
    config = write_config(town, run=f"seed = 3\n{ALL}")
    whole = check_files(protect_run(config) / "release")["files"]
    again = write_config(town, run=f"seed = 3\n{ALL}", out="again", name="again.toml")
    interrupted(again, monkeypatch, at="write_release")
    with pytest.raises(RunError, match=r"found run .* made with a different config"):
        protect_run(write_config(town, run="seed = 3", out="again", name="other.toml"))
    files = check_files(protect_run(again) / "release")["files"]
    tables = {name for name in files if not name.startswith(("receipt", "datapackage"))}
    assert {name: files[name] for name in tables} == {name: whole[name] for name in tables}
    assert len(tables) == 2 * (3 * 4 + 1)


def test_a_release_in_csv_alone_is_read_again_and_evaluated(town: Path):
    out = protect_run(write_config(town, run='format = ["csv"]\nseed = 1'))
    parquet = protect_run(write_config(town, run="seed = 1", out="usual", name="usual.toml"))
    assert not list((out / "release").glob("*.parquet"))
    assert read_release(out / "release").at("tract").shape == (5, 6)
    assert "error" in evaluate_run(out).evaluation
    assert config_digest(load_config(town / "usual.toml")) != config_digest(
        load_config(town / "config.toml")
    )
    assert (parquet / "release" / "datapackage.json").is_file()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("totals = true", "run.totals: found sums of tables of which 'suppression' withholds"),
        ('margins = [["sex"]]', "run.margins: found sums of tables .* took no part in the prot"),
    ],
)
def test_suppression_publishes_no_margin_that_took_no_part(run: str, message: str, town: Path):
    suppression = 'name = "suppression"\ntables = ["P1"]'
    with pytest.raises(ConfigError, match=message):
        load_config(write_config(town, mechanism=suppression, run=run))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ('margins = [["race"]]', r"margins: found attribute 'race', expected some of \['sex', 'a"),
        ("margins = [[]]", "margins: found a list of no attribute, expected totals = true"),
        ("format = []", r'format: found \[\], expected "parquet", "csv" or both, each once'),
        ('format = ["xml"]', "format"),
    ],
)
def test_files_that_cannot_be_written_are_refused_before_anything_is(
    run: str, message: str, town: Path
):
    with pytest.raises(ConfigError, match=message):
        prepare_run(load_config(write_config(town, run=run)))
    assert not (town / "out").exists()


def test_text_that_the_disk_has_no_room_for_is_refused(town: Path, monkeypatch: pytest.MonkeyPatch):
    free = SimpleNamespace(free=100)
    monkeypatch.setattr("headcount.run._beforehand.shutil.disk_usage", lambda _: free)
    prepare_run(load_config(write_config(town)))
    with pytest.raises(ConfigError, match=r"format: found text files that take .* or more, expec"):
        prepare_run(load_config(write_config(town, run='format = ["csv"]\ntidy = true')))


@pytest.mark.parametrize("tidy", [False, True])
def test_text_takes_no_less_than_is_foretold(town: Path, tidy: bool):
    text = f'format = ["csv"]\ntidy = {"true" if tidy else "false"}'
    config = load_config(write_config(town, run=text))
    counts = prepare_run(config).counts
    least = config.run.layout.least_bytes(counts.domain)
    out = protect_run(town / "config.toml")
    assert 0 < least <= (out / "release/tract.csv").stat().st_size <= 10 * least
