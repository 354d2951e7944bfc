"""What a ledger would have left: exact in every currency, and nothing is written."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from headcount.privacy import (
    ApproximateLoss,
    Guarantee,
    Ledger,
    Loss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
)
from headcount.privacy.ledger import outlook
from headcount.privacy.loss import figure

UNIT = UnitOfPrivacy.CHANGE_ONE


def epsilon(amount: str) -> PureLoss:
    return PureLoss(epsilon=Fraction(amount), unit=UNIT)


def rho(amount: str) -> ZCDPLoss:
    return ZCDPLoss(rho=Fraction(amount), unit=UNIT)


def spend(ledger: Ledger, loss: Loss, run_id: str) -> None:
    ledger.spend(
        "town",
        loss,
        run_id=run_id,
        data_digest="plain digest of the data",
        config_digest="config",
        key_kind="os",
    )


@pytest.mark.parametrize(
    ("total", "loss"),
    [
        (epsilon("2"), epsilon("0.75")),
        (rho("2"), rho("0.75")),
        (rho("2"), epsilon("1")),
        (ApproximateLoss(epsilon=Fraction(9), delta=Fraction(1, 10**6), unit=UNIT), rho("0.2")),
    ],
)
def test_what_would_be_left_is_what_is_left_when_it_was_spent(
    tmp_path: Path, total: Loss, loss: Loss
):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.declare("town", total=total)
    promise = Guarantee(losses=(loss,))
    for run_id in ("a", "b"):
        ahead = outlook(ledger, "town", promise)
        assert ahead.now == figure(ledger.balance("town").remaining)
        assert (ahead.loss, ahead.refused) == (loss, "")
        assert ahead.left != ahead.now
        spend(ledger, loss, run_id)
        assert ahead.left == figure(ledger.balance("town").remaining)
        # Of a run that has spent already nothing more would go.
        again = outlook(ledger, "town", promise, run_id=run_id)
        assert again.left == again.now == ahead.left


def test_more_than_is_left_is_refused_and_a_run_without_a_guarantee_takes_nothing(tmp_path: Path):
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.declare("town", total=epsilon("2"))
    promise = Guarantee(losses=(epsilon("3"),))
    assert "the release would exceed the declared total" in outlook(ledger, "town", promise).refused
    for none in (promise.seeded(), Guarantee.none("nothing bounds it")):
        ahead = outlook(ledger, "town", none)
        assert (ahead.loss, ahead.refused, ahead.left) == (None, "", "2")
    assert ledger.balance("town").runs == 0
