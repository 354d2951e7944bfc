"""Units of privacy: what a plan counts, what is refused, and households that are cut."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, PrivacyError, TruthError
from headcount.geography import regular
from headcount.mechanisms import Chain, Geometric, protect
from headcount.noise import TwoSidedGeometric
from headcount.population import Population, cut_households
from headcount.population.from_households import to_population
from headcount.population.population import Households
from headcount.population.towns import towns
from headcount.privacy import PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.schema import Attribute, Follows, Recode
from headcount.tabulate import Tabulated, tabulate
from headcount.topdown.mechanism import TopDown
from headcount.typed import from_table
from headcount_papers.averaged import Averaged
from headcount_papers.histogram import Histogram
from headcount_papers.raked import Raked
from headcount_papers.workload_s import workload_s

HOUSEHOLD = UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE
SEX = Attribute("sex", ("f", "m"))
TENURE = Attribute("tenure", ("own", "rent", "none"), Follows.DWELLING)
SIZE = Attribute("household_size", ("1", "2", "3", "4+", "none"), Follows.SIZE)
CHILDREN = Attribute("children", ("yes", "no", "none"), Follows.MEMBERS)
NOISY: list[Any] = [Geometric, Averaged, Raked, Histogram]


def village(*, sizes=(1, 2, 5, 4, 3), more: dict[str, Any] | None = None) -> Households:
    """Households of these sizes in four blocks, then a home with six people."""
    people = np.array([*sizes, 6])
    home = np.arange(len(people)) < len(sizes)
    first = np.concatenate([[0], np.cumsum(people)])
    codes = {
        "tenure": np.where(home, np.arange(len(people)) % 2, 2),
        "household_size": np.where(home, np.minimum(people, 4) - 1, 4),
        "children": np.where(home, np.arange(len(people)) % 2, 2),
    } | (more or {})
    return Households(
        "village",
        regular(children=2, depth=2),
        (SEX,),
        (TENURE, SIZE, CHILDREN),
        ("household", "vacant", "nursing"),
        (np.arange(len(people)) % 4).astype(np.int32),
        np.where(home, 0, 2).astype(np.int8),
        first,
        {"sex": (np.arange(first[-1]) % 2).astype(np.int16)},
        {name: code.astype(np.int16) for name, code in codes.items()},
    )


def people(*attributes: str, **changed: Any) -> Population:
    return to_population(village(**changed), attributes)


def topdown(**settings: Any) -> TopDown:
    return from_table(
        TopDown,
        {
            "queries": {
                "cells": {"share": "1/2"},
                "sex": {"by": ["sex"], "share": "1/4"},
                "home": {"by": ["alone"], "share": "1/4"},
            },
            "recodes": {
                "alone": {
                    "of": "household_size",
                    "groups": {"1": ["1"], "2+": ["2", "3", "4+"], "none": ["none"]},
                }
            },
            **settings,
        },
        source="topdown",
    )


@pytest.mark.parametrize("mechanism", NOISY)
def test_a_size_in_the_schema_is_refused_and_both_ways_out_are_named(mechanism):
    population = people("sex", "household_size")
    counts = tabulate(population)
    with pytest.raises(ConfigError) as refused:
        mechanism(epsilon=1).on(counts.domain)
    said = str(refused.value)
    assert said.startswith(f"{mechanism.name}: attribute 'household_size': found an attribute that")
    assert "one person more or less changes the record of every housemate" in said
    assert "mechanism.count_housemates = true" in said
    assert "moves up to 14 counts in place of 2" in said
    assert 'mechanism.unit = "household-change-one" with mechanism.largest_household' in said
    with pytest.raises(ConfigError, match="moves up to 7 counts in place of 1"):
        mechanism(epsilon=1, unit="add-remove").on(counts.domain)
    with pytest.raises(ConfigError, match="changes the record of every housemate"):
        protect(population, mechanism(epsilon=1))


def test_topdown_refuses_it_too_and_an_infinite_epsilon_promises_nothing():
    counts = tabulate(people("sex", "household_size"))
    with pytest.raises(ConfigError, match=r"topdown: attribute 'household_size': found an attr"):
        topdown(epsilon=1).on(counts.domain).check(counts)
    assert topdown(epsilon="inf").on(counts.domain).check(counts) == ()  # not refused


@pytest.mark.parametrize("mechanism", NOISY)
@pytest.mark.parametrize(
    ("settings", "l1"),
    [
        ({"count_housemates": True}, 14),
        ({"count_housemates": True, "unit": "add-remove"}, 7),
        ({"unit": "household-change-one", "largest_household": 3}, 6),
        ({"unit": "household-add-remove", "largest_household": 3}, 3),
    ],
)
def test_epsilon_is_spent_exactly_under_every_unit(mechanism, settings, l1):
    population = people("sex", "household_size")
    made = mechanism(epsilon=Fraction(1, 3), **settings)
    assert (
        eval(
            repr(made),
            {"UnitOfPrivacy": UnitOfPrivacy, "Fraction": Fraction, mechanism.__name__: mechanism},
        )
        == made
    )
    plan = made.on(population.domain).plan
    laws = {one.law for one in plan}
    assert laws == {TwoSidedGeometric(Fraction(1, 3) / sum(one.draws * l1 for one in plan))}
    release = protect(population, made)
    assert release.guarantee.losses[0] == PureLoss(epsilon=Fraction(1, 3), unit=made.unit)
    assert [loss.unit for loss in release.guarantee.losses] == list(made.unit.pair)


@pytest.mark.parametrize(
    ("settings", "cells", "sex", "home"),
    [
        ({"count_housemates": True}, (14, 56), (2, 2), (6, 10)),
        ({"count_housemates": True, "unit": "add-remove"}, (7, 25), (1, 1), (3, 5)),
        ({"unit": "household-change-one", "largest_household": 3}, (6, 18), (6, 18), (6, 18)),
        ({"unit": "household-add-remove", "largest_household": 3}, (3, 9), (3, 9), (3, 9)),
    ],
)
@pytest.mark.parametrize("loss", [{"epsilon": 2}, {"rho": "1/2"}])
def test_topdown_counts_what_each_of_its_queries_asks_for(settings, cells, sex, home, loss):
    population = people("sex", "household_size")
    made = topdown(**loss, **settings, report_epsilon="0.01")
    plan = made.on(population.domain).plan
    unit = made.neighbours.unit
    for one in plan:
        moved = one.sensitivity(unit)
        stated = {"cells": cells, "sex": sex, "home": home}
        expected = stated.get(one.query, (cells[0], cells[0] ** 2))  # the distance to the truth
        assert (moved.l1, moved.l2_squared) == expected
    amount = made.on(population.domain).guarantee.losses[0]
    report = Fraction(1, 100)
    whole = 2 + report if "epsilon" in loss else Fraction(1, 2) + report**2 / 2
    kind = PureLoss if "epsilon" in loss else ZCDPLoss
    assert isinstance(amount, kind)
    assert amount.amount == whole
    released = protect(population, made)
    assert "distance to the truth, share of people" in released.notes


def test_what_follows_from_who_they_are_needs_the_household_as_the_unit():
    data = Tabulated.of(people("sex", "children"))
    for settings in ({}, {"count_housemates": True}, {"unit": "add-remove"}):
        with pytest.raises(
            ConfigError, match="'children': found an attribute that follows from"
        ) as no:
            Chain.of(Geometric(epsilon=Fraction(1), **settings)).on(data.counts.domain).check(data)
        assert "count_housemates" not in str(no.value)
        assert 'mechanism.unit = "household-change-one"' in str(no.value)
    household = Geometric(epsilon=Fraction(1), unit=HOUSEHOLD, largest_household=5)
    assert Chain.of(household).on(data.counts.domain).check(data) == ()


def test_what_follows_from_all_in_group_quarters_is_nobodys_there():
    """People in group quarters are units of their own, and would change all others' records."""
    household = Geometric(epsilon=Fraction(1), unit=HOUSEHOLD, largest_household=5)
    shared = village().dwellings["children"].copy()
    shared[-1] = 0
    data = Tabulated.of(people("sex", "children", more={"children": shared}))
    message = "'children': found a level that may follow from everyone in the same group quarters"
    with pytest.raises(InputError, match=message) as no:
        Chain.of(household).on(data.counts.domain).check(data)
    assert "expected 'none' for people in group quarters" in str(no.value)
    rent = village().dwellings["tenure"].copy()
    rent[-1] = 1  # the dwelling's own, whoever lives there
    assert (
        Chain.of(household)
        .on(Tabulated.of(people("sex", "tenure", more={"tenure": rent})).counts.domain)
        .check(Tabulated.of(people("sex", "tenure", more={"tenure": rent})))
        == ()
    )


