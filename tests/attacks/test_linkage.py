"""The linkage attack against a nested loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.attacks.linkage import link
from headcount.errors import InputError

SIZES = {"age": 12, "race": 3, "household_size": 2}


def people(rows, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, rows) for name, size in SIZES.items()}


def by_hand(public, released, width, exact):
    """Algorithm 1, one pair after another."""
    found = []
    for p in range(len(public["age"])):
        fits = [
            d
            for d in range(len(released["age"]))
            if public["age"][p] // width == released["age"][d] // width
            and all(public[name][p] == released[name][d] for name in exact)
        ]
        found.append(fits[0] if len(fits) == 1 else -1)
    return found


@pytest.mark.parametrize("exact", [("race", "household_size"), ("race",), ()])
@given(
    known=st.integers(0, 30),
    seen=st.integers(0, 30),
    width=st.sampled_from([1, 2, 5, 45]),
    seed=st.integers(0, 99),
)
def test_matches_are_those_of_the_nested_loop(exact, known, seen, width, seed):
    public, released = people(known, seed), people(seen, seed + 1000)
    expected = by_hand(public, released, width, exact)
    links = link(public, released, age_width=width, exact=exact)
    assert links.tolist() == expected
    alone = [d if expected.count(d) == 1 else -1 for d in expected]
    one_to_one = link(public, released, age_width=width, exact=exact, one_to_one=True)
    assert one_to_one.tolist() == alone


def test_two_people_may_claim_one_record():
    public = {"age": np.array([4, 5, 30]), "race": np.array([0, 0, 1])}
    released = {"age": np.array([4, 31]), "race": np.array([0, 1])}
    links = link(public, released, age_width=2, exact=("race",))
    assert links.tolist() == [0, 0, 1]
    alone = link(public, released, age_width=2, exact=("race",), one_to_one=True)
    assert alone.tolist() == [-1, -1, 1]


def test_keys_beyond_64_bits_are_kept_apart():
    rng = np.random.default_rng(1)
    names = [f"x{i}" for i in range(12)]
    public = {name: rng.integers(0, 90, 40) for name in names} | {"age": rng.integers(0, 90, 40)}
    order = rng.permutation(40)
    released = {name: column[order] for name, column in public.items()}
    links = link(public, released, age_width=1, exact=names)
    assert np.array_equal(order[links], np.arange(40))


def test_bad_knowledge_is_refused():
    rows = people(3, 1)
    with pytest.raises(InputError, match="age_width: found 0, expected 1 year or more"):
        link(rows, rows, age_width=0)
    short = {name: rows[name] for name in ("age", "race")}
    with pytest.raises(InputError, match="released table: found no attribute 'household_size'"):
        link(rows, short, age_width=2)
    with pytest.raises(InputError, match="public table: found no attribute 'household_size'"):
        link(short, rows, age_width=2)
