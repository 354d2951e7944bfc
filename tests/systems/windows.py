"""A Linux Python made to lack what Windows lacks, for a program that runs in a process of its own.

Files cannot be replaced or removed while this process has them open or mapped. What cannot be
imitated here: paths with drives and backslashes, the locks of Windows (``filelock``'s own tests are
about those), what other processes have open, and consoles. Libraries are imported first: they are
the builds for Linux and may use what they like.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "readline")
"""Modules of the standard library that Windows does not have."""

NAMES = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "O_DSYNC", "O_NOCTTY"),
    *("chown", "chroot", "confstr", "fchdir", "fchmod", "fchown", "fork", "forkpty", "fpathconf"),
    *("fstatvfs", "getegid", "geteuid", "getgid", "getgroups", "getloadavg", "getpgid", "getpgrp"),
    *("getpriority", "getsid", "getuid", "killpg", "lchown", "lockf", "mkfifo", "mknod", "nice"),
    *("openpty", "pathconf", "posix_fadvise", "posix_fallocate", "pread", "preadv", "pwrite"),
    *("pwritev", "readv", "sched_getaffinity", "sched_yield", "sendfile", "setegid", "seteuid"),
    *("setgid", "setgroups", "setpgid", "setpriority", "setsid", "setuid", "statvfs", "sync"),
    *("sysconf", "sysconf_names", "tcgetpgrp", "tcsetpgrp", "uname", "wait", "wait3", "wait4"),
    *("waitid", "writev"),
)
"""Names of ``os`` that Windows does not have, in the Pythons that headcount supports."""

LIBRARIES = (
    *("altair", "charset_normalizer", "clarabel", "concurrent.futures", "cryptography"),
    *("ctypes", "fastexcel", "filelock", "flint", "highspy", "jinja2"),
    *("markdown_it", "multiprocessing", "numba", "numpy", "piqp", "polars"),
    *("pyarrow.parquet", "pydantic", "pyreadstat", "rich.progress", "scipy.optimize"),
    *("scipy.sparse", "scipy.stats", "sqlite3", "subprocess", "tempfile", "typer", "vl_convert"),
)


def become_windows() -> None:
    """Take away what Windows lacks, and let every file be open to all, as its modes say there."""
    from importlib import import_module

    for name in LIBRARIES:
        import_module(name)
    statvfs = os.statvfs

    def disk_usage(path):  # Windows has it, by another call
        found = statvfs(path)
        return SimpleNamespace(free=found.f_bavail * found.f_frsize)

    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in NAMES:
        if hasattr(os, name):
            delattr(os, name)
    vars(shutil).update(_use_fd_functions=False, disk_usage=disk_usage)
    os.umask(0)
    opened, made = os.open, os.mkdir

    def open_to_all(path, flags, mode=0o777, **named):
        return opened(path, flags, 0o666, **named)

    def mkdir_for_all(path, mode=0o777, **named):
        return made(path, 0o777, **named)

    vars(os).update(open=open_to_all, mkdir=mkdir_for_all)
    for name in ("replace", "rename", "unlink", "remove"):
        vars(os)[name] = _unless_open(getattr(os, name))


def _unless_open(change):
    """A call that changes names, refused for files that are in use, as Windows does."""

    def refusing(*paths, **named):
        for path in paths:
            if in_use(os.path.realpath(path)):
                raise PermissionError(13, "The file is used by another process", str(path))
        return change(*paths, **named)

    return refusing


def in_use(path: str) -> bool:
    """Whether this process has a file open or mapped into its memory."""
    opened = {str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()}
    mapped = Path("/proc/self/maps").read_text("utf-8").splitlines()
    return path in opened or any(line.endswith(path) for line in mapped)
