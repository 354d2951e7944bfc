"""Nothing leaks beside the release: streams of other purposes, digests, and the clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.mechanisms.topdown.mechanism import REPORT
from headcount.run import open_run, protect_run
from tests.run.town import people, write_config, write_town

ONE_TRACT = """
kind = "microdata"
file = "people.csv"
geography = { columns = ["tract"] }
attribute = [{ name = "sex", levels = ["f", "m"] }]
"""
SAME_NAME = f"""
name = "topdown"
epsilon = 1
unit = "add-remove"
report_epsilon = "1/2"
[mechanism.queries]
cells = {{ share = "1/2" }}
"{REPORT}" = {{ by = [], share = "1/2" }}
"""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


@pytest.mark.parametrize("noise", ["", 'noise = "opendp"'])
def test_a_query_called_like_the_report_does_not_share_its_noise(town: Path, noise: str):
    """The attack: answer minus report leaves the truth, wherever both have the same noise.

    One leaf, a query of everyone under the report's own name and at its rate. With the name alone
    in the derivation all of the runs below had the same noise twice.
    """
    write_town(town, rows=[("a", "a1", *row[2:]) for row in people()])
    same = []
    for number in range(12):
        run = f'publish = ["measurements"]\n{noise or f"seed = {number}"}'
        out = f"out-{number}"
        config = write_config(town, population=ONE_TRACT, mechanism=SAME_NAME, run=run, out=out)
        release, planned = open_run(protect_run(config))
        truth = planned.counts.dense()
        (file,) = (town / out / "release/measurements").glob(f"tract-{REPORT}.parquet")
        on_query = pl.read_parquet(file)["total"][0] - truth.sum()
        released = release.at("tract")
        told = release.notes[f"{REPORT}, share of people"]
        assert isinstance(told, float)
        on_report = told * 2 * max(released.sum(), 1) - np.abs(released - truth).sum()
        same.append(abs(on_report - on_query) < 1e-6)
    assert sum(same) < 10  # two draws of rate 1/4 agree by chance in one run of sixteen
