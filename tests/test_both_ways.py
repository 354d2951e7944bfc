"""Loops give the same bits interpreted and compiled: small runs of every kind, each loop seen."""

from collections import Counter
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import types

import headcount
from headcount.compiled import Kernel, _names, kernel
from headcount.mechanisms.swapping._need import Fits, couples_for, partners_for
from headcount.mechanisms.swapping._pairing import settle
from headcount.noise import KeyedNoise, RunKey, Stream, TwoSidedGeometric
from headcount.population.text_files import last_cut
from headcount.testing import warm
from headcount.topdown.solve.leastsquares import least_squares
from headcount.topdown.solve.rounding import round_batch
from tests.both_ways import SEEN, both_ways, same
from tests.topdown.solve.least_squares_cases import random_case

PACKAGE = Path(headcount.__file__).parent
SIGNS = bytes(b'a,"\n\r'[one % 5] for one in range(256))


@pytest.fixture(scope="module", autouse=True)
def seen() -> Counter[str]:
    """What these tests run, all together: they are quick or slow as one."""
    SEEN.clear()
    return SEEN


@pytest.mark.parametrize("name", warm.RUNS)
def test_small_runs_are_the_same_both_ways(name):
    before = sum(SEEN.values())
    with both_ways():
        warm.RUNS[name]()
    assert sum(SEEN.values()) > before


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_least_squares_and_rounding_are_the_same_both_ways(seed):
    """With bounds, without, of one parent, at the root, with weights of 0."""
    batch = random_case(seed).batch
    with both_ways():
        solved = least_squares(batch, threads=1)
        if (solved.outcome.status == 0).all():
            round_batch(batch, solved.x)


@settings(max_examples=50)
@given(st.integers(0, 2**62), st.integers(0, 2**50), st.sampled_from([9, 64]))
def test_noise_is_the_same_both_ways(seed, draw, word_bits):
    """Words of a cipher, which are all of 64 bits, and counters far out in a stream."""
    noise = KeyedNoise(RunKey.from_seed(seed), "test", b"", b"", word_bits=word_bits)
    stream, law = Stream("county", "cells", 1000), TwoSidedGeometric(Fraction(1))
    with both_ways():
        noise.draw_at(stream, law, draw=draw, index=np.arange(0, 1000, 7))
        noise.draw(stream, law, draws=range(draw, draw + 1))


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_pairing_is_the_same_both_ways(seed):
    dice = np.random.default_rng(seed)
    rows = int(dice.integers(2, 40))
    where, group = dice.integers(0, 12, rows), dice.integers(0, 3, rows)
    fits = Fits(group, (where // 4, where // 2, where), (3, 6, 12), dice.integers(0, 3, rows))
    order, some = dice.permutation(rows), int(dice.integers(0, rows))
    with both_ways():
        partners_for(order[:some], order[some:], fits)
        couples_for(order[:some], order[some:], fits, pairs=rows)
        none = np.zeros(0, np.int64)
        settle(none, none, order, fits)


@given(st.binary(max_size=60).map(lambda text: text.translate(SIGNS)))
def test_cuts_are_the_same_both_ways(text):
    with both_ways():
        last_cut(np.frombuffer(text, np.uint8), ord(","))


def test_every_loop_that_may_be_interpreted_was_run_both_ways(seen):
    """And what named tuples it was given is part of its digest. Last: it looks at those above."""
    modules = [
        import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        for path in PACKAGE.rglob("*.py")
        if "headcount.compiled import" in path.read_text(encoding="utf-8")
    ]
    loops: set[Any] = {
        one for module in modules for one in vars(module).values() if type(one) is Kernel
    }
    assert len(loops) > 100
    outer = {f"{loop.__module__}.{loop.__name__}" for loop in loops if loop.outer and loop.work}
    assert outer - set(seen) == set()
    for loop in loops:
        known = {value for _, value in _names(loop.py_func) if hasattr(value, "_fields")}
        for types_given in loop.overloads:
            given = {one.instance_class for one in types_given if isinstance(one, types.NamedTuple)}
            assert given <= known, loop


@kernel
def adds_up(values):
    return values.sum()


def test_a_difference_is_found():
    """Numpy adds in pairs, compiled code one by one: no loop may add floats with ``sum``."""
    values = np.full(1000, 0.1)
    with both_ways(), pytest.raises(AssertionError, match="adds_up: result"):
        adds_up(values)
    with pytest.raises(AssertionError, match="x"):
        same(np.zeros(1), -np.zeros(1), "x")
