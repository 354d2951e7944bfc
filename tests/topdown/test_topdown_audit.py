"""The audit of the measuring step, and the wrong builds that it catches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headcount.arrays import Ints
from headcount.errors import ConfigError
from headcount.noise import Law, Stream, TwoSidedGeometric
from headcount.noise.source import DrawPositions
from headcount.schema import load_schema
from headcount.tabulate import CELLS
from headcount.topdown.measure import Measurements
from headcount.topdown.mechanism import TopDown
from tests.support.measuring_audit import audit_measuring
from tests.topdown.small import SCHEMA, pure, run, settings, village

E2E = load_schema("e2e-2018")
PRESET = TopDown.from_preset("e2e-2018", epsilon=1)
LEVELS = ("nation", "state", "county", "district")
QUERIES = (CELLS, "hhgq", "va_hisp_race")


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

    def picker(self, level: str, unit: Ints) -> Callable[[str, Ints, Ints], Ints]:
        exact, noisy = self._exact().picker(level, unit), super().picker(level, unit)
        return lambda *asked: np.where(exact(*asked) == 0, 0, noisy(*asked))

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


def audited(level, query, **other):
    return audit_measuring(PRESET, E2E, levels=LEVELS, level=level, query=query, **other)


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("query", QUERIES)
def test_a_share_of_one_is_reached_and_not_exceeded(level, query):
    found = audited(level, query, runs=2_000, trials=15)
    shares = {"cells": "0.1", "hhgq": "0.225", "va_hisp_race": "0.675"}
    assert found.total == 4 / Fraction(shares[query])
    assert found.p_value > 0.01  # at most a twentieth of the bounds above 1
    assert found.reached >= 0.8


@pytest.mark.parametrize("query", QUERIES)
def test_the_root_is_audited_run_by_run(query):
    found = audited("nation", query, runs=500, trials=2)
    assert found.trials.bounds.max() <= 1.1
    assert found.reached >= 0.5


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("build", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_build_is_caught_every_time(build, query):
    found = audited("district", query, runs=2_000, trials=4, build=build)
    assert found.above == 4
    assert found.p_value < 1e-4


def test_the_estimate_asks_through_the_function_that_is_audited(monkeypatch):
    def stop(*_: object) -> None:
        raise ZeroDivisionError("picked")

    monkeypatch.setattr(Measurements, "picker", stop)
    with pytest.raises(ZeroDivisionError, match="picked"):
        run(settings(pure(1)), village())


def test_other_schemas_and_shares_can_be_audited():
    found = audit_measuring(
        settings(pure(1)),
        SCHEMA,
        levels=("all", "part"),
        level="part",
        query="age",
        runs=2_000,
        trials=10,
    )
    assert found.total == 4
    assert found.p_value > 0.01
    assert found.reached >= 0.8


def test_what_is_not_measured_or_cannot_change_is_refused():
    with pytest.raises(ConfigError, match="'total' at 'district': found no share, expected"):
        audited("district", "total")
    alone = settings(pure(1), query_shares=(("total", Fraction(1)),))
    with pytest.raises(ConfigError, match="query 'total': found first and last cell in one group"):
        audit_measuring(alone, SCHEMA, levels=("all", "part"), level="part", query="total")
