"""The ledger of what was spent on which data. It refuses to go beyond a declared total.

A dataset is a *name* declared by its owner, with a total in one currency and one unit of privacy.
A release is a *spend* on that name, recorded **before** its noise is drawn and never refunded:

    spend  ->  recorded  ->  mark drawn  ->  mark complete
                   |              `->  closed, with the reason: spent, and no release
                   `----->   void, with the reason

so that a process killed at any point has either spent nothing and drawn nothing, or has its spend
on the books. Spending again with the same run id, data and config is the same spend.

The file also keeps a secret, under which digests of data become publishable: a plain hash of the
data lets anyone who knows all other records test guesses of the last one.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from headcount.errors import ConfigError, PrivacyError
from headcount.fields import TooLong, fits
from headcount.noise.source import KeyKind
from headcount.privacy import _ledger_file as books
from headcount.privacy._ledger_file import (
    Balance,
    Dataset,
    OverspendError,
    Spend,
    SpendEvent,
    SpendState,
)
from headcount.privacy.convert import charge, used
from headcount.privacy.guarantee import Guarantee
from headcount.privacy.loss import (
    ApproximateLoss,
    Loss,
    PureLoss,
    UnitOfPrivacy,
    ZCDPLoss,
    exact,
    figure,
)

log = logging.getLogger(__name__)

_CONTENT = b"headcount data digest, version 1\0"
_OF_RUN = b"headcount data digest of one run, version 1\0"
_SOURCE = b"headcount source records, version 1\0"
_IDENTITY = b"headcount ledger identity, version 1\0"
SPENT_DIGITS = 400
"""Digits of an amount in the ledger: a config's fifty, times shares, or a float's own."""

_ORDER = (SpendState.RECORDED, SpendState.DRAWN, SpendState.COMPLETE)


@dataclass(frozen=True)
class Ledger:
    """A ledger file. Holds no connection and no secret, so it may be copied to other processes."""

    path: Path

    @classmethod
    def create(cls, path: Path | str) -> Ledger:
        """Make a new, empty ledger; refuses to touch a file that is there."""
        whole = Path(path).absolute()
        books.create(whole)
        return cls(whole)

    @classmethod
    def open(cls, path: Path | str) -> Ledger:
        """Use an existing ledger; refuses what is not one, or is readable by others."""
        whole = Path(path).absolute()
        books.check(whole)
        return cls(whole)

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a file is a ledger, by its first bytes: sound or not, of whatever name."""
        return books.is_ledger(path)

    def declare(self, name: str, *, total: Loss) -> Dataset:
        """Declare a dataset and the most that may ever be lost on it.

        A total never changes once anything was recorded on it.
        """
        if not name or name != name.strip():
            raise PrivacyError(
                f"dataset name: found {name!r}, expected a name without spaces at either end"
            )
        _refuse_long(total)
        declared = Dataset(name=name, total=total, declared_at=_now())
        with books.writing(self.path) as connection:
            known = books.all_datasets(connection).get(name)
            if known is None:
                books.insert_dataset(connection, declared)
                return declared
            if known.total != total and not books.spends_on(connection, name):
                books.replace_dataset(connection, declared)
                return declared
        if known.total != total:
            raise PrivacyError(
                f"dataset {name!r}: found a total of {total}, expected the declared total of "
                f"{known.total}: a total stands once something is recorded on it"
            )
        return known

    def datasets(self) -> tuple[Dataset, ...]:
        """Every declared dataset, by name."""
        with books.reading(self.path) as connection:
            return tuple(books.all_datasets(connection).values())

    def dataset(self, name: str) -> Dataset:
        """One declared dataset."""
        with books.reading(self.path) as connection:
            return books.get_dataset(connection, name)

    def afford(self, dataset: str, loss: Loss, *, run_id: str = "") -> None:
        """Refuse now, before data is read, what :meth:`spend` would refuse; records nothing.

        A run that is on the books already may go on, whatever is left.
        """
        _refuse_long(loss)
        with books.reading(self.path) as connection:
            declared = books.get_dataset(connection, dataset)
            amount = charge(loss, total=declared.total).amount
            if not run_id or books.find_spend(connection, run_id) is None:
                _refuse_overspend(connection, declared, amount)

    def spend(
        self,
        dataset: str,
        loss: Loss | None,
        *,
        run_id: str,
        data_digest: str,
        config_digest: str,
        key_kind: KeyKind | str,
        invariants: Sequence[str] = (),
        new_content: bool = False,
        source_digest: str = "",
    ) -> Spend:
        """Record a release, durably, before any of its noise is drawn.

        where
            loss          what the release states; None for a method without a guarantee
            run_id        the run's own id, kept by the run before this is called; a resumed run
                          gets its first spend back, and is refused if anything has changed
            data_digest   a digest of the data as tabulated; only its HMAC is stored
            source_digest a digest of the records behind them, if known: the same data under
                          another view of them; only its HMAC is stored
            key_kind      'os', or 'seed' for a run that is not private
            new_content   the owner's word that other content belongs under this name

        Runs that are not private (a seed, or no guarantee) are recorded but held against nothing:
        no amount of the total would pay for them. Balances name them first.
        """
        kind = _key_kind(key_kind)
        tags = self._tags(data_digest, source_digest)
        if loss is not None:
            _refuse_long(loss)
        declared = self.dataset(dataset)
        private = loss is not None and kind is KeyKind.OS
        cost = charge(loss, total=declared.total) if loss is not None and private else None
        wanted = Spend(
            run_id=_present(run_id, name="run id"),
            dataset=dataset,
            loss=loss,
            charge=cost.amount if cost else None,
            charge_method=cost.method if cost else "",
            data_digest=tags[0],
            config_digest=_present(config_digest, name="config digest"),
            key_kind=kind,
            invariants=tuple(invariants),
            events=(SpendEvent(state=SpendState.RECORDED, at=_now()),),
        )
        with books.writing(self.path) as connection:
            known = books.find_spend(connection, run_id)
            if known is not None:
                return _resumed(known, wanted)
            _admit_content(connection, dataset, tags, new_content=new_content)
            if wanted.charge is not None:
                _refuse_overspend(connection, declared, wanted.charge)
            books.insert_spend(connection, wanted)
        log.info("ledger: run %s recorded on dataset %s", run_id, dataset)
        return wanted

    def admit(
        self,
        dataset: str,
        *,
        data_digest: str,
        source_digest: str = "",
        new_content: bool = False,
        run_id: str = "",
    ) -> None:
        """Refuse now what :meth:`spend` would refuse of the content; records nothing."""
        tags = self._tags(data_digest, source_digest)
        with books.reading(self.path) as connection:
            if not run_id or books.find_spend(connection, run_id) is None:
                _strange_content(connection, dataset, tags, new_content=new_content)

    def _tags(self, data_digest: str, source_digest: str) -> tuple[str, ...]:
        """What the ledger keeps of content, under its secret: of the view, then of the source."""
        tags = [self._tag(_CONTENT, _present(data_digest, name="data digest"))]
        return (*tags, self._tag(_SOURCE, source_digest)) if source_digest else tuple(tags)

    @property
    def identity(self) -> str:
        """A name that every copy of this ledger has, wherever it lies, and no other ledger."""
        return self._tag(_IDENTITY, "")

    def mark(self, run_id: str, state: SpendState) -> Spend:
        """Move a run forward; marking a state it is already in changes nothing.

        Mark ``DRAWN`` before the first draw, ``COMPLETE`` when the release is written and the key
        destroyed.
        """
        with books.writing(self.path) as connection:
            found = books.get_spend(connection, run_id)
            if found.state is state and state in _ORDER:
                return found
            if (
                found.state not in _ORDER
                or state not in _ORDER
                or _ORDER.index(state) < _ORDER.index(found.state)
            ):
                raise PrivacyError(
                    f"run {run_id!r}: found state {found.state}, expected one from which it can "
                    f"become {state}: runs go from recorded to drawn to complete"
                )
            books.insert_event(connection, run_id, SpendEvent(state=state, at=_now()))
            return books.get_spend(connection, run_id)

    def void(self, run_id: str, *, why: str, written: Sequence[str | Path] = ()) -> Spend:
        """Take back a spend whose run drew no noise and wrote nothing; the reason is kept.

        where
            written   files of the run that hold anything worked out from its noise, as found by
                      the caller; there must be none

        The ledger itself refuses any run that was marked drawn. It is that early because a run
        that fails *after* drawing may have failed because of what it drew, and then even the
        failure tells something. A voided run can never be resumed.
        """
        reason = _present(why, name="reason for voiding")
        if written:
            raise PrivacyError(
                f"run {run_id!r}: found {written[0]} written, expected nothing: its spend stands"
            )
        with books.writing(self.path) as connection:
            found = books.get_spend(connection, run_id)
            if found.state is not SpendState.RECORDED:
                raise PrivacyError(
                    f"run {run_id!r}: found state {found.state}, expected recorded: "
                    f"a spend is never refunded once noise may have been drawn"
                )
            books.insert_event(
                connection, run_id, SpendEvent(state=SpendState.VOID, at=_now(), why=reason)
            )
            return books.get_spend(connection, run_id)

    def close(self, run_id: str, *, why: str) -> Spend | None:
        """State that a run will never complete; its spend stands. None if it never spent.

        Closing a closed run changes nothing, and a voided one stays void.
        """
        reason = _present(why, name="reason for closing")
        with books.writing(self.path) as connection:
            found = books.find_spend(connection, run_id)
            if found is None or found.state in (SpendState.CLOSED, SpendState.VOID):
                return found
            if found.state is SpendState.COMPLETE:
                raise PrivacyError(
                    f"run {run_id!r}: found state complete, expected a run that is not finished"
                )
            books.insert_closing(connection, run_id, at=_now(), why=reason)
            return books.get_spend(connection, run_id)

    def run(self, run_id: str) -> Spend:
        """The spend of one run."""
        with books.reading(self.path) as connection:
            return books.get_spend(connection, run_id)

    def history(self, name: str) -> tuple[Spend, ...]:
        """Every spend on a dataset, oldest first, voided and not private ones included."""
        with books.reading(self.path) as connection:
            books.get_dataset(connection, name)
            return books.spends_on(connection, name)

    def balance(self, name: str) -> Balance:
        """What is left of a dataset's total, and what the ledger cannot say."""
        with books.reading(self.path) as connection:
            declared = books.get_dataset(connection, name)
            spends = books.spends_on(connection, name)
        counted = [one for one in spends if one.counts]
        charges = [one.charge for one in counted if one.charge is not None]
        spent = used(charges, total=declared.total)
        live = [one for one in spends if one.state is not SpendState.VOID]
        return Balance(
            dataset=declared,
            spent=spent.amount,
            remaining=declared.total.amount - spent.amount,
            charged=sum(charges, Fraction(0)),
            method=spent.method,
            runs=len(counted),
            not_private=len(live) - len(counted),
            voided=len(spends) - len(live),
            closed=sum(one.state is SpendState.CLOSED for one in spends),
            invariants=tuple(dict.fromkeys(what for one in live for what in one.invariants)),
        )

    def public_digest(self, data_digest: str, *, run_id: str) -> str:
        """A digest that may be published: HMAC-SHA256 of run and ``data_digest`` under the secret.

        Bound to the run, because equal digests in two receipts would say that nobody's record
        changed in between, and no loss accounts for that.
        """
        digest = _present(data_digest, name="data digest")
        run = _present(run_id, name="run id").encode()
        return self._tag(_OF_RUN + len(run).to_bytes(8, "big") + run, digest)

    def _tag(self, purpose: bytes, text: str) -> str:
        """HMAC-SHA256 of a text under the secret; a purpose is no prefix of another."""
        with books.reading(self.path) as connection:
            secret = connection.execute("SELECT key FROM secret").fetchone()["key"]
        tag = hmac.new(secret, purpose + text.encode(), hashlib.sha256)
        return f"hmac-sha256:{tag.hexdigest()}"


