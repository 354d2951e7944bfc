"""Integer programmes in a process of their own: HiGHS that aborts takes no run with it.

HiGHS can abort the process (a double free in its presolve, on valid programmes, about once in two
thousand). So each integer programme goes through a pipe to a worker, which lives on for the next;
one that dies is replaced, and the programme is tried once more without presolve.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import process_time
from typing import Any

import numpy as np

from headcount.arrays import Floats
from headcount.processes import apart, python_command, refuse_stopped, when_stopped
from headcount.solve.mip import Program, SolverError, load

COMMAND = python_command("headcount.solve.worker")


@dataclass(frozen=True, eq=False)
class SolverAnswer:
    """How a run of HiGHS ended: the name of its status, and a feasible point if there is one.

    ``dual`` has the prices of the rows, for a linear programme with an optimum.
    """

    status: str
    x: Floats | None
    dual: Floats | None = None


class WorkerDiedError(SolverError):
    """The process of a solver is gone, and its answer with it."""


class Worker:
    """One process that answers one programme after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **apart(),
        )
        _alive.add(self)
        try:
            refuse_stopped()  # since all that were there have been ended
        except BaseException:
            self.close()
            raise

    def ask(self, program: Program, options: Mapping[str, float | str]) -> SolverAnswer | str:
        """The answer, or what went wrong in words; WorkerDiedError if nobody answers."""
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            raise AssertionError("a worker without pipes")
        try:
            pickle.dump((program, dict(options)), to)
            to.flush()
            answer = pickle.load(back)
        except (OSError, EOFError, pickle.UnpicklingError):
            refuse_stopped()
            raise WorkerDiedError("HiGHS: found its process ended, expected an answer") from None
        if isinstance(answer, str):
            return answer
        *found, seconds = answer
        _spent.append(seconds)
        return SolverAnswer(*found)

    def kill(self) -> None:
        """End the process: whoever waits for its answer finds it gone."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and let go of it."""
        _alive.discard(self)
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what could not be sent is lost with the process
                    continue
        self._process.wait()


_idle: SimpleQueue[Worker] = SimpleQueue()
_alive: set[Worker] = set()
_spent: list[float] = []


def worker_seconds() -> float:
    """CPU seconds that workers have spent on answers so far: a process's own clock has none."""
    return sum(_spent)


@when_stopped
def _end_all() -> None:
    for worker in list(_alive):
        worker.kill()


@atexit.register
def end_workers() -> None:
    """End every idle worker."""
    while True:
        try:
            _idle.get_nowait().close()
        except Empty:
            return


def solve_apart(program: Program, **options: float) -> SolverAnswer:
    """Run HiGHS on a programme in a worker; if it dies, once more without presolve."""
    try:
        return _solve_once(program, options)
    except WorkerDiedError:
        return _solve_once(program, options | {"presolve": "off"})


def _solve_once(program: Program, options: Mapping[str, float | str]) -> SolverAnswer:
    """As many workers live as programmes were ever solved at once."""
    try:
        worker = _idle.get_nowait()
    except Empty:
        worker = Worker()
    try:
        answer = worker.ask(program, options)
    except BaseException:  # half an answer may be in the pipe
        worker.close()
        raise
    _idle.put(worker)
    if isinstance(answer, str):
        raise SolverError(f"HiGHS: found {answer}, expected an answer")
    return answer


def run_here(program: Program, **options: Any) -> SolverAnswer:
    """Run HiGHS in this process."""
    solver = load(program, **options)
    solver.run()
    status = solver.modelStatusToString(solver.getModelStatus())
    feasible = solver.getInfo().primal_solution_status == 2
    x = np.array(solver.getSolution().col_value) if feasible or not len(program.cost) else None
    optimal = status == "Optimal" and not program.integer
    return SolverAnswer(status, x, np.array(solver.getSolution().row_dual) if optimal else None)


def main() -> None:
    """Answer every programme on standard input until it ends.

    Whatever a library prints must not get between the answers: it goes where errors go.
    """
    back = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while True:
        try:
            program, options = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        began = process_time()
        try:
            found = run_here(program, **options)
            answer: Any = (found.status, found.x, process_time() - began)
        except Exception as error:  # whoever asked must be told
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, back)
        back.flush()


if __name__ == "__main__":
    main()
