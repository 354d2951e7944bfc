"""What an engine is given: plain arrays that may go to any process, and nothing secret."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from headcount.engines.local import LocalEngine
from headcount.mechanisms._base import Context
from headcount.mechanisms.topdown import descend as descending
from headcount.mechanisms.topdown._parents import chunks
from headcount.mechanisms.topdown.choices import QuartersBounds
from headcount.noise import KeyedNoise, RunKey
from tests.mechanisms.topdown.small import (
    bounded,
    counts_of,
    dense,
    keyed,
    pure,
    run,
    same,
    settings,
    tree,
    village,
)

TIGHT = QuartersBounds(query="kind", caps=(4, 15, 6), total_level="state")
RESCUED = bounded(pure("1/20"), bounds=(TIGHT,))
"""Bounds so tight that at this epsilon the failsafe is called."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(descending, "chunks", partial(chunks, children_at_once=2))


class Watching:
    """One piece after the other, each kept as the bytes that another process would get."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, bytes]] = []

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        for piece in pieces:
            self.sent.append((piece, pickle.dumps((function, piece))))
            call, copy = pickle.loads(self.sent[-1][1])
            yield call(copy)


class Processes:
    """Another process: each piece is pickled there, and its result back."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        return self.pool.map(function, list(pieces))


def inside(thing: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Everything that can be reached from an object, the object included."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    yield thing
    if isinstance(thing, np.ndarray):
        if thing.base is not None:
            yield from inside(thing.base, seen)
        return
    parts: list[Any] = []
    if isinstance(thing, dict):
        parts = [*thing, *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts = list(thing)
    elif callable(thing) and getattr(thing, "__closure__", None):
        parts = [cell.cell_contents for cell in thing.__closure__]
    parts += list(getattr(thing, "__dict__", {}).values())
    for part in parts:
        yield from inside(part, seen)


PLAIN = (np.ndarray, np.generic, str, int, float, range, dict, list, tuple, type(None))
OWN = {"NodeWork", "Reopened", "NodeProblem", "Batch"}


def secrets_in(sent, counts, key: RunKey) -> list[str]:
    """What a piece holds that it should not."""
    found = []
    truth = [counts.at(level).matrix.data for level in counts.geography.levels]
    for thing in inside(sent):
        if not isinstance(thing, PLAIN) and type(thing).__name__ not in OWN:
            found.append(type(thing).__name__)
        if isinstance(thing, bytes | bytearray):
            found.append("bytes")
        if isinstance(thing, np.ndarray):
            # Not the truth by reference, and not a copy of it.
            if np.shares_memory(thing, counts.matrix.data):
                found.append("the truth")
            if any(thing.size == t.size > 3 and np.array_equal(thing.ravel(), t) for t in truth):
                found.append("a copy of the truth")
    return found


def watched(mechanism, counts):
    key = RunKey.from_seed(0)
    engine = Watching()
    noise = KeyedNoise(key, "topdown", b"data", b"config")
    outcome = mechanism.run(counts, noise, runs=range(1), context=Context(engine=engine))
    return engine.sent, key, outcome


@pytest.mark.parametrize("mechanism", [RESCUED, settings(pure(1))], ids=["rescued", "free"])
def test_pieces_pickle_and_hold_neither_the_truth_nor_the_key(mechanism):
    counts = village()
    sent, key, outcome = watched(mechanism, counts)
    kinds = {type(piece).__name__ for piece, _ in sent}
    rescued = sum(v for name, v in outcome.notes.items() if name.endswith(": failsafe"))
    assert kinds == ({"NodeWork", "Reopened"} if rescued else {"NodeWork"})
    assert bool(rescued) == (mechanism is RESCUED)
    for piece, pickled in sent:
        assert secrets_in(piece, counts, key) == []
        assert key.material not in pickled


def test_the_walk_would_find_a_truth_or_a_key():
    """Controls: the same walk over what must never be sent."""
    counts, key = village(), RunKey.from_seed(1)
    sent, _, _ = watched(settings(pure(1)), counts)
    work = sent[-1][0]

    @dataclasses.dataclass
    class Batch:
        batch: Any
        hidden: Any

    assert "the truth" in secrets_in(Batch(work, counts.matrix.data[1:]), counts, key)
    assert "a copy of the truth" in secrets_in([counts.matrix.data.copy()], counts, key)
    assert "Counts" in secrets_in([counts], counts, key)
    assert "KeyedNoise" in secrets_in((work, {"noise": keyed()}), counts, key)
    assert "bytes" in secrets_in(Batch(work, key.material), counts, key)


def test_other_processes_make_the_same_release():
    """The failsafe included: its answers are drawn here too, after the first map."""
    for seed in range(20):
        expected = run(RESCUED, village(), seed=seed)
        if expected.notes["county: failsafe"]:
            break
    else:
        raise AssertionError("no seed called the failsafe")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        made = run(RESCUED, village(), seed=seed, engine=Processes(pool))
    assert same(dense(made), dense(expected))
    assert made.notes.keys() == expected.notes.keys()


def test_pieces_are_drawn_a_few_at_a_time():
    """A generator is not emptied before results are taken: memory stays bounded."""
    made: list[int] = []
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for k in range(50):
            made.append(k)
            yield k

    for k in LocalEngine(workers=2).map(abs, pieces()):
        taken.append(k)
        assert len(made) - len(taken) <= 5
    assert taken == list(range(50))


def test_the_release_of_a_seed_is_the_one_it_always_was():
    """Counts of a seeded run, written down when the node function still drew for itself."""
    place = tree(("state", [2]), ("leaf", [2, 3]))
    people = np.arange(30).reshape(5, 6) % 7
    people[:, 4] = 0  # nobody under age in a nursing home
    outcome = dense(run(settings(pure("1/2")), counts_of(people, place), seed=3))
    assert outcome["leaf"].tolist() == WRITTEN_DOWN


WRITTEN_DOWN = [
    [0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0],
    [8, 0, 0, 22, 0, 0],
    [3, 0, 0, 0, 0, 0],
    [0, 0, 0, 18, 0, 0],
]
