"""The audit of the measuring step, smaller than the benchmark, and the wrong builds it catches."""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks import topdown_audit
from benchmarks.topdown_audit import LEVELS, MUTANTS, QUERIES
from headcount.errors import ConfigError
from headcount.mechanisms.topdown.measure import Measurements
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.schema import load_schema
from tests.mechanisms.topdown.small import SCHEMA, pure, run, settings, village
from tests.support.measuring_audit import audit_measuring

E2E = load_schema("e2e-2018")
PRESET = TopDown.from_preset("e2e-2018", epsilon=1)


def audited(level, query, **other):
    return audit_measuring(PRESET, E2E, levels=LEVELS, level=level, query=query, **other)


@pytest.mark.parametrize(
    ("level", "query"),
    [("district", "cells"), ("district", "hhgq"), ("county", "va_hisp_race"), ("state", "hhgq")],
)
def test_a_share_of_one_is_reached_and_not_exceeded(level, query):
    found = audited(level, query, runs=2_000, trials=15)
    shares = {"cells": "0.1", "hhgq": "0.225", "va_hisp_race": "0.675"}
    assert found.total == 4 / Fraction(shares[query])
    assert found.p_value > 0.01  # at most a twentieth of the bounds above 1
    assert found.reached >= 0.8


def test_the_root_is_audited_run_by_run():
    found = audited("nation", "hhgq", runs=500, trials=2)
    assert found.trials.bounds.max() <= 1.1
    assert found.reached >= 0.5


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("build", MUTANTS.values(), ids=MUTANTS)
def test_a_wrong_build_is_caught_every_time(build, query):
    found = audited("district", query, runs=2_000, trials=4, build=build)
    assert found.above == 4
    assert found.p_value < 1e-4


@pytest.mark.parametrize("asked", ["_groups", "_detail"])
def test_the_estimate_asks_through_the_functions_that_are_audited(asked, monkeypatch):
    def stop(*_: object) -> None:
        raise ZeroDivisionError(asked)

    monkeypatch.setattr(Measurements, asked, stop)
    with pytest.raises(ZeroDivisionError, match=asked):
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


def test_the_benchmark_prints_every_query_level_and_wrong_build(monkeypatch):
    for name, value in {
        "RUNS": 200,
        "TRIALS": 2,
        "ROOT_RUNS": 40,
        "ROOT_TRIALS": 1,
        "MUTANT_TRIALS": 1,
    }.items():
        monkeypatch.setattr(topdown_audit, name, value)
    readings = topdown_audit.measure()
    assert len(readings) == 2 * len(LEVELS) * len(QUERIES) + len(MUTANTS) * len(QUERIES)
    assert len({reading.what for reading in readings}) == len(readings)