def test_a_dwelling_attribute_about_which_nothing_was_said_is_refused():
    silent = replace(village(), dwelling_attributes=(Attribute("tenure", TENURE.levels), SIZE))
    data = Tabulated.of(to_population(silent, ["sex", "tenure"]))
    with pytest.raises(
        ConfigError, match="'tenure': found no statement of whether it changes"
    ) as no:
        Chain.of(Geometric(epsilon=Fraction(1))).on(data.counts.domain).check(data)
    for way in ('"dwelling"', '"size"', '"members"', 'follows = "person"'):
        assert way in str(no.value)
    household = Geometric(epsilon=Fraction(1), unit=HOUSEHOLD, largest_household=5)
    assert Chain.of(household).on(data.counts.domain).check(data) == ()
    assert (
        Chain.of(Geometric(epsilon=Fraction(1)))
        .on(Tabulated.of(people("sex", "tenure")).counts.domain)
        .check(Tabulated.of(people("sex", "tenure")))
        == ()
    )


def test_a_recode_of_a_household_size_is_one_still():
    """Whatever the source of the recode says of itself."""
    plain = Attribute(SIZE.name, SIZE.levels)
    home = Recode.of(plain, "home", {"1": ["1"], "2+": ["2", "3", "4+"], "none": ["none"]})
    data = Tabulated.of(to_population(village(), ["sex", home]))
    with pytest.raises(ConfigError, match="attribute 'home': found an attribute that follows"):
        Chain.of(Geometric(epsilon=Fraction(1))).on(data.counts.domain).check(data)
    counted = Geometric(epsilon=Fraction(1), count_housemates=True)
    (leaf,) = counted.on(data.counts.domain).plan
    assert leaf.sensitivity(counted.unit).l1 == 6


