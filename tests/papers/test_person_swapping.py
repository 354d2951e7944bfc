"""Person swapping against brute force: who is marked, who may be a partner, what is exchanged."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, friedmanchisquare

from headcount.errors import ConfigError, InputError
from headcount.schema.schema import combine
from headcount_papers.person_swapping.persons import (
    Pool,
    mark,
    swap_area,
    swap_everywhere,
    unique_rows,
)
from headcount_papers.person_swapping.similar import PartnerRule, frequency_order, places
from tests.both_ways import both_ways
from tests.papers.exchanged import exchange, exchange_everywhere

KINDS = [("random", 0), ("pseudo-random", 0), ("similar", 0), ("similar", 1), ("similar", 3)]
ALIKE = [(*kind, ()) for kind in KINDS] + [
    ("similar", 1, ("household_size",)),
    ("similar", 2, ("tenure", "household_size")),
]
SIZES = {"age": 12, "sex": 2, "race": 4, "hispanic": 2, "household_size": 3, "tenure": 2}


def people(rows, seed, sizes=SIZES):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, rows) for name, size in sizes.items()}


def tuples(codes, names=None):
    return list(zip(*(codes[name].tolist() for name in names or sorted(codes)), strict=True))


def distance(x, y, kind, rank, alike=()):
    """The definition, for one pair."""
    if kind == "random":
        return 0
    if alike:
        return max(distance(x, y, kind, rank), *(abs(x[name] - y[name]) for name in alike))
    d = max(abs(x["age"] - y["age"]), int(x["sex"] != y["sex"]))
    if kind == "similar":
        d = max(d, abs(rank[x["race"], x["hispanic"]] - rank[y["race"], y["hispanic"]]))
    return d


def records(codes):
    names = list(codes)
    return [dict(zip(names, row, strict=True)) for row in tuples(codes, names)]


@given(rows=st.integers(1, 60), seed=st.integers(0, 999))
def test_unique_is_alone_in_its_area_with_its_tuple(rows, seed):
    rng = np.random.default_rng(seed)
    area, codes = rng.integers(0, 3, rows), people(rows, seed, {"a": 3, "b": 4})
    seen = Counter(zip(area.tolist(), tuples(codes), strict=True))
    expected = [seen[key] == 1 for key in zip(area.tolist(), tuples(codes), strict=True)]
    assert unique_rows(area, combine(codes.values(), rows=rows)).tolist() == expected


@given(rate=st.fractions(0, 1), sizes=st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_exactly_the_rate_is_marked_in_each_area_uniques_first(rate, sizes):
    area = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(3)
    unique = rng.random(len(area)) < 0.5
    marked = mark(area, unique, rate=rate, rng=rng)
    for number, size in enumerate(sizes[: int(area.max(initial=-1)) + 1]):
        rows = marked.rows[marked.first[number] : marked.first[number + 1]]
        assert len(set(rows.tolist())) == len(rows) == round(rate * size)
        assert (area[rows] == number).all()
        assert all(a >= b for a, b in pairwise(unique[rows].tolist()))
        assert unique[rows].sum() == min(len(rows), unique[area == number].sum())


def test_without_uniques_first_all_rows_are_alike():
    rng = np.random.default_rng(4)
    unique = np.arange(10) < 2
    area = np.zeros(10, dtype=int)
    seen = np.zeros(10)
    for _ in range(4000):
        seen[mark(area, unique, rate=Fraction(3, 10), rng=rng, uniques_first=False).rows] += 1
    assert chisquare(seen).pvalue > 1e-3


@pytest.mark.parametrize(("kind", "k", "alike"), ALIKE)
def test_the_one_area_partner_is_within_k_or_the_nearest_that_is_left(kind, k, alike):
    for seed in range(8):
        area, pool = people(12, seed), people(25, seed + 100)
        order = frequency_order(area, pool, codes=8)
        rank = {divmod(code, 2): place for place, code in enumerate(order)}
        likeness = PartnerRule(kind=kind, k=k, order=order, alike=alike)
        swap = swap_area(area, Pool.of(pool, likeness), rate=1, rng=np.random.default_rng(seed))
        left = records(pool)
        steps: Counter[int] = Counter()
        for row, partner in zip(swap.rows, swap.partners, strict=True):
            x = records(area)[row]
            away = [distance(x, y, kind, rank, alike) if y else np.inf for y in left]
            assert away[partner] <= max(k, min(away))
            steps[max(0, away[partner] - k)] += 1
            left[partner] = None
        assert dict(swap.report.widened) == steps
        assert swap.report.swapped == 12
        assert swap.report.unswappable == 0


@pytest.mark.parametrize(("kind", "k", "alike"), ALIKE)
def test_partners_are_drawn_uniformly_from_those_who_qualify(kind, k, alike):
    area = {name: np.array([1]) for name in SIZES}
    pool = people(60, 7, SIZES | {"age": 4})
    order = frequency_order(area, pool, codes=8)
    rank = {divmod(code, 2): place for place, code in enumerate(order)}
    (x,) = records(area)
    away = [distance(x, y, kind, rank, alike) for y in records(pool)]
    qualify = np.array(away) <= max(k, min(away))
    index = Pool.of(pool, PartnerRule(kind=kind, k=k, order=order, alike=alike))
    rng = np.random.default_rng(1)
    seen = np.zeros(60)
    for _ in range(1000):
        seen[swap_area(area, index, rate=1, rng=rng).partners] += 1
    assert qualify.sum() > 1
    assert seen[~qualify].sum() == 0
    assert chisquare(seen[qualify]).pvalue > 1e-3
    lopsided = rng.choice(qualify.sum(), 1000, p=(w := np.arange(1, qualify.sum() + 1)) / w.sum())
    assert chisquare(np.bincount(lopsided, minlength=qualify.sum())).pvalue < 1e-6  # a control


@pytest.mark.parametrize(("kind", "k", "alike"), ALIKE)
@settings(max_examples=30)
@given(
    rate=st.fractions(0, 1, max_denominator=20),
    sizes=st.tuples(*[st.integers(0, 25)] * 3),
    seed=st.integers(0, 99),
)
def test_every_area_keeps_what_it_must(kind, k, alike, rate, sizes, seed):
    likeness = PartnerRule(kind=kind, k=k, alike=alike)
    area = np.repeat(np.arange(3), sizes)
    codes = people(len(area), seed)
    rng = np.random.default_rng(seed)
    if rate * max(sizes) > Fraction(1, 2) and sum(n > 0 for n in sizes) == 1:
        with pytest.raises(InputError, match="nobody outside the area"):
            swap_everywhere(codes, area, likeness, rate=rate, rng=rng)
        return
    swap = swap_everywhere(codes, area, likeness, rate=rate, rng=rng)
    after = exchange_everywhere(codes, swap)
    touched = np.concatenate([swap.rows, swap.partners])
    assert len(set(touched.tolist())) == len(touched)
    assert (area[swap.rows] != area[swap.partners]).all()
    assert np.array_equal(after["tenure"], codes["tenure"])
    moved = [name for name in codes if name != "tenure"]
    assert Counter(tuples(after, moved)) == Counter(tuples(codes, moved))
    rest = np.setdiff1d(np.arange(len(area)), touched)
    assert all(np.array_equal(after[name][rest], codes[name][rest]) for name in codes)
    for row, partner in zip(swap.rows, swap.partners, strict=True):
        assert [after[n][row] for n in moved] == [codes[n][partner] for n in moved]
        assert [after[n][partner] for n in moved] == [codes[n][row] for n in moved]
    # As many as can be paired are: all but one of an odd number, or what one area has too many of.
    quota = [round(rate * n) for n in sizes]
    unpaired = max(sum(quota) % 2, 2 * max(quota) - sum(quota))
    report = swap.report
    assert (report.marked, report.swapped) == (sum(quota), sum(quota) - unpaired)
    assert report.unswappable == unpaired
    assert sum(rows for _, rows in report.widened) == report.swapped


def test_the_rate_is_exact_in_every_area_of_a_town():
    area = np.repeat(np.arange(20), np.arange(40, 80, 2))
    codes = people(len(area), 5)
    for rate in ("0.05", "0.37", "1"):
        swap = swap_everywhere(
            codes, area, PartnerRule(kind="similar"), rate=rate, rng=np.random.default_rng(1)
        )
        swapped = np.bincount(area[np.concatenate([swap.rows, swap.partners])], minlength=20)
        expected = [round(Fraction(rate) * n) for n in range(40, 80, 2)]
        assert sum(expected) - swapped.sum() == sum(expected) % 2
        assert np.abs(swapped - expected).sum() <= 1


def age_gaps(areas, each, seed):
    """Mean difference in age of the pairs of each area, over three swaps of 0.3."""
    rng = np.random.default_rng(seed)
    gap, rows = np.zeros(areas), np.zeros(areas)
    area = np.repeat(np.arange(areas), each)
    for _ in range(3):
        codes = people(areas * each, seed, {"age": 91, "sex": 2, "race": 8, "hispanic": 2})
        swap = swap_everywhere(codes, area, PartnerRule(), rate="0.3", rng=rng)
        apart = np.abs(codes["age"][swap.rows] - codes["age"][swap.partners])
        for side in (swap.rows, swap.partners):
            gap += np.bincount(area[side], weights=apart, minlength=areas)
            rows += np.bincount(area[side], minlength=areas)
    return gap / rows


def test_no_area_has_worse_partners_for_its_place_in_the_file(monkeypatch):
    fair = age_gaps(40, 200, seed=5)
    assert fair[-8:].mean() < 1.3 * fair[:8].mean()
    one_by_one = "headcount_papers.person_swapping.persons._visits"
    monkeypatch.setattr(one_by_one, lambda area, rng: np.arange(len(area)))
    unfair = age_gaps(40, 200, seed=5)
    assert unfair[-8:].mean() > 2 * unfair[:8].mean()


def gaps_of_alike(sizes, runs, seed=3):
    """For each run and area the mean difference in age of its pairs; areas are copies, cut off."""
    rng = np.random.default_rng(seed)
    one = people(max(sizes), seed, {"age": 91, "sex": 2, "race": 8, "hispanic": 2})
    codes = {name: np.concatenate([column[:n] for n in sizes]) for name, column in one.items()}
    area = np.repeat(np.arange(len(sizes)), sizes)
    gaps = np.empty((runs, len(sizes)))
    for run in range(runs):
        swap = swap_everywhere(codes, area, PartnerRule(), rate="0.2", rng=rng)
        apart = np.abs(codes["age"][swap.rows] - codes["age"][swap.partners])
        both = area[np.concatenate([swap.rows, swap.partners])]
        gaps[run] = np.bincount(both, weights=np.tile(apart, 2)) / np.bincount(both)
    return gaps


def test_equal_areas_have_partners_as_good_whatever_their_code(monkeypatch):
    """Four copies of an area: ranked within each swap, none is above the others (Friedman)."""
    assert friedmanchisquare(*gaps_of_alike([600] * 4, 80).T).pvalue > 1e-3
    by_code = "headcount_papers.person_swapping.persons._ahead"
    monkeypatch.setattr(by_code, lambda people, rng: list(enumerate(people.tolist())))
    assert friedmanchisquare(*gaps_of_alike([600] * 4, 80).T).pvalue < 1e-12


@pytest.mark.parametrize("largest", [440, 600, 900])
def test_a_large_area_is_not_left_alone_in_the_end(largest, monkeypatch):
    """24, 30 and 39 % of all: partners about as good as those of the others."""
    sizes = [largest] + [140] * 10
    gaps = gaps_of_alike(sizes, 20).mean(axis=0)
    assert gaps[0] < 1.5 * gaps[1:].mean()
    monkeypatch.setattr("headcount_papers.person_swapping.persons._ahead", lambda people, rng: [])
    alone = gaps_of_alike(sizes, 20).mean(axis=0)
    assert alone[0] > 2 * gaps[0]


def test_one_area_and_pool_together_keep_all_records_and_tenure():
    area, pool = people(40, 1), people(300, 2)
    index = Pool.of(pool, PartnerRule(kind="similar", k=1))
    swap = swap_area(area, index, rate="1/2", rng=np.random.default_rng(1))
    here, there = exchange(area, pool, swap)
    moved = [name for name in area if name != "tenure"]
    before = Counter(tuples(area, moved) + tuples(pool, moved))
    assert Counter(tuples(here, moved) + tuples(there, moved)) == before
    assert np.array_equal(here["tenure"], area["tenure"])
    assert np.array_equal(there["tenure"], pool["tenure"])
    assert len(set(swap.partners.tolist())) == len(swap.rows) == 20
    assert tuples(here, moved) != tuples(area, moved)


def test_uniques_look_at_swapped_attributes_only():
    codes = {"age": np.array([1, 1, 2]), "tenure": np.array([0, 1, 0])}
    pool = Pool.of({"age": np.arange(9), "tenure": np.zeros(9, int)}, PartnerRule(kind="random"))
    swap = swap_area(codes, pool, rate="1/3", rng=np.random.default_rng(1))
    assert (swap.report.uniques, swap.report.uniques_swapped) == (1, 1)
    assert swap.rows.tolist() == [2]
    every = swap_area(codes, pool, rate="1/3", rng=np.random.default_rng(1), keep=())
    assert every.report.uniques == 3


def test_uniques_may_look_at_named_attributes_only():
    codes = {"age": np.array([1, 1, 2, 2]), "race": np.array([0, 1, 2, 2])}
    pool = Pool.of({"age": np.arange(9), "race": np.zeros(9, int)}, PartnerRule(kind="random"))
    rng = np.random.default_rng(1)
    swap = swap_area(codes, pool, rate="1/2", rng=rng, unique_by=("race",))
    assert (swap.report.uniques, sorted(swap.rows.tolist())) == (2, [0, 1])
    assert swap_area(codes, pool, rate=1, rng=rng, unique_by=("age",)).report.uniques == 0
    area = np.array([0, 0, 1, 1])
    everywhere = swap_everywhere(
        codes, area, PartnerRule(kind="random"), rate=1, rng=rng, unique_by=("race",)
    )
    assert everywhere.report.uniques == 2
    with pytest.raises(InputError, match="unique_by: found no attribute 'sex', expected some of"):
        swap_area(codes, pool, rate=1, rng=rng, unique_by=("sex",))


@pytest.mark.parametrize(("kind", "k"), KINDS)
def test_the_first_rows_of_a_swap_are_a_swap_at_a_lower_rate(kind, k):
    area, pool = people(50, 1), Pool.of(people(80, 2), PartnerRule(kind=kind, k=k))
    whole = swap_area(area, pool, rate=1, rng=np.random.default_rng(3))
    part = swap_area(area, pool, rate="0.4", rng=np.random.default_rng(3))
    assert np.array_equal(whole.rows[:20], part.rows)
    assert np.array_equal(whole.partners[:20], part.partners)


def test_a_pool_that_is_used_up_leaves_rows_that_are_counted():
    pool = Pool.of(people(5, 1), PartnerRule(kind="similar"))
    swap = swap_area(people(9, 2), pool, rate=1, rng=np.random.default_rng(1))
    assert sorted(swap.partners.tolist()) == [0, 1, 2, 3, 4]
    assert (swap.report.swapped, swap.report.unswappable) == (5, 4)


def test_the_same_seed_gives_the_same_swap_however_often_a_pool_served():
    pool = Pool.of(people(500, 1), PartnerRule(kind="similar", k=3))
    area = people(50, 2)
    first = swap_area(area, pool, rate=1, rng=np.random.default_rng(9))
    swap_area(area, pool, rate=1, rng=np.random.default_rng(10))
    again = swap_area(area, pool, rate=1, rng=np.random.default_rng(9))
    assert np.array_equal(first.rows, again.rows)
    assert np.array_equal(first.partners, again.partners)
    other = swap_area(area, pool, rate=1, rng=np.random.default_rng(10))
    assert not np.array_equal(first.partners, other.partners)


def test_the_order_of_frequency_counts_all_tables_with_ties_by_code():
    one = {"race": np.array([3, 3, 0]), "hispanic": np.array([1, 1, 0])}
    two = {"race": np.array([2, 0]), "hispanic": np.array([0, 0])}
    assert frequency_order(one, two, codes=8) == (0, 7, 4, 1, 2, 3, 5, 6)
    assert len(frequency_order(one)) == 126
    alone, together = Pool.of(one, PartnerRule(kind="random")), PartnerRule(kind="similar")
    assert alone.likeness.order is None
    keys = {"age": np.zeros(2, int), "sex": np.zeros(2, int)}
    crowd = {"race": np.array([1, 2]), "hispanic": np.array([0, 1])}
    pool = Pool.of(keys | crowd, together, area={name: crowd[name][1:] for name in crowd})
    order = pool.likeness.order
    assert order is not None
    assert order[:3] == (5, 2, 0)


def test_an_order_that_is_given_is_used():
    codes = {name: np.array([1]) for name in ("age", "sex", "race", "hispanic")}
    where = places(codes, PartnerRule(order=(5, 3, 4)), rows=1)
    assert where.rank.tolist() == [1]


def test_ages_that_the_pool_does_not_have_find_the_nearest():
    pool = {"age": np.array([3, 9]), "sex": np.array([0, 0])}
    area = {"age": np.array([90]), "sex": np.array([1])}
    index = Pool.of(pool, PartnerRule(kind="pseudo-random"))
    swap = swap_area(area, index, rate=1, rng=np.random.default_rng(1))
    assert swap.partners.tolist() == [1]
    assert swap.report.widened == ((81, 1),)


@pytest.mark.parametrize("rate", ["-1/100", "1.01", 2])
def test_rates_outside_0_to_1_are_refused(rate):
    codes, area, rng = people(4, 1), np.array([0, 0, 1, 1]), np.random.default_rng(1)
    message = r"swapping: rate: found .*, expected from 0 to 1"
    with pytest.raises(ConfigError, match=message):
        swap_everywhere(codes, area, PartnerRule(), rate=rate, rng=rng)
    with pytest.raises(ConfigError, match=message):
        swap_area(codes, Pool.of(codes, PartnerRule()), rate=rate, rng=rng)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "alike"}, "kind: found 'alike', expected random or pseudo-random or similar"),
        ({"k": -1}, "k: found -1, expected a whole number, 0 or more"),
        ({"kind": "random", "k": 1}, "k: found 1 with random, expected 0"),
        (
            {"kind": "random", "alike": ("tenure",)},
            "alike: found attributes with random, expected none",
        ),
        ({"order": (1, 1)}, "order: found a code twice, expected each code once"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        PartnerRule(**settings)


def test_bad_tables_are_refused():
    rng = np.random.default_rng(1)
    no_race = people(5, 1, {"age": 3, "sex": 2})
    with pytest.raises(InputError, match="similar swapping: found no attribute 'race'"):
        Pool.of(no_race, PartnerRule())
    with pytest.raises(InputError, match="found no attribute 'rooms', expected all of age, sex"):
        Pool.of(people(5, 1), PartnerRule(alike=("rooms",)))
    index = Pool.of(no_race, PartnerRule(kind="pseudo-random"))
    with pytest.raises(InputError, match="expected those of the pool, \\['age', 'sex'\\]"):
        swap_area(people(3, 1), index, rate=1, rng=rng)
    nobody = Pool.of(people(0, 1), PartnerRule(kind="random"))
    with pytest.raises(InputError, match="pool: found nobody outside the area"):
        swap_area(people(3, 1), nobody, rate=1, rng=rng)
    with pytest.raises(InputError, match="found no race-by-Hispanic code"):
        Pool.of(people(50, 1), PartnerRule(order=(0, 1, 2)))
    with pytest.raises(InputError, match=r"columns of lengths \[2, 3\]"):
        Pool.of({"age": np.zeros(2, int), "sex": np.zeros(3, int)}, PartnerRule(kind="random"))
    with pytest.raises(InputError, match="age: found a code below 0"):
        Pool.of({"age": np.array([-1])}, PartnerRule(kind="random"))
    wide = people(5, 1) | {"hispanic": np.full(5, 2)}
    with pytest.raises(InputError, match="hispanic: found a code above 1"):
        Pool.of(wide, PartnerRule())


@pytest.mark.parametrize("kind", ["random", "similar"])
def test_loops_are_the_same_interpreted_and_compiled(kind):
    codes = people(60, 1)
    area = np.repeat(np.arange(3), 20)
    likeness = PartnerRule(kind=kind, k=int(kind == "similar"))
    rng = np.random.default_rng(1)
    with both_ways():
        swap_everywhere(codes, area, likeness, rate=Fraction(1, 2), rng=rng)
        some = {name: column[:20] for name, column in codes.items()}
        rest = {name: column[20:] for name, column in codes.items()}
        pool = Pool.of(rest, likeness, area=some)
        swap_area(some, pool, rate=Fraction(1, 2), rng=rng)
