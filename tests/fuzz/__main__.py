"""``make fuzz CASES=10000``: damaged input of every kind, and what became of it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.fuzz.cases import FAULTS, judge, make_stock
from tests.fuzz.runner import clock, run, summary


def main() -> int:
    """Run the cases, show faults as they come, and the counts at the end."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--case", type=int, help="run this one case again, in this process")
    options.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    chosen = options.parse_args()
    if chosen.case is not None:
        return _again(chosen.case, chosen.seed)
    begun, verdicts = clock(), []
    numbers = range(chosen.cases)
    for one in run(numbers, seed=chosen.seed, workers=chosen.workers, keep=chosen.keep):
        verdicts.append(one)
        if one.fault:
            last = one.seen.strip().splitlines()[-1][:300]
            _say(f"FAULT seed {chosen.seed} case {one.number} ({one.kind}): {one.fault}: {last}")
            _say(f"  again: python -m tests.fuzz --seed {chosen.seed} --case {one.number}")
    for line in summary(verdicts, seconds=clock() - begun):
        _say(line)
    for fault in FAULTS:
        _say(f"{fault}: {sum(one.fault == fault for one in verdicts)}")
    return int(any(one.fault for one in verdicts) or len(verdicts) != chosen.cases)


def _again(number: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as stock:
        os.environ["HEADCOUNT_FUZZ_STOCK"] = stock
        make_stock()
        folder = Path(tempfile.mkdtemp(prefix="headcount-case-"))
        one = judge(number, seed=seed, folder=folder)
    _say(f"{one.kind}: {one.fault or one.end}\n{one.seen}\nits files: {folder}")
    return int(bool(one.fault))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
