"""Chains: any steps that change records, then one that changes tables."""

import json
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import exp, log

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.geography import regular
from headcount.mechanisms import (
    Chain,
    Context,
    Geometric,
    Identity,
    Preserved,
    PreTabular,
    Sampling,
    StepDesign,
    Tabulated,
    mechanism_digest,
    protect,
)
from headcount.mechanisms._chain import _leaves, group_loss
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.targeted_swapping import TargetedSwapping
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population, uniform
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.privacy import ApproximateLoss, Guarantee, PureLoss, UnitOfPrivacy, ZCDPLoss
from headcount.schema import Attribute, Follows, Schema, load_schema
from headcount.tabulate import tabulate
from headcount.topdown.mechanism import TopDown
from headcount.typed import from_table
from headcount_papers.person_swapping.mechanism import PersonSwapping
from headcount_papers.raked import Raked

HALF = Fraction(1, 2)
ADD, CHANGE = UnitOfPrivacy.ADD_REMOVE, UnitOfPrivacy.CHANGE_ONE
EXACT = Sampling(fraction=HALF, exact=True)
AGE = Attribute("age", ("0", "1", "2"))
SCHEMA = Schema((AGE,))
TREE = regular(children=3, depth=2)
SWAP = PersonSwapping(level="level_1", kind="random", rate=HALF)


def town(rows=200, schema=SCHEMA):
    rng = np.random.default_rng(1)
    unit = rng.integers(0, 9, rows).astype(np.int32)
    return Population("town", Domain(schema, TREE), unit, rng.integers(0, 3, rows).astype(np.int32))


def keyed(seed=1, label="test"):
    return KeyedNoise(RunKey.from_seed(seed), label, b"data", b"config")


# --- how a chain is made -------------------------------------------------------------------------


def test_a_chain_is_made_from_a_method_a_list_or_itself():
    noisy = Geometric(epsilon=Fraction(1))
    assert Chain.of(noisy) == Chain((), noisy)
    assert Chain.of(EXACT) == Chain((EXACT,), Identity()) == Chain.of([EXACT, Identity()])
    both = Chain.of([EXACT, SWAP, noisy])
    assert both == Chain((EXACT, SWAP), noisy) == Chain.of(both)
    assert both.name == "sampling+person-swapping+geometric"
    assert Chain.of([EXACT, SWAP]).name == "sampling+person-swapping"


def test_a_chain_of_one_speaks_as_the_method_alone():
    for one in (EXACT, SWAP, Geometric(epsilon=Fraction(1)), Identity()):
        chain = Chain.of(one)
        assert chain.single
        assert repr(chain) == repr(one)
        assert chain.name == one.name
        assert chain.draws_noise == one.draws_noise
        assert chain.on(Domain(SCHEMA, TREE)).guarantee == one.on(Domain(SCHEMA, TREE)).guarantee
        assert mechanism_digest(chain) == mechanism_digest(one)


def test_the_repr_of_a_chain_makes_it_again():
    chain = Chain((EXACT, Sampling(fraction=HALF)), Geometric(epsilon=Fraction(1)))
    names = {n: globals()[n] for n in ("Chain", "Sampling", "Geometric", "Fraction")}
    assert eval(repr(chain), {**names, "UnitOfPrivacy": UnitOfPrivacy}) == chain


def test_wrong_orders_are_refused():
    noisy = Geometric(epsilon=Fraction(1))
    with pytest.raises(ConfigError, match="geometric: found a method that changes tables before"):
        Chain.of([noisy, EXACT])
    with pytest.raises(ConfigError, match="mechanism: found no step, expected at least one"):
        Chain.of([])
    households = HouseholdSwapping(rate=HALF)
    with pytest.raises(ConfigError, match="swapping: found a step that needs households after 'sa"):
        Chain.of([EXACT, households])
    with pytest.raises(ConfigError, match="that needs households after 'person-swapping', which"):
        Chain.of([SWAP, households])
    unit = UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE
    by_household = Geometric(epsilon=Fraction(1), unit=unit, largest_household=3)
    with pytest.raises(ConfigError, match="geometric: found a step that needs households after"):
        Chain.of([EXACT, by_household])
    assert Chain.of([households, EXACT]).weight == 2


