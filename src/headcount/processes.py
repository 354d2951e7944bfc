"""This process and those that it starts: what they import, how they are stopped, their memory,
and how far their work is: a bar on a terminal, notes in a file if asked, silence elsewhere.

No Python that headcount starts imports from the folder that it works in. That is often the one with
the data, and a file ``polars.py`` that came with them would be run in place of the library. ``-P``
keeps Python from looking there; what is on the path by another way is left out here. What cannot
fit into memory is refused before it is begun.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import monotonic, sleep
from types import FrameType
from typing import Any, Protocol, TypeVar

from headcount.errors import ConfigError, HeadcountError, without_values
from headcount.files import write_text_atomic

HOME = Path(__file__).resolve().parents[1]
"""Where headcount itself was imported from: always right, since it is running."""

FOLLOWS = "HEADCOUNT_FOLLOWS_STDIN"
"""The variable that lets a command end with the process at the other end of its input."""

PATIENCE = 10.0
"""Seconds that a process has to end after it was asked to."""


_STOPPED: list[int] = []
_ENDINGS: list[Callable[[], None]] = []


class Terminated(KeyboardInterrupt):
    """Somebody has asked this process to end: all that is done after Ctrl-C is done."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module by this very Python."""
    return [sys.executable, "-P", "-m", module, *arguments]


def import_places(*without: Path) -> tuple[str, ...]:
    """Where this process imports from, but for folders of data.

    Left out are the folder it works in, under any name, that of a script, and those given. The
    others are absolute: another process finds the same there from wherever it works.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    strange = {_real("."), *map(_real, without)}
    if main is not None and not sys.flags.safe_path:
        strange.add(_real(Path(main).parent))
    return tuple(dict.fromkeys(_absolute(strange - {_real(HOME)})))


def _absolute(strange: set[Path]) -> Iterator[str]:
    for place in sys.path:
        if Path(place).is_absolute() and _real(place) not in strange:
            yield place


def _real(place: str | Path) -> Path:
    return Path(os.path.realpath(place))


def environment(*without: Path) -> dict[str, str]:
    """The environment of another Python: it imports from where this one does, and see above.

    Also what that process starts in turn does so.
    """
    places = os.pathsep.join(import_places(*without))
    return os.environ | {"PYTHONPATH": places, "PYTHONSAFEPATH": "1"}


def clean_import_path() -> None:
    """Let no Python that a library starts import from the folder of this process.

    An empty or relative name in ``PYTHONPATH`` is there, or below it.
    """
    places = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    named = [one for one in places if Path(one).is_absolute()]
    if kept := [one for one in named if _real(one) != _real(".") or _real(one) == _real(HOME)]:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)


def apart() -> dict[str, Any]:
    """How a process is started that answers this one: a signal to a whole group is not for it.

    Else Ctrl-C would end a solver before its caller, who would take that for an answer.
    """
    return {"env": environment(), **({"process_group": 0} if os.name == "posix" else {})}


def when_stopped(end: Callable[[], None]) -> Callable[[], None]:
    """Call this first when somebody stops the command: it ends what threads are waiting for."""
    _ENDINGS.append(end)
    return end


def was_stopped() -> int:
    """The signal by which somebody has stopped the command, or 0."""
    return _STOPPED[0] if _STOPPED else 0


def refuse_stopped() -> None:
    """In a thread of a command that was stopped: no further, and nothing is taken for a result."""
    if _STOPPED:
        raise Terminated(_STOPPED[0])


def own_process() -> None:
    """For a command, whose process is headcount's own.

    Being asked to end does what Ctrl-C does, but for a signal that is ignored, as ``nohup`` does;
    the process ends with the one that it follows; and whatever Python a library starts imports
    nothing from the folder that this one works in.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    clean_import_path()
    usual = (signal.SIG_DFL, signal.default_int_handler)
    for name in ("SIGINT", "SIGTERM", "SIGHUP") if current_thread() is main_thread() else ():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in usual:
            signal.signal(number, _stop)
    if os.environ.pop(FOLLOWS, ""):
        Thread(target=_follow, daemon=True).start()


def _stop(number: int, frame: FrameType | None) -> None:
    _STOPPED.append(number)
    for end in _ENDINGS:
        end()
    raise Terminated(number)


def _follow() -> None:
    """End when the other end of the input is closed, however that came."""
    while os.read(0, 1):
        continue
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(PATIENCE)
    os._exit(128 + signal.SIGTERM)  # it is at something that cannot be interrupted


