"""How fast is the noise? Ours, OpenDP's and numpy's float, in one run, on one core.

Times are CPU seconds of the process, so that a busy machine does not change the ratios.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import exp
from time import process_time

import numpy as np
from numpy.typing import NDArray

from headcount.noise.keyed import KeyedNoise
from headcount.noise.keys import RunKey
from headcount.noise.laws import Gaussian, Geometric, Law
from headcount.noise.opendp_backend import opendp_sampler
from headcount.noise.source import Stream

LAWS: tuple[tuple[str, Law], ...] = (
    ("geometric, scale 320", Geometric("epsilon", Fraction(1, 320))),
    ("geometric, scale 47", Geometric("epsilon", Fraction(1, 47))),
    ("Gaussian, variance 10", Gaussian(Fraction(10))),
    ("Gaussian, variance 8000", Gaussian(Fraction(8000))),
)
CELLS = 192
MARGINALS = (("hhgq", 8, Fraction(9, 1280)), ("voting age x race", 24, Fraction(27, 1280)))
"""Queries beside the cells: name, scalars in a unit, epsilon; 224 scalars a unit in all."""


@dataclass(frozen=True)
class Figure:
    """One measured speed."""

    pattern: str
    law: str
    sampler: str
    draws: int
    cpu_seconds: float
    draws_per_second: float
    times_opendp: float | None


def bench_noise(
    *,
    bulk: int = 10_000_000,
    units: int = 100_000,
    opendp: int = 200_000,
    live_percent: int = 20,
    siblings: int = 45,
) -> list[dict[str, object]]:
    """Measure bulk draws and the access pattern of a release; one dictionary for each figure.

    ``bulk``
        draws of each law in one call.
    ``units``
        units of the release, visited in random order, ``siblings`` to a call as the children of
        one parent are; also one to a call.
    ``opendp``
        draws that OpenDP and, for one law, numpy are timed on, at a speed that does not depend
        on their number.
    """
    _warm_up()
    figures: list[Figure] = []
    reference: dict[str, float] = {}
    for name, law in LAWS:
        sampler = opendp_sampler(law)
        sampler(1000)
        base = _measure("bulk", name, "OpenDP", opendp, lambda s=sampler: s(opendp))  # type: ignore[misc]
        reference[name] = base.draws_per_second
        figures.append(base)
        draw = _bulk(law, bulk)
        figures.append(_measure("bulk", name, "table", bulk, draw, base.draws_per_second))
        if isinstance(law, Geometric):
            figures.append(_measure("bulk", name, "numpy float", bulk, _numpy(law, bulk)))
    for per_call in (siblings, 1):
        name = f"release, {per_call} units a call"
        calls, draws = _release(units, per_call=per_call, live_percent=live_percent)
        speed = reference[LAWS[0][0]]
        figures.append(_measure(name, "geometric, 3 queries", "table", draws, calls, speed))
    return [asdict(figure) for figure in figures]


def _measure(
    pattern: str,
    law: str,
    sampler: str,
    draws: int,
    work: Callable[[], object],
    opendp: float | None = None,
) -> Figure:
    start = process_time()
    work()
    seconds = process_time() - start
    speed = draws / seconds
    return Figure(pattern, law, sampler, draws, seconds, speed, speed / opendp if opendp else None)


def _noise() -> KeyedNoise:
    return KeyedNoise(RunKey.from_os(), "bench", b"data", b"config")


def _warm_up() -> None:
    """Compile, or load, the kernels and build the tables, so that only drawing is timed."""
    stream = Stream("warm", "up", 100)
    noise = _noise()
    index = np.arange(10, dtype=np.int64)
    for _, law in LAWS:
        if isinstance(law, Gaussian):
            noise.gaussian(stream, variance=law.parameter, draws=range(1))
            noise.gaussian_at(stream, variance=law.parameter, draw=0, index=index)
        else:
            noise.geometric(stream, epsilon=law.parameter, draws=range(1))
    for _, _, epsilon in MARGINALS:
        noise.geometric_at(stream, epsilon=epsilon, draw=0, index=index)


def _bulk(law: Law, count: int) -> Callable[[], NDArray[np.int64]]:
    stream = Stream("nation", "cells", count)
    if isinstance(law, Gaussian):
        return lambda: _noise().gaussian(stream, variance=law.parameter, draws=range(1))
    return lambda: _noise().geometric(stream, epsilon=law.parameter, draws=range(1))


def _numpy(law: Geometric, count: int) -> Callable[[], NDArray[np.int64]]:
    """Difference of two float geometrics: fast, neither exact nor from a secure source."""
    generator = np.random.default_rng(0)
    p = 1 - exp(-law.parameter)
    return lambda: generator.geometric(p, count) - generator.geometric(p, count)


def _release(units: int, *, per_call: int, live_percent: int) -> tuple[Callable[[], None], int]:
    """The draws of a release: live detail cells and all marginals, units in random order."""
    generator = np.random.default_rng(1)
    order = generator.permutation(units).astype(np.int64)
    live = [
        np.flatnonzero(generator.random((min(per_call, units - i), CELLS)) * 100 < live_percent)
        for i in range(0, units, per_call)
    ]
    cells = Stream("leaf", "cells", units * CELLS)
    epsilon = LAWS[0][1].parameter
    margins = [(Stream("leaf", name, units * size), size, eps) for name, size, eps in MARGINALS]

    def run() -> None:
        noise = _noise()
        for i, flat in enumerate(live):
            chosen = order[i * per_call : (i + 1) * per_call]
            row, cell = np.divmod(flat, CELLS)
            index = chosen[row] * CELLS + cell
            noise.geometric_at(cells, epsilon=epsilon, draw=0, index=index)
            for stream, size, eps in margins:
                index = (chosen[:, None] * size + np.arange(size)).reshape(-1)
                noise.geometric_at(stream, epsilon=eps, draw=0, index=index)

    return run, sum(flat.size for flat in live) + units * sum(size for _, size, _ in MARGINALS)
