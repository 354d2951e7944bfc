"""Re-identification against plain loops: who is matched, to whom, how often."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from headcount.attacks.records import Features, Records, records_from_rows, records_of
from headcount.attacks.reidentification import KnownPeople, reidentify
from headcount.errors import InputError
from headcount.evaluation.reidentified import _block_modes, _modal_guess, _proportional_guess
from headcount.geography import Geography
from headcount.schema import Attribute, Schema

AGES = tuple(str(year) for year in range(18, 32))
YEARS = Schema(
    (
        Attribute("race", ("white", "black", "other")),
        Attribute("age", AGES),
        Attribute("sex", ("male", "female")),
        Attribute("hispanic", ("not_hispanic", "hispanic")),
    )
)
FEATURES = Features.of(YEARS)


def drawn(people, blocks, seed, features=FEATURES):
    rng = np.random.default_rng(seed)
    cell = rng.integers(0, features.schema.size, people)
    return records_from_rows(rng.integers(0, blocks, people), cell, features)


def attacker(records, name="someone"):
    return KnownPeople(
        name=name,
        features=records.features,
        person=np.arange(len(records)),
        block=records.block,
        key=records.key,
    )


def tree(*parents):
    """A geography whose leaf units have these parents."""
    units = max(parents) + 1
    return Geography(
        ("whole", "group", "block"),
        (
            np.array(["whole"]),
            np.array([f"g{i}" for i in range(units)]),
            np.array([f"b{i}" for i in range(len(parents))]),
        ),
        (
            np.empty(0, dtype=np.int32),
            np.zeros(units, dtype=np.int32),
            np.array(parents, dtype=np.int32),
        ),
    )


def test_features_number_sex_and_age_whatever_the_order_of_attributes():
    cell = YEARS.cell(race="other", age="26", sex="female", hispanic="hispanic")
    key = FEATURES.key_of({"sex": np.array(1), "age": np.array(AGES.index("26"))})
    assert FEATURES.key[cell] == key
    other = FEATURES.key_of({"sex": np.array(1), "age": np.array(AGES.index("29"))})
    assert FEATURES.binned[key] == FEATURES.binned[other]  # 25-29
    apart = FEATURES.key_of({"sex": np.array([0, 1]), "age": np.array([AGES.index("26")] * 2)})
    assert FEATURES.binned[apart[0]] != FEATURES.binned[apart[1]]
    assert FEATURES.years
    assert FEATURES.secrets == 6


def test_bins_of_a_schema_without_years_are_its_own_levels():
    schema = Schema((Attribute("voting_age", ("minor", "adult")), Attribute("race", ("a", "b"))))
    features = Features.of(schema)
    assert not features.years
    assert features.bins == 2


@pytest.mark.parametrize("left", ["sex", "race"])
def test_a_schema_without_anything_to_know_or_to_learn_is_refused(left):
    roles = {"sex": ("sex",), "race": ("race",)}[left]
    schema = Schema((Attribute(roles[0], ("x", "y")),))
    with pytest.raises(
        InputError, match=r"found attributes '(sex|race)', expected \[roles\] with (sex|race) or "
    ):
        Features.of(schema)


def two_passes_by_hand(known, records, *, exact_first):
    """How many of each (block, key) and (block, bin) are matched: what every order must give."""
    a = Counter(zip(known.block.tolist(), known.key.tolist(), strict=True))
    r = Counter(zip(records.block.tolist(), records.key.tolist(), strict=True))
    first = a & r if exact_first else Counter()
    coarse = []
    for left in (a - first, r - first):
        total: Counter[tuple[int, int]] = Counter()
        for (block, key), n in left.items():
            total[block, int(FEATURES.binned[key])] += n
        coarse.append(total)
    return first, coarse[0] & coarse[1]


@given(
    known=st.integers(0, 40),
    seen=st.integers(0, 40),
    blocks=st.integers(1, 3),
    exact_first=st.booleans(),
    seed=st.integers(0, 99),
)
def test_matches_are_one_to_one_and_as_many_as_two_passes_allow(
    known, seen, blocks, exact_first, seed
):
    people, records = drawn(known, blocks, seed), drawn(seen, blocks, seed + 1000)
    for found in reidentify(attacker(people), records, orders=3, seed=seed, years=exact_first):
        who = np.flatnonzero(found.matched)
        row = found.record[who]
        assert len(np.unique(row)) == len(row)
        assert (people.block[who] == records.block[row]).all()
        assert (people.binned[who] == records.binned[row]).all()
        on_age = found.grade[who] == 1
        assert (people.key[who] == records.key[row])[on_age].all()
        first, second = two_passes_by_hand(people, records, exact_first=exact_first)
        keys = zip(people.block[who][on_age], people.key[who][on_age], strict=True)
        bins = zip(people.block[who][~on_age], people.binned[who][~on_age], strict=True)
        assert Counter((int(b), int(k)) for b, k in keys) == first
        assert Counter((int(b), int(k)) for b, k in bins) == second
        assert set(found.grade[~found.matched]) <= {0}


@pytest.mark.parametrize(("people", "records"), [(2, 3), (3, 2), (3, 3)])
def test_every_way_to_pair_lookalikes_is_equally_likely(people, records):
    cell = YEARS.cell(race="white", age="20", sex="male", hispanic="hispanic")
    a, r = (
        records_from_rows(np.zeros(n, int), np.full(n, cell), FEATURES) for n in (people, records)
    )
    orders = 12_000
    seen = Counter(
        tuple(found.record.tolist()) for found in reidentify(attacker(a), r, orders=orders)
    )
    slots = [*range(records), *([-1] * max(people - records, 0))]
    ways = set(permutations(slots, people))
    assert set(seen) == ways
    expected = orders / len(ways)
    chi2 = sum((n - expected) ** 2 / expected for n in seen.values())
    assert chi2 < len(ways) - 1 + 4 * np.sqrt(2 * (len(ways) - 1))
    unfair = dict.fromkeys(ways, expected * 0.9) | {next(iter(ways)): expected * 1.6}
    assert sum((n - expected) ** 2 / expected for n in unfair.values()) > 40  # would be noticed


def test_an_order_does_not_depend_on_how_many_are_drawn_and_the_seed_matters():
    people, records = drawn(60, 2, 1), drawn(60, 2, 2)
    one = next(reidentify(attacker(people), records, orders=1, seed=5)).record
    many = [found.record for found in reidentify(attacker(people), records, orders=4, seed=5)]
    assert np.array_equal(one, many[0])
    assert not np.array_equal(many[0], many[1])
    other = next(reidentify(attacker(people), records, orders=1, seed=6)).record
    assert not np.array_equal(one, other)


def test_addresses_outside_the_geography_match_nobody():
    people = drawn(20, 1, 3)
    away = KnownPeople(
        name="away", features=FEATURES, person=np.arange(20), block=np.full(20, -1), key=people.key
    )
    found = next(reidentify(away, people, orders=1))
    assert not found.matched.any()


def test_other_schemas_orders_and_columns_are_refused():
    people = drawn(5, 1, 1)
    schema = Schema((Attribute("age", ("20",)), Attribute("race", ("a",))))
    other = drawn(5, 1, 1, Features.of(schema))
    with pytest.raises(InputError, match="found attacker 'someone' on another schema"):
        reidentify(attacker(people), other)
    with pytest.raises(InputError, match="orders: found 0, expected 1 or more"):
        reidentify(attacker(people), people, orders=0)
    with pytest.raises(InputError, match="attacker 'x': found columns of different lengths"):
        KnownPeople(
            name="x", features=FEATURES, person=np.arange(3), block=np.arange(2), key=np.arange(3)
        )


def test_records_stand_for_counts_of_whole_people():
    counts = np.zeros((2, YEARS.size), dtype=np.int64)
    counts[0, 5], counts[1, 7] = 2, 1
    records = records_of(csr_array(counts), FEATURES)
    assert records.block.tolist() == [0, 0, 1]
    assert records.secret.tolist() == FEATURES.secret[[5, 5, 7]].tolist()
    for wrong in (-1.0, 0.5):
        with pytest.raises(InputError, match="counts that are negative or not whole"):
            records_of(csr_array(counts * wrong), FEATURES)


def guess_records(block, secret):
    block, secret = np.array(block), np.array(secret)
    return Records(features=FEATURES, block=block, key=np.zeros_like(block), secret=secret)


def test_the_mode_of_ties_and_of_lone_people_is_that_of_the_group_then_of_the_whole():
    block = [0, 0, 0, 1, 1, 2, 3, 3]
    secret = [4, 4, 1, 0, 1, 5, 2, 3]
    records = guess_records(block, secret)
    geography = tree(0, 0, 0, 1)  # group 0: 4 and 1 twice each: a tie, so the whole decides
    whole = Counter(secret).most_common()
    assert whole[0][1] == whole[1][1] == 2  # 4 and 1: a tie even there, the first number stands
    assert _block_modes(records, geography).tolist() == [4, 1, 1, 1]
    records = guess_records([*block, 2], [*secret, 4])
    # block 2 now ties at 5, 4; group 0 has 4 three times; group 1 ties; the whole has 4
    assert _block_modes(records, geography).tolist() == [4, 4, 4, 4]
    assert _modal_guess(records, geography).tolist() == [4] * 9


def test_proportional_guesses_follow_the_shares_of_the_block():
    block = np.repeat([0, 1], [8_000, 12_000])
    secret = np.concatenate([np.repeat([0, 1], [6_000, 2_000]), np.full(12_000, 3)])
    order = np.random.default_rng(1).permutation(len(block))
    records = guess_records(block[order], secret[order])
    guess = _proportional_guess(records, seed=2)
    first = guess[records.block == 0]
    assert set(guess[records.block == 1]) == {3}
    assert abs((first == 0).mean() - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 8_000)
    own = records.secret[records.block == 0]
    assert abs((first == own).mean() - 0.625) < 0.03  # not their own secret more than by chance
    assert not np.array_equal(guess, _proportional_guess(records, seed=2, order=1))
