"""What an engine is given: ranges, and a task that stays where the truth is."""

from __future__ import annotations

import ast
import dataclasses
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.engines.local import LocalEngine
from headcount.errors import PrivacyError
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
    """One piece after the other; pieces, and what comes back, are kept."""

    elsewhere = False

    def __init__(self) -> None:
        self.tasks: list[Any] = []
        self.pieces: list[Any] = []
        self.results: list[Any] = []

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        self.tasks.append(function)
        for piece in pieces:
            self.pieces.append(pickle.loads(pickle.dumps(piece)))
            self.results.append(function(piece))
            yield self.results[-1]


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
OWN = {"ParentChunk", "PieceOutcome"}
SENT = {"NodeWork", "Reopened", "NodeProblem", "Batch", "Nesting", "PassPlan"}


class Elsewhere(Watching):
    """As another process would do it: function and piece are pickled, and the result is."""

    elsewhere = True

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        for piece in pieces:
            call, copy = pickle.loads(pickle.dumps((function, piece)))
            self.pieces.append(copy)
            yield pickle.loads(pickle.dumps(call(copy)))


def secrets_in(sent, counts, key: RunKey) -> list[str]:
    """What a piece or an outcome holds that it should not."""
    found = []
    truth = [counts.at(level).matrix.data for level in counts.geography.levels]
    for thing in inside(sent):
        if not isinstance(thing, PLAIN) and type(thing).__name__ not in OWN | SENT:
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


def watched(mechanism, counts, engine=None):
    key = RunKey.from_seed(0)
    engine = engine or Watching()
    noise = KeyedNoise(key, "topdown", b"data", b"config")
    outcome = mechanism.run(counts, noise, runs=range(1), context=Context(engine=engine))
    return engine, key, outcome


@pytest.mark.parametrize("mechanism", [RESCUED, settings(pure(1))], ids=["rescued", "free"])
def test_pieces_are_ranges_and_outcomes_hold_neither_the_truth_nor_the_key(mechanism):
    counts = village()
    engine, key, outcome = watched(mechanism, counts)
    kinds = {type(piece).__name__ for piece in engine.pieces}
    rescued = sum(v for name, v in outcome.notes.items() if name.endswith(": failsafe"))
    assert kinds == ({"ParentChunk", "int"} if rescued else {"ParentChunk"})
    assert bool(rescued) == (mechanism is RESCUED)
    for sent in [*engine.pieces, *engine.results]:
        assert secrets_in(sent, counts, key) == []


@pytest.mark.parametrize("mechanism", [RESCUED, settings(pure(1))], ids=["rescued", "free"])
def test_what_goes_to_other_processes_is_measured_here_and_makes_the_same_release(mechanism):
    counts = village()
    engine, key, outcome = watched(mechanism, counts, Elsewhere())
    kinds = {type(piece).__name__ for piece in engine.pieces}
    assert kinds == ({"NodeWork", "Reopened"} if mechanism is RESCUED else {"NodeWork"})
    for sent in engine.pieces:
        assert secrets_in(sent, counts, key) == []
        assert key.material not in pickle.dumps(sent)
    _, _, here = watched(mechanism, counts)
    assert same(dense(outcome), dense(here))
    assert outcome.notes == here.notes


def test_the_walk_would_find_a_truth_or_a_key():
    """Controls: the same walk over what must never be sent."""
    counts, key = village(), RunKey.from_seed(1)
    engine, _, _ = watched(settings(pure(1)), counts)
    piece = engine.pieces[-1]

    @dataclasses.dataclass
    class ParentChunk:
        piece: Any
        hidden: Any

    assert "the truth" in secrets_in(ParentChunk(piece, counts.matrix.data[1:]), counts, key)
    assert "a copy of the truth" in secrets_in([counts.matrix.data.copy()], counts, key)
    assert "Counts" in secrets_in([counts], counts, key)
    assert "KeyedNoise" in secrets_in((piece, {"noise": keyed()}), counts, key)
    assert "bytes" in secrets_in(ParentChunk(piece, key.material), counts, key)


def test_a_task_which_holds_truth_and_key_cannot_be_sent():
    engine, _, _ = watched(settings(pure(1)), village())
    assert engine.tasks
    for task in engine.tasks:
        with pytest.raises(PrivacyError, match="found a copy being made, expected truth to stay"):
            pickle.dumps(task)


def test_what_estimates_cannot_import_what_measures():
    """By the text of its modules and of all that they import of this mechanism."""
    seen, todo = set(), ["_estimate", "_parents", "_level", "_kernels"]
    while todo:
        name = todo.pop()
        seen.add(name)
        source = (Path(descending.__file__).parent / f"{name}.py").read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                _, found, own = node.module.partition("headcount.mechanisms.topdown")
                names = [own.lstrip(".")] if own else [one.name for one in node.names]
                todo += [one for one in names if found and one not in seen]
    assert {"_estimate", "_level", "planned"} <= seen
    assert not seen & {"measure", "_task", "descend", "mechanism"}


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
