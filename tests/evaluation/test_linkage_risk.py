"""Scores of the linkage attack: three readings of the same individual."""

from typing import Any

import numpy as np
import pytest

from headcount.attacks.linkage import link
from headcount.errors import InputError
from headcount.evaluation.attacked import IDENTITY_RULES, TrueSecrets, confirmed_links, linked_frame
from headcount_papers.person_swapping.persons import swap_everywhere
from headcount_papers.person_swapping.similar import PartnerRule
from tests.papers.exchanged import exchange_everywhere

SIZES = {"age": 20, "sex": 2, "race": 5, "hispanic": 2, "household_size": 3}


def town(rows=300, seed=1):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, size, rows) for name, size in SIZES.items()}


def by_hand(links, rule, truth, after, origin):
    right = []
    for p, d in enumerate(links.tolist()):
        same = {"slot": d == p, "person": d >= 0 and origin[d] == p, "value": True}[rule]
        right.append(d >= 0 and same and bool(after["hispanic"][d] == truth["hispanic"][p]))
    return right


@pytest.mark.parametrize("rule", IDENTITY_RULES)
@pytest.mark.parametrize("rate", [0, "1/2", 1])
def test_each_rule_against_its_words(rule, rate):
    truth = town()
    area = np.repeat(np.arange(3), 100)
    swap = swap_everywhere(
        truth, area, PartnerRule(kind="similar"), rate=rate, rng=np.random.default_rng(2)
    )
    after, origin = exchange_everywhere(truth, swap), swap.origin(300)
    links = link(
        truth | {"area": area},
        after | {"area": area},
        age_width=2,
        exact=("race", "household_size", "area"),
    )
    right = confirmed_links(
        links,
        rule=rule,
        secret=truth["hispanic"],
        released_secret=after["hispanic"],
        origin=origin,
    )
    assert right.tolist() == by_hand(links, rule, truth, after, origin)
    if rate == 0:
        assert right.sum() == (links >= 0).sum() > 0
    if rate == 1 and rule == "person":
        assert not right.any()
    if rate == 1 and rule == "value":
        assert right.any()


def test_slot_person_and_value_differ_after_one_swap():
    # 0 and 1 changed places; 1 looks like 0 to the attacker, and shares the secret.
    links = np.array([0, -1, 2, 3])
    shared = {
        "secret": [1, 1, 0, 0],
        "released_secret": [1, 1, 0, 1],
        "origin": [1, 0, 2, 3],
    }
    assert confirmed_links(links, rule="slot", **shared).tolist() == [True, False, True, False]
    assert confirmed_links(links, rule="person", **shared).tolist() == [False, False, True, False]
    assert confirmed_links(links, rule="value", **shared).tolist() == [True, False, True, False]


def test_the_public_table_may_stand_in_another_order_or_leave_people_out():
    links = np.array([2, 0])
    right = confirmed_links(
        links, rule="slot", secret=[0, 1], released_secret=[1, 1, 0], slot=[2, 1]
    )
    assert right.tolist() == [True, False]


def test_rates_are_of_people_and_of_matches():
    truth = TrueSecrets(
        secret=[0] * 4, released=[0, 1, 0, 0], origin=None, slot=np.array([0, 1, 2, 3])
    )
    found = linked_frame(np.array([0, 1, -1, 3]), truth)
    assert found["identity_rule"].to_list() == ["value", "slot"]
    assert found.row(1)[1:] == (4, 3, 2, 50.0, 2 / 3)
    nobody = TrueSecrets(secret=[], released=[0], origin=None, slot=None)
    assert np.isnan(linked_frame(np.empty(0, dtype=np.int64), nobody)["percent"][0])


def test_bad_input_is_refused():
    links = np.array([0, 1])
    good: dict[str, Any] = {"secret": [0, 0], "released_secret": [0, 0]}
    with pytest.raises(InputError, match="rule: found 'name', expected slot or person or value"):
        confirmed_links(links, **(good | {"rule": "name"}))
    with pytest.raises(InputError, match="secret: found 1 rows, expected 2"):
        confirmed_links(links, rule="slot", **(good | {"secret": [0]}))
    with pytest.raises(InputError, match="origin: found 1 rows, expected 2"):
        confirmed_links(links, rule="slot", origin=[0], **good)
