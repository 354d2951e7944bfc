"""Neighbouring input files of every kind: nothing moves beyond the plan; wrong plans are seen."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import neighbours
from benchmarks.neighbour_files import PLACES, WITH_HOUSEHOLDS
from benchmarks.neighbours import MECHANISMS, NeighbourCase, combinations, run_case, units_for
from headcount.config.load import load_config
from headcount.noise import TwoSidedGeometric
from headcount.privacy import Guarantee, UnitOfPrivacy
from headcount.registry import MECHANISMS as KNOWN
from headcount.registry import POPULATIONS
from headcount.run.protect import prepare_data
from headcount.schema.schema import ALONE
from tests.support.neighbour_homes import DwellingFiles, Home, drawn_dwellings

SEEDS = st.integers(0, 2**32 - 1)
SLOW = ("workload-s", "us1940")  # tens of thousands of units, hundreds of cells


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.ERROR)


def test_every_kind_of_population_has_its_files():
    assert set(PLACES) == set(POPULATIONS.names())
    losing = {"geometric", "raked", "averaged", "histogram", "topdown"}
    assert {name.split("-")[0] for name in MECHANISMS} == losing <= set(KNOWN.names())
    for kind in WITH_HOUSEHOLDS:
        persons = {unit for unit in UnitOfPrivacy if not unit.of_housing_unit}
        assert set(units_for(kind, "raked")) == persons
    homes = UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE
    assert units_for("h1-2020", "raked") == (homes,)


@pytest.mark.parametrize(("kind", "mechanism", "unit"), list(combinations()))
def test_nothing_moves_beyond_the_plan(kind: str, mechanism: str, unit: UnitOfPrivacy):
    @settings(max_examples=1 if kind in SLOW else 2, deadline=None)
    @given(seed=SEEDS)
    def holds(seed: int) -> None:
        # A seed whose files are not read, or have no neighbour, makes room for the next.
        case = next(
            filter(None, (run_case(kind, mechanism, unit, seed=s) for s in (seed, 1, 2, 3)))
        )
        assert not case.above, case

    holds()


def cases(kind: str, mechanism: str, unit: UnitOfPrivacy) -> Iterator[NeighbourCase]:
    for seed in range(40):
        if (case := run_case(kind, mechanism, unit, seed=seed)) is not None:
            yield case


@pytest.mark.parametrize("unit", UnitOfPrivacy)
def test_some_neighbours_move_as_far_as_the_plan_says(unit: UnitOfPrivacy):
    """So the check has an edge: a plan that says one less would be seen."""
    kind = "h1-2020" if unit.of_housing_unit else "households"
    assert any(case.full and case.unit is unit for case in cases(kind, "geometric", unit))


def test_a_person_who_moves_changes_two_housing_units_and_no_more():
    homes = UnitOfPrivacy.HOUSING_UNIT_CHANGE_ONE
    found = (run_case("h1-2020", "topdown-rho", homes, seed=seed) for seed in range(8))
    moved = [case for case in found if case is not None and case.unit is not homes]
    assert {case.unit for case in moved} == {UnitOfPrivacy.CHANGE_ONE}
    assert any(case.full for case in moved)
    assert not any(case.above for case in moved)


@pytest.mark.parametrize("mechanism", ["geometric", "topdown", "topdown-rho"])
def test_a_plan_without_housemates_is_seen(mechanism: str, monkeypatch: pytest.MonkeyPatch):
    """What the stated losses were before: one person, one count."""
    for where in ("mechanisms._measured", "topdown.settings"):
        monkeypatch.setattr(f"headcount.{where}.steps_of_all", lambda attributes: ALONE)
    assert any(case.above for case in cases("households", mechanism, UnitOfPrivacy.ADD_REMOVE))


def test_a_square_that_was_doubled_in_place_of_its_root_is_seen(monkeypatch: pytest.MonkeyPatch):
    """With sizes to 5 a changed record has l2^2 of 98, not 82."""

    def doubled(unit, steps):
        largest = steps[-1][0]
        once = 2 * largest - 1, largest**2 + (largest - 1) ** 2
        return once if unit.adds else (2 * once[0], 2 * once[1])

    place = five_and_four()
    unit = UnitOfPrivacy.CHANGE_ONE

    monkeypatch.setattr(neighbours, "PLACES", {"households": lambda rng: place})

    def compared() -> NeighbourCase:
        return next(c for c in cases("households", "topdown-rho", unit) if c.unit is unit)

    case = compared()
    assert not case.above
    assert max(one.l2_squared for one in case.moved if one.query == "cells") == 98
    monkeypatch.setattr("headcount.privacy.sensitivity._person", doubled)
    assert compared().above


class FiveAndFour(DwellingFiles):
    """Someone leaves a household of five for one of three, all of them alike."""

    def step(self, unit: UnitOfPrivacy, rng: np.random.Generator) -> None:
        self.homes[1].people.append(self.homes[0].people.pop())


def five_and_four() -> FiveAndFour:
    drawn = drawn_dwellings(np.random.default_rng(0))
    one = ("f", "old")
    homes = [Home(0, "household", "own", [one] * 5), Home(0, "household", "own", [one] * 3)]
    return FiveAndFour(
        homes,
        drawn.units,
        drawn.persons,
        drawn.kinds,
        ("1", "2", "3", "4", "5"),
        ("sex", "household_size"),
    )


def test_households_that_count_half_are_seen(monkeypatch: pytest.MonkeyPatch):
    def half(unit, largest, *, alone):
        return largest, largest**2

    monkeypatch.setattr("headcount.privacy.sensitivity._household", half)
    unit = UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE
    assert any(case.above for case in cases("households", "geometric", unit))


def test_households_that_are_not_cut_are_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headcount.mechanisms.Chain.cut", lambda _chain, data: data)
    monkeypatch.setattr("headcount.mechanisms._chain.refuse_uncut", lambda *_given, **_named: None)
    unit = UnitOfPrivacy.HOUSEHOLD_ADD_REMOVE
    assert any(case.above for case in cases("households", "geometric", unit))


def test_a_household_of_five_against_four(tmp_path: Path):
    """The case that was found: nine counts move where one was stated."""
    place = five_and_four()
    counts = []
    for name in ("five", "four"):
        (tmp_path / name).mkdir()
        text = place.write(tmp_path / name)
        config = tmp_path / name / "config.toml"
        mechanism = 'name = "geometric"\nepsilon = 1\nunit = "add-remove"\ncount_housemates = true'
        config.write_text(f'[population]\n{text}\n[mechanism]\n{mechanism}\n[run]\nout = "out"\n')
        planned = prepare_data(load_config(config))
        counts.append(planned.counts.dense())
        place.homes[0].people.pop()
    assert np.abs(counts[0] - counts[1]).sum() == 9
    (leaf,) = planned.mechanism.on(planned.counts.domain).plan
    assert leaf.sensitivity(UnitOfPrivacy.ADD_REMOVE).l1 == 9
    assert leaf.law == TwoSidedGeometric(Fraction(1, 9))


def test_the_benchmark_counts_pairs_and_tells_what_was_above(monkeypatch: pytest.MonkeyPatch):
    few = [("microdata", "geometric", UnitOfPrivacy.ADD_REMOVE)]
    monkeypatch.setattr(neighbours, "combinations", lambda: few)
    readings = {one.what: one for one in neighbours.measure(cases=3)}
    assert readings["kinds x mechanisms x units"].value == 1
    assert readings["all: pairs above the plan"].value == 0
    assert readings["all: pairs above the plan"].unit == "of 3"
    monkeypatch.setattr("headcount.privacy.sensitivity._person", lambda unit, steps: (0, 0))
    monkeypatch.setattr("benchmarks.neighbours._loss", lambda *_a, **_k: 1)
    one_law = TwoSidedGeometric(Fraction(1))
    monkeypatch.setattr("headcount.mechanisms._noisy.law_of_all", lambda *_a, **_k: one_law)
    nothing = Guarantee.none("nothing is said to move")
    monkeypatch.setattr("headcount.mechanisms._noisy.guarantee_of", lambda *_a, **_k: nothing)
    monkeypatch.setattr("benchmarks.neighbours._stated", lambda *_a, **_k: None)
    readings = {one.what: one for one in neighbours.measure(cases=3)}
    assert readings["all: pairs above the plan"].value == 3