HIDDEN = "found a level that follows from the number of people in nearly every household"


@pytest.mark.parametrize(
    ("households", "exceptions", "refused"),
    [(10, 0, True), (10, 1, False), (20, 1, True), (40, 2, True), (40, 3, False), (9, 0, False)],
)
def test_a_dwelling_attribute_that_the_data_show_to_be_the_size(households, exceptions, refused):
    """Of each of two sizes; the exceptions are all of the first."""
    sizes = (1, 2) * households
    by_size = {"tenure": np.array([*(size - 1 for size in sizes), 2])}
    by_size["tenure"][: 2 * exceptions : 2] = 1
    data = Tabulated.of(people("sex", "tenure", sizes=sizes, more=by_size))
    if not refused:
        assert Chain.of(Geometric(epsilon=Fraction(1))).on(data.counts.domain).check(data) == ()
        return
    with pytest.raises(TruthError, match=f"'tenure': {HIDDEN}"):
        Chain.of(Geometric(epsilon=Fraction(1))).on(data.counts.domain).check(data)


def test_two_sizes_that_are_told_apart_are_enough():
    """Larger households, of either tenure, hide nothing of the smaller ones."""
    sizes = (1, 2, 3, 4) * 10
    tenure = [size - 1 if size <= 2 else k // 4 % 2 for k, size in enumerate(sizes)]
    data = Tabulated.of(
        people("sex", "tenure", sizes=sizes, more={"tenure": np.array([*tenure, 2])})
    )
    with pytest.raises(TruthError, match=f"'tenure': {HIDDEN}"):
        Chain.of(Geometric(epsilon=Fraction(1))).on(data.counts.domain).check(data)


def test_a_column_of_persons_that_the_data_show_to_be_the_size_is_refused():
    sizes = (1, 2) * 20
    homes = village(sizes=sizes)
    of_size = np.repeat([*(size - 1 for size in sizes), 0], homes.size).astype(np.int16)
    of_size[1] = 0  # one of a couple, who then differ
    data = Tabulated.of(to_population(replace(homes, persons={"sex": of_size}), ["sex"]))
    with pytest.raises(TruthError, match=f"'sex': {HIDDEN}"):
        Chain.of(Geometric(epsilon=Fraction(1))).on(data.counts.domain).check(data)
    mixed = village(sizes=sizes)  # couples of both sexes
    assert (
        Chain.of(Geometric(epsilon=Fraction(1)))
        .on(Tabulated.of(to_population(mixed, ["sex"])).counts.domain)
        .check(Tabulated.of(to_population(mixed, ["sex"])))
        == ()
    )


@pytest.mark.parametrize(
    "make", [lambda: workload_s(households=5_000), lambda: towns(people=10_000)]
)
def test_what_populations_have_is_not_taken_for_the_size(make):
    """Every attribute but those that follow from the household, one by one."""
    homes = make()
    own = (Follows.DWELLING, Follows.PERSON)
    for attribute in (*homes.person_attributes, *homes.dwelling_attributes):
        if attribute.follows in own:
            data = Tabulated.of(to_population(homes, [attribute.name]))
            assert Chain.of(Geometric(epsilon=Fraction(1))).on(data.counts.domain).check(data) == ()


@pytest.mark.parametrize("wrong", [0, 5])
def test_a_size_that_is_not_the_number_of_people_is_refused(wrong):
    """A household with another's level, and a nursing home with a number."""
    size = village().dwellings["household_size"].copy()
    size[wrong] = 1
    with pytest.raises(InputError, match="found a level that is not that of the number of people"):
        people("sex", "household_size", more={"household_size": size})


def test_households_are_cut_to_the_first_of_their_people():
    population = people("sex", "household_size")
    cut = cut_households(population, largest=3)
    assert cut.households is not None
    assert cut.households.size.tolist() == [1, 2, 3, 3, 3, 6]  # a nursing home is no household
    assert len(cut.unit) == 18
    kept = [0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 13, 14, *range(15, 21)]
    assert population.households is not None
    sex = population.households.persons["sex"]
    assert cut.households.persons["sex"].tolist() == sex[kept].tolist()
    assert cut.cell.tolist() == population.cell[kept].tolist()
    assert cut_households(population, largest=5) is population
    with pytest.raises(InputError, match="households: found none, expected people in dwellings"):
        cut_households(replace(population, households=None), largest=3)


def test_the_cut_of_a_household_depends_on_that_household_alone():
    both = people("sex", sizes=(5, 4, 2))
    one = people("sex", sizes=(5, 4))
    for population in (both, one):
        cut = cut_households(population, largest=3)
        assert cut.households is not None
        assert cut.households.persons["sex"][:6].tolist() == [0, 1, 0, 1, 0, 1]


def check_people(made: Any, population: Population) -> None:
    Chain.of(made).on(population.domain).check_people(population)


@pytest.mark.parametrize("mechanism", [*NOISY, topdown])
def test_households_as_units_must_be_known_and_cut(mechanism):
    settings = {"unit": "household-change-one", "largest_household": 3}
    made = mechanism(epsilon=1, **settings)
    population = people("sex", "household_size")
    with pytest.raises(InputError, match="largest_household: found a larger household"):
        check_people(made, population)
    for refuse in (check_people, lambda made, people: protect(people, made)):
        with pytest.raises(ConfigError, match="'household-change-one' for data without households"):
            refuse(made, replace(population, households=None))
    assert "a person in group quarters is a unit of their own" in " ".join(
        protect(population, made).guarantee.sentences()
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "household-add-remove"}, "largest_household: found nothing with unit 'househ"),
        ({"largest_household": 4}, "largest_household: found 4 with unit 'change-one', expect"),
        ({"unit": "household-change-one", "largest_household": 0}, "found 0, expected 1 to 1,00"),
        (
            {"unit": "household-change-one", "largest_household": 4, "count_housemates": True},
            "count_housemates: found true with unit 'household-change-one', expected it with a",
        ),
    ],
)
@pytest.mark.parametrize("mechanism", NOISY)
def test_settings_that_do_not_go_together(mechanism, settings, message):
    with pytest.raises(PrivacyError, match=f"{mechanism.name}: .*{message}"):
        mechanism(epsilon=1, **settings)


def test_what_is_counted_exactly_leaves_only_changes_of_households():
    """One household more or less changes totals and living quarters."""
    household = {"unit": "household-add-remove", "largest_household": 3}
    total = {"invariant": [{"query": "sex", "level": "whole"}]}
    with pytest.raises(ConfigError, match="one household more or less changes every invariant"):
        topdown(epsilon=1, **household, **total)
    quarters = {"bounds": [{"query": "kind", "caps": [9, 99]}]}
    kinds = {"queries": {"cells": {"share": 1}, "kind": {"by": ["hhgq"]}}, "recodes": {}}
    with pytest.raises(ConfigError, match="changes the number of living quarters"):
        topdown(epsilon=1, **household, **quarters, **kinds)
    changed = household | {"unit": "household-change-one"}
    stated = (
        topdown(epsilon=1, **changed, **total)
        .on(Domain(people("sex", "household_size").schema, regular(children=2, depth=2)))
        .guarantee
    )
    assert stated.losses == (PureLoss(epsilon=Fraction(1), unit=HOUSEHOLD),)
