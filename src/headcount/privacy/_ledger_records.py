"""What the ledger hands out: datasets, spends, balances, and a refusal that carries its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from headcount.errors import PrivacyError
from headcount.noise.source import KeyKind
from headcount.privacy.guarantee import SEEDED
from headcount.privacy.loss import ApproximateLoss, Loss, decimal, figure

CANNOT_SEE = (
    "other datasets about the same people: their losses add to these",
    "what invariants show: they are released exactly, and no epsilon or rho bounds that",
    "releases made without this ledger, with another one, or with an older copy of this one",
)
"""What a ledger cannot know; shown with every balance."""


class SpendState(StrEnum):
    """How far the run behind a spend has come."""

    RECORDED = "recorded"
    """Counted; no noise drawn yet. The only state that may be voided."""

    DRAWN = "drawn"
    """Noise may have been drawn, something may have been written. Final unless completed."""

    COMPLETE = "complete"
    """The release is written and its key destroyed."""

    VOID = "void"
    """Withdrawn before any noise was drawn; not counted, and kept with the reason."""

    CLOSED = "closed"
    """Given up for good before it was complete, and its key destroyed; counted all the same."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A name declared by the owner of the data, with the most that may ever be lost on it."""

    name: str
    total: Loss
    declared_at: str


@dataclass(frozen=True, kw_only=True)
class SpendEvent:
    """One step in the life of a spend."""

    state: SpendState
    at: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One release drawn on a dataset.

    where
        loss           what the release states; None for a method without a guarantee
        charge         what it takes from the sum held against the total (epsilon for a total in
                       epsilon, else rho); None for a run that is not private and in no sum
        charge_method  how the loss became the charge, where a conversion was needed
        data_digest    the publishable digest of the content, an HMAC under the ledger's secret
    """

    run_id: str
    dataset: str
    loss: Loss | None
    charge: Fraction | None
    charge_method: str
    data_digest: str
    config_digest: str
    key_kind: KeyKind
    invariants: tuple[str, ...]
    events: tuple[SpendEvent, ...]

    @property
    def state(self) -> SpendState:
        """How far the run has come."""
        return self.events[-1].state

    @property
    def not_private_because(self) -> str:
        """Why no loss bounds this run, or nothing if one does."""
        if self.loss is None:
            return "the method has no differential-privacy guarantee"
        return SEEDED if self.key_kind is KeyKind.SEED else ""

    @property
    def counts(self) -> bool:
        """Whether the spend is held against the total."""
        return self.charge is not None and self.state is not SpendState.VOID


@dataclass(frozen=True, kw_only=True)
class Balance:
    """What is left of a dataset's total.

    where
        spent, remaining    in the total's currency (epsilon at its delta, for such a total)
        charged             the sum that ``spent`` was worked out from (rho, for such a total)
        method              how, where the sum had to be converted
        runs                number of spends in the sum
        not_private         number of runs in no sum, because nothing bounds what they show
        invariants          what counted runs released exactly
    """

    dataset: Dataset
    spent: Fraction
    remaining: Fraction
    charged: Fraction
    method: str
    runs: int
    not_private: int
    voided: int
    closed: int
    invariants: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        """The balance in plain words, with what it cannot know."""
        total = self.dataset.total
        what = denomination(total)
        how = f"; {self.method}" if self.method else ""
        said = []
        if self.not_private:
            said.append(
                f"NOT PRIVATE: no loss bounds what was drawn by further runs on this dataset "
                f"(runs: {self.not_private}). If any of them was published, the total no longer "
                f"says what was lost."
            )
        said += [
            f"{self.dataset.name}: {what} when {total.unit.phrase}.",
            f"Total {figure(total.amount)}, spent {figure(self.spent)} (runs: {self.runs}{how}), "
            f"remaining {figure(self.remaining)}.",
        ]
        if self.voided:
            said.append(f"Voided before any noise was drawn (runs: {self.voided}).")
        if self.closed:
            said.append(f"Closed without a release; their spends stand (runs: {self.closed}).")
        said += [f"Released without noise: {one}." for one in self.invariants]
        said += [f"The ledger cannot see {one}." for one in CANNOT_SEE]
        return tuple(said)


class OverspendError(PrivacyError):
    """A release that would take a dataset beyond its declared total; nothing was recorded."""

    def __init__(
        self, dataset: Dataset, *, requested: Fraction, remaining: Fraction, method: str = ""
    ) -> None:
        self.dataset = dataset
        self.requested = requested
        self.remaining = remaining
        self.difference = requested - remaining
        self.method = method
        how = f" ({method})" if method else ""
        super().__init__(
            f"dataset {dataset.name!r}: the release would exceed the declared total. "
            f"{denomination(dataset.total)} requested {figure(requested)}, remaining "
            f"{figure(remaining)}, difference {figure(self.difference)}{how}, "
            f"when {dataset.total.unit.phrase}"
        )


def denomination(total: Loss) -> str:
    """The currency of a total, with its delta where it has one."""
    if isinstance(total, ApproximateLoss):
        return f"epsilon at delta {decimal(total.delta)}"
    return str(total.currency)