def test_what_makes_no_sense_for_a_sample_is_refused_before_data_are_read():
    with pytest.raises(ConfigError, match=r"found a sample \(sampling\), whose people stand for 2"):
        Chain.of([EXACT, Suppression()])
    with pytest.raises(ConfigError, match="invariants and bounds: found a sample"):
        Chain.of([EXACT, topdown(invariant=[TOTAL])])
    assert Chain.of([EXACT, topdown()]).weight == 2
    Chain.of([SWAP, topdown(invariant=[TOTAL])])  # everybody is there


TOTAL = {"level": "whole", "query": "total"}


def topdown(**settings):
    table = {"epsilon": 1, "queries": {"cells": {"share": 1}, "total": {"by": []}}, **settings}
    return from_table(TopDown, table, source="test")


# --- noise ---------------------------------------------------------------------------------------


def test_two_equal_steps_never_share_a_draw():
    """With the same noise a second sample of a half would take the half that is there."""
    once = Chain((EXACT,))
    twice = Chain((EXACT, EXACT))
    data = Tabulated.of(town())
    first = once.on(data.counts.domain).changed(data, keyed(), run=0, context=Context())
    second = twice.on(data.counts.domain).changed(data, keyed(), run=0, context=Context())
    assert first.totals().sum() == 100
    assert second.totals().sum() == 50
    other = once.on(data.counts.domain).changed(
        data, keyed(label="other"), run=0, context=Context()
    )
    assert not np.array_equal(first.dense(), other.dense())


def test_the_noise_of_the_last_step_is_bound_to_the_steps_before_it():
    """Two samples of the same people with the same noise would differ by the truth alone."""
    noisy, source, found = Geometric(epsilon=Fraction(1, 10)), keyed(), []
    for step in (EXACT, Sampling(fraction=Fraction(1), exact=True)):
        chain = Chain((step,), noisy)
        counts = chain.on(town().domain).changed(
            Tabulated.of(town()), source, run=0, context=Context()
        )
        release = protect(town(), chain, source)
        found.append(release.at("level_2") / float(chain.weight) - counts.dense())
    assert not np.array_equal(found[0], found[1])
    alone = protect(town(), noisy, source).at("level_2") - tabulate(town()).dense()
    assert not np.array_equal(alone, found[0])


def test_the_key_gives_a_resumed_chain_the_same_release():
    chain, key = Chain((EXACT,), Geometric(epsilon=Fraction(1))), RunKey.from_os()
    first, again = (
        protect(town(), chain, KeyedNoise(key, chain.name, Tabulated.of(town()).digest, b""))
        for _ in range(2)
    )
    assert np.array_equal(first.at("level_2"), again.at("level_2"))
    assert "cannot break the encryption" in " ".join(first.guarantee.sentences())


def test_a_run_of_a_chain_is_that_run_alone():
    chain = Chain((EXACT, SWAP), Raked(epsilon=Fraction(1)))
    runs = list(
        chain.on(Tabulated.of(town()).counts.domain).outcomes(
            Tabulated.of(town()), keyed(), runs=range(3)
        )
    )
    for run, outcome in enumerate(runs):
        release = protect(town(), chain, keyed(), run=run)
        for level in TREE.levels:
            assert np.array_equal(release.at(level), outcome.as_counts().dense(level)[0])
    assert len({release.as_counts().dense("level_2").tobytes() for release in runs}) == 3


def test_every_step_leaves_its_trace_in_a_folder_of_its_own(tmp_path):
    protect(town(), Chain((SWAP, EXACT, SWAP)), keyed(), context=Context(curator=tmp_path))
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == ["1-person-swapping", "2-sampling", "3-person-swapping"]
    first, last = (
        json.loads((tmp_path / name / "swap-report.json").read_text())["0"]
        for name in (folders[0], folders[2])
    )
    assert first["marked"] > last["marked"] > 0


