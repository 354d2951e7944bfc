"""This process and those that it starts: what they import, how they are stopped, their memory.

No Python that headcount starts imports from the folder that it works in. That is often the one with
the data, and a file ``polars.py`` that came with them would be run in place of the library. ``-P``
keeps Python from looking there; what is on the path by another way is left out here. What cannot
fit into memory is refused before it is begun.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import sleep
from types import FrameType
from typing import Any

from headcount.errors import ConfigError

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


def was_stopped() -> bool:
    """Whether somebody has stopped the command."""
    return bool(_STOPPED)


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
