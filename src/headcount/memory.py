"""How much memory there is, so that what cannot fit is refused before it is begun."""

from __future__ import annotations

import os
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
    import resource

    if told := os.environ.get(SETTING, ""):
        return _told(told)
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    limits += [
        limit
        for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
        if (limit := resource.getrlimit(which)[0]) != resource.RLIM_INFINITY
    ]
    for path in _CGROUPS:
        if path.is_file() and (text := path.read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def gib(count: int) -> str:
    """A number of bytes for a message."""
    return f"{count / 2**30:,.1f} GiB"


def _told(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= len(text) <= 6 and int(text):
        return int(text) << 30
    raise ConfigError(
        "environment", place=SETTING, found=repr(text), expected="a whole number of GiB, 1 or more"
    )
