"""Runs ``protect`` in children that are killed; a program of its own, see ``test_crash.py``.

One warm process forks a child for each line of JSON on standard input, so that imports
cost once and not a hundred times: what a child had to import to finish, the process imports
too, for the next. It does nothing with polars itself: polars' threads do not survive a fork, and
start afresh in each child.

    {"config": path, "line": 17}      kill -9 at the 17th line of watched code
    {"config": path, "at": "write_release"}     kill -9 when this function is entered
    {"config": path, "seconds": 0.01} kill -9 from outside after a while
    {"config": path}                  let it finish
    {"config": path, "count": true}   the same, and count lines
    {"config": path, "look": folder}  the same, and look at the files below the folder
    "kept": folder                    with a look: a copy of the folder after each change, by line
    "broken": name                    with a fault in the program, as a negative control

Each answer is {"ended": "killed" | "finished" | the error}; if lines are counted also {"lines": how
many}, and after a look {"changes": [line, paths of files that were not there, or not the same, at
the line before]}.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import headcount.run.protect
from headcount.config.load import load_config
from headcount.domain import Domain
from headcount.errors import HeadcountError
from headcount.geography import Geography
from headcount.mechanisms import Tabulated, protect
from headcount.noise import RunKey
from headcount.release import directory
from headcount.release.directory import RunDirectory
from headcount.run._beforehand import make_release
from headcount.run.protect import protect_run
from headcount.schema import Attribute, Schema
from headcount.tabulate import Counts
from headcount.topdown.mechanism import TopDown
from headcount_papers.raked import Raked

ROOT = Path(headcount.__file__).parent
WATCHED = {
    str(ROOT / name)
    for name in (
        "files.py",
        "topdown/parts.py",
        "run/protect.py",
        "run/_beforehand.py",
        "noise/keyed.py",
        "noise/source.py",
        "privacy/ledger.py",
        "privacy/_ledger_file.py",
        "release/directory.py",
        "release/store.py",
    )
}
assert all(Path(name).is_file() for name in WATCHED)


class Watch:
    """Counts the lines of watched code, and dies at one of them."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.lines = 0
        self.changes: list[tuple[int, list[str]]] = []
        self._kill_line, self._kill_at = job.get("line"), job.get("at")
        self._folder = Path(job["look"]) if "look" in job else None
        self._kept = Path(job["kept"]) if "kept" in job else None
        self._before = self._files()

    def start(self) -> None:
        """From now on, in this thread and in those that it starts."""
        threading.settrace(self._trace)  # pieces of work run in threads
        sys.settrace(self._trace)

    def _trace(self, frame: Any, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "call" and frame.f_code.co_name == self._kill_at and not _rehearsed(frame):
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "line":
            self.lines += 1
            if self._folder is not None:
                self._look()
            if self._kill_line is not None and self.lines >= self._kill_line:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._trace

    def _look(self) -> None:
        now = self._files()
        changed = [path for path, _ in now.items() ^ self._before.items()]
        self._before = now
        if changed:
            self.changes.append((self.lines, sorted(set(changed))))
            if self._folder and self._kept:
                assert threading.active_count() == 1  # nobody writes meanwhile
                shutil.copytree(self._folder, self._kept / str(self.lines))

    def _files(self) -> dict[str, tuple[int, int, int]]:
        """Every file and folder below the folder, and what changes with its content."""
        found, left = {}, [self._folder] if self._folder else []
        while left:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # a thread may take it away meanwhile
                        facts = entry.stat(follow_symlinks=False)
                        found[entry.path] = facts.st_ino, facts.st_size, facts.st_mtime_ns
                        if entry.is_dir():
                            left.append(Path(entry.path))
        return found


def _rehearsed(frame: Any) -> bool:
    """Whether this is done in the rehearsal before a loss."""
    while frame is not None:
        if frame.f_code.co_name == "rehearse":
            return True
        frame = frame.f_back
    return False


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
            make_release(*arguments, **named)
            spend(*later)

        _replace(headcount.run.protect, "_spend", lambda *arguments: later.extend(arguments))
        _replace(headcount.run.protect, "make_release", write_then_spend)
    elif name:
        raise ValueError(name)


def _replace(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def child(job: dict[str, Any], answer: int) -> None:
    """Run one job and say how it ended, unless killed."""
    break_program(job.get("broken", ""))
    known = set(sys.modules)
    watch = Watch(job)
    if job.keys() & {"line", "at", "count", "look"}:
        watch.start()
    try:
        protect_run(Path(job["config"]))
        ended = "finished"
    except (HeadcountError, OSError) as error:
        ended = str(error)
    sys.settrace(None)
    said = {"ended": ended, "lines": watch.lines, "changes": watch.changes}
    with os.fdopen(answer, "w") as pipe:
        json.dump({**said, "imported": sorted(set(sys.modules) - known)}, pipe)


def run(job: dict[str, Any]) -> dict[str, Any]:
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
        return dict(json.loads(answer))
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return {"ended": "killed" if killed else "failed"}


def warm_up() -> None:
    """Load what releases need by some in memory: slow, and without threads."""
    schema = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult"))))
    parents = [np.empty(0, dtype=np.int32), *(np.zeros(n, dtype=np.int32) for n in (1, 3))]
    units = ["whole"], ["a"], ["a1", "a2", "a3"]
    geography = Geography(
        ("nation", "county", "tract"), tuple(np.array(one) for one in units), tuple(parents)
    )
    matrix = csr_array(np.arange(12, dtype=np.int64).reshape(3, 4))
    counts = Counts(Domain(schema, geography), "tract", matrix)
    half = Fraction(1, 2)
    keys: dict[str, Any] = {
        "epsilon": Fraction(1),
        "unit": "add-remove",
        "queries": {"cells": {"share": half}, "by_age": {"by": ["age"], "share": half}},
    }
    for mechanism in (Raked(epsilon=half), TopDown(**keys)):
        protect(Tabulated.of(counts), mechanism, seed=0)


def main() -> None:
    """Warm up, then serve."""
    # A kill leaves what the system has of a file, so nothing has to reach the disk.
    _replace(os, "fsync", lambda _handle: None)
    warm_up()
    for line in sys.stdin:
        job = json.loads(line)
        load_config(Path(job["config"]))  # what reads a part of a config is made once
        gc.freeze()  # children do not look for garbage here, which would copy every page
        answer = run(job)
        for name in answer.pop("imported", ()):
            with suppress(ImportError):  # some are made by others, and cannot be imported alone
                import_module(name)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