# --- what a chain promises -----------------------------------------------------------------------


def test_losses_scale_by_the_stability_exactly():
    noisy = Geometric(epsilon=Fraction(1, 3), unit=ADD)
    alone = noisy.on(Domain(SCHEMA, TREE)).guarantee
    chain = Chain((EXACT, EXACT), noisy)
    stated = chain.on(Domain(SCHEMA, TREE)).guarantee
    assert [loss.unit for loss in stated.losses] == [ADD, CHANGE]
    assert stated.loss_for(ADD) == PureLoss(epsilon=4 * Fraction(1, 3), unit=ADD)
    assert stated.loss_for(CHANGE) == alone.loss_for(CHANGE)
    (measured,) = chain.on(Domain(SCHEMA, TREE)).plan
    assert measured.loss(ADD) == stated.loss_for(ADD)
    assert measured.loss(CHANGE) == stated.loss_for(CHANGE)
    assert measured.law == noisy.on(Domain(SCHEMA, TREE)).plan[0].law
    said = " ".join(stated.sentences())
    assert "4 when one person is added or removed, 1 when one person's record changes" in said
    assert "Each of them can change at most so many of the records that are then protected" in said
    assert "no credit is taken for the people whom a sample leaves out" in said


def test_a_step_that_changes_totals_leaves_no_claim_that_they_are_exact():
    said = " ".join(Chain.of([SWAP, EXACT]).on(Domain(SCHEMA, TREE)).guarantee.sentences())
    assert "exact" not in said.lower()
    assert "how many people there are, give or take half the weight of a person" in said
    alone = SWAP.on(Domain(SCHEMA, TREE)).guarantee
    assert f"the number of people in each {TREE.leaf}" in alone.released_exactly


def test_a_step_that_stands_twice_gives_its_reason_once():
    said = Chain.of([SWAP, SWAP]).on(Domain(SCHEMA, TREE)).guarantee.why_none
    assert said.count("leaves open which ones") == 1
    noisy = (
        Chain.of([SWAP, SWAP, Geometric(epsilon=Fraction(1))])
        .on(Domain(SCHEMA, TREE))
        .guarantee.why_none
    )
    assert noisy.count("person-swapping: ") == 1


def test_rho_scales_by_the_square():
    table = {"rho": 1, "unit": "add-remove", "queries": {"cells": {"share": 1}}}
    gaussian = from_table(TopDown, table, source="test")
    chain = Chain((EXACT,), gaussian)
    own, stated = (
        gaussian.on(Domain(SCHEMA, TREE)).guarantee,
        chain.on(Domain(SCHEMA, TREE)).guarantee,
    )
    before, after = own.loss_for(ADD), stated.loss_for(ADD)
    assert before is not None
    assert after is not None
    assert after.amount == 4 * before.amount
    parts = [loss for one in chain.on(Domain(SCHEMA, TREE)).plan if (loss := one.loss(ADD))]
    assert sum((loss.amount for loss in parts), Fraction(0)) == after.amount


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_loss_of_a_group(k):
    assert group_loss(PureLoss(epsilon=Fraction(1, 7), unit=ADD), k).amount == Fraction(k, 7)
    assert group_loss(ZCDPLoss(rho=Fraction(1, 7), unit=ADD), k).amount == Fraction(k * k, 7)
    approximate = ApproximateLoss(epsilon=Fraction(1), delta=Fraction(1, 100), unit=ADD)
    if k == 1:
        assert group_loss(approximate, k) == approximate
        return
    with pytest.raises(PrivacyError, match="expected a pure epsilon or a rho: delta grows by a"):
        group_loss(approximate, k)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (SWAP, "person-swapping: who changes places with whom depends on the records of everybody"),
        (
            Sampling(fraction=HALF),
            "sampling: the sample is drawn in floating point, by a generator",
        ),
    ],
)
def test_a_step_without_a_bound_leaves_no_guarantee_and_is_named(step, why):
    chain = Chain((EXACT, step), Geometric(epsilon=Fraction(1)))
    stated = chain.on(Domain(SCHEMA, TREE)).guarantee
    assert not stated.losses
    assert why in stated.why_none
    assert f"The noise of geometric protects the records that {step.name} made" in stated.why_none
    assert "exact sample" not in stated.why_none
    (measured,) = chain.on(Domain(SCHEMA, TREE)).plan
    assert measured.units == ()  # no loss about the people
    release = protect(town(), chain, keyed())
    assert not release.guarantee.exists


