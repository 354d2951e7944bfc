"""Background jobs of the studio: one subprocess per command, with progress.

What a job makes is in the run directory, and the same command resumes it; here is only what the
process says while it works. A job ends with the program that started it.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import count
from pathlib import Path
from threading import RLock, Thread
from typing import Any

from headcount.engines import handed_folder
from headcount.errors import RunError
from headcount.files import from_json
from headcount.processes import FOLLOWS, PATIENCE, environment, python_command

log = logging.getLogger(__name__)

LAST_WORDS = 20_000
"""Bytes that are kept of what a job says."""

SOON = 1.0
"""Seconds in which the last words of a process that has ended are here."""

ASKED = 128
"""A command that was asked to end does so with this and the number of the signal."""


@dataclass
class _Job:
    """One command at work, or done.

    where
        progress   a file with how far it is
        said       what it writes on its outputs: in memory, since it may quote the data
    """

    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes]
    progress: Path
    said: bytearray = field(default_factory=bytearray)
    cancelled: bool = False

    def __post_init__(self) -> None:
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Take what it says, as long as it says anything."""
        out = self.process.stdout
        assert isinstance(out, BufferedReader)
        with out:
            while more := out.read1():
                self.said += more
                del self.said[:-LAST_WORDS]

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self.process.poll() is None

    @property
    def state(self) -> str:
        """Running, done, stopped or failed."""
        if self.running:
            return "running"
        if self.process.returncode == 0:
            return "done"
        return "stopped" if self.cancelled else "failed"

    @property
    def words(self) -> str:
        """What it has written: answers and errors, never a true count."""
        if not self.running:
            self._listener.join(SOON)  # something that it has started may hold its output open
        said = self.said.decode("utf-8", errors="replace")
        return said if self.cancelled or (self.process.poll() or 0) >= 0 else f"{said}{self.ending}"

    @property
    def ending(self) -> str:
        """How it has failed, without values of the data, which its own words may quote."""
        code = self.process.poll() or 0
        if code < 0 or code > ASKED:
            number = -code if code < 0 else code - ASKED
            return f"The command was ended from outside (signal {number})."
        return str(self.how_far().get("fault", f"The command ended with exit code {code}."))

    def described(self) -> dict[str, Any]:
        """Its state, how far it is and what it has said, for a page."""
        return {"job": self.state, "far": self.how_far(), "said": self.words}

    def how_far(self) -> dict[str, Any]:
        """What it does now, and how much of it is done."""
        try:
            found = from_json(self.progress.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = {}
        return {"what": "", "done": 0, "total": None, **found}


class Jobs:
    """The jobs of one program, by what they are about; each at most once at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._until_closed = ExitStack()
        self._scratch = self._until_closed.enter_context(handed_folder(None))
        self._jobs: dict[str, _Job] = {}
        self._lock = RLock()
        self._numbers = count()

    def find(self, about: str) -> _Job | None:
        """The last job about something."""
        return self._jobs.get(about)

    @property
    def busy(self) -> bool:
        """Whether any job is at work."""
        return any(job.running for job in list(self._jobs.values()))

    def start(self, about: str, arguments: Sequence[str]) -> _Job:
        """Start a command, unless one about the same is at work: then that one."""
        with self._lock:
            before = self._jobs.get(about)
            if before is not None and before.running:
                return before
            number = next(self._numbers)
            progress = self._scratch / f"{number}.progress"
            process = subprocess.Popen(
                python_command("headcount", *arguments, "--progress-file", str(progress)),
                cwd=self._folder,
                env={**environment(self._folder), FOLLOWS: "1"},
                stdin=subprocess.PIPE,  # which closes when this program ends, however it does
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            self._jobs[about] = _Job(tuple(arguments), process, progress)
            log.info("jobs: started %s", arguments[0])
            return self._jobs[about]

    def cancel(self, about: str) -> None:
        """Ask a job to stop, and wait until it has; what it has finished is kept."""
        job = self._jobs.get(about)
        if job is None or not job.running:
            return
        job.cancelled = True
        job.process.terminate()
        try:
            job.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()

    def refuse_busy(self, about: str, what: str) -> None:
        """Refuse to change what a job is working on."""
        job = self._jobs.get(about)
        if job is not None and job.running:
            raise RunError(f"{what}: a run is at work on it. Stop the run first.")

    def close(self) -> None:
        """Stop everything."""
        for about in list(self._jobs):
            self.cancel(about)
        self._until_closed.close()
