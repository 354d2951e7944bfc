"""What a ledger would have left after a release, before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass

from headcount.privacy._account import charge, used
from headcount.privacy._ledger_records import OverspendError
from headcount.privacy.guarantee import Guarantee
from headcount.privacy.ledger import Ledger
from headcount.privacy.loss import Loss, figure


@dataclass(frozen=True)
class LedgerOutlook:
    """A dataset's remainder, in words.

    where
        now       what is left of the declared total, in its currency
        loss      what the release would lose; None where no guarantee holds: such a release is
                  recorded as not private, and held against nothing
        refused   why the ledger would refuse the release; "" if it would not
        left      what would remain
    """

    dataset: str
    currency: str
    now: str
    loss: Loss | None
    refused: str = ""
    left: str = ""


def outlook(ledger: Ledger, dataset: str, promise: Guarantee, *, run_id: str = "") -> LedgerOutlook:
    """What a release with that promise would leave; nothing is written.

    ``run_id`` is of a run that has begun: what it has spent is not spent again.
    """
    balance = ledger.balance(dataset)
    total = balance.dataset.total
    now = left = balance.remaining
    loss, refused = None, ""
    if promise.exists:
        loss = promise.loss_for(total.unit) or promise.losses[0]
        try:
            ledger.afford(dataset, loss, run_id=run_id)
            if all(one.run_id != run_id for one in ledger.history(dataset)):
                more = charge(loss, total=total).amount
                left = total.amount - used([balance.charged, more], total=total).amount
        except OverspendError as error:
            refused = str(error)
    return LedgerOutlook(dataset, total.currency, figure(now), loss, refused, figure(left))
