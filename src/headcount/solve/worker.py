"""Integer programmes in a process of their own: HiGHS that aborts takes no run with it.

HiGHS can abort the process (a double free in its presolve, on valid programmes, about once in two
thousand). So each integer programme goes through a pipe to a worker, which lives on for the next;
one that dies is replaced, and the programme is tried once more without presolve. One that was
killed, for its memory as a rule, says nothing of the programme: that is tried again as it is.

How long a search may take is counted in steps: how often HiGHS looks whether it should stop, at
every node, round of cuts and dive. The same steps find the same on every machine, busy or not.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from threading import Timer
from time import process_time
from typing import Any

import numpy as np

from headcount.arrays import Floats
from headcount.processes import apart, python_command, refuse_stopped, when_stopped
from headcount.solve.mip import ENDLESS, MachineError, Program, SolverError, load

COMMAND = python_command("headcount.solve.worker")


@dataclass(frozen=True, eq=False)
class SolverAnswer:
    """How a run of HiGHS ended: the name of its status, and a feasible point if there is one.

    ``dual`` has the prices of the rows, for a linear programme with an optimum.
    """

    status: str
    x: Floats | None
    dual: Floats | None = None


PIVOTS = 10
"""Of a linear programme, for each step: they take about as long."""


class _WorkerDiedError(SolverError):
    """The process of a solver is gone, and its answer with it."""


class _WorkerKilledError(MachineError):
    """Somebody else has ended the process of a solver."""


class _Worker:
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

    def ask(
        self, program: Program, options: Mapping[str, float | str], patience: float | None = None
    ) -> SolverAnswer | str:
        """The answer, or what went wrong in words.

        _WorkerDiedError or _WorkerKilledError if nobody answers, MachineError if nobody has done so
        after so many seconds of ``patience``.
        """
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            raise AssertionError("a worker without pipes")
        late = Timer(patience or 0.0, self._process.kill)
        if patience is not None:
            late.daemon = True
            late.start()
        try:
            pickle.dump((program, dict(options)), to)
            to.flush()
            answer = pickle.load(back)
        except (OSError, EOFError, pickle.UnpicklingError):
            refuse_stopped()
            if late.finished.is_set():
                raise MachineError(
                    f"HiGHS gave no answer within {patience:,.0f} s, many times what its steps "
                    "take: not finished on this machine"
                ) from None
            if self._process.wait() == -getattr(signal, "SIGKILL", 0):
                raise _WorkerKilledError(
                    "the process of HiGHS was killed: not finished on this machine. Has it memory "
                    "enough?"
                ) from None
            raise _WorkerDiedError("the process of HiGHS ended without an answer") from None
        finally:
            late.cancel()
        if isinstance(answer, str):
            return answer
        *found, seconds = answer
        _spent.append(seconds)
        return SolverAnswer(*found)

    @property
    def lives(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

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


_idle: SimpleQueue[_Worker] = SimpleQueue()
_alive: set[_Worker] = set()
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


def solve_apart(
    program: Program, *, patience: float | None = None, **options: float
) -> SolverAnswer:
    """Run HiGHS on a programme in a worker; if it dies, once more without presolve.

    Once more is in a worker of its own: what ended the first may have ended all that were idle.
    """
    try:
        return _solve_once(_idle_worker() or _Worker(), program, options, patience)
    except _WorkerKilledError:
        return _solve_once(_Worker(), program, options, patience)
    except _WorkerDiedError:
        return _solve_once(_Worker(), program, options | {"presolve": "off"}, patience)


def _idle_worker() -> _Worker | None:
    """One that waits for a programme; those that ended while they were idle are let go."""
    while True:
        try:
            worker = _idle.get_nowait()
        except Empty:
            return None
        if worker.lives:
            return worker
        worker.close()


def _solve_once(
    worker: _Worker, program: Program, options: Mapping[str, float | str], patience: float | None
) -> SolverAnswer:
    """As many workers live as programmes were ever solved at once."""
    try:
        answer = worker.ask(program, options, patience)
    except BaseException:  # half an answer may be in the pipe
        worker.close()
        raise
    _idle.put(worker)
    if isinstance(answer, str):
        raise SolverError(f"HiGHS failed: {answer}")
    return answer


def run_here(program: Program, *, steps: int | None = None, **options: Any) -> SolverAnswer:
    """Run HiGHS in this process; after so many steps it is given up."""
    if steps is not None and not program.integer:
        options["simplex_iteration_limit"] = min(steps * PIVOTS, ENDLESS)
    solver = load(program, **options)
    if steps is not None and program.integer:
        taken = count()
        solver.cbMipInterrupt += lambda event: event.interrupt(next(taken) >= steps)
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
