"""Runs whose unit of privacy is a household: cut, charged and scored, from files to release."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from headcount.errors import PrivacyError, RunError
from headcount.evaluation.evaluate import Choice
from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.release.directory import RunDirectory
from headcount.release.store import read_receipt, read_release
from headcount.run.evaluate import _open_run, evaluate_run, refuse_other_data, side_by_side
from headcount.run.protect import protect_run
from tests.run.town import LEDGER, contents, make_ledger, write_config
from tests.support.neighbour_homes import DwellingFiles, Home, drawn_dwellings

HOUSEHOLD = 'epsilon = 1\nunit = "household-change-one"\nlargest_household = 3\n'
GEOMETRIC = f'name = "geometric"\n{HOUSEHOLD}'
WHOLE = 'name = "geometric"\nepsilon = 1\ncount_housemates = true\n'
TOPDOWN = f"""name = "topdown"
{HOUSEHOLD}
queries.cells.share = 1
queries.everyone.by = []
invariant = [{{ query = "everyone", level = "whole" }}]
"""


@pytest.fixture
def hamlet(tmp_path: Path) -> Path:
    place: DwellingFiles = drawn_dwellings(np.random.default_rng(3))
    person = ("f", "old")
    place.homes = [
        Home(0, "household", "own", [person] * 5),
        Home(1, "household", "rent", [person] * 2),
        Home(3, "nursing", "none", [person] * 6),
    ]
    place.attributes, place.suffix = ("sex", "household_size"), "csv"
    (tmp_path / "population.toml").write_text(place.write(tmp_path))
    return tmp_path


def config(folder: Path, mechanism: str, **more: str) -> Path:
    population = (folder / "population.toml").read_text()
    return write_config(folder, population=population, mechanism=mechanism, **more)


@pytest.mark.parametrize("mechanism", [GEOMETRIC, TOPDOWN])
def test_how_many_were_cut_stays_internal(mechanism: str, hamlet: Path):
    out = protect_run(config(hamlet, mechanism))
    cut = json.loads((out / "internal/cut.json").read_text())
    assert cut["people left out of households that were cut"] == 2
    published = b"".join(contents(out / "release").values())
    assert b"left out" not in published
    receipt = read_receipt(out / "release")
    first = receipt["guarantee"]["losses"][0]
    assert first == {"currency": "epsilon", "amount": "1", "unit": "household-change-one"}
    assert (
        "The unit of privacy: a person in group quarters is a unit of their own."
        in (receipt["guarantee"]["sentences"])
    )
    assert receipt["guarantee"]["unit_means"][0].endswith(
        "the first 3 in the file where there are more"
    )
    assert {m["epsilon household-change-one"] for m in receipt["measurements"]} <= {"1", "1/3"}
    assert read_release(out / "release").guarantee.losses[0] == PureLoss(
        epsilon=Fraction(1), unit=UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE
    )


def test_what_is_exact_is_about_those_who_remain(hamlet: Path):
    out = protect_run(config(hamlet, TOPDOWN))
    assert read_release(out / "release").at("whole").sum() == 11  # of 13
    said = read_receipt(out / "release")["guarantee"]["sentences"]
    assert (
        "The unit of privacy: people who are cut are in no count: a total that is published "
        "exactly counts people after the cut, and beside a total of everyone reveals how many "
        "were cut."
    ) in said


def test_people_who_were_cut_are_an_error_of_the_release(hamlet: Path):
    out = protect_run(config(hamlet, TOPDOWN))
    _, planned = _open_run(out)
    assert planned.truth.totals().sum() == 13
    assert planned.counts.totals().sum() == 11
    scores = evaluate_run(out).evaluation["error"].table
    assert not scores.is_empty()
    assert (out / "internal/evaluation/errors.csv").is_file()


def test_no_cut_is_noted_where_a_person_is_the_unit(hamlet: Path):
    out = protect_run(config(hamlet, 'name = "raked"\nepsilon = 1\ncount_housemates = true'))
    assert not (out / "internal/cut.json").exists()


@pytest.fixture
def cut_and_whole(hamlet: Path) -> list[Path]:
    """Two runs on one file, of which the first cuts households."""
    made = []
    for name, mechanism in (("cut", GEOMETRIC), ("whole", WHOLE)):
        made.append(protect_run(config(hamlet, mechanism)).rename(hamlet / name))
    return made


def test_a_run_that_cuts_households_is_compared_with_one_that_does_not(cut_and_whole: list[Path]):
    cut, whole = (RunDirectory(one) for one in cut_and_whole)
    assert cut.require_facts().data_digest != whole.require_facts().data_digest
    refuse_other_data(cut_and_whole)
    choice = Choice(metrics=("error",), attacks=())
    found = {one: evaluate_run(one, choice=choice).evaluation for one in cut_and_whole}
    (compared,) = side_by_side(found)
    total = compared.table.filter(level="whole", query="total")
    assert total["mean_count"].item() == 13  # everybody, in both
    for one in cut_and_whole:
        assert total[str(one)].item() == abs(read_release(one / "release").at("whole").sum() - 13)


def test_runs_on_other_households_are_not_compared(cut_and_whole: list[Path], hamlet: Path):
    persons = hamlet / "persons.csv"
    text = persons.read_text()
    assert ",f," in text
    persons.write_text(text.replace(",f,", ",m,", 1))
    other = protect_run(config(hamlet, GEOMETRIC))
    with pytest.raises(RunError, match=r"found data different from those of .*cut"):
        refuse_other_data([cut_and_whole[0], other])


@pytest.mark.parametrize("text", ['{"people left out of households that were cut": 2}', "["])
def test_a_damaged_note_of_a_cut_is_found(cut_and_whole: list[Path], text: str):
    (cut_and_whole[0] / "internal/cut.json").write_text(text)
    with pytest.raises(RunError, match=r"cut\.json: found a damaged file, expected what was cut"):
        refuse_other_data(cut_and_whole)


def test_a_ledger_of_persons_takes_no_loss_of_households(hamlet: Path):
    make_ledger(hamlet)
    message = "losses of persons and of households do not convert"
    with pytest.raises(PrivacyError, match=message):
        protect_run(config(hamlet, GEOMETRIC, run=LEDGER))
    ledger = Ledger.open(hamlet / "ledger.db")
    assert ledger.history("town") == ()


def test_a_ledger_of_households_is_charged_under_its_unit(hamlet: Path):
    make_ledger(hamlet, unit=UnitOfPrivacy.HOUSEHOLD_ADD_REMOVE)
    protect_run(config(hamlet, GEOMETRIC, run=LEDGER))
    assert Ledger.open(hamlet / "ledger.db").balance("town").spent == Fraction(1, 2)


def test_the_same_persons_in_changed_dwellings_are_the_same_content(hamlet: Path):
    """As the docs say: the ledger digests the file of persons alone."""
    unit = UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE
    ledger = make_ledger(hamlet, total="3", unit=unit)
    ledger.declare("other", total=PureLoss(epsilon=Fraction(3), unit=unit))
    population, dwellings = hamlet / "population.toml", hamlet / "dwellings.csv"
    by_tenure = population.read_text().replace("household_size", "tenure", 1)
    population.write_text(by_tenure)
    protect_run(config(hamlet, GEOMETRIC, run=LEDGER))
    before = dwellings.read_text()
    dwellings.write_text(before.replace("own", "rent"))
    assert dwellings.read_text() != before
    with pytest.raises(PrivacyError, match="found content that is recorded under 'town'"):
        protect_run(config(hamlet, GEOMETRIC, run=LEDGER.replace("town", "other"), out="two"))
    protect_run(config(hamlet, GEOMETRIC, run=LEDGER, out="three"))  # without new_content
    assert len(ledger.history("town")) == 2
