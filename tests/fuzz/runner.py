"""Many cases in worker processes that may hang, grow or crash without harm to the rest."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzz.cases import CPU_SECONDS, KINDS, Verdict, judge, make_stock

MEMORY = 8 << 30
"""Address space of a worker; numba and polars reserve much of it without use."""

STUCK_SECONDS = 4 * CPU_SECONDS
"""Processor time after which a worker that does not answer is ended from outside."""


@dataclass
class Worker:
    """A process, the pipe to it, and the cases it still has to do."""

    process: BaseProcess
    pipe: Connection
    left: list[int]
    since: float = field(default=0.0)


def run(cases: Sequence[int], *, seed: int, workers: int, keep: Path) -> Iterator[Verdict]:
    """Judge every case; inputs of a fault are kept under ``keep``."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["HEADCOUNT_FUZZ_STOCK"] = str(folder / "stock")  # workers inherit it
        make_stock()
        team = [_start(list(cases[k::workers]), seed, folder, keep) for k in range(workers)]
        while team:
            for worker in list(team):
                if worker.pipe in wait([w.pipe for w in team], timeout=1.0):
                    yield from _answers(worker, team, seed, folder, keep)
                elif _cpu(worker.process) - worker.since > STUCK_SECONDS:
                    worker.process.kill()  # the end of its pipe is seen next


def _answers(
    worker: Worker, team: list[Worker], seed: int, folder: Path, keep: Path
) -> Iterator[Verdict]:
    try:
        while worker.pipe.poll():
            verdict = Verdict(**json.loads(worker.pipe.recv_bytes()))
            worker.left.remove(verdict.number)
            worker.since = _cpu(worker.process)
            yield verdict
    except EOFError:
        worker.process.join()
        team.remove(worker)
        if worker.left:
            number, code = worker.left[0], worker.process.exitcode
            hung = code == -9
            seen = f"the process ended with {code}"
            kind = KINDS[number % len(KINDS)]
            yield Verdict(number, kind, "fault", "hang" if hung else "traceback", seen)
            team.append(_start(worker.left[1:], seed, folder, keep))


def _start(cases: list[int], seed: int, folder: Path, keep: Path) -> Worker:
    context = multiprocessing.get_context("spawn")  # threads of polars do not survive a fork
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(cases, seed, folder, keep, there), daemon=True)
    process.start()
    there.close()
    return Worker(process, here, cases)


def _work(cases: list[int], seed: int, folder: Path, keep: Path, pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in cases:
        place = folder / f"case-{number}"
        place.mkdir()
        verdict = judge(number, seed=seed, folder=place)
        if verdict.fault:
            kept = keep / f"{seed}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(place, kept, symlinks=True, ignore_dangling_symlinks=True)
            (kept / "verdict.txt").write_text(f"{verdict.fault}\n{verdict.seen}\n")
        shutil.rmtree(place, ignore_errors=True)
        pipe.send_bytes(json.dumps(verdict.__dict__).encode())
    pipe.close()


def _cpu(process: BaseProcess) -> float:
    """Processor seconds that a process has used."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(verdicts: Sequence[Verdict], *, seconds: float) -> list[str]:
    """The count of every end, in lines."""
    lines = [f"{len(verdicts):,} cases in {seconds:,.0f} s"]
    for kind in KINDS:
        ends = [one.fault or one.end for one in verdicts if one.kind == kind]
        counted = {end: ends.count(end) for end in sorted(set(ends))}
        lines.append(f"  {kind:<10}" + ", ".join(f"{n:,} {end}" for end, n in counted.items()))
    return lines


def clock() -> float:
    """Seconds for the summary only."""
    return time.monotonic()
