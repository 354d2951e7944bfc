"""Compiles loops with numba and caches them; see ``compiled.py``. Import late: loads numba."""

from __future__ import annotations

import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from filelock import FileLock
from numba.core import caching, config, event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from headcount.compiled import Kernel, digest
from headcount.files import make_private, user_cache
from headcount.processes import refuse_stopped, was_stopped

# Numba takes settings from a file of the folder that it is started in, which may be one of data:
# whoever wrote that file could name a cache, and what is kept there is run.
vars(config)["_config_fname"] = os.devnull
config.reload_config()  # type: ignore[no-untyped-call]

log = logging.getLogger(__name__)

WAIT = 600.0
"""Seconds after which a process that holds a loop counts as stopped; only time depends on it."""

_UNREADABLE = (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, ValueError)


class _Stopped(event.Listener):
    """Lets a thread of a command that was stopped end at the next step of compiling."""

    def on_start(self, event: object) -> None:
        refuse_stopped()

    def on_end(self, event: object) -> None:
        """Nothing to do."""


event.register("numba:run_pass", _Stopped())  # type: ignore[no-untyped-call]


def dispatcher(loop: Kernel) -> _Dispatcher:
    """What numba calls, and compiles for the types that it is called with."""
    made: Any = numba.njit(**loop.options)(loop.py_func)
    made.__class__ = _Dispatcher
    made.loop = loop
    return made  # type: ignore[no-any-return]


class _Dispatcher(CPUDispatcher):
    """A loop that is compiled by one process at a time, and kept."""

    loop: Kernel

    def compile(self, sig: Any) -> Any:
        """Load or compile the loop for some types of arguments."""
        with global_compiler_lock:
            try:
                return super().compile(sig)
            except Exception:
                # A signal that comes while the compiler calls back is lost, and leaves a wreck.
                refuse_stopped()
                raise
            finally:
                self._cache.release()

    @property
    def _cache(self) -> Kept:
        return self.loop._cache

    @_cache.setter
    def _cache(self, _: object) -> None:
        """Numba begins with a cache that keeps nothing."""


def folder() -> Path:
    """Where compiled loops are kept, below it by module."""
    own = Path(os.environ.get("NUMBA_CACHE_DIR", ""))  # a user's own setting stands
    top = own if own.is_absolute() else user_cache() / "compiled"
    return top / f"numba-{numba.__version__}-{sys.implementation.cache_tag}"


@cache
def _writable(path: Path) -> bool:
    try:
        make_private(path)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        log.warning("compiled loops cannot be kept, so each run compiles them anew: %s", error)
        return False
    return True


@cache
def _say_once() -> None:
    log.info("compiling loops, once for this version of headcount: some seconds each")


class _Locator(caching._CacheLocator):
    """A place for one function by what it does. Numba's own go by the path of its file."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file
        self._digest = digest(function)
        self._folder = folder() / function.__module__

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator:
        return cls(function, file)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return self._digest


class _Impl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 (numba declares it so)


class Kept(caching.FunctionCache):
    """What is kept of one loop. Nothing that happens to it does more than cost time."""

    _impl_class = _Impl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._index = Path(self._cache_file._index_path)
        self._lock: FileLock | None = None
        if not _writable(self._index.parent.parent):
            self._enabled = False

    def exists(self) -> bool:
        """Whether the loop is kept, for some types of arguments."""
        return self._enabled and self._index.exists()

    def spent(self) -> int:
        """The work that earlier processes had with the loop while it was not compiled."""
        try:
            return int(self._index.with_suffix(".spent").read_text("utf-8"))
        except (OSError, ValueError):
            return 0

    def note(self, spent: int) -> None:
        """Let later processes know of the work."""
        if self._enabled:
            with suppress(OSError):
                make_private(self._index.parent)
                self._index.with_suffix(".spent").write_text(str(spent))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept for these types. If nothing is, the caller is the one to compile it."""
        found = self._loaded(sig, target_context)
        if found is None and self._enabled:
            self._wait()
            found = self._loaded(sig, target_context)  # another process may have made it meanwhile
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except _UNREADABLE as error:
            log.warning("%s: cannot be read, so it is made anew: %s", self._index, error)
            self._index.unlink(missing_ok=True)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code; a full disk costs time and nothing else."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            log.warning("%s: compiled code cannot be kept: %s", self._index, error)

    def _wait(self) -> None:
        lock = FileLock(self._index.with_suffix(".lock"))
        _say_once()
        try:
            make_private(self._index.parent)
            lock.acquire(timeout=WAIT, cancel_check=lambda: bool(was_stopped()))
        except (OSError, NotImplementedError) as error:  # held for long, or no locks here at all
            log.info("%s: compiled without waiting for others: %s", self._index, error)
            return
        self._lock = lock

    def release(self) -> None:
        """Let others load what was compiled."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