def _refuse_long(loss: Loss) -> None:
    """Sums of long fractions grow with every spend; text of 4,300 digits cannot be read back."""
    amounts = [loss.amount, *([loss.delta] if isinstance(loss, ApproximateLoss) else [])]
    if not all(fits(amount, digits=SPENT_DIGITS) for amount in amounts):
        raise PrivacyError(f"ledger: found {loss}, expected {TooLong(SPENT_DIGITS)}")


def _refuse_overspend(connection: sqlite3.Connection, declared: Dataset, amount: Fraction) -> None:
    spends = books.spends_on(connection, declared.name)
    charges = [one.charge for one in spends if one.counts and one.charge is not None]
    before = used(charges, total=declared.total)
    after = used([*charges, amount], total=declared.total)
    if after.amount > declared.total.amount:
        raise OverspendError(
            declared,
            requested=after.amount - before.amount,
            remaining=declared.total.amount - before.amount,
            begun=bool(spends),
            method=after.method,
        )


def _admit_content(
    connection: sqlite3.Connection, dataset: str, tags: Sequence[str], *, new_content: bool
) -> None:
    """Take content under a name; what belongs under another is refused."""
    for tag in _strange_content(connection, dataset, tags, new_content=new_content):
        connection.execute("INSERT INTO content VALUES (?, ?, ?)", (tag, dataset, _now()))