def test_attributes_that_follow_from_the_household_leave_no_guarantee():
    size = Attribute("size", ("1", "2", "3"), follows=Follows.SIZE)
    noisy = Geometric(epsilon=Fraction(1), count_housemates=True)
    stated = Chain((EXACT,), noisy).on(Domain(Schema((size,)), TREE)).guarantee
    assert "an attribute follows from the household, and no step's bound counts" in stated.why_none
    assert noisy.on(Domain(Schema((size,)), TREE)).guarantee.losses


def exactly(*steps, schema=SCHEMA, tree=TREE):
    return Chain.of(steps).on(Domain(schema, tree)).guarantee.released_exactly


def test_what_the_last_step_publishes_exactly_is_of_the_people_where_no_step_changes_it():
    ages = {"by_age": {"by": ["age"]}, "total": {"by": []}, "cells": {"share": 1}}
    place = {"level": "level_1", "query": "by_age"}
    top = topdown(queries=ages, invariant=[TOTAL, place])
    assert exactly(top) == ("'total' of every whole", "'by_age' of every level_1")
    assert exactly(SWAP, top) == (
        "'total' of every whole",
        "after person-swapping: 'by_age' of every level_1",
    )
    assert exactly(_Unchanged(), top) == (
        "after unchanged: 'total' of every whole",
        "after unchanged: 'by_age' of every level_1",
    )


HOUSEHOLDS = "the number of households in each level_2"
IN_QUARTERS = "everyone in group quarters, where they live"
BY_SIZE = "the number of households by size in each level_2"
PEOPLE = "the number of people in each level_2"


def within(level):
    return f"every count of each {level}: nobody moves out of it"


def test_what_a_swap_leaves_is_stated_wherever_it_stands_unless_a_later_step_changes_it():
    near = HouseholdSwapping(rate=HALF, key=("size",), within="level_1", between="level_2")
    far = HouseholdSwapping(rate=HALF, key=("size",), between="level_2")
    own = (HOUSEHOLDS, IN_QUARTERS, within("level_1"), BY_SIZE, PEOPLE)
    assert exactly(near) == own
    assert exactly(near, far) == (HOUSEHOLDS, IN_QUARTERS, BY_SIZE, PEOPLE, within("whole"))
    assert exactly(far, near) == (
        HOUSEHOLDS,
        IN_QUARTERS,
        within("whole"),
        BY_SIZE,
        PEOPLE,
        f"after swapping: {within('level_1')}",
    )
    assert exactly(near, SWAP) == (PEOPLE, "the number of people by age in each whole")
    assert exactly(near, EXACT) == ()
    assert exactly(near, Geometric(epsilon=Fraction(1))) == ()


def test_what_a_swap_leaves_is_published_as_far_as_suppression_does():
    swap = HouseholdSwapping(rate=HALF, key=("size",))
    said = exactly(swap, Suppression(), schema=load_schema(RACES))
    assert f"{PEOPLE}, as far as suppression publishes it" in said
    assert all(what.endswith(", as far as suppression publishes it") for what in said)


@pytest.mark.parametrize(
    ("last", "exact"),
    [
        (CellKey(tables=("P1",)), ()),
        (CellKey(tables=("P1",), exact_total=True), ("the total of every table in every unit",)),
        (Rounding(tables=("P1",)), ()),
    ],
)
def test_what_a_swap_leaves_is_not_published_exactly_by_a_step_that_changes_tables(last, exact):
    swap = HouseholdSwapping(rate=HALF, key=("size",))
    said = exactly(swap, last, schema=load_schema(RACES))
    assert tuple(what.removeprefix("after swapping: ") for what in said) == exact


