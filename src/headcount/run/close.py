"""Give up a run that can never complete: on the ledger, in its directory, and without its key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headcount.config.load import config_digest
from headcount.errors import RunError
from headcount.privacy import Ledger, Spend, SpendState
from headcount.release.directory import RunDirectory
from headcount.release.store import refuse_study
from headcount.run.protect import kept_config


@dataclass(frozen=True, kw_only=True)
class _Closed:
    """What closing did.

    where
        run_id   the run's id; None if its facts cannot be read and it was not given
        ledger   the ledger that was asked; None if none was
        spend    the run's spend there; None if the ledger has none of it
        begun    whether there was a run, and not only what reading the data had left
    """

    run_id: str | None
    ledger: Path | None
    spend: Spend | None
    begun: bool = True

    def sentence(self) -> str:
        """What was done, and what was not."""
        if not self.begun:
            return (
                "no run had begun: nothing was spent or drawn. Files that were left when its data "
                "were being read are removed"
            )
        if self.run_id is None:
            return (
                "a run whose facts (internal/run.json) cannot be read: closed; its key is "
                "destroyed. No ledger was marked: if the run spent, the spend stands and the run "
                "stays unfinished there, until the same command is given its --run-id"
            )
        done = f"run {self.run_id}: closed; its key is destroyed"
        if self.ledger is None:
            return f"{done}; it has no ledger, and none was marked"
        if self.spend is None:
            return f"{done}; it spent nothing on {self.ledger}"
        if self.spend.state is SpendState.VOID:
            return f"{done}; its spend on {self.ledger} was voided before"
        return f"{done}; its spend on {self.ledger} stands"


def close_run(
    path: Path, *, why: str, ledger: Path | None = None, run_id: str | None = None
) -> _Closed:
    """Close a run; ``run_id`` is needed to mark the ledger where the run's facts are damaged.

    Each step may be done twice, so that a closing that broke off is finished by the same command.
    From the first step on the run cannot be resumed.
    """
    directory = RunDirectory(path)
    refuse_study(path)
    if not why.strip():
        raise RunError(f"{path}: say why the run is closed")
    if directory.left_of_reading():
        if run_id is not None or ledger is not None:
            raise RunError(
                f"{path}: this run stopped before it had an id or spent anything. "
                "Leave out --run-id and --ledger."
            )
        with directory.held():
            if directory.left_of_reading():  # another process may have begun a run here
                directory.finish()
                return _Closed(run_id=None, ledger=None, spend=None, begun=False)
    known = _run_id(directory)
    if run_id is not None and known not in (None, run_id):
        raise RunError(f"{path}: found run {known}, expected run {run_id}")
    if ledger is not None and known is None and run_id is None:
        raise RunError(
            f"{path}: internal/run.json cannot be read. Say with --run-id which run of the ledger "
            "this is."
        )
    chosen = known or run_id
    with directory.held():
        if directory.is_complete:
            raise RunError(f"{path}: found a finished release, expected an unfinished run")
        book = None if chosen is None else _ledger(directory, ledger, given=known is None)
        if book is not None and chosen is not None and (ledger is not None or known is None):
            _refuse_stranger(directory, book.run(chosen), damaged=known is None)
        reason = directory.close(why)
        spend = None if book is None or chosen is None else book.close(chosen, why=reason)
        directory.finish()
    return _Closed(run_id=chosen, ledger=None if book is None else book.path, spend=spend)


def _run_id(directory: RunDirectory) -> str | None:
    """The id in the run's facts; None if these are damaged, or lost beside a key."""
    try:
        facts = directory.facts()
    except RunError:
        return None
    if facts is None and directory.key.exists():
        return None
    return directory.require_facts().run_id


def _ledger(directory: RunDirectory, named: Path | None, *, given: bool) -> Ledger | None:
    """The ledger named, or that of the kept config: without one nothing was spent yet."""
    if named is not None:
        return Ledger.open(named)
    if _kept(directory):
        named = kept_config(directory).run.ledger
    if named is None and given:
        raise RunError(
            f"{directory.path}: the run's config names no ledger. Say with --ledger which one "
            "knows this run."
        )
    return None if named is None else Ledger.open(named)


def _refuse_stranger(directory: RunDirectory, spend: Spend, *, damaged: bool) -> None:
    """A run that is named by hand must at least have been made with the config kept here."""
    if damaged and _kept(directory):
        here = config_digest(kept_config(directory)).hex()
        if spend.config_digest != here:
            raise RunError(
                f"{directory.path}: found the config of a run other than {spend.run_id}, expected "
                f"the id of the run that was made here"
            )


def _kept(directory: RunDirectory) -> bool:
    return (directory.internal / "config.json").exists()
