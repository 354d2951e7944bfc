"""Nothing leaks beside the release: streams of other purposes, digests, and the clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.release.directory import RunDirectory
from headcount.release.store import read_receipt
from headcount.run.evaluate import _open_run
from headcount.run.protect import protect_run
from headcount.topdown.design import REPORT
from tests.run.town import LEDGER, make_ledger, people, write_config, write_town

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


def test_a_query_called_like_the_report_does_not_share_its_noise(town: Path):
    """The attack: answer minus report leaves the truth, wherever both have the same noise.

    One leaf, a query of everyone under the report's own name and at its rate. With the name alone
    in the derivation all of the runs below had the same noise twice.
    """
    write_town(town, rows=[("a", "a1", *row[2:]) for row in people()])
    same = []
    for number in range(12):
        run = f'publish = ["measurements"]\nseed = {number}'
        out = f"out-{number}"
        config = write_config(town, population=ONE_TRACT, mechanism=SAME_NAME, run=run, out=out)
        release, planned = _open_run(protect_run(config))
        truth = planned.counts.dense()
        answers = pl.read_parquet(
            town / out / "release/measurements/tract.parquet/DPQuery/*.parquet"
        )
        (answer,) = answers.filter(query_name=f"{REPORT}_dpq")["value"][0]
        on_query = answer - truth.sum()
        released = release.at("tract")
        told = release.notes[f"{REPORT}, share of people"]
        assert isinstance(told, float)
        on_report = told * 2 * max(released.sum(), 1) - np.abs(released - truth).sum()
        same.append(abs(on_report - on_query) < 1e-6)
    assert sum(same) < 10  # two draws of rate 1/4 agree by chance in one run of sixteen


def test_two_receipts_do_not_tell_whether_a_record_changed(town: Path):
    """The attack: compare ``data_digest`` of two editions. It was equal where nobody changed."""
    ledger = make_ledger(town, total="100")
    digests = []
    rows = people()
    for number, changed in enumerate((False, False, True)):
        write_town(town, rows=rows[:-1] if changed else rows)
        run = f"{LEDGER}\nnew_content = true"
        out = protect_run(write_config(town, run=run, out=f"out-{number}"))
        receipt = read_receipt(out / "release")
        digests.append(receipt["data_digest"])
        # The curator, who has the ledger, can still tell what a receipt is about.
        facts = RunDirectory(out).require_facts()
        assert receipt["data_digest"] == ledger.public_digest(
            facts.data_digest, run_id=receipt["run_id"]
        )
    assert len(set(digests)) == 3
    stable = [spend.data_digest for spend in ledger.history("town")]
    assert stable[0] == stable[1] != stable[2]
    published = [(town / f"out-{n}/release/receipt.json").read_text() for n in range(3)]
    assert not [one for one in stable for text in published if one in text]


def test_the_receipt_does_not_tell_the_time_of_steps_that_read_the_truth(town: Path):
    mechanism = 'name = "topdown"\nepsilon = 1\nqueries = { cells = { share = 1 } }'
    out = protect_run(write_config(town, mechanism=mechanism, run="seed = 1"))
    assert "seconds" not in (out / "release/receipt.json").read_text()
    assert (out / "internal/seconds.json").is_file()
