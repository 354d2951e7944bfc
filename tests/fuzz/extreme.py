"""Valid but extreme configs: what ``check`` lets pass completes, reads back and evaluates.

    python -m tests.fuzz.extreme 5000 --seed 1

The cases are those of ``valid.py``: every mechanism, kind of publication, format and layout, under
extreme losses, scales, counts, shares and bounds, and odd names of everything. ``check`` may refuse
a case with one clear error, and then nothing may be spent or made; cases go on until so many have
passed. Measurements that are published are read, planned by and estimated from.

As many random tables of bounds for TopDown follow, nested, crossing or recoded: what ``check`` lets
pass completes, and every bound is kept.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random

from headcount.config.load import load_config
from headcount.errors import HeadcountError
from headcount.privacy import Ledger, PureLoss, SpendState, ZCDPLoss
from headcount.release.directory import RunDirectory
from headcount.release.store import read_release
from headcount.run.estimate import estimate_run
from headcount.run.evaluate import evaluate_run
from headcount.run.plan import plan_of_measurements
from headcount.run.protect import prepare_run, protect_run
from tests.fuzz.valid import Case, write_case
from tests.support.drawn_bounds import run_cases as run_bounds


@dataclass
class Tally:
    """What became of the cases."""

    passed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    measured: int = 0
    measured_failed: int = 0

    @property
    def valid(self) -> int:
        """Cases that ``check`` let pass."""
        return sum(self.passed.values())

    def lines(self) -> list[str]:
        """The tally in words."""
        said = [f"valid cases (check passed): {self.valid}"]
        said += [f"  {name:18} {number}" for name, number in sorted(self.passed.items())]
        said.append(f"refused by check, nothing spent: {sum(self.refused.values())}")
        said += [f"  {name:18} {number}" for name, number in sorted(self.refused.items())]
        said += [f"  {number:6} x {why}" for why, number in self.reasons.most_common(30)]
        said.append(
            f"check passed and it did not complete, read back and evaluate: {len(self.failures)}"
        )
        said.append(
            f"of {self.measured} that publish measurements: {self.measured_failed}"
            f" ({self.measured_failed / max(1, self.measured):.1%})"
        )
        return said


def run_cases(
    valid: int, seed: int, *, folder: Path | None = None, say: Callable[[str], object] = len
) -> Tally:
    """Make cases until ``valid`` have passed ``check``; each of them must complete.

    ``say`` is told of failures as they come.
    """
    tally, logger = Tally(), logging.getLogger("headcount")
    level, number = logger.level, 0
    logger.setLevel(logging.ERROR)  # seeds and slow samplers are warned about, and meant
    try:
        while tally.valid < valid:
            number, known = number + 1, len(tally.failures)
            with tempfile.TemporaryDirectory(dir=folder) as home:
                _one(Path(home), Random(f"{seed}/{number}"), tally, f"seed {seed}, case {number}")
            for failure in tally.failures[known:]:
                say(failure)
            if number % 250 == 0:
                say(f"{number} cases, of which {tally.valid} passed check")
            if number > 100 and tally.valid * 5 < number:
                raise AssertionError(f"too few valid cases: {tally.valid} of {number}")
    finally:
        logger.setLevel(level)
    return tally


def _one(home: Path, random: Random, tally: Tally, name: str) -> None:
    case = write_case(home, random)
    ledger, name = _ledger(home, case), f"{name} ({case.mechanism})"
    try:
        prepare_run(load_config(home / "config.toml"))
    except HeadcountError as error:
        tally.refused[case.mechanism] += 1
        tally.reasons[str(error).partition("found ")[2].replace("\n", " ")[:100]] += 1
        _expect_refusal(home, ledger, tally, name)
        return
    except Exception:  # a fault of the program, whatever it is
        tally.failures.append(f"{name}, check: {traceback.format_exc(limit=-3)}")
        return
    tally.passed[case.mechanism] += 1
    tally.measured += case.measurements
    for step, what in (("protect", _protected), ("read back", _read), ("evaluate", _evaluated)):
        try:
            what(home, case)
        except Exception:
            tally.failures.append(f"{name}, {step}: {traceback.format_exc(limit=-3)}")
            tally.measured_failed += case.measurements
            return
    directory = RunDirectory(home / "out")
    states = [spend.state for spend in ledger.history("data")] if ledger else []
    if not directory.is_complete or directory.key.exists():
        tally.failures.append(f"{name}: not complete, or its key is left")
    if ledger is not None and states != [SpendState.COMPLETE]:
        tally.failures.append(f"{name}: spends {states}")
    left = [path for path in (home / "out/internal").iterdir() if path.name.startswith("handed-")]
    if left:
        tally.failures.append(f"{name}: {left} left of the rehearsal")


def _protected(home: Path, _: Case) -> None:
    protect_run(home / "config.toml")


def _read(home: Path, case: Case) -> None:
    read_release(home / "out/release")
    if case.measurements:
        folder = home / "out/release/measurements"
        plan_of_measurements(folder)
        about = '[measurements]\nfolder = "out/release/measurements"\n[run]\nout = "again"\n'
        (home / "again.toml").write_text(about, encoding="utf-8")
        estimate_run(home / "again.toml")
        read_release(home / "again/release")


def _evaluated(home: Path, _: Case) -> None:
    evaluate_run(home / "out")


def _expect_refusal(home: Path, ledger: Ledger | None, tally: Tally, name: str) -> None:
    try:
        protect_run(home / "config.toml")
        tally.failures.append(f"{name}: check refused it and protect did not")
    except HeadcountError:
        pass
    except Exception:
        tally.failures.append(f"{name}, refused: {traceback.format_exc(limit=-3)}")
    if (ledger is not None and ledger.history("data")) or (home / "out/internal/run.key").exists():
        tally.failures.append(f"{name}: refused, and yet something was spent or made")


def _ledger(home: Path, case: Case) -> Ledger | None:
    if not case.ledger:
        return None
    ledger = Ledger.create(home / "ledger.db")
    huge = Fraction(10**40)
    total = (
        ZCDPLoss(rho=huge, unit=case.unit) if case.rho else PureLoss(epsilon=huge, unit=case.unit)
    )
    ledger.declare("data", total=total)
    return ledger


def main() -> None:
    """Run many cases and print the tally; any failure is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int, help="how many must pass check")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    tally = run_cases(chosen.cases, chosen.seed, say=_say)
    for line in tally.lines():
        _say(line)
    with tempfile.TemporaryDirectory() as folder:
        first = 1_000_000 * (chosen.seed - 1)
        seen, wrong = run_bounds(range(first, first + chosen.cases), Path(folder))
    _say(f"random tables of bounds: {seen['completed']} completed, {seen['refused']} refused")
    _say(f"check passed and it did not complete, or broke a bound: {wrong or 'none'}")
    sys.exit(bool(tally.failures or wrong))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
