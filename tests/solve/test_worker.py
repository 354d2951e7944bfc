"""Integer programmes in a process of their own, and what happens when that process dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest
from scipy.sparse import csc_array

from headcount import solve
from headcount.solve import worker
from headcount.solve.mip import (
    EFFORT,
    ENDLESS,
    FEWEST_NODES,
    MachineError,
    Program,
    SolverError,
    best_within,
    minimise,
    most_nodes,
    steps_of,
)

ABORTS = """
import os, pickle, sys
from headcount.solve.worker import run_here
program, options = pickle.load(sys.stdin.buffer)
if {condition}:
    os.abort()
found = run_here(program, **options)
pickle.dump((found.status, found.x, 0.25), sys.stdout.buffer)
sys.stdout.buffer.flush()
"""


def knapsack(most: float = 7.0, *, least: float = 0.0) -> Program:
    """Three things of weights 2, 3, 4 and values 3, 4, 6."""
    return Program(
        cost=-np.array([3.0, 4.0, 6.0]),
        low=np.zeros(3),
        high=np.ones(3),
        matrix=csc_array(np.array([[2.0, 3.0, 4.0]])),
        row_low=np.array([least]),
        row_high=np.array([most]),
        integer=True,
    )


def packed(most: float = 7.0, *, least: float = 0.0) -> list[float] | None:
    found = minimise(knapsack(most, least=least))
    return None if found is None else found.tolist()


@pytest.fixture
def workers(monkeypatch):
    """No worker is idle at first; those of the test are ended after it."""
    monkeypatch.setattr(worker, "_idle", SimpleQueue())
    yield
    worker.end_workers()


def aborting(monkeypatch, condition: str) -> None:
    program = ABORTS.format(condition=condition)
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", program))


def test_a_worker_answers_one_programme_after_the_other(workers):
    assert packed() == [0, 1, 1]
    first = worker._idle.get()
    worker._idle.put(first)
    assert packed(6.0) == [1, 0, 1]
    assert packed(20.0, least=10.0) is None
    assert worker._idle.get() is first
    first.close()


PRINTS = """
import os
from headcount.solve import worker
run = worker.run_here
def talking(program, **options):
    os.write(1, b"a library has something to say")
    return run(program, **options)
