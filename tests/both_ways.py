"""Every loop that Python calls, run both ways on the same arguments: the same bits, or an error.

``both_ways()`` does it inside a ``with``. For all tests of a folder, which takes long:

    .venv/bin/python -m pytest -p tests.both_ways tests/solve
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from headcount.compiled import Kernel, _here, forced

SEEN: Counter[str] = Counter()
"""How often each loop was run both ways."""


def same(one: Any, other: Any, where: str) -> None:
    """Raise unless two results, or arguments after a call, have the same bits."""
    if isinstance(one, tuple):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{where}[{number}]")
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.tobytes() == other.tobytes(), where
    else:
        kinds = {isinstance(value, (float, np.floating)) for value in (one, other)}
        assert len(kinds) == 1, f"{where}: {type(one)} and {type(other)}"
        assert np.array(one).tobytes() == np.array(other, np.array(one).dtype).tobytes(), where


def _call(self: Kernel, *args: Any) -> Any:
    if _here.interpreting or not self.outer or self.work is None:
        return ONE_WAY(self, *args)
    name = self.py_func.__name__
    with _one_thread:  # threads write into the same arrays
        copied = deepcopy(args)
        with forced("interpreted"):
            expected = ONE_WAY(self, *copied)
        with forced("compiled"):
            found = ONE_WAY(self, *args)
        same(expected, found, f"{name}: result")
        same(copied, args, f"{name}: arguments")
        SEEN[f"{self.py_func.__module__}.{name}"] += 1
    return found


ONE_WAY = Kernel.__call__
_one_thread = threading.Lock()


@contextmanager
def both_ways() -> Iterator[None]:
    """Run every loop twice, and raise at the first that differs."""
    Kernel.__call__ = _call  # type: ignore[method-assign]
    try:
        yield
    finally:
        Kernel.__call__ = ONE_WAY  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """As a plugin: around every test."""
    with both_ways():
        return (yield)
