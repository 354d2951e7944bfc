"""A run that a person confirms: what a check has found, what would be spent, and one use of it."""

from __future__ import annotations

import secrets
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from headcount.config.load import Config, paths_in
from headcount.errors import HeadcountError
from headcount.privacy import Guarantee, Ledger, Loss
from headcount.privacy.ledger import LedgerOutlook, outlook
from headcount.privacy.loss import figure
from headcount.release.directory import RunDirectory
from headcount.run.forecast import Needs, needs
from headcount.run.protect import prepare_run
from headcount.tabulate.counts import Summary, summarize

MOST_KEPT = 100
"""Checks and confirmations that are kept, of each the last ones."""

Stamps = tuple[tuple[str, int, int], ...]


def stamps(config: Config) -> Stamps:
    """The files of the population as they are now: other stamps may be other people."""
    files = [path for path in paths_in(config.population) if path.is_file()]
    return tuple((str(path), (now := path.stat()).st_size, now.st_mtime_ns) for path in files)


def text_digest(path: Path) -> str:
    """The SHA-256 of a config's text, for ``protect --only-if``."""
    return sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class _Readings:
    """What was read of the people, and what the run needs: for the curator's eyes."""

    remarks: tuple[str, ...]
    needs: Needs
    read: Summary


@dataclass(frozen=True)
class _Checked:
    """What a check has found of one text of a config, and of its files as they were then.

    where
        seen       the SHA-256 of the text, and the stamps of the files
        fault      why it cannot run
        public     whether everybody may see the people
        readings   None where it cannot run
    """

    seen: tuple[str, Stamps]
    fault: HeadcountError | None = None
    promise: Guarantee | None = None
    public: bool = True
    readings: _Readings | None = None

    @classmethod
    def of(cls, config: Config, digest: str) -> _Checked:
        """Check all that ``protect`` needs, the data included; nothing is drawn or spent."""
        seen = digest, stamps(config)
        try:
            made = prepare_run(config)
        except HeadcountError as error:
            return cls(seen, error)
        read = summarize(made.counts, made.reading)
        readings = _Readings(made.remarks, needs(made, so_far=0), read)
        return cls(seen, None, made.guarantee, made.public, readings)


@dataclass(frozen=True)
class Spending:
    """What a run would spend, and what its ledger would have left, if there is one.

    where
        price   the loss as it is said on a button; "" without a guarantee
    """

    dataset: str
    loss: Loss | None
    ahead: LedgerOutlook | None

    @classmethod
    def of(cls, config: Config, promise: Guarantee) -> Spending:
        """From the promise and the ledger alone. A run that has begun spends nothing again."""
        run, ahead = config.run, None
        loss = promise.losses[0] if promise.exists else None
        if run.ledger is not None:
            begun = RunDirectory(run.out).facts()
            run_id = begun.run_id if begun else ""
            ahead = outlook(Ledger.open(run.ledger), run.dataset, promise, run_id=run_id)
            loss = ahead.loss
        return cls(run.dataset, loss, ahead)

    @property
    def price(self) -> str:
        """The loss as a button says it."""
        return "" if self.loss is None else f"{self.loss.currency} {figure(self.loss.amount)}"


@dataclass
class Confirmations:
    """Checks by config, and confirmations that are each good for one run of one text."""

    _checks: dict[str, tuple[str, Future[_Checked]]] = field(default_factory=dict)
    _given: dict[str, tuple[str, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def check(self, name: str, config: Config, digest: str) -> Future[_Checked]:
        """Check a config in a thread of its own, unless that is being done.

        The thread ends with the program: what it reads is not waited for.
        """
        with self._lock:
            text, found = self._checks.get(name, ("", None))
            if found is not None and text == digest and not found.done():
                return found
            made: Future[_Checked] = Future()
            self._hold(self._checks, name, (digest, made))

        def work() -> None:
            try:
                made.set_result(_Checked.of(config, digest))
            except BaseException as error:  # a panic of polars too: for whoever asks
                made.set_exception(error)

        Thread(target=work, daemon=True).start()
        return made

    def checking(self, name: str) -> bool:
        """Whether a config is being checked."""
        found = self._last(name)
        return found is not None and not found.done()

    def checked(self, name: str, config: Config, digest: str) -> _Checked | None:
        """What was found of this very text and these files; None where it was of others.

        A fault of the check itself is raised once: it is not that of another text or other files.
        """
        last = self._last(name)
        if last is None or not last.done():
            return None
        if last.exception() is not None:
            with self._lock:
                if self._checks.get(name, ("", None))[1] is last:
                    del self._checks[name]
        found = last.result()
        return found if found.seen == (digest, stamps(config)) else None

    def _last(self, name: str) -> Future[_Checked] | None:
        with self._lock:
            return self._checks.get(name, ("", None))[1]

    def give(self, name: str, digest: str) -> str:
        """A confirmation of a text."""
        once = secrets.token_urlsafe(16)
        with self._lock:
            self._hold(self._given, once, (name, digest))
        return once

    def take(self, once: str) -> tuple[str, str] | None:
        """The config and the text of a confirmation, which is used up by that."""
        with self._lock:
            return self._given.pop(once, None)

    @staticmethod
    def _hold(held: dict[str, Any], key: str, value: Any) -> None:
        held.pop(key, None)
        held[key] = value
        for old in list(held)[:-MOST_KEPT]:
            del held[old]
