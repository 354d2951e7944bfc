"""Just-in-time compilation of loops: numba where it pays, plain Python where it would not.

Compiling takes seconds for each loop, and loading numba half a second. So

- what was compiled is kept in the user's cache, under a digest of the function, of all that it
  calls and of every constant that it names: neither the folder of the package nor a comment nor
  another function matters, and a change of any of these never leaves old code in use;
- two processes that want the same loop compile it once: the second waits, and loads it;
- until a loop is kept, calls with little work are *interpreted*: the same function runs without a
  compiler, to the same bits, until all such calls together have had as much work as compiling is
  worth. So nobody waits more than about twice as long as with the better choice. Work is counted
  from the sizes of arguments, never in seconds;
- in the same way a process that has little to do ends without numba: what is kept is loaded once
  all calls together have had as much work as loading is worth.

Loops are compiled for the processor at hand, but as they are written: without ``fastmath`` a
compiler may neither reorder a sum nor join a product and a sum, so that every machine rounds alike,
whether a loop was interpreted, just compiled, put into another, or loaded.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dis import get_instructions
from functools import cache, update_wrapper
from hashlib import sha256
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from headcount.processes import refuse_stopped

if TYPE_CHECKING:
    from headcount.loops import Kept

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
LOADING = 300_000
"""Work that is worth loading numba, and what is kept with it, once in a process."""


class _Here(threading.local):
    interpreting = False


class _Unloaded:
    spent = 0


_here = _Here()
_unloaded = _Unloaded()
_counting = threading.Lock()
_making = threading.RLock()
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
    outer = not options
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    function.options = sorted(options.items())
    return Kernel(function, work, options, outer=outer)


@contextmanager
def forced(way: LoopWay) -> Iterator[None]:
    """Run loops one way, whatever they have to do: for tests, and to compile beforehand."""
    _forced.append(way)
    try:
        yield
    finally:
        _forced.remove(way)


class Kernel:
    """A loop that is called from Python: loaded, compiled, or interpreted."""

    __module__: str
    __qualname__: str
    spent = noted = 0
    limit = -1
    kept: Kept | None = None
    made: Any = None

    def __init__(
        self, function: Callable[..., Any], work: LoopWork, options: dict[str, Any], *, outer: bool
    ) -> None:
        update_wrapper(self, function)
        self.py_func, self.work, self.options, self.outer = function, work, options, outer

    def __call__(self, *args: Any) -> Any:
        """Run the loop; what an interpreted one calls is interpreted too."""
        refuse_stopped()
        if _here.interpreting:
            return self.py_func(*args)
        if self.outer and self._compiled(args):
            return self.dispatcher(*args)
        _here.interpreting = True
        try:
            # Whole numbers wrap as they do when compiled. A division by 0 ends both.
            with np.errstate(all="ignore", divide="raise"):
                return self.py_func(*args)
        finally:
            _here.interpreting = False

    def __reduce__(self) -> str:
        """Found by its name, like the function that it was."""
        return self.__qualname__

    def _compiled(self, args: tuple[Any, ...]) -> bool:
        """Whether it is compiled already, or the work of all calls is worth that."""
        if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
            return False
        if _forced:
            return _forced[-1] == "compiled"
        if self.overloads or self.work is None:
            return True
        work = self.work(*args) if callable(self.work) else self.work * _elements(args)
        if not _worth_loading(work):
            return False
        if self._cache.exists():
            return True
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

    @property
    def dispatcher(self) -> Any:
        """What numba knows of the loop. Loads numba."""
        from headcount.loops import dispatcher

        with _making:
            if self.made is None:
                self.made = dispatcher(self)
        return self.made

    @property
    def overloads(self) -> Any:
        """What is compiled or loaded here, by types of arguments."""
        return {} if self.made is None else self.made.overloads

    @property
    def _numba_type_(self) -> Any:  # asked for where another loop names this one
        return self.dispatcher._numba_type_

    @property
    def targetoptions(self) -> Any:
        """Where numba looks whether to put the loop into those that call it."""
        return self.dispatcher.targetoptions

    @property
    def _cache(self) -> Kept:  # made late, as all that a loop calls must be there
        from headcount.loops import Kept

        if self.kept is None:
            self.kept = Kept(self.py_func)
        return self.kept


def _worth_loading(work: int) -> bool:
    """Whether numba is there already, or the work of all calls so far is worth loading it."""
    if "numba" in sys.modules:
        return True
    with _counting:
        _unloaded.spent += work
        return _unloaded.spent > LOADING


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
