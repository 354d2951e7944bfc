"""A Linux Python made to lack what Windows lacks, for a program that runs in a process of its own.

What cannot be imitated here: paths with drives and backslashes, files that cannot be replaced or
removed while they are open, the locks of Windows (``filelock``'s own tests are about those), and
consoles. Libraries are imported first: they are the builds for Linux and may use what they like.
"""

from __future__ import annotations

import os
import shutil
import sys

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
    *("ctypes", "dp_accounting", "fastexcel", "filelock", "flint", "highspy", "jinja2"),
    *("markdown_it", "multiprocessing", "numba", "numpy", "opendp", "piqp", "polars"),
    *("pyarrow.parquet", "pydantic", "pyreadstat", "rich.progress", "scipy.optimize"),
    *("scipy.sparse", "scipy.stats", "sqlite3", "subprocess", "tempfile", "typer", "vl_convert"),
)


def become_windows() -> None:
    """Take away what Windows lacks, and let every file be open to all, as its modes say there."""
    from importlib import import_module

    for name in LIBRARIES:
        import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in NAMES:
        if hasattr(os, name):
            delattr(os, name)
    vars(shutil)["_use_fd_functions"] = False
    os.umask(0)
    opened, made = os.open, os.mkdir

    def open_to_all(path, flags, mode=0o777, **named):
        return opened(path, flags, 0o666, **named)

    def mkdir_for_all(path, mode=0o777, **named):
        return made(path, 0o777, **named)

    vars(os).update(open=open_to_all, mkdir=mkdir_for_all)
