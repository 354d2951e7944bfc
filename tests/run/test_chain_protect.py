"""protect with several steps: [[mechanism]] in order."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.load import load_config
from headcount.errors import ConfigError
from headcount.mechanisms import Chain, Geometric, Sampling
from headcount.privacy import PureLoss, UnitOfPrivacy
from headcount.release.store import read_receipt
from headcount.run.evaluate import _open_run, evaluate_run
from headcount.run.protect import prepare_run, protect_run
from tests.run.town import LEDGER, make_ledger, write_config, write_town

SAMPLE = 'name = "sampling"\nfraction = "1/2"\nexact = true'
NOISE = 'name = "geometric"\nepsilon = "1/3"\nunit = "add-remove"'
SWAP = 'name = "person-swapping"\nlevel = "county"\nkind = "random"\nrate = "1/2"'


def steps(*tables: str) -> str:
    """The tables of a mechanism; ``write_config`` writes the first heading itself."""
    return "\n[[mechanism]]\n".join(tables)


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def chained(town: Path, *tables: str, run: str = "", out: str = "out") -> Path:
    path = write_config(town, mechanism=steps(*tables), run=run, out=out)
    path.write_text(path.read_text().replace("[mechanism]\n", "[[mechanism]]\n", 1))
    return path


def test_the_steps_of_a_config_are_a_chain(town: Path):
    config = load_config(chained(town, SAMPLE, NOISE))
    sample = Sampling(fraction=Fraction(1, 2), exact=True)
    noise = Geometric(epsilon=Fraction(1, 3), unit=UnitOfPrivacy.ADD_REMOVE)
    assert prepare_run(config).mechanism == Chain((sample,), noise)


def test_the_scaled_loss_is_stated_spent_and_in_the_receipt(town: Path):
    ledger = make_ledger(town, unit=UnitOfPrivacy.ADD_REMOVE)
    receipt = read_receipt(protect_run(chained(town, SAMPLE, NOISE, run=LEDGER)) / "release")
    assert receipt["guarantee"]["losses"][0]["amount"] == "2/3"
    assert receipt["measurements"][0]["epsilon add-remove"] == "2/3"
    first, last = receipt["steps"]
    assert first["stability"] == {"add-remove": 2, "change-one": 1}
    assert last["step"].startswith("Geometric(")
    (spend,) = ledger.history("town")
    assert spend.loss == PureLoss(epsilon=Fraction(2, 3), unit=UnitOfPrivacy.ADD_REMOVE)


def test_a_swap_before_noise_leaves_no_guarantee_and_the_receipt_names_it(town: Path):
    receipt = read_receipt(protect_run(chained(town, SWAP, NOISE)) / "release")
    assert receipt["guarantee"]["losses"] == []
    assert "person-swapping: who changes places with whom" in receipt["guarantee"]["why_none"]
    assert receipt["steps"][0]["stability"].startswith("none: who changes places")
    assert "epsilon add-remove" not in receipt["measurements"][0]


def test_the_same_command_finishes_a_chain_to_the_same_release(town: Path):
    config = chained(town, SAMPLE, SWAP, NOISE, run="seed = 4")
    release, _ = _open_run(protect_run(config))
    other, _ = _open_run(protect_run(chained(town, SAMPLE, SWAP, NOISE, run="seed = 4", out="b")))
    assert np.array_equal(release.at("tract"), other.at("tract"))
    traces = sorted(path.parent.name for path in (town / "out").rglob("provenance.parquet"))
    assert traces == ["2-person-swapping"]


def test_a_chain_is_scored_against_the_people_it_began_with(town: Path):
    out = protect_run(chained(town, SAMPLE, SWAP, run="seed = 4"))
    release, prepared = _open_run(out)
    assert prepared.truth.totals().sum() == 60
    assert release.at("whole").sum() == 60  # 30 of weight 2
    evaluate_run(out)
    assert (out / "internal/evaluation/errors.csv").exists()


def test_check_tells_the_steps_and_what_they_cost(town: Path):
    said = CliRunner().invoke(app, ["check", str(chained(town, SAMPLE, NOISE))]).output
    assert "mechanism:  Sampling(fraction=1/2, exact=True)" in said
    assert "      then  Geometric(epsilon=1/3, unit=add-remove" in said
    rows = [line.split() for line in said.splitlines()]
    assert ["tract", "cells", "25", "epsilon", "~0.666667"] in rows
    # Which people a sample takes is no noise of a known law: without public facts nothing is said.
    assert ["tract", "total", "12", "-", "-", "cannot", "be", "said"] in rows
    said = CliRunner().invoke(app, ["check", str(chained(town, SWAP, NOISE))]).output
    assert ["tract", "cells", "25", "not", "stated"] in [x.split() for x in said.splitlines()]
    assert "No differential-privacy guarantee: person-swapping: who changes places" in said


def test_a_chain_that_cannot_be_is_refused_with_the_file(town: Path):
    with pytest.raises(ConfigError, match=r"config.toml: .*geometric: found a method that changes"):
        load_config(chained(town, NOISE, SAMPLE))
    suppression = 'name = "suppression"'
    with pytest.raises(ConfigError, match="whose people stand for 2 each, expected everybody"):
        load_config(chained(town, SAMPLE, suppression))
    with pytest.raises(ConfigError, match=r"found 'microdata' with 'sampling\+geometric'"):
        load_config(chained(town, SAMPLE, NOISE, run='publish = ["microdata"]'))


TOWNS = """
kind = "towns"
people = 1500
counties = 2
seed = 3
schema = "sex-age38-race7-hispanic"
"""


def test_tables_of_swapped_households_are_audited_where_they_were_made(tmp_path: Path):
    swap = 'name = "swapping"\nrate = "1/5"\nkey = ["size"]'
    rule = 'name = "suppression"\nrule = "complementary"\ntables = ["P1"]\nlowest = "tract"'
    path = write_config(tmp_path, population=TOWNS, mechanism=steps(swap, rule))
    path.write_text(path.read_text().replace("[mechanism]\n", "[[mechanism]]\n", 1))
    out = protect_run(path)
    audit = json.loads((out / "internal/suppression-audit.json").read_text())["audits"][0]
    assert audit["clean"]
    assert audit["witnessed"]["primary_unprotected"] == 0 < audit["primary"]
    assert (out / "internal/provenance.parquet").exists()
    found = evaluate_run(out)
    assert not (out / "internal/evaluation/withheld-audit.csv").exists()
    assert (out / "internal/evaluation/withheld.csv").exists()
    assert found.report.exists()
