"""What a ledger would have left after a release, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from headcount.privacy._ledger_records import OverspendError
from headcount.privacy.guarantee import Guarantee
from headcount.privacy.ledger import Ledger
from headcount.privacy.loss import Loss, figure


@dataclass(frozen=True)
class LedgerOutlook:
    """A dataset's remainder, in words.

    where
        now       what is left of the declared total, in its currency
        loss      what the release would lose; None without a guarantee
        refused   why the ledger would refuse the release; "" if it would not
        left      what would remain; "" where losses are not simply subtracted
    """

    dataset: str
    currency: str
    now: str
    loss: Loss | None
    refused: str = ""
    left: str = ""


def outlook(ledger: Ledger, dataset: str, promise: Guarantee) -> LedgerOutlook:
    """What a release with that promise would leave; nothing is written."""
    balance = ledger.balance(dataset)
    total = balance.dataset.total
    loss = promise.loss_for(total.unit) or next(iter(promise.losses), None)
    refused = left = ""
    if loss is not None:
        try:
            ledger.afford(dataset, loss)
            if (loss.currency, loss.unit) == (total.currency, total.unit):
                left = figure(balance.remaining - Fraction(loss.amount))
        except OverspendError as error:
            refused = str(error)
    return LedgerOutlook(dataset, total.currency, figure(balance.remaining), loss, refused, left)
