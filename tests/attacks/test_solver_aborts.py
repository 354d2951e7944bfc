"""A solver that aborts takes no attack with it: what it should have shown is not proven."""

from __future__ import annotations

import sys
from queue import SimpleQueue

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

from headcount.attacks._problem import Effort, solve_program
from headcount.attacks.reconstruction import reconstruct
from headcount.solve import worker
from headcount.solve.mip import MachineError, Program, SolverError
from headcount.solve.worker import SolverAnswer
from tests.attacks.small_blocks import PAIRS, TINY, knowledge
from tests.solve.test_worker import ABORTS

COUNTS = csr_array(np.array([[1, 1, 1, 1, 1, 1, 1, 1], [0, 2, 1, 0, 0, 1, 0, 0]]))
NO_SEARCH = Effort(nodes=0)


@pytest.fixture
def aborting(monkeypatch, request):
    """HiGHS really aborts, where ``request.param`` is true of its options."""
    program = ABORTS.format(condition=request.param)
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", program))
    monkeypatch.setattr(worker, "_idle", SimpleQueue())
    yield
    worker.end_workers()


@pytest.mark.parametrize("aborting", ["True"], indirect=True)
def test_a_highs_that_aborts_leaves_blocks_unproven(aborting, caplog):
    found = reconstruct(knowledge(COUNTS, TINY, PAIRS), effort=NO_SEARCH)
    assert not found.proven[0]
    assert not found.certain[0]
    assert "attack: the process of HiGHS ended" in caplog.text


@pytest.mark.parametrize("aborting", ['options.get("presolve") != "off"'], indirect=True)
def test_without_presolve_it_answers_as_ever(aborting, monkeypatch):
    found = reconstruct(knowledge(COUNTS, TINY, PAIRS), effort=NO_SEARCH)
    assert found.proven.all()
    monkeypatch.undo()
    sound = reconstruct(knowledge(COUNTS, TINY, PAIRS), effort=NO_SEARCH)
    assert found.variability.tolist() == sound.variability.tolist()


@pytest.mark.parametrize("aborting", ["os.kill(os.getpid(), 9)"], indirect=True)
def test_a_highs_that_is_killed_ends_the_attack(aborting):
    """What it would have proved on a machine with more memory must not pass for not provable."""
    with pytest.raises(
        MachineError, match=r"process of HiGHS was killed: not finished on this mac"
    ):
        reconstruct(knowledge(COUNTS, TINY, PAIRS), effort=NO_SEARCH)


def test_a_highs_that_never_ends_ends_the_attack(monkeypatch):
    monkeypatch.setattr(worker, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(worker, "_idle", SimpleQueue())
    monkeypatch.setattr("headcount.attacks._problem.PATIENCE", 0.3)
    with pytest.raises(MachineError, match="HiGHS gave no answer within 0 s"):
        reconstruct(knowledge(COUNTS, TINY, PAIRS), effort=NO_SEARCH)


@pytest.mark.parametrize("ends", ["Solve error", None])
def test_a_highs_that_gives_up_proves_nothing(ends, monkeypatch, caplog):
    def gives_up(program, **options):
        if ends is None:
            raise SolverError("HiGHS failed: MemoryError: ")
        return SolverAnswer(ends, np.ones(1))

    monkeypatch.setattr("headcount.solve.worker.solve_apart", gives_up)
    one = np.ones(1)
    program = Program(
        cost=one,
        low=0 * one,
        high=one,
        matrix=csc_array(np.ones((1, 1))),
        row_low=0 * one,
        row_high=one,
        integer=True,
    )
    with caplog.at_level("WARNING"):
        answer = solve_program(program, 1, 1_000)
    assert answer.x is None
    assert not answer.proven
    assert (ends or "MemoryError") in caplog.text
