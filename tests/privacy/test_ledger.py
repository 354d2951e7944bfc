"""The ledger: exact totals, every refusal, and random histories against plain fractions."""

from __future__ import annotations

import re
import sqlite3
import stat
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import PrivacyError
from headcount.noise.source import KeyKind
from headcount.privacy import (
    ApproximateLoss,
    Ledger,
    Loss,
    OverspendError,
    PureLoss,
    Spend,
    SpendState,
    UnitOfPrivacy,
    ZCDPLoss,
)
from headcount.privacy import (
    _ledger_file as ledger_file,
)

ADD_REMOVE, CHANGE_ONE = UnitOfPrivacy.ADD_REMOVE, UnitOfPrivacy.CHANGE_ONE


def pure(epsilon: str | Fraction, unit: UnitOfPrivacy = CHANGE_ONE) -> PureLoss:
    return PureLoss(epsilon=Fraction(epsilon), unit=unit)


def rho(amount: str | Fraction) -> ZCDPLoss:
    return ZCDPLoss(rho=Fraction(amount), unit=CHANGE_ONE)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "ledger.db")
    made.declare("town", total=pure("1"))
    return made


def spend(ledger: Ledger, loss: Loss | None, run_id: str, **changes: object) -> Spend:
    arguments: dict[str, object] = {
        "dataset": "town",
        "data_digest": "plain digest of the data",
        "config_digest": "config",
        "key_kind": "os",
        **changes,
    }
    return ledger.spend(loss=loss, run_id=run_id, **arguments)  # type: ignore[arg-type]


def test_ten_tenths_are_exactly_one_and_an_eleventh_is_refused(ledger: Ledger):
    for number in range(10):
        spend(ledger, pure("0.1"), f"run {number}")
    assert ledger.balance("town").remaining == 0
    with pytest.raises(OverspendError) as error:
        spend(ledger, pure("0.1"), "run 10")
    refusal = error.value
    assert refusal.requested == refusal.difference == Fraction(1, 10)
    assert refusal.remaining == 0
    assert refusal.dataset.name == "town"
    assert str(refusal) == (
        "dataset 'town': the release would exceed the declared total. epsilon requested 0.1, "
        "remaining 0, difference 0.1, when one person's record changes"
    )
    assert len(ledger.history("town")) == 10


@pytest.mark.parametrize("key_kind", [None, "seed", "os"])
def test_another_total_is_named_as_a_way_out_only_where_it_is_one(
    ledger: Ledger, key_kind: str | None
):
    """A run with a seed takes nothing from the total, and yet the total stands from then on."""
    if key_kind:
        spend(ledger, pure("0.1"), "first", key_kind=key_kind)
    with pytest.raises(OverspendError) as error:
        spend(ledger, pure("2"), "second")
    assert ("may still declare another total" in str(error.value)) is (key_kind is None)
    if key_kind:
        with pytest.raises(PrivacyError, match="a total stands once something is recorded"):
            ledger.declare("town", total=pure("3"))
    else:
        ledger.declare("town", total=pure("3"))
        spend(ledger, pure("2"), "second")


def test_no_excess_is_too_small_to_refuse(ledger: Ledger):
    spend(ledger, pure("2/3"), "first")
    with pytest.raises(OverspendError) as error:
        spend(ledger, pure(Fraction(1, 3) + Fraction(1, 10**40)), "second")
    assert error.value.difference == Fraction(1, 10**40)
    spend(ledger, pure("1/3"), "third")


def test_afford_refuses_early_and_records_nothing(ledger: Ledger):
    ledger.afford("town", pure("1"))
    spend(ledger, pure("1"), "first")
    with pytest.raises(OverspendError, match="requested 1, remaining 0, difference 1"):
        ledger.afford("town", pure("1"), run_id="second")
    ledger.afford("town", pure("1"), run_id="first")  # on the books already: it may resume
    with pytest.raises(PrivacyError, match="found rho against a total in epsilon"):
        ledger.afford("town", rho("1/100"))
    assert [one.run_id for one in ledger.history("town")] == ["first"]


def test_spends_convert_in_named_directions_only(ledger: Ledger):
    found = spend(ledger, pure("1/8", ADD_REMOVE), "added")
    assert (found.charge, found.charge_method) == (
        Fraction(1, 4),
        "change-one epsilon = 2 x add-remove epsilon",
    )
    assert found == ledger.run("added")
    with pytest.raises(PrivacyError, match="found rho against a total in epsilon"):
        spend(ledger, rho("1/100"), "rho")
    assert ledger.balance("town").spent == Fraction(1, 4)


