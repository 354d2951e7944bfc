"""protect with swapping: who went where stays with the curator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.errors import InputError
from headcount.evaluation.error import Error
from headcount.evaluation.evaluate import Choice
from headcount.run.evaluate import _open_run, evaluate_run
from headcount.run.protect import protect_run
from tests.run.town import contents, write_config

TOWNS = 'kind = "towns"\npeople = 1500\ncounties = 3\nattributes = ["race", "hispanic"]'
HOUSEHOLDS = 'name = "swapping"\npreset = "hi"\nrate = "1/5"'
TARGETED = 'name = "targeted-swapping"\nrate = "1/5"\nrisk_variables = ["hispanic"]'
PERSONS = 'name = "person-swapping"\nlevel = "tract"\nrate = "1/5"\nkind = "random"'


def hidden(folder: Path, words: list[str]) -> list[str]:
    """Names or contents of released files that tell of the swap."""
    return [
        name
        for name, data in contents(folder).items()
        if any(word in name or word.encode() in data for word in words)
    ]


@pytest.mark.parametrize("mechanism", [HOUSEHOLDS, TARGETED])
def test_provenance_and_report_are_internal(tmp_path: Path, mechanism: str):
    out = protect_run(write_config(tmp_path, population=TOWNS, mechanism=mechanism))
    release, planned = _open_run(out)
    table = pl.read_parquet(out / "internal/provenance.parquet")
    told = json.loads((out / "internal/swap-report.json").read_text())["0"]
    assert told["swapped"] == table.height > 0
    assert hidden(out / "release", ["provenance", "swap-report", "partner", "unpaired"]) == []
    tables = {f"{level}.parquet" for level in release.geography.levels}
    described = {"datapackage.json", "manifest.json", "receipt.json"}
    assert set(contents(out / "release")) == tables | described
    receipt = json.loads((out / "release/receipt.json").read_text())
    assert receipt["notes"] == {}
    assert "No differential-privacy guarantee" in " ".join(release.guarantee.sentences())
    # the release is what the provenance says
    households, cell = planned.data.population.households, planned.data.population.cell
    assert households is not None
    numbers = households.geography.unit_numbers
    block = households.block.copy()
    block[table["dwelling"]] = [numbers[code] for code in table["new_unit"]]
    expected = np.zeros((len(numbers), planned.counts.schema.size), dtype=np.int64)
    np.add.at(expected, (block[households.dwelling], cell), 1)
    assert np.array_equal(release.at("block"), expected)
    assert not np.array_equal(expected, planned.counts.dense())


def test_evaluation_tells_how_small_groups_fare(tmp_path: Path):
    out = protect_run(write_config(tmp_path, population=TOWNS, mechanism=PERSONS))
    scores = evaluate_run(out).evaluation["error"].table
    release, planned = _open_run(out)
    made = pl.read_csv(out / "internal/evaluation/representation.csv")
    assert set(made["level"]) == {"county", "tract", "block_group", "block"}
    assert set(made["metric"]) == {"kl", "mse", "underallocated"}
    assert set(made["group"]) == {"everyone", "minorities"}
    # one row by hand: the squared error of the counties that have 100 to 999 people
    mse = made.filter(level="county", metric="mse", group="everyone", low=100).row(0, named=True)
    truth, found = planned.counts.at("county").dense(), release.at("county")
    some = (truth.sum(axis=1) >= 100) & (truth.sum(axis=1) < 1000)
    assert mse["areas"] == some.sum() > 0
    assert mse["mean"] == pytest.approx(((found - truth)[some] ** 2).mean())
    # the scores, read sparse, are those of the full tables
    apart = np.abs(release.at("block") - planned.counts.dense())
    cells = scores.filter(level="block", query="cells").row(0, named=True)
    assert cells["max_absolute"] == apart.max()
    assert cells["n"] == release.at("block").size
    assert cells["cells"] == "all"
    assert cells["mean_absolute"] == pytest.approx(apart.mean())
    choice = Choice(metrics=("error",), given=(Error(cells="either"),))
    either = evaluate_run(out, choice=choice).evaluation["error"].table
    n = either.filter(level="block", query="cells")["n"].item()
    assert n == np.count_nonzero(release.at("block") + planned.counts.dense())


def test_people_can_be_swapped_too(tmp_path: Path):
    out = protect_run(write_config(tmp_path, population=TOWNS, mechanism=PERSONS))
    release, planned = _open_run(out)
    tables = {f"{level}.parquet" for level in release.geography.levels}
    described = {"datapackage.json", "manifest.json", "receipt.json"}
    assert set(contents(out / "release")) == tables | described
    assert np.array_equal(release.at("block").sum(axis=1), planned.counts.totals())


def test_a_seed_repeats_the_release(tmp_path: Path):
    made = [
        protect_run(
            write_config(tmp_path, population=TOWNS, mechanism=HOUSEHOLDS, run="seed = 4", out=out)
        )
        for out in ("one", "two")
    ]
    one, two = ((path / "release/block.parquet").read_bytes() for path in made)
    assert one == two


def test_data_without_households_are_refused_before_anything_is_written(tmp_path: Path):
    config = write_config(
        tmp_path,
        population='kind = "uniform"\npeople = 100\nmean = 10',
        mechanism='name = "swapping"\nrate = 0.1',
    )
    with pytest.raises(InputError, match="swapping: found a population without households"):
        protect_run(config)
    assert not (tmp_path / "out").exists()
