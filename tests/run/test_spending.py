"""What a run costs: refused, recorded once, and never without saying so."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from headcount.config.load import load_config
from headcount.errors import ConfigError, PrivacyError
from headcount.privacy import Ledger, PureLoss, SpendState, UnitOfPrivacy
from headcount.release.directory import RunDirectory
from headcount.release.store import read_receipt
from headcount.run.protect import prepare_data, prepare_run, protect_run
from tests.run.town import (
    AGES,
    LEDGER,
    SEXES,
    UNITS,
    Stop,
    interrupted,
    make_ledger,
    people,
    write_config,
    write_town,
)

IDENTITY = 'name = "identity"'
SEED = "seed = 7"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def test_someone_who_knows_all_records_but_one_cannot_confirm_a_guess(town: Path):
    """The attack: recompute the digest for every guess of the last record and compare."""
    make_ledger(town, total="10")
    rows = people()
    out = protect_run(write_config(town, run=LEDGER))
    receipt = read_receipt(out / "release")
    home = town / "attacker"
    home.mkdir()
    own = make_ledger(home)
    guesses = [(*unit, sex, age) for unit in UNITS for sex in SEXES for age in AGES]
    matched_plain, matched_published = [], []
    for guess in guesses:
        if guess[2:] == ("m", "old"):
            continue
        write_town(home, rows=[*rows[:-1], guess])
        digest = prepare_data(load_config(write_config(home))).data.digest.hex()
        tried = {
            digest,
            f"hmac-sha256:{digest}",
            own.public_digest(digest, run_id=receipt["run_id"]),
        }
        if receipt["data_digest"] in tried:
            matched_published.append(guess)
        if RunDirectory(out).require_facts().data_digest == digest:
            matched_plain.append(guess)
    assert matched_plain == [rows[-1]]  # negative control: the plain digest gives the person away
    assert matched_published == []


def test_an_overspend_is_refused_with_its_numbers_and_nothing_is_drawn(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = make_ledger(town, total="1")
    protect_run(write_config(town, run=LEDGER, out="first", mechanism='name="raked"\nepsilon=0.7'))
    second = write_config(town, run=LEDGER, out="second")

    def drawn(*_arguments, **_named):
        pytest.fail("noise was drawn")

    monkeypatch.setattr("headcount.run.protect.make_release", drawn)
    for refused in (protect_run, lambda path: prepare_run(load_config(path))):
        with pytest.raises(PrivacyError) as caught:
            refused(second)
        assert "requested 0.5, remaining 0.3, difference 0.2" in str(caught.value)
    assert not (town / "second").exists()
    assert len(ledger.history("town")) == 1
    assert ledger.balance("town").remaining == Fraction(3, 10)


def test_the_loss_is_held_against_the_unit_of_the_total(town: Path):
    ledger = make_ledger(town, unit=UnitOfPrivacy.ADD_REMOVE)
    protect_run(write_config(town, run=LEDGER))
    assert ledger.balance("town").spent == Fraction(1, 4)  # half of epsilon 1/2
    (spend,) = ledger.history("town")
    assert spend.loss == PureLoss(epsilon=Fraction(1, 4), unit=UnitOfPrivacy.ADD_REMOVE)
    assert spend.state is SpendState.COMPLETE


def test_an_undeclared_dataset_is_refused_before_data_is_read(town: Path):
    Ledger.create(town / "ledger.db")
    (town / "people.csv").unlink()
    with pytest.raises(PrivacyError, match="found 'town', expected a declared name"):
        protect_run(write_config(town, run=LEDGER))
    (town / "ledger.db").unlink()
    with pytest.raises(PrivacyError, match="found no file, expected a ledger"):
        protect_run(write_config(town, run=LEDGER))
    assert not (town / "out").exists()


def test_other_content_under_the_name_needs_the_owners_word(town: Path):
    ledger = make_ledger(town)
    protect_run(write_config(town, run=LEDGER, out="first"))
    write_town(town, rows=people(seed=1))
    with pytest.raises(PrivacyError, match="found new content, expected"):
        protect_run(write_config(town, run=LEDGER, out="second"))
    assert not (town / "second" / "release").exists()
    assert len(ledger.history("town")) == 1
    protect_run(write_config(town, run=f"{LEDGER}\nnew_content = true", out="second"))
    assert len(ledger.history("town")) == 2


@pytest.mark.parametrize(
    ("mechanism", "run"),
    [("name = 'geometric'\nepsilon = 99", SEED), (IDENTITY, "")],
    ids=["seeded", "identity"],
)
def test_a_run_that_is_not_private_is_recorded_as_such(mechanism: str, run: str, town: Path):
    ledger = make_ledger(town)
    out = protect_run(write_config(town, mechanism=mechanism, run=f"{LEDGER}\n{run}"))
    balance = ledger.balance("town")
    assert (balance.not_private, balance.runs, balance.spent) == (1, 0, Fraction(0))
    assert balance.sentences()[0].startswith("NOT PRIVATE")
    first = read_receipt(out / "release")["guarantee"]["sentences"][0]
    assert first.startswith(("NOT PRIVATE, do not publish", "No differential-privacy guarantee"))


def test_a_seed_repeats_a_run_and_warns(town: Path, caplog: pytest.LogCaptureFixture):
    one, two = (
        protect_run(write_config(town, run=SEED, out=name)) / "release/tract.parquet"
        for name in ("one", "two")
    )
    assert one.read_bytes() == two.read_bytes()
    assert "a seeded run is not private" in caplog.text
    three = protect_run(write_config(town, run="seed = 8", out="three"))
    assert (three / "release/tract.parquet").read_bytes() != one.read_bytes()


def test_two_private_runs_differ_and_are_two_spends(town: Path):
    ledger = make_ledger(town)
    outs = [protect_run(write_config(town, run=LEDGER, out=name)) for name in ("one", "two")]
    tables = [(out / "release/tract.parquet").read_bytes() for out in outs]
    assert tables[0] != tables[1]
    assert ledger.balance("town").spent == 1


def test_a_resumed_run_is_one_spend(town: Path, monkeypatch: pytest.MonkeyPatch):
    ledger = make_ledger(town, total="1/2")  # all of it: a second spend could not be paid
    config = write_config(town, run=LEDGER)
    for step in ("_spend", "protect", "finished_receipt", "write_release", "_close"):
        interrupted(config, monkeypatch, at=step)
    protect_run(config)
    (spend,) = ledger.history("town")
    assert [event.state for event in spend.events] == [
        SpendState.RECORDED,
        SpendState.DRAWN,
        SpendState.COMPLETE,
    ]


def test_a_run_may_be_voided_only_while_nothing_was_drawn(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = make_ledger(town)
    config = write_config(town, run=LEDGER)

    def killed(*_arguments) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "mark", killed)
        with pytest.raises(Stop):
            protect_run(config)
    directory = RunDirectory(town / "out")
    assert directory.written() == []
    run_id = directory.require_facts().run_id
    ledger.void(run_id, why="wrong file", written=directory.written())
    assert ledger.balance("town").spent == 0
    with pytest.raises(PrivacyError, match=r"found state void \(wrong file\)"):
        protect_run(config)
    assert directory.written() == []

    later = write_config(town, run=LEDGER, out="later")
    interrupted(later, monkeypatch, at="protect")
    late = RunDirectory(town / "later")
    with pytest.raises(PrivacyError, match="found state drawn, expected recorded"):
        ledger.void(late.require_facts().run_id, why="sorry", written=late.written())
    protect_run(later)
    with pytest.raises(PrivacyError, match=r"found .*release.* written, expected nothing"):
        ledger.void(late.require_facts().run_id, why="sorry", written=late.written())


@pytest.mark.parametrize("epsilon", ['"1/10000000000000"', "1e40"])
def test_an_epsilon_that_no_sampler_draws_is_refused_before_it_is_spent(town: Path, epsilon: str):
    ledger = make_ledger(town, total="10")
    config = write_config(town, run=LEDGER, mechanism=f'name = "raked"\nepsilon = {epsilon}')
    with pytest.raises(ConfigError, match=r"noise: rate: found .*, expected 1/1099511627776 to"):
        protect_run(config)
    assert ledger.history("town") == ()
    assert not (town / "out").exists()
