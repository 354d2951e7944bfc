"""TopDown on the states of 1940: figures are printed, and the recheck sees what is broken."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks import topdown_1940
from benchmarks.recheck import constraints, recheck
from benchmarks.topdown_1940 import measure, run_nation
from headcount.errors import PrivacyError
from headcount.tabulate import Counts, tabulate
from headcount.topdown.restrict import restrict

STATES = ("DE", "NV")


@pytest.fixture(scope="module")
def population():
    return topdown_1940._population(STATES)


def tables(counts: Counts) -> dict[str, object]:
    """The truth as a release."""
    return {level: counts.at(level).matrix.copy() for level in counts.geography.levels}


def broken(found) -> dict[str, int]:
    return {kind: bad for kind, (_, bad) in found.items() if bad}


def test_two_states_are_released_measured_and_rechecked():
    readings = run_nation(Fraction(1), states=STATES)
    by_name = {one.what.strip(): one for one in readings}
    assert by_name["people"].note.startswith("state 2, county 20, ")
    assert by_name["measure, optimise and round at epsilon 1"].value > 0
    assert 0 < by_name["peak memory of the process"].value < 8
    assert by_name["constraints that are exact"].value == 100
    assert by_name["constraints that are exact"].note.startswith("0 broken of ")
    assert by_name["estimated parents that their children changed"].value == 0
    assert by_name["county: parents solved"].value == 2
    assert "Newton steps" in by_name["enumeration_district: parents solved"].note


def test_the_truth_breaks_nothing_and_constraints_are_counted(population):
    found = recheck(population, tables(tabulate(population)), exact="state")
    assert not broken(found)
    units = [len(codes) for codes in population.geography.units]
    assert found["bounds by type"][0] == 2 * 8 * sum(units)
    assert found["exact totals"][0] == 1 + 2
    assert found["sums over children"][0] == 192 * sum(units[:-1])


def test_constraints_are_those_of_the_mechanism(population):
    from headcount.topdown.mechanism import TopDown

    mechanism = TopDown.from_preset("e2e-2018", epsilon=1)
    counts = tabulate(population)
    theirs = restrict(mechanism, {level: counts.at(level) for level in counts.geography.levels})
    low, high, total = constraints(population, exact="state")
    for level, restrictions in theirs.items():
        by_query = {one.query.name: one for one in restrictions}
        assert np.array_equal(by_query["hhgq"].low, low[level])
        assert np.array_equal(by_query["hhgq"].high, high[level])
        assert ("total" in by_query) == (level in total)
        if level in total:
            assert np.array_equal(by_query["total"].low[:][:, 0], total[level])


def test_one_person_too_many_is_seen_at_every_level(population):
    counts = tabulate(population)
    for level in counts.geography.levels[:2]:
        made = tables(counts)
        made[level].data[0] += 1  # type: ignore[attr-defined]
        found = broken(recheck(population, made, exact="state"))
        assert found["exact totals"] == 1
        assert found["sums over children"] == (1 if level == "nation" else 2)


def test_a_person_where_nobody_can_live_and_one_below_zero_are_seen(population):
    counts = tabulate(population)
    leaf = counts.geography.leaf
    made = tables(counts)
    dense = counts.dense()
    occupied = population.quarters.occupied
    unit = int(np.flatnonzero(occupied[:, 7] == 0)[0])
    dense[unit, -1] = 1
    dense[unit, 0] -= 1
    made[leaf] = type(counts.matrix)(dense)
    found = broken(recheck(population, made, exact="state"))
    assert found["bounds by type"] == 1
    assert found["sums over children"] == 2
    made[leaf].data[3] = -1  # type: ignore[attr-defined]
    assert broken(recheck(population, made, exact="state"))["no count below 0"] == 1


@pytest.mark.parametrize(("epsilon", "message"), [(0, "above 0"), ("x", "a finite number")])
def test_epsilon_is_checked_before_anything_runs(epsilon, message: str):
    with pytest.raises(PrivacyError, match=f"--epsilon: found .*{message}"):
        measure(epsilon=epsilon)


def test_the_nation_runs_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch):
    import os

    monkeypatch.setattr(topdown_1940, "run_nation", _process_number)
    (reading,) = measure(epsilon="1/4")
    assert reading.value != os.getpid()
    assert reading.what == "1/4"


def _process_number(epsilon: Fraction, *, states: object):
    import os

    from benchmarks.figures import Reading

    return [Reading(str(epsilon), os.getpid(), "process")]
