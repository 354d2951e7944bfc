"""What an engine is given: ranges, and a task that stays where the truth is."""

from __future__ import annotations

import ast
import dataclasses
import pickle
import shutil
import stat
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.engines import InOrder, LocalEngine
from headcount.errors import PrivacyError, RunError
from headcount.mechanisms._base import Context
from headcount.noise import KeyedNoise, RunKey
from headcount.storage import storage_at
from headcount.tabulate import Counts
from headcount.tabulate.counts import every_level
from headcount.topdown import descend as descending
from headcount.topdown.choices import QuartersBounds
from headcount.topdown.measure import truth_in_files
from headcount.topdown.parts import chunks
from tests.topdown.small import (
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


class Watching(InOrder):
    """One piece after the other; pieces, and what comes back, are kept."""

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
OWN = {"ParentChunk", "_PieceOutcome"}


class Elsewhere(Watching):
    """As another process would do it: function and piece are pickled, and the result is."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.sent: list[bytes] = []

    def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
        for piece in pieces:
            self.sent.append(pickle.dumps((function, piece)))
            call, copy = pickle.loads(self.sent[-1])
            self.pieces.append(copy)
            yield pickle.loads(pickle.dumps(call(copy)))

    @contextmanager
    def private_folder(self) -> Iterator[Path]:  # type: ignore[override]
        own = self.folder / "own"
        own.mkdir(mode=0o700)
        yield own
        shutil.rmtree(own)


def secrets_in(sent, counts, key: RunKey) -> list[str]:
    """What a piece or an outcome holds that it should not."""
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


def watched(mechanism, counts, engine=None):
    key = RunKey.from_seed(0)
    engine = engine or Watching()
    noise = KeyedNoise(key, "topdown", b"data", b"config")
    design = mechanism.on(counts.domain)
    outcome = design.run(counts, noise, runs=range(1), context=Context(engine=engine))
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


PLANTED = 918_273_645
"""A true count that nothing else is."""


def planted() -> Counts:
    """The village, in which one cell of one leaf has a count that can be searched for."""
    counts = village()
    matrix = counts.matrix.copy()
    matrix.data[0] = PLANTED
    return dataclasses.replace(counts, matrix=matrix)


def forms_of(number: int) -> list[bytes]:
    """How a count could stand in bytes: as text, in binary, and these as hex and base64."""
    plain = [str(number).encode(), number.to_bytes(4, "little")]
    return [*plain, *(one.hex().encode() for one in plain), *(b64encode(one) for one in plain)]


@pytest.mark.parametrize(
    ("mechanism", "counts"),
    [(RESCUED, village()), (settings(pure(1)), planted())],
    ids=["rescued", "free"],
)
def test_other_processes_are_sent_ranges_and_where_files_are_and_make_the_same_release(
    mechanism, counts, tmp_path: Path
):
    engine, key, outcome = watched(mechanism, counts, Elsewhere(tmp_path))
    kinds = {type(piece).__name__ for piece in engine.pieces}
    assert kinds == ({"ParentChunk", "int"} if mechanism is RESCUED else {"ParentChunk"})
    for sent in engine.sent:
        assert key.material not in sent
        assert not any(form in sent for form in forms_of(PLANTED))
    assert list(tmp_path.iterdir()) == []  # the truth is gone
    _, _, here = watched(mechanism, counts)
    assert same(dense(outcome), dense(here))
    assert outcome.notes == here.notes


def test_files_of_the_truth_are_its_owners_alone_and_go_when_the_run_ends_or_fails(tmp_path: Path):
    seen: dict[str, int] = {}

    class Looking(Watching):
        def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
            for path in (tmp_path / "truth").rglob("*"):
                seen[path.name] = stat.S_IMODE(path.stat().st_mode)
            raise OSError("the disk is full")

    context = Context(engine=Looking(), workspace=storage_at(tmp_path))
    with pytest.raises(OSError, match="the disk is full"):
        settings(pure(1)).on(village().domain).run(
            village(), keyed(), runs=range(1), context=context
        )
    assert {"start", "cell", "count"} <= set(seen)
    assert {seen[name] for name in ("start", "cell", "count")} == {0o600}
    assert seen["leaf"] == 0o700
    assert not (tmp_path / "truth").exists()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 64
    path.write_bytes(data)


@pytest.mark.parametrize("file", ["start", "cell", "count"])
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (Path.unlink, "found no file on .*, expected the run's"),
        (lambda path: path.write_bytes(b""), "found a file that ends early, expected rows 0 to"),
        (flip, "found other numbers than were written, in rows 0 to .*, expected the run's own"),
    ],
    ids=["missing", "cut off", "a wrong bit"],
)
def test_a_file_of_the_truth_that_is_missing_cut_off_or_changed_is_an_error(
    harm, said, file, tmp_path: Path
):
    with truth_in_files(every_level(village()), storage_at(tmp_path / "truth")) as truth:
        assert truth.rows("leaf", range(1)).value.sum() == village().totals()[0]
        harm(tmp_path / "truth" / "leaf" / file)
        with pytest.raises(RunError, match=f"{file}: {said}"):
            truth.rows("leaf", range(1))


def test_a_wrong_bit_in_bounds_or_in_where_children_begin_ends_the_run(tmp_path: Path):
    """Every file of numbers that a task opens is checked, not those of the truth alone."""

    class Harming(Watching):
        name = ""

        def map(self, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
            if found := list((tmp_path / "truth").rglob(self.name)):
                flip(found[0])
            return super().map(function, pieces)

    engine = Harming()
    context = Context(engine=engine, workspace=storage_at(tmp_path))
    for engine.name in ("children", "low-0", "high-0"):
        with pytest.raises(RunError, match=f"{engine.name}: found other numbers than were written"):
            RESCUED.on(village().domain).run(village(), keyed(), runs=range(1), context=context)
        assert not (tmp_path / "truth").exists()
        storage_at(tmp_path).below("run-0").remove()


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


def test_a_task_whose_truth_is_in_memory_cannot_be_sent():
    engine, _, _ = watched(settings(pure(1)), village())
    assert engine.tasks
    for task in engine.tasks:
        with pytest.raises(PrivacyError, match="Measurements cannot be pickled: they hold the"):
            pickle.dumps(task)


def test_what_estimates_cannot_import_what_measures():
    """By the text of its modules and of all that they import of this mechanism."""
    seen, todo = set(), ["_estimate"]
    while todo:
        name = todo.pop()
        seen.add(name)
        home = Path(descending.__file__).parent / name.replace(".", "/")
        place = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
        source = place.read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                _, found, own = node.module.partition("headcount.topdown")
                names = [own.lstrip(".")] if own else [one.name for one in node.names]
                todo += [one for one in names if found and one not in seen]
    assert {"_estimate", "parts", "restrict"} <= seen
    assert not seen & {"measure", "descend", "design", "mechanism"}


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