def test_numbers_of_living_quarters_are_those_of_the_people_after_a_swap_of_households():
    swap = HouseholdSwapping(rate=HALF, key=("size",))
    quarters = Preserved("living quarters", TREE.leaf)
    assert _leaves(swap, swap.on(Domain(SCHEMA, TREE)), quarters)
    assert not _leaves(EXACT, EXACT.on(Domain(SCHEMA, TREE)), quarters)


class InWords(PreTabular):
    """A method of somebody else, which says what it publishes exactly in words alone."""

    name = "in-words"

    def apply(self, population, noise, *, run, context):
        return population

    def on(self, domain):
        promised = Guarantee.none("a toy").also_exact("the number of dogs")
        return StepDesign(domain=domain, guarantee=promised)


def test_what_a_method_says_in_words_alone_is_said_with_a_doubt():
    assert exactly(SWAP, InWords())[-1] == "after person-swapping: the number of dogs"
    assert "the number of dogs, unless person-swapping changes it" in exactly(InWords(), SWAP)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_stated_of_swaps_in_turn_is_true_of_the_counts(seed):
    people = to_population(towns(seed=seed, people=1_500, counties=2), ("sex", "tenure"))
    tree = people.geography
    chain = Chain.of(
        [
            HouseholdSwapping(rate=HALF, key=("size",), within="county"),
            TargetedSwapping(
                rate=HALF, risk_variables=("sex",), similar=(("size",),), carry_along=("tenure",)
            ),
        ]
    )
    said = chain.on(Domain(people.schema, tree)).guarantee.released_exactly
    before = tabulate(people)
    design = chain.on(people.domain)
    after = design.changed(Tabulated.of(people), keyed(seed), run=0, context=Context())
    assert not np.array_equal(before.dense(), after.dense())
    assert f"the number of people in each {tree.leaf}" in said
    assert np.array_equal(before.totals(), after.totals())
    assert f"the number of people by sex in each {tree.levels[0]}" in said
    sexes = [
        counts.at(tree.levels[0]).dense().reshape(2, -1).sum(axis=1) for counts in (before, after)
    ]
    assert np.array_equal(*sexes)
    assert within("county") not in said
    assert not np.array_equal(before.at("county").dense(), after.at("county").dense())


def test_reasons_of_several_steps_without_noise_are_all_said():
    why = Chain((EXACT, SWAP)).on(Domain(SCHEMA, TREE)).guarantee.why_none
    assert "sampling: a sampled person's record is published as it is" in why
    assert "person-swapping: records are published as they are" in why
    assert "the true counts" not in why


def test_a_seeded_chain_says_that_it_is_not_private():
    chain = Chain((EXACT,), Geometric(epsilon=Fraction(1)))
    design = chain.on(town().domain)
    assert not design.promise("seed").exists
    assert design.promise("os").exists


# --- neighbours ----------------------------------------------------------------------------------


def law(samples, epsilon, reach=12):
    """Exact law of noisy counts of two places, as the mixture over equally likely samples."""
    a, values = exp(-epsilon), np.arange(-reach, reach + 1)
    total = np.zeros((2 * reach + 1,) * 2)
    for sample in samples:
        sides = [
            (1 - a) / (1 + a) * a ** np.abs(values - count)
            for count in np.bincount(sample, minlength=2)
        ]
        total += np.outer(*sides)
    return total / len(samples)


def samples_of(places, fraction):
    size = round(fraction * len(places))
    return [[places[i] for i in some] for some in combinations(range(len(places)), size)]