SETTING = "HEADCOUNT_MEMORY"
"""Environment variable that says how many GiB may be used, where the estimate is too careful."""

_CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_limit() -> int:
    """Bytes that this process may use: as it was told, or of machine, container and own limit."""
    if told := os.environ.get(SETTING, ""):
        return _told(told)
    limits = [*_machine(), *_own_limits()]
    for path in _CGROUPS:
        if path.is_file() and (text := path.read_text("utf-8").strip()).isdigit():
            limits.append(int(text))
    if not limits:
        raise ConfigError(
            "environment",
            place=SETTING,
            found="nothing, on a system that does not say how much memory it has",
            expected="a whole number of GiB, 1 or more",
        )
    return min(limits)


def machine_memory() -> int | None:
    """Bytes of memory of the machine, if the system says."""
    return next(iter(_machine()), None)


def peak_memory() -> int | None:
    """The most bytes that this process has had in memory so far; None on Windows."""
    if find_spec("resource") is None:
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10  # only Linux counts in KiB


def _machine() -> list[int]:
    if hasattr(os, "sysconf"):
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    import ctypes

    if (windows := getattr(ctypes, "windll", None)) is None:
        return []
    status = (ctypes.c_uint64 * 8)()  # MEMORYSTATUSEX: its size, the load, then bytes; 64 in all
    ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(status)
    answered = windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return [int(status[1])] if answered else []


def _own_limits() -> list[int]:
    """What the process itself is held to, on systems with such limits."""
    if find_spec("resource") is None:
        return []
    import resource

    found = (resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return [limit for limit in found if limit != resource.RLIM_INFINITY]


def gib(count: int) -> str:
    """A number of bytes for a message: in GiB, or in a smaller unit where that would be 0.0."""
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit / 20:
            return f"{count / unit:,.1f} {name}"
    return f"{count} bytes"


def _told(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= len(text) <= 6 and int(text):
        return int(text) << 30
    raise ConfigError(
        "environment", place=SETTING, found=repr(text), expected="a whole number of GiB, 1 or more"
    )


T = TypeVar("T")


class Progress(Protocol):
    """Follows an iteration and shows how far it is."""

    def __call__(self, items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
        """Yield the items one by one."""


def silent(items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
    """No display: the library's default."""
    return iter(items)


def bar(items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
    """A bar with the time left on standard error if that is a terminal, else nothing."""
    if sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty():
        return iter(items)
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return iter(track(items, description=what, total=total, console=console, transient=True))


EVERY = 0.2
"""Seconds between two notes of how far work is."""


@dataclass(frozen=True)
class _ToFile:
    """Notes in a file how far work is, for programs: ``{"what": ..., "done": 3, "total": 8}``.

    The file is replaced whole, so that a reader always sees one note. ``total`` is null where it
    is not known.
    """

    path: Path

    def __call__(self, items: Iterable[T], *, what: str, total: int | None = None) -> Iterator[T]:
        """Yield the items one by one."""
        known = len(items) if total is None and isinstance(items, Sized) else total
        noted = -EVERY
        done = 0
        for done, item in enumerate(items, start=1):
            if monotonic() - noted >= EVERY:
                self._note(what, done - 1, known)
                noted = monotonic()
            yield item
        self._note(what, done, known)

    def _note(self, what: str, done: int, total: int | None) -> None:
        note = {"what": what, "done": done, "total": total}
        write_text_atomic(self.path, json.dumps(note, ensure_ascii=False) + "\n")


@contextmanager
def fault_noted(path: Path | None) -> Iterator[None]:
    """Note in the file of progress why work ends with an error: ``{"fault": ...}``, no values."""
    try:
        yield
    except HeadcountError as error:
        if path is not None:
            note = {"fault": without_values(error)}
            write_text_atomic(path, json.dumps(note, ensure_ascii=False) + "\n")
        raise


def progress_of(*, quiet: bool, file: Path | None = None) -> Progress:
    """Notes in a file, a bar on a terminal, or nothing."""
    if file is not None:
        return _ToFile(file)
    return silent if quiet else bar


def only_warnings(context: Any, quiet: bool) -> bool:
    """With --quiet the log says warnings alone, until the command, of typer's context, ends."""
    if quiet:
        log = logging.getLogger("headcount")
        context.call_on_close(partial(log.setLevel, log.level))
        log.setLevel(logging.WARNING)
    return quiet