worker.run_here = talking
worker.main()
"""


def test_what_a_library_prints_does_not_get_between_the_answers(workers, monkeypatch):
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", PRINTS))
    assert packed() == [0, 1, 1]
    assert packed(6.0) == [1, 0, 1]


def test_a_solver_that_aborts_is_asked_again_without_presolve(workers, monkeypatch):
    aborting(monkeypatch, 'options.get("presolve") != "off"')
    before = worker.worker_seconds()
    assert packed() == [0, 1, 1]
    assert worker.worker_seconds() == before + 0.25


def test_one_that_aborts_even_so_is_an_error_and_no_end_of_the_run(workers, monkeypatch):
    aborting(monkeypatch, "True")
    with pytest.raises(SolverError, match="process of HiGHS ended without an answer"):
        minimise(knapsack())
    monkeypatch.undo()
    assert packed() == [0, 1, 1]


def test_a_worker_killed_while_idle_is_replaced(workers):
    minimise(knapsack())
    idle = worker._idle.get()
    os.kill(idle._process.pid, signal.SIGKILL)
    idle._process.wait()
    worker._idle.put(idle)
    assert packed() == [0, 1, 1]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_of_several_killed_while_idle_none_is_asked(workers, monkeypatch, how):
    """Else the second would fail as well, or the programme would be tried without presolve."""
    idle = [worker._Worker() for _ in range(3)]
    for one in idle:
        os.kill(one._process.pid, how)
        one._process.wait()
        worker._idle.put(one)
    asked = []
    ask = worker._Worker.ask

    def noting(self, program, options, patience=None):
        asked.append(options.get("presolve", "choose"))
        return ask(self, program, options, patience)

    monkeypatch.setattr(worker._Worker, "ask", noting)
    assert packed() == [0, 1, 1]
    assert asked == ["choose"]
    assert not worker._alive & set(idle)


def test_a_programme_is_asked_again_in_a_new_worker(workers, monkeypatch):
    """All idle ones may end at once, after it was seen that they live."""
    for _ in range(2):
        one = worker._Worker()
        os.kill(one._process.pid, signal.SIGKILL)
        one._process.wait()
        worker._idle.put(one)
    monkeypatch.setattr(worker._Worker, "lives", True)
    assert packed() == [0, 1, 1]


@pytest.mark.parametrize(("times", "asked"), [(1, ["choose", "choose"]), (2, None)])
def test_a_programme_whose_worker_was_killed_is_asked_again_as_it_is(
    workers, monkeypatch, tmp_path, times, asked
):
    """Being killed says nothing of the programme, so that nothing about it is changed."""
    log = tmp_path / "log"
    program = ABORTS.format(condition=KILLED.format(log=str(log), times=times))
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", program))
    if asked is None:
        with pytest.raises(MachineError, match="process of HiGHS was killed: not finished on"):
            minimise(knapsack())
    else:
        assert packed() == [0, 1, 1]
        assert log.read_text().split() == asked


KILLED = """(
    open({log!r}, "a").write(options.get("presolve", "choose") + "\\n"),
    len(open({log!r}).readlines()) <= {times} and os.kill(os.getpid(), 9),
    False,
)[-1]"""


def test_a_worker_that_never_answers_is_ended_and_that_is_an_error(workers, monkeypatch):
    program = ABORTS.format(condition="__import__('time').sleep(3600)")
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", program))
    late = "HiGHS gave no answer within 0 s, many times what its steps take: not finished on this"
    with pytest.raises(MachineError, match=late):
        worker.solve_apart(knapsack(), patience=0.2)


def test_what_goes_wrong_in_the_worker_is_said(workers):
    with pytest.raises(SolverError, match="HiGHS failed: AttributeError"):
        worker.solve_apart("no programme")  # type: ignore[arg-type]


def hard() -> Program:
    """Sixty things and thirty limits: far more than fifty nodes."""
    rng = np.random.default_rng(1)
    return Program(
        cost=-rng.uniform(1, 2, 60),
        low=np.zeros(60),
        high=np.ones(60),
        matrix=csc_array(rng.uniform(1, 2, (30, 60))),
        row_low=np.full(30, -np.inf),
        row_high=np.full(30, 40.0),
        integer=True,
    )


def test_after_its_nodes_the_best_so_far_is_taken_or_nothing_is(workers):
    given_up = "ended with status 'Solution limit reached', without an optimum"
    with pytest.raises(SolverError, match=given_up):
        best_within(hard(), nodes=0)
    best, again = best_within(hard(), nodes=50), best_within(hard(), nodes=50)
    assert best is not None
    assert again is not None
    assert best.tolist() == again.tolist()
    assert (hard().matrix @ best <= 40).all()
    assert worker.run_here(hard(), mip_max_nodes=50).status == "Solution limit reached"


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that take what they get of the machine."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait()


def test_after_its_steps_a_search_ends_at_the_same_point_every_time(workers):
    none = worker.solve_apart(hard(), steps=0)
    assert (none.status, none.x) == ("Interrupted by user", None)
    some = worker.solve_apart(hard(), steps=40)
    with busy(4):
        again = worker.solve_apart(hard(), steps=40)
    assert some.status == again.status == "Interrupted by user"
    assert some.x is not None
    assert again.x is not None
    assert some.x.tolist() == again.x.tolist()
    best = worker.solve_apart(knapsack(), steps=1_000)
    assert best.status == "Optimal"
    with pytest.raises(SolverError, match="ended with status 'Interrupted by user', without"):
        minimise(hard(), steps=40)


def test_a_linear_programme_has_ten_pivots_for_each_step():
    linear = replace(hard(), integer=False)
    assert worker.run_here(linear, steps=1, presolve="off").status == "Iteration limit reached"
    assert worker.run_here(linear, steps=1_000).status == "Optimal"
    with pytest.raises(SolverError, match="ended with status 'Iteration limit reached', without"):
        minimise(linear, steps=0)


def test_a_large_programme_has_fewer_steps_as_each_takes_longer():
    assert steps_of(knapsack(), 1_000) == 1_000
    wide = replace(knapsack(), matrix=csc_array(np.ones((100, 500))))
    assert steps_of(wide, 1_000) == 100


def test_no_clock_decides_where_a_search_ends(monkeypatch):
    """A resumed run must find what the first attempt would have found, on any machine."""
    seen = []

    def solved(program, **options):
        seen.append(options)
        return worker.SolverAnswer("Optimal", np.zeros(len(program.cost)))

    monkeypatch.setattr(worker, "solve_apart", solved)
    minimise(knapsack())
    best_within(knapsack())
    best_within(knapsack(), nodes=ENDLESS)
    assert not any("time_limit" in one for one in seen)
    assert [one["mip_max_nodes"] for one in seen] == [EFFORT // 3, EFFORT // 3, ENDLESS]
    wide = replace(knapsack(), matrix=csc_array(np.ones((5_000, 5_000))))
    assert most_nodes(wide) == FEWEST_NODES


def test_no_solver_is_given_a_time():
    home, given = Path(solve.__file__).parent.parent, re.compile("time_limit|max_time_in_seconds")
    said = {
        path.relative_to(home).as_posix()
        for path in home.rglob("*.py")
        if given.search(path.read_text("utf-8"))
    }
    assert said == set()


def test_nothing_is_imported_from_the_working_folder(workers, monkeypatch, tmp_path):
    """A worker that read this file would say nothing, and another is not to be had."""
    (tmp_path / "pickle.py").write_text("raise SystemExit(7)\n")
    (tmp_path / "numpy.py").write_text("raise SystemExit(7)\n")
    monkeypatch.chdir(tmp_path)
    assert packed() == [0, 1, 1]