def test_a_total_at_a_delta_sums_rhos_before_converting(ledger: Ledger):
    total = ApproximateLoss(epsilon=Fraction("17.15"), delta=Fraction(1, 10**10), unit=CHANGE_ONE)
    ledger.declare("nation", total=total)
    whole = Fraction(293764, 114921)
    for number in range(4):
        spend(ledger, rho(whole / 4), f"quarter {number}", dataset="nation")
    found = ledger.balance("nation")
    assert found.charged == whole
    assert round(float(found.spent), 2) == 17.14
    assert found.method.startswith("rhos summed, then Canonne")
    with pytest.raises(OverspendError) as error:
        spend(ledger, rho("1/10"), "more", dataset="nation")
    refusal = error.value
    assert refusal.remaining == found.remaining
    assert refusal.difference == refusal.requested - refusal.remaining > 0
    assert "epsilon at delta 1e-10 requested ~" in str(refusal)
    assert "(rhos summed, then Canonne" in str(refusal)


def test_a_resumed_run_is_one_spend(ledger: Ledger):
    first = spend(ledger, pure("0.8"), "run", invariants=["housing units"])
    assert spend(ledger, pure("0.8"), "run", invariants=["housing units"]) == first
    ledger.mark("run", SpendState.DRAWN)
    again = spend(ledger, pure("0.8"), "run", invariants=["housing units"])
    assert again.state is SpendState.DRAWN
    assert ledger.balance("town").spent == Fraction(4, 5)
    assert ledger.balance("town").runs == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"data_digest": "other data"}, "data digest"),
        ({"config_digest": "other config"}, "config digest"),
        ({"key_kind": "seed"}, "key kind"),
        ({"invariants": ["population"]}, "invariants"),
        ({"loss": pure("0.2")}, "loss"),
        ({"dataset": "city"}, "dataset"),
    ],
)
def test_a_resumed_run_may_change_nothing(ledger: Ledger, changes, what):
    ledger.declare("city", total=pure("1"))
    spend(ledger, pure("0.1"), "run")
    with pytest.raises(PrivacyError) as error:
        spend(ledger, run_id="run", **{"loss": pure("0.1"), **changes})
    assert f"run 'run': found {what} different from what was recorded, expected the same" in str(
        error.value
    )
    assert "plain digest" not in str(error.value)
    assert ledger.balance("town").spent == Fraction(1, 10)


def test_new_content_needs_the_flag(ledger: Ledger):
    spend(ledger, pure("0.1"), "first")
    with pytest.raises(PrivacyError, match="dataset 'town': found new content, expected"):
        spend(ledger, pure("0.1"), "second", data_digest="edited")
    spend(ledger, pure("0.1"), "second", data_digest="edited", new_content=True)
    spend(ledger, pure("0.1"), "third", data_digest="edited")
    spend(ledger, pure("0.1"), "fourth")
    assert ledger.balance("town").spent == Fraction(2, 5)


def test_the_same_content_under_a_second_name_is_refused(ledger: Ledger):
    ledger.declare("copy", total=pure("1"))
    spend(ledger, pure("1"), "first")
    for flag in (False, True):
        with pytest.raises(PrivacyError, match="content that is recorded under 'town'"):
            spend(ledger, pure("1"), "second", dataset="copy", new_content=flag)


def test_seeded_runs_are_recorded_as_not_private_and_held_against_nothing(ledger: Ledger):
    found = spend(ledger, pure("50"), "study", key_kind=KeyKind.SEED)
    assert not found.counts
    assert found.charge is None
    assert "seed" in found.not_private_because
    balance = ledger.balance("town")
    assert balance.spent == 0
    assert (balance.runs, balance.not_private) == (0, 1)
    assert balance.sentences()[0].startswith("NOT PRIVATE: ")
    assert "(runs: 1)" in balance.sentences()[0]
    assert [one.run_id for one in ledger.history("town")] == ["study"]


def test_methods_without_a_guarantee_are_recorded_too(ledger: Ledger):
    found = spend(ledger, None, "swapping")
    assert found == ledger.run("swapping")
    assert found.not_private_because == "the method has no differential-privacy guarantee"
    assert ledger.balance("town").not_private == 1


def test_a_spend_moves_forward_only(ledger: Ledger):
    assert spend(ledger, pure("0.1"), "run").state is SpendState.RECORDED
    assert ledger.mark("run", SpendState.DRAWN).state is SpendState.DRAWN
    assert len(ledger.mark("run", SpendState.DRAWN).events) == 2
    assert ledger.mark("run", SpendState.COMPLETE).state is SpendState.COMPLETE
    with pytest.raises(PrivacyError, match="found state complete, expected one from which it can"):
        ledger.mark("run", SpendState.DRAWN)
    with pytest.raises(PrivacyError, match=r"found state complete, .* can become void"):
        ledger.mark("run", SpendState.VOID)
    with pytest.raises(PrivacyError, match="run 'walk': found no such run, expected one"):
        ledger.mark("walk", SpendState.DRAWN)


