"""Conjugate gradients where answers are held: a dense solver's steps, and fewer of them."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.topdown.solve._newton import (
    _Held,
    _Jacobian,
    direction,
    even_prices,
    held_slots,
    multiply,
    pivots,
    precondition,
    primal,
    residual,
    soften_cells,
    soften_slots,
)
from headcount.topdown.solve._pack import HIGH, LOW, pack
from headcount.topdown.solve.leastsquares import _bounds, own_answers, start_bands, start_centres
from headcount.topdown.solve.passes import fitting, hold
from tests.support.pass_problems import TOTALS_FIRST, pass_problem
from tests.support.solver_answers import solve_passes

SHIFT = 1e-6


@pytest.fixture(params=range(6))
def system(request):
    """A Newton step of a last pass: the residual, the Jacobian as arrays and as a matrix."""
    batch = pass_problem(request.param).batch
    solved, _ = solve_passes(batch, TOTALS_FIRST[:1], threads=1)
    late = hold(fitting(batch, batch, TOTALS_FIRST[0]), TOTALS_FIRST[0], solved.x, np.array([True]))
    late = fitting(late, batch, TOTALS_FIRST[1])
    start, low, high = _bounds(late)
    arrays = late.arrays._replace(bound_start=start, low=low, high=high)
    _, free = pack(0, arrays, np.diff(start) > 0, np.zeros(len(batch.answer)))
    start_centres(free)
    start_bands(free.slots, own_answers(free.slots))
    n, size = free.slots.shape[1], free.target.size
    nu, u, sums, work, f = np.zeros(n), np.empty(size), np.empty(n), np.empty(size), np.empty(n)
    nu[:] = np.random.default_rng(request.param).normal(0, 1, n)  # most bands are at an edge
    primal(nu, free, np.zeros(free.total.size), u, sums, work)
    residual(nu, free.slots, sums, f)
    jacobian = _Jacobian(
        np.empty(size),
        np.empty(free.start.size, np.uint64),
        np.empty(free.total.size),
        np.empty((2, free.who.size), np.uint32),
        np.empty(n),
        np.empty(n),
    )
    soften_slots(nu, free.slots, 1e-3, jacobian)
    rows, pairs = soften_cells(free, u, 1e-3, jacobian, work)
    dense = np.empty((n, n))
    for s in range(n):
        multiply(np.eye(n)[s], jacobian, rows, pairs, SHIFT, dense[s], work)
    return f, free, jacobian, (rows, pairs, SHIFT), dense


def test_parts_lie_in_their_bands_and_share_nothing(system):
    _, free, *_ = system
    held = held_slots(free)
    width = free.slots[HIGH] - free.slots[LOW]
    assert np.array_equal(held.bands, np.flatnonzero((width > 0) & (width < 1)))
    assert len(held.part) > 0
    variables = {s: set(free.who[free.where == s]) for s in [*held.bands, *held.part]}
    assert all(variables[s] <= variables[t] for s, t in zip(held.part, held.of, strict=True))
    every = [variable for s in held.part for variable in variables[s]]
    assert len(every) == len(set(every))


def test_a_step_is_that_of_a_dense_solver_in_fewer_rounds(system):
    f, free, jacobian, (rows, pairs, shift), dense = system
    step, other, cg = np.empty_like(f), np.empty_like(f), np.empty((4, len(f)))
    work, held = np.empty(free.target.size), held_slots(free)
    diagonal = _Held(*[held.bands[:0]] * 3)
    few = direction(f, held, jacobian, rows, pairs, shift, 1e-9, step, cg, work)
    many = direction(f, diagonal, jacobian, rows, pairs, shift, 1e-9, other, cg, work)
    assert dense @ step == pytest.approx(f, abs=1e-6 * np.abs(f).max())
    assert few < many


def test_a_band_is_solved_with_its_parts(system):
    f, free, jacobian, (rows, pairs, shift), dense = system
    held, n = held_slots(free), len(f)
    cg, work = np.empty((4, n)), np.empty(free.target.size)
    pivots(held, jacobian, shift, cg[3])
    even = even_prices(held, jacobian, rows, pairs, shift, cg, work)
    arrow = np.diag(jacobian.diagonal + shift)
    arrow[held.part, held.of] = dense[held.part, held.of]
    arrow[held.of, held.part] = dense[held.of, held.part]
    common = np.zeros(n)
    common[held.bands] = even
    wanted = np.linalg.solve(arrow, f) + common * (common @ f)
    found = np.empty(n)
    assert precondition(f, held, jacobian, cg[3].copy(), even, found) == pytest.approx(f @ wanted)
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6 * np.abs(wanted).max())
    assert 0 < common @ dense @ common <= 1 + 1e-6  # less where no band is left inside