@pytest.mark.parametrize("fraction", [Fraction(1, 3), HALF, Fraction(2, 3), Fraction(1)])
@pytest.mark.parametrize("people", range(1, 6))
def test_neighbours_stay_within_the_stated_loss_in_every_small_case(fraction, people):
    noisy = Geometric(epsilon=Fraction(2), unit=ADD)
    chain = Chain((Sampling(fraction=fraction, exact=True),), noisy)
    stated = {
        loss.unit: float(loss.amount) for loss in chain.on(Domain(Schema(), PAIR)).guarantee.losses
    }
    rate = 2.0
    for there in range(people + 1):
        here = [0] * there + [1] * (people - there)
        for other, unit in (
            ([*here, 1], ADD),
            ([*here, 0], ADD),
            ([1 - here[0], *here[1:]], CHANGE),
        ):
            one, two = law(samples_of(here, fraction), rate), law(samples_of(other, fraction), rate)
            assert np.abs(np.log(one / two)).max() <= stated[unit] + 1e-9


def test_without_scaling_the_loss_would_be_exceeded():
    """Negative control: a third of all in one place, and of them with one person elsewhere."""
    third, rate = Fraction(1, 3), 2.0
    one, two = law(samples_of([0] * 3, third), rate), law(samples_of([0] * 3 + [1], third), rate)
    worst = np.abs(np.log(one / two)).max()
    assert rate < worst <= 2 * rate
    assert worst == pytest.approx(log(3 / 4 + exp(2 * rate) / 4), rel=1e-6)


PAIR = regular(children=2, depth=1)


def test_runs_of_the_code_follow_that_law():
    """The worst case above as it is drawn: how often the new person's place shows anybody."""
    third = Sampling(fraction=Fraction(1, 3), exact=True)
    chain = Chain((third,), Geometric(epsilon=Fraction(2), unit=ADD))
    runs = range(1500)
    for places, seed in (([0] * 3, 1), ([0] * 3 + [1], 2)):
        unit = np.array(places, dtype=np.int32)
        data = Tabulated.of(Population("p", Domain(Schema(), PAIR), unit, np.zeros_like(unit)))
        seen = sum(
            bool(outcome.as_counts().dense("level_1")[0, 1, 0] >= 3)
            for outcome in chain.on(data.counts.domain).outcomes(data, keyed(seed), runs=runs)
        )
        share = law(samples_of(places, Fraction(1, 3)), 2.0)[:, 13:].sum()
        assert abs(seen / len(runs) - share) < 4 * (share * (1 - share) / len(runs)) ** 0.5


# --- people without a proof ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HalfProved(PreTabular):
    """A step with a bound for one unit of privacy alone."""

    name = "half-proved"

    def on(self, domain):
        none = Guarantee.none("records are published as they are")
        return StepDesign(domain=domain, guarantee=none, stability={CHANGE: 3})

    def apply(self, population, noise, *, run, context):
        return population


def test_only_the_unit_with_a_bound_has_a_loss():
    noisy = Geometric(epsilon=Fraction(1))
    chain = Chain((HalfProved(),), noisy)
    stated = chain.on(Domain(SCHEMA, TREE)).guarantee
    assert [loss.unit for loss in stated.losses] == [CHANGE]
    assert stated.losses[0].amount == 3
    (measured,) = chain.on(Domain(SCHEMA, TREE)).plan
    assert measured.units == (CHANGE,)


# --- what has no counts, and what has weights ---------------------------------------------------


def test_published_tables_have_no_counts_and_no_weight():
    people = to_population(towns(seed=4, people=1_000, counties=2), schema=load_schema(RACES))
    release = protect(people, Suppression(tables=("P1",), lowest="county"))
    with pytest.raises(InputError, match="found published tables with withheld cells, expected co"):
        release.at("county")
    assert release.negative_counts() == {}
    sample = Sampling(fraction=HALF).apply(people, keyed(), run=0, context=Context())
    with pytest.raises(
        ConfigError, match="found a sample, in which each person stands for 2, expected everybody"
    ):
        protect(sample, Suppression(tables=("P1",), lowest="county"))
    outcome = (
        Suppression(tables=("P1",), lowest="county")
        .on(tabulate(people).domain)
        .run(tabulate(people), keyed(), runs=range(1))
    )
    with pytest.raises(InputError, match="expected counts of every unit and cell"):
        outcome.as_counts()