def test_a_run_that_drew_nothing_may_be_voided_with_a_reason(ledger: Ledger):
    spend(ledger, pure("1"), "run")
    found = ledger.void("run", why="wrong geography in the config")
    assert found.state is SpendState.VOID
    assert found.events[-1].why == "wrong geography in the config"
    assert ledger.balance("town").spent == 0
    assert ledger.balance("town").voided == 1
    assert ledger.history("town") == (found,)
    spend(ledger, pure("1"), "another")
    with pytest.raises(PrivacyError, match=r"found state void \(wrong geography in the config\)"):
        spend(ledger, pure("1"), "run")
    with pytest.raises(PrivacyError, match="run 'run': found state void, expected one from which"):
        ledger.mark("run", SpendState.DRAWN)
    with pytest.raises(PrivacyError, match="run 'run': found state void, expected recorded"):
        ledger.void("run", why="twice")


def test_a_voided_seeded_run_is_no_longer_warned_about(ledger: Ledger):
    spend(ledger, pure("1"), "study", key_kind="seed")
    ledger.void("study", why="not needed")
    assert ledger.balance("town").not_private == 0


@pytest.mark.parametrize("state", [SpendState.DRAWN, SpendState.COMPLETE])
def test_a_spend_is_never_refunded_once_noise_may_have_been_drawn(ledger: Ledger, state):
    spend(ledger, pure("1"), "run")
    ledger.mark("run", state)
    with pytest.raises(PrivacyError) as error:
        ledger.void("run", why="I did not like the result")
    assert f"found state {state}, expected recorded" in str(error.value)
    assert ledger.balance("town").remaining == 0


def test_voiding_needs_a_reason_and_nothing_written(ledger: Ledger):
    spend(ledger, pure("1"), "run")
    with pytest.raises(PrivacyError, match="reason for voiding: found none"):
        ledger.void("run", why="  ")
    with pytest.raises(PrivacyError, match=r"found release/state\.parquet written, expected not"):
        ledger.void("run", why="crash", written=["release/state.parquet"])
    assert ledger.run("run").state is SpendState.RECORDED


def test_a_total_stands_once_something_is_recorded_on_it(ledger: Ledger):
    secret = ledger.identity
    ledger.declare("town", total=pure("3"))
    assert ledger.declare("town", total=pure("1")) == ledger.dataset("town")
    assert ledger.dataset("town").total == pure("1")
    assert ledger.identity == secret
    with sqlite3.connect(ledger.path) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE dataset SET amount = '9'")  # the guard is there again
    spend(ledger, pure("1/2"), "run")
    with pytest.raises(PrivacyError) as error:
        ledger.declare("town", total=pure("2"))
    assert "found a total of epsilon 2 when" in str(error.value)
    assert "expected the declared total of epsilon 1 when" in str(error.value)
    with pytest.raises(PrivacyError, match="dataset name: found ' town', expected a name"):
        ledger.declare(" town", total=pure("2"))
    assert [one.name for one in ledger.datasets()] == ["town"]


def test_unknown_names_and_bad_arguments_are_refused(ledger: Ledger):
    with pytest.raises(PrivacyError, match=r"found 'city', expected a declared name \('town'\)"):
        spend(ledger, pure("1"), "run", dataset="city")
    with pytest.raises(PrivacyError, match="found 'city'"):
        ledger.history("city")
    with pytest.raises(PrivacyError, match="key kind: found 'dice', expected 'os' or 'seed'"):
        spend(ledger, pure("1"), "run", key_kind="dice")
    with pytest.raises(PrivacyError, match="run id: found none, expected some text"):
        spend(ledger, pure("1"), "")
    with pytest.raises(PrivacyError, match="config digest: found none"):
        spend(ledger, pure("1"), "run", config_digest="")
    with pytest.raises(PrivacyError, match="data digest: found none"):
        spend(ledger, pure("1"), "run", data_digest="")


def test_the_balance_says_what_the_ledger_cannot_see(ledger: Ledger):
    spend(ledger, pure("1/3"), "run", invariants=["population of each state"])
    assert ledger.balance("town").sentences() == (
        "town: epsilon when one person's record changes.",
        "Total 1, spent 1/3 (~0.333333) (runs: 1), remaining 2/3 (~0.666667).",
        "Released without noise: population of each state.",
        "The ledger cannot see other datasets about the same people: their losses add to these.",
        "The ledger cannot see what invariants show: they are released exactly, and no epsilon or "
        "rho bounds that.",
        "The ledger cannot see releases made without this ledger, with another one, or with an "
        "older copy of this one.",
    )