def _strange_content(
    connection: sqlite3.Connection, dataset: str, tags: Sequence[str], *, new_content: bool
) -> list[str]:
    """The tags that the ledger does not know yet, after refusing content that it knows better.

    Records that are known under the name make it the same content, whatever view is taken of them.
    """
    owners = dict(connection.execute("SELECT digest, dataset FROM content").fetchall())
    for tag in tags:
        owner = owners.get(tag, dataset)
        if owner != dataset:
            raise PrivacyError(
                f"dataset {dataset!r}: found content that is recorded under {owner!r}, expected "
                f"that name: the same data under two names would have two totals"
            )
    strange = [tag for tag in tags if tag not in owners]
    if strange == list(tags) and dataset in owners.values() and not new_content:
        raise PrivacyError(
            f"dataset {dataset!r}: found new content, expected the content recorded "
            f"under this name. If it is a new edition of the same data, say so with the "
            f"new-content flag; if it is about other people, declare a dataset of its own"
        )
    return strange


def _resumed(known: Spend, wanted: Spend) -> Spend:
    compared = ("dataset", "loss", "data_digest", "config_digest", "key_kind", "invariants")
    changed = [
        field.replace("_", " ")
        for field in compared
        if getattr(known, field) != getattr(wanted, field)
    ]
    if changed:
        raise PrivacyError(
            f"run {known.run_id!r}: found {', '.join(changed)} different from what was recorded, "
            f"expected the same: a resumed run may change nothing; start a new run"
        )
    if known.state in (SpendState.VOID, SpendState.CLOSED):
        raise PrivacyError(
            f"run {known.run_id!r}: found state {known.state} ({known.events[-1].why}), expected "
            f"a run that can continue; start a new run"
        )
    return known


