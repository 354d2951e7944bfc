"""Only children take no share: it is moved up, and along every path the loss is the same."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.mechanisms import losses_of, total_loss
from headcount.privacy import UnitOfPrivacy
from headcount.tabulate import CELLS
from headcount.tabulate.counts import every_level
from headcount.topdown._estimate import prepare_level
from headcount.topdown.measure import Measurements
from tests.topdown.small import (
    SCHEMA,
    add_up,
    counts_of,
    dense,
    keyed,
    run,
    settings,
    tree,
    zcdp,
)


# The first county has one town with one block; the second two towns, the last with one block.
def place(times=1):
    return tree(("county", [2 * times]), ("town", [1, 2] * times), ("block", [1, 2, 1] * times))


PLACE = place()
LEVELS = {"whole": "1/10", "county": "2/10", "town": "3/10", "block": "4/10"}
SHARES = (("kind", Fraction(1, 3)), (CELLS, Fraction(2, 3)))
RHO = Fraction(3, 2)


def bypassing(**keys):
    chosen = {"query_shares": SHARES, "levels": LEVELS, "bypass": "county", **keys}
    return settings(zcdp(RHO), **chosen)


def people(times=1):
    cells = np.random.default_rng(3).integers(1, 40, (4 * times, SCHEMA.size))
    return counts_of(cells * SCHEMA.possible, place(times))


def test_shares_are_moved_up_and_cost_the_whole_loss_along_every_path():
    plan = bypassing().on(Domain(SCHEMA, PLACE)).plan
    found = {(one.level, one.law.variance): one.entries for one in plan if one.query == "kind"}
    third = [RHO * Fraction(part, 10) / 3 for part in (1, 9, 2, 3, 7, 4)]
    assert sorted(found.values()) == [3, 3, 3, 3, 3, 6]
    losses = losses_of(plan, UnitOfPrivacy.CHANGE_ONE)
    by_kind = [
        loss.amount
        for one, loss in zip(plan, losses, strict=True)
        if one.query == "kind" and loss is not None
    ]
    # whole; county alone, county with its only town and block; town, town with its block; block
    assert sorted(by_kind) == sorted(third)
    whole = total_loss(plan, UnitOfPrivacy.CHANGE_ONE)
    assert whole is not None
    assert whole.amount == RHO
    level_by_level = sum((loss.amount for loss in losses if loss is not None), Fraction(0))
    assert level_by_level > RHO  # adding up what stands side by side would say too much


def test_the_guarantee_is_the_loss_that_was_asked_for():
    (loss, *_) = bypassing().on(Domain(SCHEMA, PLACE)).guarantee.losses
    assert loss.amount == RHO


def test_nothing_is_said_of_a_unit_without_a_share():
    counts = people()
    made = Measurements(every_level(counts), bypassing(), keyed(), run=0)
    town = made.values("town", "kind")
    assert town[0].tolist() == [0, 0, 0]  # the only town of the first county
    assert (town[1:] != 0).all()
    assert not made.values("block", CELLS)[[0, 3]].any()
    units, groups = np.array([0, 1]), np.array([1, 1])
    assert made.picker("town", units)("kind", units, groups).tolist() == [0, town[1, 1]]
    assert made.picker("town", units)(CELLS, units, groups)[0] == 0


def test_answers_have_the_noise_of_their_own_share():
    """With the loss of a unit's own path: the variance over many counties of either kind."""
    counts, mechanism = people(1_500), bypassing()
    truth = counts.at("county").dense().reshape(-1, 3, 2).sum(axis=2)
    drawn = Measurements(every_level(counts), mechanism, keyed(7), run=0).values("county", "kind")
    spread = [(drawn - truth)[first::2].var() for first in range(2)]
    laws = sorted(
        one.law.variance
        for one in mechanism.on(counts.domain).plan
        if (one.level, one.query) == ("county", "kind")
    )
    # The first county has the shares of three levels, the second its own: 9/10 and 2/10.
    assert spread == pytest.approx([laws[0], laws[1]], rel=0.1)
    assert laws[1] / laws[0] == pytest.approx(9 / 2, rel=0.05)


def test_least_squares_trusts_each_unit_by_the_noise_of_its_own_share():
    mechanism = bypassing()
    made = Measurements(every_level(people()), mechanism, keyed(), run=0)
    town = prepare_level(
        "town",
        schema=SCHEMA,
        settings=mechanism,
        planned=made.planned,
        restrictions=(),
        of_unit=made.classes["town"],
    )
    cells, families = town.weights_of(np.arange(3))
    # 1 / variance = rho x share of the query x share of the unit: 0, its own, its block's too
    own = float(RHO) * np.array([0, 3, 7]) / 10
    assert cells == pytest.approx(own * 2 / 3, rel=1e-6)
    assert families[:, town.families.index("kind")] == pytest.approx(own / 3, rel=1e-6)


def test_a_release_adds_up_and_only_children_are_their_parents():
    made = dense(run(bypassing(), people()))
    for level in PLACE.levels:
        assert np.array_equal(made[level], add_up(PLACE, made["block"], level))
    assert np.array_equal(made["county"][0], made["block"][0])


def test_without_any_only_child_nothing_is_moved():
    alike = tree(("county", [2]), ("block", [2, 3]))
    keys = {"query_shares": SHARES}
    plain, moved = settings(zcdp(1), **keys), settings(zcdp(1), bypass="whole", **keys)
    here, there = (one.on(Domain(SCHEMA, alike)).plan for one in (plain, moved))
    assert [(a.level, a.query, a.law, a.entries) for a in here] == [
        (b.level, b.query, b.law, b.entries) for b in there
    ]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"count_housemates": True}, "bypass: found it where households are counted"),
        ({"bypass": "district"}, "bypass.*found level 'district'"),
        (
            {"levels": {"whole": "1/2", "county": "1/2"}},
            "bypass: found no share for level 'town', expected a share for 'county' and every",
        ),
    ],
)
def test_a_bypass_without_shares_to_move_is_refused(keys, said):
    with pytest.raises(ConfigError, match=said):
        bypassing(**keys).on(people().domain)
