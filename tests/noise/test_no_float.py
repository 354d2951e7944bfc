"""No float between a key and a draw: in the compiled kernels, the arrays, or the Python around."""

import ast
import inspect
import sys
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import types

from headcount.noise import (
    DiscreteGaussian,
    KeyedNoise,
    RunKey,
    Stream,
    TwoSidedGeometric,
    keyed,
)
from headcount.noise import source as kernels
from headcount.noise.keyed import build_table
from headcount_papers.frame.published_noise import GeometricByRatio

HOME = Path(keyed.__file__).parent
TABLE = build_table(TwoSidedGeometric(Fraction(1, 47)))
assert TABLE is not None
INDEX = np.arange(5, dtype=np.int64)
ARGUMENTS = {
    "lookup": (
        np.arange(5, dtype=np.uint64),
        TABLE.drop,
        TABLE.thresholds,
        TABLE.guide,
        TABLE.shift,
        np.empty(5, dtype=np.int64),
        np.empty(5, dtype=np.int64),
    ),
    "counters": (INDEX, 0, 5, np.empty(10, dtype=np.uint64)),
    "pick": (np.empty(10, dtype=np.uint64), INDEX, 0, np.empty(5, dtype=np.uint64)),
}


def floats_in_kernel(function: Any, arguments: tuple[Any, ...]) -> list[str]:
    """Names of variables and calls to which numba gives a float or complex type."""
    fresh = numba.njit(function)
    fresh(*arguments)
    (compiled,) = fresh.overloads.values()
    notes = compiled.type_annotation
    found = [name for name, kind in notes.typemap.items() if holds_float(kind)]
    for call, signature in notes.calltypes.items():
        if signature is not None and any(
            holds_float(kind) for kind in (signature.return_type, *signature.args)
        ):
            found.append(str(call))
    assert notes.typemap
    return found


def holds_float(kind: Any) -> bool:
    if isinstance(kind, types.Array):
        kind = kind.dtype
    if isinstance(kind, types.Tuple | types.UniTuple):
        return any(holds_float(part) for part in kind.types)
    return isinstance(kind, types.Float | types.Complex)


def with_float(function: Any, line: str) -> Any:
    """A copy of the kernel in which one line is multiplied by 1.0."""
    source = inspect.getsource(function)
    assert source.count(line) == 1
    source = source[source.index("def ") :].replace(line, line + " * 1.0")
    space: dict[str, Any] = {"np": np, "NDArray": Any, "__annotations__": {}}
    exec("from __future__ import annotations\n" + source, space)
    return space[function.__name__]


KERNELS = [name for name, thing in vars(kernels).items() if hasattr(thing, "py_func")]


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_have_no_float(kernel):
    assert floats_in_kernel(getattr(kernels, kernel).py_func, ARGUMENTS[kernel]) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("lookup", "out[i] = (k ^ -sign) + sign"),
        ("counters", "blocks[2 * i + 1] = swapped"),
        ("pick", "words[i] = blocks[2 * i + ((base + index[i]) & 1)]"),
    ],
)
def test_one_float_in_a_copy_is_found(name, line):
    changed = with_float(getattr(kernels, name).py_func, line)
    assert floats_in_kernel(changed, ARGUMENTS[name])


def floats_on_path(work: Any) -> list[str]:
    """Run the work and list every float, or array of floats, held by a variable of this room."""
    found: list[str] = []
    seen = set()

    def look(frame: FrameType, event: str, value: object) -> None:
        if event != "return" or Path(frame.f_code.co_filename).parent != HOME:
            return
        seen.add(frame.f_code.co_name)
        for name, held in [*frame.f_locals.items(), ("returned", value)]:
            parts = held if isinstance(held, tuple | list) else [held]
            for part in [*parts, *getattr(held, "__dict__", {}).values()]:
                numpy = isinstance(part, np.ndarray | np.generic)
                if isinstance(part, float) or (numpy and part.dtype.kind in "fc"):
                    found.append(f"{frame.f_code.co_name}: {name}")

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    assert {"draw", "draw_at", "_look_up", "_source", "_fill_run", "at", "run"} <= seen
    return found


def draw_everything() -> None:
    """Fresh tables, short words, slow samplers: every branch from key to draw."""
    build_table.cache_clear()
    for options in ({}, {"word_bits": 9}, {"table_limit": 3}):
        noise = KeyedNoise(RunKey.from_seed(3), "test", b"", b"", **options)
        stream = Stream("county", "cells", 30)
        noise.draw(stream, TwoSidedGeometric(Fraction(1, 7)), draws=range(2))
        noise.draw(stream, GeometricByRatio(Fraction(3, 4)), draws=range(2))
        noise.draw(stream, DiscreteGaussian(Fraction(9)), draws=range(2))
        index = np.array([3, 1, 29], dtype=np.int64)
        noise.draw_at(stream, TwoSidedGeometric(Fraction(1, 7)), draw=1, index=index)
        noise.draw_at(stream, DiscreteGaussian(Fraction(9)), draw=1, index=index)


def test_python_around_the_kernels_holds_no_float():
    assert floats_on_path(draw_everything) == []


def test_a_float_around_the_kernels_is_found(monkeypatch):
    line = "return undecided[:found]"
    source = inspect.getsource(keyed._look_up)
    assert line in source
    source = source.replace(line, f"x = out * 1.0; out[:] = x; {line}")
    space = dict(vars(keyed))
    exec(compile("from __future__ import annotations\n" + source, keyed.__file__, "exec"), space)
    monkeypatch.setattr(keyed, "_look_up", space["_look_up"])
    assert "_look_up: x" in floats_on_path(draw_everything)


def floats_in_text(source: str) -> list[str]:
    """Float literals and names of float types: temporaries that no variable ever holds.

    A law's ``variance`` is left out: it is for weights and reports, and no draw asks for it.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [one for one in node.body if getattr(one, "name", "") != "variance"]
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Constant) and isinstance(node.value, float | complex))
        or (isinstance(node, ast.Name) and node.id in ("float", "complex"))
        or (
            isinstance(node, ast.Attribute) and node.attr.startswith(("float", "complex", "double"))
        )
    ]


PATH = ["keyed", "laws", "source"]


@pytest.mark.parametrize("name", PATH)
def test_the_text_of_the_path_has_no_float(name):
    text = (HOME / f"{name}.py").read_text()
    assert floats_in_text(text) == []
    assert floats_in_text(text + "\nx = np.arange(3) * 1.0\n") == ["1.0"]
    assert floats_in_text(text + "\nx = y.astype(np.float64)\n") == ["np.float64"]
