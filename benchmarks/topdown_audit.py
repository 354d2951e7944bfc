"""Does TopDown's measuring step keep its shares, and is a build that does not found out?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.figures import Reading
from headcount.arrays import Ints
from headcount.mechanisms.topdown.measure import Measurements, TrueRows
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.noise import Law, Stream, TwoSidedGeometric
from headcount.noise.source import DrawPositions
from headcount.schema import load_schema
from headcount.tabulate import CELLS
from tests.support.measuring_audit import MeasuringAudit, audit_measuring

LEVELS = ("nation", "state", "county", "district")
QUERIES = (CELLS, "hhgq", "va_hisp_race")
RUNS, TRIALS = 10_000, 100
ROOT_RUNS, ROOT_TRIALS = 2_000, 10  # one measurement a run: slow
MUTANT_TRIALS = 25


class SensitivityOne(Measurements):
    """A wrong build: noise as if a changed record moved one answer, not two."""

    def _draw(self, law: Law | None, stream: Stream, index: DrawPositions) -> Ints:
        assert isinstance(law, TwoSidedGeometric)
        return super()._draw(TwoSidedGeometric(2 * law.rate), stream, index)


class OneDraw(Measurements):
    """A wrong build: all answers of a unit reuse one draw."""

    def _draw(self, law: Law | None, stream: Stream, index: DrawPositions) -> Ints:
        units = self._truth.units(stream.level)
        place = np.arange(index.start, index.stop) if isinstance(index, range) else index
        return super()._draw(law, stream, place - place % (stream.size // units))


class NonZeroOnly(Measurements):
    """A wrong build: of what the estimate asks for, noise on non-zero answers only."""

    def _groups(self, level: str, query: str, unit: Ints, group: Ints, true: TrueRows) -> Ints:
        truth = self._exact()._groups(level, query, unit, group, true)
        return np.where(truth == 0, 0, super()._groups(level, query, unit, group, true))

    def _detail(self, level: str, unit: Ints, cell: Ints, true: TrueRows) -> Ints:
        truth = self._exact()._detail(level, unit, cell, true)
        return np.where(truth == 0, 0, super()._detail(level, unit, cell, true))

    def _exact(self) -> Measurements:
        return Measurements(
            self._counts,
            replace(self._settings, epsilon="inf", rho=None),
            self._noise,
            run=self._run,
        )


MUTANTS = {
    "sensitivity 1": SensitivityOne,
    "one reused draw": OneDraw,
    "noise on non-zero cells only": NonZeroOnly,
}


QUICK = {"trials": 5}


def measure(*, trials: int | None = None) -> list[Reading]:
    """The preset of 2018, each query at each level; then three wrong builds."""
    readings = [
        reading
        for level in LEVELS
        for query in QUERIES
        for reading in _honest(_audit(level, query, trials=trials))
    ]
    for name, build in MUTANTS.items():
        for query in QUERIES:
            found = _audit("district", query, trials=trials or MUTANT_TRIALS, build=build)
            readings.append(
                Reading(
                    f"{name}: {query!r} not found out",
                    100 * (1 - found.above / len(found.trials.bounds)),
                    "% of audits",
                    f"mean bound {found.reached:.2f} for a share of 1",
                    at_most=5,
                )
            )
    return readings


def _audit(
    level: str,
    query: str,
    *,
    trials: int | None = None,
    build: type[Measurements] = Measurements,
) -> MeasuringAudit:
    at_root = level == LEVELS[0]
    mechanism = TopDown.from_preset("e2e-2018", epsilon=1)
    return audit_measuring(
        mechanism,
        load_schema("e2e-2018"),
        levels=LEVELS,
        level=level,
        query=query,
        runs=ROOT_RUNS if at_root else RUNS,
        trials=trials or (ROOT_TRIALS if at_root else TRIALS),
        build=build,
    )


def _honest(found: MeasuringAudit) -> list[Reading]:
    trials = len(found.trials.bounds)
    where = f"{found.query!r} at {found.level!r}"
    return [
        Reading(
            f"{where}: mean bound, share 1",
            found.reached,
            "epsilon",
            f"total epsilon {float(found.total):.4g}, {found.trials.runs:,} runs a side",
        ),
        Reading(
            f"{where}: bounds above the share",
            found.above,
            f"of {trials}, confidence 95 %",
            f"chance of so many or more: {found.p_value:.2g}",
        ),
    ]
