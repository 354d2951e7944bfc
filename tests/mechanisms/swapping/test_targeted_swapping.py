"""Targeted swapping against a plain scan of everyone, and its options."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.engines import LocalEngine
from headcount.errors import ConfigError, InputError
from headcount.mechanisms import Chain, protect
from headcount.mechanisms.swapping.risk import NEVER, Risk, standing
from headcount.mechanisms.targeted_swapping import TargetedSwapping, quotas, swap_areas
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.tabulate import tabulate
from headcount.testing.contracts import mechanism_checks

from .dwellings import dwellings, some_people, spine

TENTH = Fraction(1, 10)
PLAIN = TargetedSwapping(rate=TENTH, risk_variables=("race", "age"))


def scan(unit, chance, must, alike, quota, rng, first_level):
    """The rules word for word: for each who seeks, look at every donor in order."""
    levels, households = unit.shape
    mate = [-1] * households
    started = [0] * len(quota)
    due = [any(must[:first_level, i]) for i in range(households)]
    for level in range(first_level, levels):
        due = [old or bool(new) for old, new in zip(due, must[level], strict=True)]
        weight = chance[level] / rng.standard_exponential(households)
        donors = sorted(range(households), key=lambda i: -weight[i])
        seek = donors if level == levels - 1 else [i for i in donors if due[i]]
        seek = [i for i in seek if mate[i] < 0]
        found_nobody = []
        for who in sorted(seek, key=lambda i: (unit[level, i], not due[i])):
            at_home = unit[-1, who]
            enough = level < levels - 1 or started[at_home] >= quota[at_home]
            if mate[who] >= 0 or (enough and not due[who]):
                continue
            donor = next(
                (
                    other
                    for group in alike
                    for other in donors
                    if mate[other] < 0
                    and unit[level, other] != unit[level, who]
                    and group[other] == group[who]
                ),
                None,
            )
            if donor is None:
                found_nobody.append(who)
                continue
            mate[who], mate[donor] = donor, who
            started[at_home] += 1
    return mate, sum(mate[i] < 0 for i in found_nobody)


@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(0, 1), st.floats(0, 0.6))
def test_a_plain_scan_finds_the_same_donors(households, seed, first_level, often):
    draw = np.random.default_rng(seed)
    block = draw.integers(0, 8, households).astype(np.int32)
    unit = np.stack([block // 4, block // 2, block])
    chance = 1 / draw.integers(1, 4, (3, households))
    must = draw.random((3, households)) < often
    alike = [draw.integers(0, 4, households), draw.integers(0, 2, households)]
    quota = draw.integers(0, 3, 8)
    mate, unpaired = swap_areas(
        unit,
        chance=chance,
        must=must,
        alike=alike,
        quota=quota,
        rng=np.random.default_rng(seed),
        first_level=first_level,
    )
    expected = scan(unit, chance, must, alike, quota, np.random.default_rng(seed), first_level)
    assert (mate.tolist(), unpaired) == expected


@given(st.integers(1, 60), st.integers(0, 10**6), st.integers(1, 9), st.floats(0, 0.6))
def test_units_that_nobody_leaves_are_swapped_in_pieces_as_in_one(households, seed, piece, often):
    draw = np.random.default_rng(seed)
    block = draw.integers(0, 16, households).astype(np.int32)
    unit = np.stack([block // 4, block // 2, block])
    within = unit[0]
    about: dict[str, Any] = {
        "chance": 1 / draw.integers(1, 4, (3, households)),
        "must": draw.random((3, households)) < often,
        "alike": [4 * draw.integers(0, n, households) + within for n in (3, 2)],
        "quota": draw.integers(0, 3, 16),
        "first_level": 1,
    }
    mate, unpaired = swap_areas(unit, **about, rng=np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headcount.mechanisms.targeted_swapping.PIECE", piece)
        rng = np.random.default_rng(seed)
        pieces = swap_areas(unit, **about, rng=rng, within=within, engine=LocalEngine(2))
    assert (pieces[0].tolist(), pieces[1]) == (mate.tolist(), unpaired)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=12), st.fractions(0, 1), st.integers(0, 99)
)
def test_quotas_add_up_and_are_near_each_units_part(sizes, rate, seed):
    unit = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    made = quotas(unit, len(sizes), rate, np.random.default_rng(seed))
    total = int(made.sum())
    assert abs(2 * total - rate * len(unit)) <= 1
    for part, size in zip(made, sizes, strict=True):
        assert abs(part - size * total / max(len(unit), 1)) <= 2
    assert (made >= 0).all()


def test_all_at_risk_are_swapped_out_of_their_unit_above_the_rate():
    town = dwellings(3000, seed=7, geography=spine(3, 4, 10))
    made = PLAIN.swap(town, np.random.default_rng(1))
    risks = standing(town, Risk(attributes=("race", "age"), levels=("county", "tract", "block")))
    moved = np.flatnonzero(made.partner >= 0)
    assert made.report.at_risk is not None
    assert made.report.at_risk.left == made.report.unpaired == 0
    assert made.report.rate > 0.15
    assert town.is_household[moved].all()
    assert np.array_equal(town.size[moved], town.size[made.partner[moved]])
    far = 0
    for level in ("county", "tract", "block"):
        unit = town.geography.ancestors(level)
        risky = moved[risks.depth[moved] == town.geography.depth(level)]
        left = unit[town.block[risky]] != unit[made.households.block[risky]]
        far += int(np.count_nonzero(left))
    # all but those who were taken as donors before it was their turn
    assert far > 0.95 * np.count_nonzero(risks.depth[moved] != NEVER)
    assert all(
        kept.changed == 0
        for kept in made.report.kept
        if kept.count != "households by size x adults"
    )


def test_without_k_the_rate_is_met():
    town = dwellings(3000, seed=7, geography=spine(3, 4, 10))
    report = (
        TargetedSwapping(rate=TENTH, risk_variables=("race", "age"), k=0)
        .swap(town, np.random.default_rng(1))
        .report
    )
    assert abs(report.rate - 0.1) <= 2 / report.households
    # drawn by risk: uniques more often than others
    assert report.at_risk is not None
    assert report.at_risk.uniques_swapped / report.at_risk.uniques > 0.2


def test_within_keeps_everyone_inside():
    town = dwellings(3000, seed=7, geography=spine(3, 4, 10))
    county = town.geography.ancestors("county")
    free = PLAIN.swap(town, np.random.default_rng(1))
    assert (county[town.block] != county[free.households.block]).any()
    tied = TargetedSwapping(rate=TENTH, risk_variables=("race", "age"), within="county")
    made = tied.swap(town, np.random.default_rng(1))
    assert np.array_equal(county[town.block], county[made.households.block])
    assert made.report.at_risk is not None
    assert made.report.at_risk.left == 0


def test_carried_attributes_stay_with_the_place():
    town = dwellings(600, seed=7)
    counts = some_people(town, ("tenure", "race"))
    stay = TargetedSwapping(
        rate=Fraction(1, 2), risk_variables=("race",), k=0, carry_along=("tenure",)
    )
    made = stay.swap(town, np.random.default_rng(1))
    moved = np.flatnonzero(made.partner >= 0)
    tenure = town.dwellings["tenure"]
    assert np.array_equal(made.households.dwellings["tenure"][moved], tenure[made.partner[moved]])
    # every block keeps its owners and renters, and so its people by tenure
    before, after = (
        np.bincount(one.block * 2 + one.dwellings["tenure"], minlength=24)
        for one in (town, made.households)
    )
    assert np.array_equal(before, after)
    noise = KeyedNoise(RunKey.from_seed(1), "t", bytes(32), bytes(32))
    released, truth = protect(counts, stay, noise).at("block"), tabulate(counts).dense()
    for tenure_rows in (slice(0, 3), slice(3, 6)):
        assert np.array_equal(
            released[:, tenure_rows].sum(axis=1), truth[:, tenure_rows].sum(axis=1)
        )
    without = TargetedSwapping(rate=Fraction(1, 2), risk_variables=("race",), k=0)
    moved_too = protect(counts, without, noise).at("block")
    assert not np.array_equal(moved_too[:, :3].sum(axis=1), truth[:, :3].sum(axis=1))


def test_carried_attributes_must_be_known_and_not_recoded():
    town = dwellings(60, seed=7)
    wrong = TargetedSwapping(rate=TENTH, risk_variables=("race",), carry_along=("rooms",))
    with pytest.raises(InputError, match="carry_along: found 'rooms', which dwellings do not"):
        wrong.check(some_people(town))
    recoded = Schema((Attribute("tenure", ("any",)),))
    unit = town.block[town.dwelling]
    people = Population(
        "town", Domain(recoded, town.geography), unit, np.zeros_like(unit), households=town
    )
    stay = TargetedSwapping(rate=TENTH, risk_variables=("race",), carry_along=("tenure",))
    with pytest.raises(InputError, match="carry_along: found 'tenure' recoded in the counts"):
        stay.check(people)


def test_risks_of_ones_own():
    town = dwellings(900, seed=7, geography=spine(1, 1, 20))
    swapper = TargetedSwapping(
        rate=Fraction(0), risk_variables=("race",), hierarchy=("block",), similar=((),)
    )
    risk = np.zeros((1, 900))
    chosen = np.flatnonzero(town.is_household)[:30]
    risk[0, chosen] = 0.9
    made = swapper.swap(town, np.random.default_rng(1), risk=risk, threshold=0.5)
    assert (made.partner[chosen] >= 0).all()
    assert 30 <= made.report.swapped <= 60
    nobody = swapper.swap(town, np.random.default_rng(1), risk=risk)
    assert nobody.report.swapped == 0
    for bad in (np.zeros((2, 900)), np.full((1, 900), -1.0), np.full((1, 900), np.nan)):
        with pytest.raises(InputError, match="risk: found an array of shape"):
            swapper.swap(town, np.random.default_rng(1), risk=bad)


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="swapping: rate: found 2, expected from 0 to 1"):
        TargetedSwapping(rate=Fraction(2), risk_variables=("race",))
    with pytest.raises(ConfigError, match="similar: found none"):
        TargetedSwapping(rate=TENTH, risk_variables=("race",), similar=())
    with pytest.raises(ConfigError, match="risk_variables: found none"):
        TargetedSwapping(rate=TENTH, risk_variables=())
    counts = some_people(dwellings(60, seed=7))
    for wrong, message in (
        (
            replace(PLAIN, hierarchy=("block", "county")),
            "hierarchy: found .*, expected levels from the coars",
        ),
        (replace(PLAIN, within="block"), "within: found 'block', expected a level above 'block'"),
        (replace(PLAIN, similar=(("rooms",),)), "'rooms', which dwellings do not have"),
        (replace(PLAIN, risk_variables=("sex",)), "found attribute 'sex'"),
    ):
        with pytest.raises(InputError, match=message):
            wrong.check(counts)


def test_profiles_that_leave_nobody_to_swap_with_are_refused():
    town = dwellings(60, seed=7, geography=spine(1, 1, 1))
    with pytest.raises(InputError, match="found no two households that could change places"):
        PLAIN.swap(town, np.random.default_rng(1))
    with pytest.raises(InputError, match="found no two households that could change places"):
        PLAIN.check(some_people(town))


def test_a_quota_that_falls_on_units_without_donors_is_a_shortfall(caplog):
    """Two alike in two blocks, many others in a third: the one swap asked for may be theirs."""
    size = np.array([1, 1, 2, 2, 2, 2])
    town = replace(
        dwellings(6, seed=1, geography=spine(1, 1, 3), largest=1),
        block=np.array([0, 1, 2, 2, 2, 2], dtype=np.int32),
        kind=np.zeros(6, dtype=np.int8),
        first=np.concatenate([[0], np.cumsum(size)]),
        persons={"age": np.zeros(10, dtype=np.int64), "race": np.zeros(10, dtype=np.int64)},
    )
    one = TargetedSwapping(rate=Fraction(1, 3), risk_variables=("race",), similar=(("size",),), k=0)
    one.check(some_people(town))
    swapped = [one.swap(town, np.random.default_rng(i)).report.swapped for i in range(20)]
    assert {0, 2} == set(swapped)
    noise = KeyedNoise(RunKey.from_seed(1), "targeted-swapping", bytes(32), bytes(32))
    with caplog.at_level("WARNING"):
        for run in range(20):
            protect(some_people(town), one, noise, run=run)
    assert "targeted-swapping" in caplog.text


def test_no_guarantee_and_repr_makes_it_again():
    release = protect(some_people(dwellings(300, seed=1)), PLAIN)
    assert not release.guarantee.exists
    said = " ".join(release.guarantee.sentences())
    assert "without noise: the number of people in each block" in said
    assert Chain.of(PLAIN).on(release.domain).plan == ()
    again = eval(repr(PLAIN), {"Fraction": Fraction, "TargetedSwapping": TargetedSwapping})
    assert again == PLAIN


EXAMPLE = some_people(dwellings(60, seed=9), ("race",))


@pytest.mark.parametrize(
    "check", list(mechanism_checks(replace(PLAIN, rate=Fraction(1, 2)), [EXAMPLE])), ids=str
)
def test_contract(check):
    check()
