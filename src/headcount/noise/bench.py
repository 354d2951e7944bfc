"""How fast is the noise, and does it follow its law at full size? In one run, on one core.

Times are CPU seconds of the process, so that a busy machine does not change the ratios.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from math import exp
from time import process_time

import numpy as np
from numpy.typing import NDArray

from headcount.noise.fit import cut_tail, double_zero, fit, fudged, two_sample
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
REJECT = 1e-6
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


@dataclass(frozen=True)
class Check:
    """One test of a sample against its law: right samples pass, controls must be rejected."""

    law: str
    sample: str
    draws: int
    p: float
    passed: bool
    expected: bool


def bench_noise(
    *,
    bulk: int = 10_000_000,
    units: int = 100_000,
    opendp: int = 100_000,
    live_percent: int = 20,
    siblings: int = 45,
    repeats: int = 3,
) -> list[dict[str, object]]:
    """Measure bulk draws and the access pattern of a release; one dictionary for each figure.

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
    figures: list[Figure] = []
    for name, law in LAWS:
        theirs = partial(opendp_sampler(law), opendp)
        base = _measure("bulk", name, "OpenDP", opendp, theirs, repeats)
        speed = base.draws_per_second
        figures += [base, _measure("bulk", name, "table", bulk, _bulk(law, bulk), repeats, speed)]
        if isinstance(law, Geometric):
            work = _numpy(law, bulk)
            figures.append(_measure("bulk", name, "numpy float", bulk, work, repeats))
    speed = figures[0].draws_per_second
    for per_call, visited in ((siblings, units), (1, max(1, units // 10))):
        pattern = f"release, {per_call} unit{'s' * (per_call > 1)} a call"
        work_all, draws = _release(units, visited, per_call=per_call, live_percent=live_percent)
        law_name = "geometric, 3 queries"
        figures.append(_measure(pattern, law_name, "table", draws, work_all, repeats, speed))
    return [asdict(figure) for figure in figures]


def bench_fit(*, draws: int = 10_000_000, opendp: int = 1_000_000) -> list[dict[str, object]]:
    """Test samples at full size against their law and OpenDP, with controls; p under 1e-6 fails.

    The controls are a scale 0.3 % too large or too small, a doubled zero and a missing tail.
    """
    checks: list[Check] = []
    for name, law in LAWS:
        sample = _bulk(law, draws)().ravel()
        theirs = np.array(opendp_sampler(law)(opendp), dtype=np.int64)
        tested: list[tuple[str, NDArray[np.int64], bool]] = [
            ("table", sample, True),
            ("doubled zero", double_zero(law, sample), False),
            ("missing tail", cut_tail(law, sample), False),
            ("OpenDP", theirs, True),
        ]
        for factor in (Fraction(1003, 1000), Fraction(997, 1000)):
            wrong = _bulk(fudged(law, factor), draws)().ravel()
            tested.append((f"scale x {float(factor)}", wrong, False))
        for label, values, expected in tested:
            p = fit(law, values).p
            checks.append(Check(name, label, values.size, p, p > REJECT, expected))
        p = two_sample(sample, theirs)
        checks.append(Check(name, "table and OpenDP, two samples", opendp, p, p > REJECT, True))
    return [asdict(check) for check in checks]


def _measure(
    pattern: str,
    law: str,
    sampler: str,
    draws: int,
    work: Callable[[], object],
    repeats: int,
    opendp: float | None = None,
) -> Figure:
    times = []
    for _ in range(repeats):
        start = process_time()
        work()
        times.append(process_time() - start)
    speed = draws / min(times)
    ratio = speed / opendp if opendp else None
    return Figure(pattern, law, sampler, draws, min(times), speed, ratio)


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


def _release(
    units: int, visited: int, *, per_call: int, live_percent: int
) -> tuple[Callable[[], None], int]:
    """The draws of a release: live detail cells and all marginals, units in random order."""
    generator = np.random.default_rng(1)
    order = generator.permutation(units)[:visited].astype(np.int64)
    live = [
        np.flatnonzero(generator.random((min(per_call, visited - i), CELLS)) * 100 < live_percent)
        for i in range(0, visited, per_call)
    ]
    cells = Stream("leaf", "cells", units * CELLS)
    epsilon = LAWS[0][1].parameter
    margins = [(Stream("leaf", name, units * size), size, eps) for name, size, eps in MARGINALS]

    def run() -> None:
        noise = _noise()  # so that key derivation is timed too
        for i, flat in enumerate(live):
            chosen = order[i * per_call : (i + 1) * per_call]
            row, cell = np.divmod(flat, CELLS)
            index = chosen[row] * CELLS + cell
            noise.geometric_at(cells, epsilon=epsilon, draw=0, index=index)
            for stream, size, eps in margins:
                index = (chosen[:, None] * size + np.arange(size)).reshape(-1)
                noise.geometric_at(stream, epsilon=eps, draw=0, index=index)

    draws = sum(flat.size for flat in live) + visited * sum(size for _, size, _ in MARGINALS)
    return run, draws
