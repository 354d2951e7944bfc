"""How many exact draws a second, beside OpenDP and numpy's floats?

Times are CPU seconds of the process, so that a busy machine does not change the ratios.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import exp

import numpy as np

from benchmarks.figures import Reading, timed
from headcount.arrays import Ints
from headcount.noise import DiscreteGaussian, KeyedNoise, Law, RunKey, Stream, TwoSidedGeometric
from tests.support.opendp_samplers import opendp_sampler

LAWS: dict[str, Law] = {
    "geometric, scale 320": TwoSidedGeometric(Fraction(1, 320)),
    "geometric, scale 47": TwoSidedGeometric(Fraction(1, 47)),
    "Gaussian, variance 10": DiscreteGaussian(Fraction(10)),
    "Gaussian, variance 8000": DiscreteGaussian(Fraction(8000)),
}
CELLS = 192
CELL_LAW = TwoSidedGeometric(Fraction(1, 320))
MARGINALS = {
    "hhgq": (8, TwoSidedGeometric(Fraction(9, 1280))),
    "voting age x race": (24, TwoSidedGeometric(Fraction(27, 1280))),
}
"""Queries beside the cells: scalars in a unit, and their law; 224 scalars a unit in all."""

QUICK = {"bulk": 1_000_000, "units": 10_000, "opendp": 10_000, "repeats": 1}


def measure(
    *,
    bulk: int = 10_000_000,
    units: int = 100_000,
    opendp: int = 100_000,
    siblings: int = 45,
    repeats: int = 3,
) -> list[Reading]:
    """Draws a second on one core, in bulk and in a release's access pattern.

    ``bulk``
        draws of each law in one call.
    ``units``
        units of the release, visited in random order, ``siblings`` to a call as the children of
        one parent are; beside it a tenth of them, one to a call, to show what a call costs.
    ``opendp``
        draws that OpenDP is timed on; its speed does not depend on their number.
    ``repeats``
        each figure is the best of so many.
    """
    _warm_up()
    speed = partial(_draws_per_second, repeats=repeats)
    readings, theirs = [], []
    for name, law in LAWS.items():
        theirs.append(speed(partial(opendp_sampler(law), opendp), opendp))
        readings.append(_reading(f"bulk: {name}, OpenDP", theirs[-1]))
        ours = speed(partial(sample, law, bulk), bulk)
        readings.append(_reading(f"bulk: {name}, table", ours, opendp=theirs[-1]))
        if isinstance(law, TwoSidedGeometric):
            floats = speed(_numpy(law, bulk), bulk)
            readings.append(_reading(f"bulk: {name}, numpy float", floats))
    for per_call, visited in ((siblings, units), (1, max(1, units // 10))):
        work, draws = release_draws(units, visited, per_call=per_call)
        what = f"release, {per_call} unit{'s' * (per_call > 1)} a call: geometric, 3 queries, table"
        readings.append(_reading(what, speed(work, draws), opendp=theirs[0]))
    return readings


def _reading(what: str, speed: float, *, opendp: float | None = None) -> Reading:
    note = f"{speed / opendp:,.0f} x OpenDP" if opendp else ""
    return Reading(what, speed / 1e6, "million draws/s/core", note)


def _draws_per_second(work: Callable[[], object], draws: int, *, repeats: int) -> float:
    return draws / min(timed(work)[2] for _ in range(repeats))


def _noise() -> KeyedNoise:
    return KeyedNoise(RunKey.from_os(), "bench", b"data", b"config")


def sample(law: Law, count: int) -> Ints:
    """So many draws of a law, under a fresh key."""
    return _noise().draw(Stream("nation", "cells", count), law, draws=range(1))


def _warm_up() -> None:
    """Compile, or load, the kernels and build the tables, so that only drawing is timed."""
    stream, noise = Stream("warm", "up", 100), _noise()
    for law in (*LAWS.values(), *(law for _, law in MARGINALS.values())):
        noise.draw(stream, law, draws=range(1))
        noise.draw_at(stream, law, draw=0, index=np.arange(10, dtype=np.int64))


def _numpy(law: TwoSidedGeometric, count: int) -> Callable[[], Ints]:
    """Difference of two float geometrics: fast, neither exact nor from a secure source."""
    generator = np.random.default_rng(0)
    p = 1 - exp(-law.rate)
    return lambda: generator.geometric(p, count) - generator.geometric(p, count)


def release_draws(
    units: int, visited: int, *, per_call: int, live_percent: int = 20
) -> tuple[Callable[[], None], int]:
    """The draws of a release, as work to do, and how many they are.

    Detail cells where ``live_percent`` of them are asked for, all marginals; units in random order.
    """
    generator = np.random.default_rng(1)
    order = generator.permutation(units)[:visited].astype(np.int64)
    live = [
        np.flatnonzero(generator.random((min(per_call, visited - i), CELLS)) * 100 < live_percent)
        for i in range(0, visited, per_call)
    ]
    cells = Stream("leaf", "cells", units * CELLS)
    margins = [
        (Stream("leaf", name, units * size), size, law) for name, (size, law) in MARGINALS.items()
    ]

    def run() -> None:
        noise = _noise()  # so that key derivation is timed too
        for i, flat in enumerate(live):
            chosen = order[i * per_call : (i + 1) * per_call]
            row, cell = np.divmod(flat, CELLS)
            noise.draw_at(cells, CELL_LAW, draw=0, index=chosen[row] * CELLS + cell)
            for stream, size, law in margins:
                index = (chosen[:, None] * size + np.arange(size)).reshape(-1)
                noise.draw_at(stream, law, draw=0, index=index)

    draws = sum(flat.size for flat in live) + visited * sum(size for size, _ in MARGINALS.values())
    return run, draws