def test_the_file_is_private_and_never_overwritten(ledger: Ledger):
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    with pytest.raises(PrivacyError, match="found a file, expected none: a ledger is never over"):
        Ledger.create(ledger.path)
    ledger.path.chmod(0o640)
    with pytest.raises(PrivacyError, match="found mode 0640, expected 0600"):
        Ledger.open(ledger.path)
    ledger.path.chmod(0o600)
    assert Ledger.open(ledger.path).dataset("town").total == pure("1")


def test_what_is_not_a_ledger_is_refused(tmp_path: Path):
    def made(name: str, content: bytes = b"") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    with pytest.raises(PrivacyError, match="found no file, expected a ledger"):
        Ledger.open(tmp_path / "none.db")
    with pytest.raises(PrivacyError, match="creating it was interrupted"):
        Ledger.open(made("empty.db"))
    with pytest.raises(PrivacyError, match=r"could not be used.* file is not a database"):
        Ledger.open(made("notes.txt", b"notes, at some length, that are no database" * 50))
    with pytest.raises(PrivacyError, match="cannot create a ledger here: No such file"):
        Ledger.create(tmp_path / "no" / "folder.db")
    other = made("other.db")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(PrivacyError, match="found some other database, expected a headcount led"):
        Ledger.open(other)
    newer = Ledger.create(tmp_path / "newer.db")
    with sqlite3.connect(newer.path) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(PrivacyError, match="found ledger version 2, expected 1"):
        Ledger.open(newer.path)


@pytest.mark.parametrize("table", ["secret", "dataset", "content", "spend", "event"])
def test_every_table_is_append_only(ledger: Ledger, table):
    spend(ledger, pure("0.1"), "run")
    with sqlite3.connect(ledger.path) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
            connection.execute(f"DELETE FROM {table}")
        column = connection.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchone()[0]
        with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
            connection.execute(f"UPDATE {table} SET {column} = {column}")


def test_a_ledger_in_use_for_too_long_is_an_error_and_records_nothing(ledger: Ledger, monkeypatch):
    monkeypatch.setattr(ledger_file, "WAIT_SECONDS", 0.05)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(PrivacyError, match=r"the step was not recorded: database is locked"):
        spend(ledger, pure("0.1"), "run")
    other.execute("ROLLBACK")
    other.close()
    assert ledger.history("town") == ()


def test_amounts_are_stored_as_exact_fractions_and_digests_never_plain(ledger: Ledger):
    spend(ledger, pure("1/3"), "run")
    with sqlite3.connect(ledger.path) as connection:
        assert connection.execute("SELECT amount, charge FROM spend").fetchall() == [("1/3", "1/3")]
    content = ledger.path.read_bytes()
    assert b"plain digest" not in content
    assert re.fullmatch(r"hmac-sha256:[0-9a-f]{64}", ledger.run("run").data_digest)


requests = st.tuples(
    st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(3, 4), max_denominator=1000),
    st.sampled_from(["pure", "doubled", "seed", "void", "again"]),
)


@given(st.lists(requests, max_size=10))
@settings(max_examples=30, deadline=None)
def test_random_histories_agree_with_plain_fractions(history):
    """The model: a list of fractions, and the one rule that their sum stays within 1."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "ledger.db")
        ledger.declare("town", total=pure("1"))
        held: list[Fraction] = []
        for number, (amount, kind) in enumerate(history):
            cost = 2 * amount if kind == "doubled" else amount
            loss = pure(amount, ADD_REMOVE if kind == "doubled" else CHANGE_ONE)
            key = "seed" if kind == "seed" else "os"
            fits = kind == "seed" or sum(held) + cost <= 1
            if not fits:
                with pytest.raises(OverspendError) as error:
                    spend(ledger, loss, f"run {number}", key_kind=key)
                assert error.value.difference == sum(held) + cost - 1
                continue
            spend(ledger, loss, f"run {number}", key_kind=key)
            if kind == "void":
                ledger.void(f"run {number}", why="a trial")
            elif kind != "seed":
                held.append(cost)
            if kind == "again":
                spend(ledger, loss, f"run {number}", key_kind=key)
            assert ledger.balance("town").spent == sum(held)
        found = ledger.balance("town")
        assert found.spent == sum(held) == 1 - found.remaining
        assert found.runs == len(held)
