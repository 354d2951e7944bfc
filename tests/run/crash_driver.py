"""Runs ``protect`` in children that are killed; a program of its own, see ``test_crash.py``.

One warm process forks a child for each line of JSON on standard input, so that an import costs
once and not a hundred times. It does nothing with polars itself: polars' threads do not survive
a fork, and start afresh in each child.

    {"config": path, "line": 17}      kill -9 at the 17th line of watched code
    {"config": path, "at": "write_release"}     kill -9 when this function is entered
    {"config": path, "seconds": 0.01} kill -9 from outside after a while
    {"config": path}                  let it finish, and count the lines
    "broken": name                    with a fault in the program, as a negative control

Each answer is {"ended": "killed" | "finished" | the error, "lines": lines counted}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import opendp.prelude  # noqa: F401
import scipy.sparse  # noqa: F401

import headcount.run.protect
from headcount.errors import HeadcountError
from headcount.noise import KeyedNoise, OpenDPNoise, RunKey, Stream, TwoSidedGeometric
from headcount.release import directory
from headcount.release.directory import RunDirectory
from headcount.release.store import write_release
from headcount.run.protect import protect_run

ROOT = Path(headcount.__file__).parent
WATCHED = {
    str(ROOT / name)
    for name in (
        "files.py",
        "mechanisms/topdown/parts.py",
        "run/protect.py",
        "run/_limits.py",
        "run/_receipt.py",
        "noise/keyed.py",
        "noise/_keys.py",
        "noise/recorded.py",
        "privacy/ledger.py",
        "privacy/_ledger_rows.py",
        "privacy/_ledger_store.py",
        "release/directory.py",
        "release/store.py",
    )
}
assert all(Path(name).is_file() for name in WATCHED)


def watch(kill_line: int | None, kill_at: str | None) -> Callable[[], int]:
    """Count the lines of watched code from now on, and die at one of them."""
    lines = 0

    def trace(frame: Any, event: str, _argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "call" and frame.f_code.co_name == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "line":
            lines += 1
            if kill_line is not None and lines >= kill_line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    threading.settrace(trace)  # pieces of work run in threads
    sys.settrace(trace)
    return lambda: lines


def break_program(name: str) -> None:
    """Faults that the test must notice."""
    if name == "another key":  # a resumed run draws from a fresh key
        _replace(directory, "load_run_key", lambda _path: RunKey.from_os())
    elif name == "no memory":  # a resumed run does not know that it has begun
        _replace(RunDirectory, "facts", lambda _self: None)
        _replace(RunDirectory, "refuse_other", lambda _self, **_digest: None)
    elif name == "late spend":  # noise is drawn and written before the spend is recorded
        spend = headcount.run.protect._spend
        later: list[Any] = []

        def write_then_spend(*arguments: Any, **named: Any) -> None:
            write_release(*arguments, **named)
            spend(*later)

        _replace(headcount.run.protect, "_spend", lambda *arguments: later.extend(arguments))
        _replace(headcount.run.protect, "write_release", write_then_spend)
    elif name:
        raise ValueError(name)


def _replace(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def child(job: dict[str, Any], answer: int) -> None:
    """Run one job and say how it ended, unless killed."""
    break_program(job.get("broken", ""))
    count = watch(job.get("line"), job.get("at"))
    try:
        protect_run(Path(job["config"]))
        ended = "finished"
    except (HeadcountError, OSError) as error:
        ended = str(error)
    sys.settrace(None)
    os.write(answer, json.dumps({"ended": ended, "lines": count()}).encode())


def run(job: dict[str, Any]) -> str:
    """One job in a child of its own."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            child(job, write)
        finally:
            os._exit(0)
    os.close(write)
    if "seconds" in job:
        time.sleep(job["seconds"])
        os.kill(process, signal.SIGKILL)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(process, 0)
    if answer:
        return answer
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return json.dumps({"ended": "killed" if killed else "failed", "lines": -1})


def main() -> None:
    """Warm up what is slow and has no threads, then serve."""
    stream = Stream("warm", "up", 10)
    noise = KeyedNoise(RunKey.from_seed(0), "warm", b"", b"")
    noise.draw(stream, TwoSidedGeometric(Fraction(1, 6)), draws=range(1))
    OpenDPNoise().draw(stream, TwoSidedGeometric(Fraction(1)), draws=range(1))
    for line in sys.stdin:
        sys.stdout.write(run(json.loads(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
