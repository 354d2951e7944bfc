"""Loops that numba compiles, and Python runs as they stand while that would take longer.

Compiling takes seconds for each loop. So

- what was compiled is kept in the user's cache, under a digest of the function, of all that it
  calls and of every constant that it names: neither the folder of the package nor a comment nor
  another function matters, and a change of any of these never leaves old code in use;
- two processes that want the same loop compile it once: the second waits, and loads it;
- until a loop is kept, calls with little work are *interpreted*: the same function runs without a
  compiler, to the same bits, until all such calls together have had as much work as compiling is
  worth. So nobody waits more than about twice as long as with the better choice. Work is counted
  from the sizes of arguments, never in seconds.

Loops are compiled for the processor at hand, but as they are written: without ``fastmath`` a
compiler may neither reorder a sum nor join a product and a sum, so that every machine rounds alike,
whether a loop was interpreted, just compiled, put into another, or loaded.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dis import get_instructions
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal, TypeVar, overload

import numba
import numpy as np
from filelock import FileLock
from numba.core import caching, config, event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from headcount.files import make_private, user_cache
from headcount.processes import refuse_stopped, was_stopped

# Numba takes settings from a file of the folder that it is started in, which may be one of data:
# whoever wrote that file could name a cache, and what is kept there is run.
vars(config)["_config_fname"] = os.devnull
config.reload_config()  # type: ignore[no-untyped-call]

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
LoopWay = Literal["interpreted", "compiled"]
LoopWork = Callable[..., int] | int | None

STEP = 1
"""Work of a loop for each element of its arguments, if it does not say: microseconds, about."""
ZERO: int = np.int64(0)  # type: ignore[assignment]
"""A whole number to begin with. A plain 0 is a type of its own to numba, and all loops that it is
given to would be compiled twice."""
COMPILING = 450_000
"""Work that is worth compiling one function, in the same unit."""

WAIT = 600.0
"""Seconds after which a process that holds a loop counts as stopped; only time depends on it."""

_UNREADABLE = (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError, ValueError)


class _Here(threading.local):
    interpreting = False


_here = _Here()
_counting = threading.Lock()
_forced: list[LoopWay] = []


def njit(function: F) -> F:
    """A loop that only other loops call. From Python it is interpreted."""
    loop: F = _made(function, None, no_cpython_wrapper=True)
    return loop


def inlined(function: F) -> F:
    """A loop that becomes a part of the one loop that calls it: not compiled twice."""
    loop: F = _made(function, None, inline="always")
    return loop


@overload
def kernel(function: F) -> F: ...


@overload
def kernel(*, work: LoopWork) -> Callable[[F], F]: ...


def kernel(function: Any = None, *, work: LoopWork = STEP) -> Any:
    """A loop that Python calls.

    where
        work   the work of one call: a number for each element of its arguments, or a function of
               the arguments; None for a loop that is always compiled
    """
    return _made(function, work) if function else lambda function: _made(function, work)


def _made(function: Any, work: LoopWork, **options: Any) -> Any:
    # Wrappers are code by which Python or C call a loop: to make them takes a tenth of the time.
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    loop: Any = numba.njit(**options)(function)
    if hasattr(loop, "py_func"):  # NUMBA_DISABLE_JIT leaves the function as it is
        loop.__class__ = Kernel
        loop.work, loop.outer = work, len(options) == 2
        function.options = sorted(options.items())
    return loop


@contextmanager
def forced(way: LoopWay) -> Iterator[None]:
    """Run loops one way, whatever they have to do: for tests, and to compile beforehand."""
    _forced.append(way)
    try:
        yield
    finally:
        _forced.remove(way)


class _Stopped(event.Listener):
    """Lets a thread of a command that was stopped end at the next step of compiling."""

    def on_start(self, event: object) -> None:
        refuse_stopped()

    def on_end(self, event: object) -> None:
        """Nothing to do."""


event.register("numba:run_pass", _Stopped())  # type: ignore[no-untyped-call]


class Kernel(CPUDispatcher):
    """A loop that is called from Python: loaded, compiled, or interpreted."""

    work: LoopWork
    outer: bool
    spent = noted = 0
    limit = -1
    kept: _Kept | None = None

    def __call__(self, *args: Any) -> Any:
        """Run the loop; what an interpreted one calls is interpreted too."""
        refuse_stopped()
        if _here.interpreting:
            return self.py_func(*args)
        if self.outer and self._compiled(args):
            return super().__call__(*args)
        _here.interpreting = True
        try:
            # Whole numbers wrap as they do when compiled. A division by 0 ends both.
            with np.errstate(all="ignore", divide="raise"):
                return self.py_func(*args)
        finally:
            _here.interpreting = False

    def _compiled(self, args: tuple[Any, ...]) -> bool:
        """Whether it is compiled already, or the work of all calls is worth that."""
        if _forced:
            return _forced[-1] == "compiled"
        if self.overloads or self.work is None or self._cache.exists():
            return True
        work = self.work(*args) if callable(self.work) else self.work * _elements(args)
        with _counting:
            if self.limit < 0:
                missing = [loop for loop in self.tree() if not loop._cache.exists()]
                self.limit = COMPILING * len(missing)
                self.spent = self.noted = self._cache.spent()
            if self.spent + work > self.limit:
                return True
            self.spent += work
            if self.spent - self.noted > self.limit // 20:  # later runs count from here
                self.noted = self.spent
                self._cache.note(self.spent)
        return False

    def tree(self) -> set[Kernel]:
        """This loop and all that it calls, directly or not."""
        below = (value for _, value in _names(self.py_func) if isinstance(value, Kernel))
        return {self}.union(*(loop.tree() for loop in below))

    def compile(self, sig: Any) -> Any:
        """Load or compile the loop for some types of arguments; one process at a time."""
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
    def _cache(self) -> _Kept:  # made late, as all that a loop calls must be there
        if self.kept is None:
            self.kept = _Kept(self.py_func)
        return self.kept

    @_cache.setter
    def _cache(self, _: object) -> None:
        """Numba begins with a cache that keeps nothing."""


def _elements(value: Any) -> int:
    """How many numbers an argument has."""
    if isinstance(value, np.ndarray):
        return value.size
    return sum(map(_elements, value)) if isinstance(value, tuple) else 0


@cache
def digest(function: Callable[..., Any]) -> str:
    """Of what a function does: its own code, all that it calls, constants, fields of its tuples.

    Comments, line numbers and where the file lies are no part of it; how it is compiled is.
    """
    content = _content(function.__code__, function.__doc__), function.__dict__.get("options")
    hasher = sha256(repr(content).encode())
    for name, value in sorted(_names(function), key=lambda pair: pair[0]):
        if isinstance(value, Kernel):
            known = digest(value.py_func)
        elif fields := getattr(value, "_fields", None):
            known = f"{value.__module__}.{value.__qualname__}{fields}"
        elif isinstance(value, (int, float, str, tuple, np.generic)):
            known = repr(value)
        else:
            raise TypeError(
                f"{function.__module__}.{function.__qualname__}: found {name}, which is "
                f"{type(value).__name__}; expected a loop, a constant or a named tuple"
            )
        hasher.update(f"\0{name}\0{known}".encode())
    return hasher.hexdigest()[:20]


def _content(code: CodeType, doc: str | None = None) -> tuple[Any, ...]:
    """What of a function's code decides what it does."""
    constants = tuple(
        _content(value) if isinstance(value, CodeType) else value
        for value in code.co_consts
        if doc is None or value != doc
    )
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, constants, names, code.co_argcount, code.co_flags


def _names(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """The globals that a function names, and the named tuples that its arguments are."""
    known = function.__globals__
    codes = [function.__code__]
    named: set[str] = set()
    for code in codes:
        codes += [value for value in code.co_consts if isinstance(value, CodeType)]
        named |= {one.argval for one in get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    for name in sorted(named & known.keys()):
        if not isinstance(known[name], ModuleType):
            yield name, known[name]
    kinds = re.findall(r"\w+", " ".join(map(str, function.__annotations__.values())))
    for name in sorted(set(kinds) & known.keys() - named):
        if hasattr(known[name], "_fields"):
            yield name, known[name]


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


class _Kept(caching.FunctionCache):
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
            return int(self._index.with_suffix(".spent").read_text())
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
            lock.acquire(timeout=WAIT, cancel_check=was_stopped)
        except (OSError, NotImplementedError) as error:  # held for long, or no locks here at all
            log.info("%s: compiled without waiting for others: %s", self._index, error)
            return
        self._lock = lock

    def release(self) -> None:
        """Let others load what was compiled."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