RACES = "sex-age38-race7-hispanic"


def test_counts_have_no_published_tables():
    release = protect(town(), Identity())
    with pytest.raises(InputError, match="expected published tables, some of whose cells are with"):
        release.as_tables()
    assert release.as_counts() is release


def test_bounds_from_a_file_are_refused_after_any_change(tmp_path):
    (tmp_path / "bounds.csv").write_text("unit,low,high\n")
    file = str(tmp_path / "bounds.csv")
    bounds = [{"query": "total", "level": "whole", "file": file, "public": True}]
    with pytest.raises(ConfigError, match="bounds: found bounds from a file after person-swapping"):
        Chain.of([SWAP, topdown(bounds=bounds)])


def test_neither_people_nor_counts_show_a_number():
    assert "200" not in repr(Tabulated.of(town()))


def test_two_chains_under_one_key_never_share_noise():
    """They differ in their first step only: the noise of the last must not cancel."""
    people = uniform(people=400, depth=2, mean=20, seed=3)
    data = Tabulated.of(people)
    noise = KeyedNoise(RunKey.from_os(), "test", data.digest, b"config")
    last = Geometric(epsilon=Fraction(1, 1000))
    half, third = (
        protect(data, [Sampling(fraction=Fraction(1, n), exact=True), last], noise) for n in (2, 3)
    )
    level = people.geography.leaf
    apart = half.at(level) / 2 - third.at(level) / 3
    assert np.abs(apart).max() > 400  # more than there are people: noise is in it


@dataclass(frozen=True)
class _Unchanged(PreTabular):
    """The people as they are: stability 1, which is true."""

    name = "unchanged"
    draws_noise = False

    def apply(self, population, noise, *, run, context):
        return population

    def on(self, domain):
        none = Guarantee.none("nothing is changed")
        return StepDesign(domain=domain, guarantee=none, stability=dict.fromkeys(UnitOfPrivacy, 1))


def test_exact_counts_of_changed_records_leave_no_guarantee():
    people = town()
    settings = {"epsilon": 1, "queries": {"total": {"by": []}, "cells": {"share": 1}}}
    top = from_table(
        TopDown,
        settings | {"invariant": [{"query": "total", "level": people.geography.levels[0]}]},
        source="test",
    )
    chain = Chain.of([_Unchanged(), top])
    stated = chain.on(people.domain).guarantee
    assert not stated.losses
    assert "publishes some counts of the records that unchanged made exactly" in stated.why_none
    without = Chain.of([_Unchanged(), from_table(TopDown, settings, source="test")])
    assert without.on(people.domain).guarantee.losses


def test_something_that_is_no_mechanism_is_refused_by_name():
    with pytest.raises(ConfigError, match="found an object of object, expected a method with its"):
        Chain.of([object()])  # type: ignore[list-item]


def test_a_sample_is_attacked_as_the_people_in_it():
    people = uniform(people=400, depth=2, mean=20, seed=3)
    release = protect(people, Sampling(fraction=Fraction(1, 3))).as_counts()
    assert release.weight == 3
    drawn = release.unweighted()
    assert drawn.weight == 1
    assert drawn.at(people.geography.leaf).sum() == round(400 / 3)
    np.testing.assert_allclose(
        drawn.at(people.geography.leaf) * 3, release.at(people.geography.leaf)
    )


def test_counts_of_people_in_dwellings_are_not_enough_for_a_loss():
    state = to_population(towns(people=1500, counties=2, seed=7), ("sex", "tenure"))
    counts = Tabulated.of(tabulate(state))
    with pytest.raises(PrivacyError, match="found counts of people in dwellings, expected the"):
        protect(counts, Geometric(epsilon=Fraction(1)))
    assert protect(counts, Identity()).at(state.geography.leaf).sum() == len(state.cell)
    assert protect(state, Geometric(epsilon=Fraction(1))).guarantee.losses
