"""Scores of re-identification against plain loops, known cases and a negative control."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.attacks.records import Features, records_from_rows
from headcount.attacks.reidentification import KnownPeople, reidentify
from headcount.errors import ConfigError, InputError
from headcount.evaluation.reidentified import (
    TELLING,
    Quality,
    _confirmed,
    _interval,
    _other_age,
    _past_own,
    _right_rows,
    _size_labels,
    _universes,
    agreement,
    beside_guesses,
    commercial_attacker,
    perfect_attacker,
    reidentified,
    true_records,
)
from headcount.geography.geography import regular
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.schema import Attribute, Schema

AGES = tuple(str(year) for year in range(18, 32))
SCHEMA = Schema(
    (
        Attribute("sex", ("male", "female")),
        Attribute("age", AGES),
        Attribute("race", ("white", "black", "other")),
        Attribute("hispanic", ("not_hispanic", "hispanic")),
    )
)
FEATURES = Features.of(SCHEMA)
GEOGRAPHY = regular(children=3, depth=2)  # 9 leaf units


def drawn(people, seed, blocks=9):
    rng = np.random.default_rng(seed)
    cell = rng.integers(0, SCHEMA.size, people)
    return records_from_rows(rng.integers(0, blocks, people), cell, FEATURES)


@pytest.fixture(scope="module")
def state():
    return to_population(towns(seed=3, people=12_000, counties=5))


def test_a_match_is_confirmed_on_every_feature_and_no_other_way():
    """Against a loop over every known person, all features compared one by one."""
    truth, records = drawn(300, 1), drawn(300, 2)
    known = commercial_attacker(truth, geography=GEOGRAPHY, seed=4)
    for found in reidentify(known, records, orders=2):
        right = _confirmed(found, records.secret, known, truth)
        for i, person in enumerate(known.person):
            row = found.record[i]
            expected = row >= 0 and (
                known.block[i] == truth.block[person]
                and FEATURES.binned[known.key[i]] == truth.binned[person]
                and records.secret[row] == truth.secret[person]
            )
            assert right[i] == expected


def test_universes_by_hand():
    truth = drawn(80, 3)
    known = perfect_attacker(truth)
    zero = np.arange(9) % 2 == 0
    groups = _universes(known, truth, geography=GEOGRAPHY, zero_variability=zero)
    rows = list(zip(truth.block.tolist(), truth.binned.tolist(), strict=True))
    unique = np.array([rows.count(row) == 1 for row in rows])
    assert np.array_equal(groups["unique"], unique)
    assert np.array_equal(groups["modal"], ~groups["nonmodal"])
    assert np.array_equal(groups[TELLING], groups["nonmodal"] & unique & zero[truth.block])
    sizes = np.array([sum(truth.block == b) for b in truth.block])
    assert np.array_equal(groups["block of 1-9"], sizes < 10)
    assert np.array_equal(groups["block of 10-49"], sizes >= 10)
    assert sum(groups[label].sum() for label in _size_labels()) == 80
    assert _size_labels()[-1] == "block of 1000+"


def test_zero_variability_needs_a_flag_for_every_block():
    truth = drawn(10, 1)
    with pytest.raises(InputError, match=r"zero variability: found shape \(2,\), expected a flag"):
        _universes(
            perfect_attacker(truth), truth, geography=GEOGRAPHY, zero_variability=np.ones(2, bool)
        )


def test_the_truth_itself_gives_uniques_away(state):
    truth = true_records(state)
    table = reidentified(truth, perfect_attacker(truth), truth, geography=state.geography, orders=3)
    found = {(row["universe"], row["by"]): row for row in table.to_dicts()}
    assert found["all", "records"]["putative"] == len(truth)
    assert found["unique", "records"]["precision"] == 1
    assert found["nonmodal", "modal guess"]["confirmed"] == 0
    assert found["modal", "modal guess"]["precision"] == 1
    beside = found["nonmodal unique", "proportional guess"]["precision"]
    assert 0 < beside < 0.5 < found["nonmodal unique", "records"]["precision"]


def test_records_put_in_other_blocks_tell_no_more_than_a_guess(state):
    """Negative control: within (sex, bin) the records are dealt out anew to the blocks."""
    truth = true_records(state)
    rng = np.random.default_rng(5)
    order = np.lexsort((rng.random(len(truth)), truth.binned))
    straight = np.lexsort((np.arange(len(truth)), truth.binned))
    secret = np.empty_like(truth.secret)
    secret[straight] = truth.secret[order]
    dealt = replace(truth, secret=secret)
    table = reidentified(
        dealt, perfect_attacker(truth), truth, geography=state.geography, orders=3, years=False
    )
    precision = {(r["universe"], r["by"]): r["precision"] for r in table.to_dicts()}
    share = np.bincount(truth.secret) / len(truth)
    by_chance = np.mean(share[truth.secret])  # a draw from the whole state
    # Age and race go together a little, and dealing keeps that.
    assert abs(precision["all", "records"] - by_chance) < 0.03
    nonmodal = _universes(perfect_attacker(truth), truth, geography=state.geography)["nonmodal"]
    expected = np.mean(share[truth.secret[nonmodal]])
    assert abs(precision["nonmodal", "records"] - expected) < 0.03
    kept = reidentified(
        truth, perfect_attacker(truth), truth, geography=state.geography, orders=3, years=False
    )
    real = kept.filter(universe="nonmodal", by="records")["precision"][0]
    assert real > expected + 0.2


def test_no_records_match_nobody():
    truth = drawn(30, 1)
    table = reidentified(drawn(0, 2), perfect_attacker(truth), truth, geography=GEOGRAPHY, orders=2)
    assert table["putative"].sum() == table["confirmed"].sum() == 0
    assert table["precision"].is_nan().all()


def test_guesses_stand_beside_every_rate():
    truth = drawn(60, 1)
    table = reidentified(truth, perfect_attacker(truth), truth, geography=GEOGRAPHY, orders=2)
    shown = beside_guesses(table)
    assert "block of 1000+" not in shown["universe"]  # nobody lives in one
    row = shown.filter(universe="nonmodal").row(0, named=True)
    assert row["modal_guess_%"] == 0
    own = table.filter(universe="nonmodal", by="records").row(0, named=True)
    assert row["precision_%"] == pytest.approx(100 * own["precision"], abs=0.05)


def test_people_whom_the_truth_does_not_have_are_never_confirmed():
    truth = drawn(60, 1)
    perfect = perfect_attacker(truth)
    known = replace(perfect, person=np.where(np.arange(60) < 20, -1, perfect.person))
    groups = _universes(known, truth, geography=GEOGRAPHY)
    assert not any(groups[name][:20].any() for name in ("modal", "nonmodal", "unique"))
    found = next(reidentify(known, truth, orders=1))
    assert found.matched.all()
    assert not _confirmed(found, truth.secret, known, truth)[:20].any()


def test_a_commercial_file_is_as_good_as_asked(state):
    truth = true_records(state)
    quality = Quality(coverage=0.8, wrong_block=0.3, wrong_age=0.25, wrong_sex=0.1, within="county")
    known = commercial_attacker(truth, geography=state.geography, quality=quality, seed=1)
    row, n = known.person, len(known)
    assert n == round(0.8 * len(truth))
    assert len(np.unique(row)) == n
    county = state.geography.ancestors("county")
    assert (county[known.block] == county[truth.block[row]]).all()
    ages = ages_of(state)
    for share, wrong in (
        (0.3, known.block != truth.block[row]),
        (0.25, known.key % ages != truth.key[row] % ages),
        (0.1, known.key // ages != truth.key[row] // ages),
    ):
        assert abs(wrong.mean() - share) < 4 * np.sqrt(share * (1 - share) / n)
    assert (np.abs(known.key % ages - truth.key[row] % ages) <= 5).all()
    again = commercial_attacker(truth, geography=state.geography, quality=quality, seed=1)
    assert np.array_equal(known.key, again.key)
    assert np.array_equal(known.block, again.block)
    right = _right_rows(commercial_attacker(truth, geography=state.geography), truth).mean()
    assert 0.34 < right < 0.42  # the Bureau's: 37 in 100


@pytest.mark.parametrize("ages", range(2, 13))
@pytest.mark.parametrize("furthest", [1, 3, 5])
def test_a_wrong_age_has_the_law_that_is_promised(ages, furthest):
    """Every age against a table of probabilities made by loops; the old law must be rejected."""
    rng, draws = np.random.default_rng([ages, furthest]), 3_000
    age = np.repeat(np.arange(ages), draws)
    found = _other_age(age, ages, furthest, rng)
    assert found.min() >= 0
    assert found.max() < ages
    expected, fudged = np.zeros((ages, ages)), np.zeros((ages, ages))
    for one in range(ages):
        distances = range(1, min(furthest, max(one, ages - 1 - one)) + 1)
        for distance in distances:
            sides = [a for a in (one - distance, one + distance) if 0 <= a < ages]
            for side in sides:
                expected[one, side] += 1 / len(distances) / len(sides)
                fudged[one, side] += (1.3 if side < one else 0.7) / len(distances) / len(sides)
    seen = np.zeros((ages, ages))
    np.add.at(seen, (age, found), 1)
    assert (seen[expected == 0] == 0).all()
    assert distance_to_law(seen, draws * expected) < 5
    if ages > 2:  # of two ages there is only one other
        assert distance_to_law(seen, draws * fudged) > 5


def distance_to_law(seen, expected):
    """Pearson's chi-square in standard deviations from its mean."""
    there = expected > 0
    chi2 = ((seen - expected)[there] ** 2 / expected[there]).sum()
    freedom = max(there.sum() - len(seen), 1)
    return (chi2 - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("ages", [3, 4, 7])
def test_a_file_with_few_age_levels_keeps_sexes_apart(ages):
    schema = replace(
        SCHEMA,
        attributes=(SCHEMA.attributes[0], Attribute("age", AGES[:ages]), *SCHEMA.attributes[2:]),
    )
    rng = np.random.default_rng(ages)
    cell = rng.integers(0, schema.size, 4_000)
    truth = records_from_rows(rng.integers(0, 9, 4_000), cell, Features.of(schema))
    quality = Quality(coverage=1, wrong_block=0, wrong_age=1, wrong_sex=0)
    known = commercial_attacker(truth, geography=GEOGRAPHY, quality=quality)
    assert (known.key // ages == truth.key // ages).all()
    assert (known.key != truth.key).all()


@pytest.mark.parametrize("large", [0.5, 0.95, 0.9995])
def test_everybody_with_a_wrong_block_who_can_have_one_has(large):
    """One block holds nearly everybody; the block alone in its unit keeps its people."""
    people = 10_000
    rest = np.arange(round(people * large), people) % 2 + 1  # blocks 1 and 2, same unit
    block = np.concatenate([np.zeros(round(people * large), dtype=np.int64), rest, np.full(50, 8)])
    cell = np.random.default_rng(1).integers(0, SCHEMA.size, len(block))
    truth = records_from_rows(block, cell, FEATURES)
    quality = Quality(
        coverage=1, wrong_block=1, wrong_age=0, wrong_sex=0, within=GEOGRAPHY.levels[1]
    )
    known = commercial_attacker(truth, geography=GEOGRAPHY, quality=quality)
    moved = known.block != truth.block
    assert moved[block != 8].all()
    assert not moved[block == 8].any()
    from_large = known.block[block == 0]
    among = np.bincount(rest, minlength=3)[1:] / len(rest)
    share = np.bincount(from_large, minlength=3)[1:] / len(from_large)
    assert np.abs(share - among).max() < 5 * np.sqrt(among.prod() / len(from_large)) + 1e-9


@given(st.integers(0, 10_000), st.sampled_from([3, 9]))
def test_the_draw_among_others_steps_over_the_own_block_only(seed, blocks):
    """Against a plain list of the others' blocks: nobody else is left out, the own never drawn."""
    rng = np.random.default_rng(seed)
    everyone = rng.choice(blocks, size=rng.integers(1, 12))
    unit = np.repeat(np.arange(3), 3)[:9].astype(np.int64)
    own = everyone.copy()
    found = np.stack([_past_own(own.copy(), own, everyone, unit, rng) for _ in range(60)])
    for person, block in enumerate(own):
        others = {b for b in everyone.tolist() if unit[b] == unit[block] and b != block}
        assert set(found[:, person].tolist()) <= (others or {int(block)})
        if len(others) == 1:
            assert set(found[:, person].tolist()) == others


def ages_of(population):
    return population.schema.attribute("age").size


@pytest.mark.parametrize("name", ["coverage", "wrong_block", "wrong_age", "wrong_sex"])
def test_shares_of_a_file_are_shares(name):
    with pytest.raises(ConfigError, match=f"attacker: {name}: found 1.5, expected a share"):
        Quality(**{name: 1.5})  # type: ignore[arg-type]


def test_errors_of_age_reach_somewhere():
    with pytest.raises(ConfigError, match="furthest: found 0, expected 1 or more"):
        Quality(furthest=0)


def test_people_outside_the_truth_are_refused():
    truth = drawn(5, 1)
    known = KnownPeople(
        name="x",
        features=FEATURES,
        person=np.array([9]),
        block=np.zeros(1, int),
        key=np.zeros(1, int),
    )
    with pytest.raises(InputError, match="person: found a number out of range, expected -1"):
        reidentified(truth, known, truth, geography=GEOGRAPHY)


def test_counts_multiply_people_in_the_truth(state):
    twice = replace(
        state, count=np.full(len(state.unit), 2, dtype=np.int64), households=None, quarters=None
    )
    assert len(true_records(twice)) == 2 * len(true_records(state))


def test_intervals_are_students():
    mean, low, high = _interval([0.4, 0.5, 0.6])
    assert mean == pytest.approx(0.5)
    assert high - mean == pytest.approx(4.302653 * 0.1 / np.sqrt(3), rel=1e-5)
    assert low == pytest.approx(2 * mean - high)
    assert np.isnan(_interval([float("nan")])[0])
    assert np.isnan(_interval([0.5])[1])


def loop_agreement(records, truth):
    """The two passes as loops over records, block by block, without replacement."""
    exact = binned = 0
    left = list(zip(truth.block, truth.key, truth.binned, truth.secret, strict=True))
    rest = []
    for row in zip(records.block, records.key, records.binned, records.secret, strict=True):
        if row in left:
            left.remove(row)
            exact += 1
        else:
            rest.append((row[0], row[2], row[3]))
    coarse = [(b, g, s) for b, _, g, s in left]
    for one in rest:
        if one in coarse:
            coarse.remove(one)
            binned += 1
    return exact, exact + binned


@given(records=st.integers(0, 60), people=st.integers(1, 60), seed=st.integers(0, 999))
def test_agreement_is_that_of_two_passes(records, people, seed):
    found, truth = drawn(records, seed, 2), drawn(people, seed + 1, 2)
    whole, *parts = agreement(found, truth, blocks=9).iter_rows(named=True)
    assert (whole["exact"], whole["binned"]) == loop_agreement(found, truth)
    assert [one["blocks"] for one in parts] == list(_size_labels())
    in_empty = int((np.bincount(truth.block, minlength=9)[found.block] == 0).sum())
    assert sum(one["people"] for one in parts) == people
    assert sum(one["records"] for one in parts) == records - in_empty
    assert sum(one["binned"] for one in parts) == whole["binned"]
    assert whole["binned"] >= whole["exact"]


def test_agreement_needs_one_schema():
    other = Features.of(Schema((Attribute("age", ("20",)), Attribute("race", ("a",)))))
    with pytest.raises(InputError, match="agreement: found records on another schema"):
        agreement(
            records_from_rows(np.zeros(1, int), np.zeros(1, int), other), drawn(3, 1), blocks=9
        )
