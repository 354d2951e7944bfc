"""How much memory there is, so that what cannot fit is refused before it is begun."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from headcount.errors import ConfigError

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
