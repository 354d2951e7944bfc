"""Settings for every test."""

import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from functools import cache
from typing import Any

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

from tests.report.browser import close_browser
from tests.slow import listed

# A deadline per example is a wall time, which depends on what else the machine is doing; so is the
# time after which the making of examples counts as too slow.
settings.register_profile("headcount", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headcount")


# Numpy's library for matrices would start a thread for each core in each worker: they wait for each
# other at full speed. It is not loaded yet.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Tests start many commands. Where Python is told to keep no bytecode, as in many containers, each
# of them would compile all of headcount again, which takes as long as what it is started for.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _sync(fd: Any) -> None:
    """What is written need not reach the disk, which is waited for: no test cuts its power.

    Tests of disks that are full put a function of their own in this place.
    """
    os.fstat(fd)


os.fsync = _sync


# A process reads what commands take from their signatures once. Here hundreds are run in one.
_command = cache(typer.main.get_command)
for _module, _name in ((typer.main, "get_command"), (typer.testing, "_get_command")):
    setattr(_module, _name, _command)


@pytest.fixture(autouse=True)
def _as_loud_as_before() -> Iterator[None]:
    """A command that is quiet, and ends in an error, leaves the process so: real ones end then."""
    log = logging.getLogger("headcount")
    before = log.level
    yield
    log.setLevel(before)


@pytest.fixture
def signals_as_usual() -> Iterator[None]:
    """Processes that a test starts can be stopped, also where this one was started by ``nohup``.

    Then, and in the background of a script, signals are ignored, and so they are by all below.
    """
    before = {}
    for name in ("SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            before[number] = signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped for want of a browser or of Spark must be marked so.

    CI first runs what a stranger can run, and then only what is marked: a test that is skipped
    there and not marked would never run.
    """
    report = yield
    if report.skipped and call.excinfo is not None:
        need = str(call.excinfo.value).partition(":")[0]
        if need in ("browser", "spark") and item.get_closest_marker(need) is None:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: found no mark {need!r}, expected @pytest.mark.{need}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and put its files first: at the end no worker waits for a long one."""
    slow = listed()
    places = {line.partition("::")[0]: place for place, line in reversed([*enumerate(slow)])}
    known = set(slow)
    for item in items:
        test = item.nodeid.split("[")[0]
        if test in known or test.partition("::")[0] in known:
            item.add_marker("slow")
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(slow)))


def pytest_sessionfinish() -> None:
    """The browser is shared, so no test closes it."""
    close_browser()