def _key_kind(value: KeyKind | str) -> KeyKind:
    try:
        return KeyKind(value)
    except ValueError:
        raise PrivacyError(f"key kind: found {value!r}, expected 'os' or 'seed'") from None


def _present(value: str, *, name: str) -> str:
    if not value.strip():
        raise PrivacyError(f"{name}: found none, expected some text")
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def declared_total(*, epsilon: str, rho: str, delta: str = "", unit: str) -> Loss:
    """The total of a dataset as somebody has typed it, as an exact loss."""
    if bool(epsilon) == bool(rho) or (delta and rho):
        raise ConfigError(
            "ledger init",
            found=f"--epsilon {epsilon!r} --rho {rho!r} --delta {delta!r}",
            expected="--epsilon, or --rho, or --epsilon with --delta",
        )
    known = [one.value for one in UnitOfPrivacy]
    if unit not in known:
        raise ConfigError(
            "ledger init", place="--unit", found=repr(unit), expected=f"one of {known}"
        )
    which = UnitOfPrivacy(unit)
    if rho:
        return ZCDPLoss(rho=exact(rho, name="--rho"), unit=which)
    amount = exact(epsilon, name="--epsilon")
    if delta:
        return ApproximateLoss(epsilon=amount, delta=exact(delta, name="--delta"), unit=which)
    return PureLoss(epsilon=amount, unit=which)


@dataclass(frozen=True)
class LedgerOutlook:
    """A dataset's remainder, in words.

    where
        now       what is left of the declared total, in its currency
        loss      what the release would lose; None where no guarantee holds: such a release is
                  recorded as not private, and held against nothing
        refused   why the ledger would refuse the release; "" if it would not
        left      what would remain
        begun     where it would: whether anything is recorded, so that the total can never change
    """

    dataset: str
    currency: str
    now: str
    loss: Loss | None
    refused: str = ""
    left: str = ""
    begun: bool = False


def outlook(ledger: Ledger, dataset: str, promise: Guarantee, *, run_id: str = "") -> LedgerOutlook:
    """What a release with that promise would leave; nothing is written.

    ``run_id`` is of a run that has begun: what it has spent is not spent again.
    """
    balance = ledger.balance(dataset)
    total = balance.dataset.total
    now = left = balance.remaining
    loss, refused, begun = None, "", False
    if promise.exists:
        loss = promise.loss_for(total.unit) or promise.losses[0]
        try:
            ledger.afford(dataset, loss, run_id=run_id)
            if all(one.run_id != run_id for one in ledger.history(dataset)):
                more = charge(loss, total=total).amount
                left = total.amount - used([balance.charged, more], total=total).amount
        except OverspendError as error:
            refused, begun = str(error), error.begun
    return LedgerOutlook(dataset, total.currency, figure(now), loss, refused, figure(left), begun)
