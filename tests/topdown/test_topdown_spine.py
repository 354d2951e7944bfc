"""TopDown along a spine: measured on another tree, published on the usual one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headcount.comparison.measures import _small_part
from headcount.domain import Domain
from headcount.errors import ConfigError
from headcount.evaluation import Truth, audit
from headcount.evaluation._base import NotFeasible
from headcount.evaluation.part import some_of
from headcount.geography import Geography
from headcount.mechanisms import Chain, Preserved, protect
from headcount.population.population import Quarters
from headcount.privacy import UnitOfPrivacy
from headcount.tabulate import CELLS, Tabulated, counts_digest
from headcount.topdown.choices import Invariant, LevelPasses, QuartersBounds
from headcount.topdown.descend import along_spine
from headcount.topdown.restrict import joint_totals, restrict
from tests.topdown.small import (
    SCHEMA,
    add_up,
    counts_of,
    dense,
    keyed,
    run,
    settings,
    zcdp,
)

LEAVES = [f"{state}{number}" for state in "AB" for number in range(6)]


def tree(states: dict[str, str], towns: dict[str, str]) -> Geography:
    """Leaves under towns under states, each by a name that its leaves share."""
    order = sorted(LEAVES, key=lambda leaf: (states[leaf], towns[leaf], leaf))
    units = [["whole"], sorted(set(states.values())), sorted(set(towns.values())), order]
    units[2].sort(key=lambda town: next(i for i, leaf in enumerate(order) if towns[leaf] == town))
    parents = [
        [],
        [0] * len(units[1]),
        [units[1].index(states[next(x for x in order if towns[x] == town)]) for town in units[2]],
        [units[2].index(towns[leaf]) for leaf in order],
    ]
    return Geography(
        ("whole", "state", "town", "leaf"),
        tuple(np.array(one) for one in units),
        tuple(np.array(one, dtype=np.int32) for one in parents),
    )


INSIDE = {"A1", "A4", "B0"}
SPINE = tree(
    {leaf: f"{leaf[0]}{int(leaf in INSIDE)}" for leaf in LEAVES},
    {leaf: f"{leaf[0]}{int(leaf in INSIDE)}.{int(leaf[1]) % 2}" for leaf in LEAVES},
)
PLACE = replace(
    tree(
        {leaf: leaf[0] for leaf in LEAVES},
        {leaf: f"{leaf[0]}{int(leaf[1]) // 3}" for leaf in LEAVES},
    ),
    spine=SPINE,
)
DOMAIN = Domain(SCHEMA, PLACE)
SHARES = (("kind", Fraction(1, 2)), (CELLS, Fraction(1, 2)))
TOTAL = Invariant(query="total", level="state")
BOUNDS = QuartersBounds(
    query="kind",
    caps=(99, 99, 99),
    total_level="state",
    floors=(0, 1, 1),
    vacant=True,
    tighter=True,
)


def people(spread: int = 40):
    cells = np.random.default_rng(3).integers(1, spread, (len(LEAVES), SCHEMA.size))
    return counts_of(cells * SCHEMA.possible, PLACE)


def in_quarters():
    """A vacant home in every leaf; where nobody of a kind lives, none of its quarters stand."""
    counts = people(6)
    by_kind = counts.dense().reshape(len(LEAVES), 3, 2).sum(axis=2)
    occupied = np.minimum(by_kind, 2)
    vacant = np.ones(len(LEAVES), dtype=np.int64)
    return replace(counts, quarters=Quarters(PLACE, "kind", occupied, vacant))


def along(loss, **keys):
    chosen = {"query_shares": SHARES, "spine": True, "invariants": (TOTAL,), **keys}
    return settings(loss, **chosen)


def test_the_spine_of_the_example_has_states_in_parts_and_other_towns():
    assert SPINE.units[1].tolist() == ["A0", "A1", "B0", "B1"]
    assert PLACE.size("town") == 4
    assert SPINE.size("town") == 7
    assert PLACE.units[-1][PLACE.along_spine].tolist() == SPINE.units[-1].tolist()


def test_without_noise_the_truth_comes_back_in_published_places():
    counts = people()
    made = dense(run(along(None), counts))
    for level in PLACE.levels:
        assert np.array_equal(made[level], add_up(PLACE, counts.dense(), level))


def test_states_are_exact_and_their_parts_are_not():
    counts = people()
    truth = add_up(PLACE, counts.dense(), "state").sum(axis=1)
    inside = np.array([leaf in INSIDE for leaf in PLACE.units[-1]])
    parts = set()
    for seed in range(6):
        made = dense(run(along(zcdp("1/20")), counts, seed=seed))
        assert np.array_equal(made["state"].sum(axis=1), truth)
        for level in PLACE.levels:
            assert np.array_equal(made[level], add_up(PLACE, made["leaf"], level))
        parts.add(int(made["leaf"][inside & (PLACE.ancestors("state") == 0)].sum()))
    assert len(parts) > 1  # a part's own total has noise


def test_bounds_of_2020_hold_in_every_leaf_and_pairs_share_a_total():
    counts = in_quarters()
    quarters = counts.quarters
    assert quarters is not None
    stand = quarters.occupied + np.stack(
        [quarters.vacant, 0 * quarters.vacant, 0 * quarters.vacant], 1
    )
    mechanism = along(zcdp("1/20"), bounds=(BOUNDS,))
    assert any("nest" in said for said in mechanism.on(counts.domain).check(counts))
    for seed in range(4):
        made = dense(run(mechanism, counts, seed=seed))
        by_kind = made["leaf"].reshape(len(LEAVES), 3, 2).sum(axis=2)
        assert (by_kind >= stand * [0, 1, 1]).all()
        assert (by_kind <= 99 * stand).all()
        assert np.array_equal(
            made["state"].sum(axis=1), add_up(PLACE, counts.dense(), "state").sum(axis=1)
        )


TIGHT = replace(BOUNDS, caps=(3, 3, 3))
"""Bounds that many an estimate of the whole leaves no room for, beside the totals of states."""

FIRST = LevelPasses(fit=(("kind",), (CELLS,)), round=(("kind",), (CELLS,)))
IN_PASSES = {"passes": dict.fromkeys(("state", "town"), FIRST)}


@pytest.mark.parametrize("failsafe", [(), ("kind",)], ids=["room", "failsafe"])
@pytest.mark.parametrize("more", [{}, IN_PASSES], ids=["at once", "in passes"])
def test_where_no_counts_fit_states_in_parts_are_exact_all_the_same(failsafe, more):
    counts = people(6)
    by_kind = counts.dense().reshape(len(LEAVES), 3, 2).sum(axis=2)
    stand = -(-by_kind // 3)  # nearly full: no kind has room for more than two people
    vacant = np.zeros(len(LEAVES), dtype=np.int64)
    counts = replace(counts, quarters=Quarters(PLACE, "kind", stand, vacant))
    truth = add_up(PLACE, counts.dense(), "state").sum(axis=1)
    mended = 0
    for seed in range(20):
        mechanism = along(zcdp("1/500"), bounds=(TIGHT,), failsafe_over=failsafe, **more)
        outcome = run(mechanism, counts, seed=seed)
        made = dense(outcome)
        assert np.array_equal(made["state"].sum(axis=1), truth)
        by_kind = made["leaf"].reshape(len(LEAVES), 3, 2).sum(axis=2)
        assert (by_kind >= stand * [0, 1, 1]).all()
        assert (by_kind <= stand * TIGHT.caps).all()
        mended += int(outcome.notes["state: failsafe" if failsafe else "state: room made"])
    assert mended > 1


def test_the_loss_is_that_of_the_spine_and_only_children_take_no_share():
    mechanism = along(zcdp(1), invariants=(), bypass="whole")
    (loss, *_) = mechanism.on(DOMAIN).guarantee.losses
    assert loss.amount == 1
    plan = mechanism.on(DOMAIN).plan
    shares = mechanism.unit_shares(SPINE)
    assert shares is not None
    assert shares.along_paths() == (1, 1)
    kinds = {(one.level, one.entries) for one in plan if one.query == "kind"}
    alone = int((shares.classes("leaf")[1] == 0).sum())
    assert alone > 0
    assert ("leaf", 3 * (len(LEAVES) - alone)) in kinds
    assert all(one.loss(UnitOfPrivacy.CHANGE_ONE) is not None for one in plan)


def test_another_spine_makes_other_data():
    """So that a run is not resumed on one spine with the noise of another."""
    counts = people()
    flat = Domain(SCHEMA, replace(PLACE, spine=None))
    bare = replace(counts, domain=flat)
    assert counts_digest(counts) != counts_digest(bare)


def test_a_part_of_the_places_keeps_their_spine():
    leaves = np.array([0, 1, 2, 4, 7])
    part, kept = some_of(PLACE, leaves)
    assert part.spine is not None
    assert part.spine.units[-1].tolist() == [
        code for code in SPINE.units[-1].tolist() if code in part.units[-1]
    ]
    for level in ("state", "town"):
        above = dict(zip(SPINE.units[-1], SPINE.units[1][SPINE.ancestors("state")], strict=True))
        own = part.spine.units[1][part.spine.ancestors("state")]
        assert own.tolist() == [above[code] for code in part.spine.units[-1]]
        assert part.units[part.depth(level)].tolist() == [
            PLACE.units[PLACE.depth(level)][k] for k in kept[level]
        ]
    assert some_of(replace(PLACE, spine=None), leaves)[0].spine is None


def test_the_audit_of_a_comparison_works_on_a_part_with_its_spine(monkeypatch):
    """On the leaves of one town, whose spine has them in two parts of the state."""
    monkeypatch.setattr(audit, "FEWEST_RUNS", 20)
    part = _small_part(people(6))
    assert part.geography.size("leaf") == 3
    mechanism = along(zcdp(1))
    release = protect(Tabulated.of(part), mechanism, keyed())
    truth = Truth(counts=part, protected=part, mechanism=mechanism)
    finding = audit.Audit(runs=24).compute(release, truth)
    assert finding.table["runs"].to_list() == [24]
    flat = replace(part.geography, spine=None)
    bare = replace(part, domain=replace(part.domain, geography=flat))
    with pytest.raises(NotFeasible, match="the mechanism refuses the neighbouring data"):
        audit.Audit(runs=24).compute(
            release, Truth(counts=bare, protected=bare, mechanism=mechanism)
        )


def test_the_audit_of_a_comparison_has_the_living_quarters_of_its_part(monkeypatch):
    """A record that would need quarters of another kind changes within its own."""
    monkeypatch.setattr(audit, "FEWEST_RUNS", 20)
    counts = in_quarters()
    part = _small_part(counts)
    assert part.quarters is not None
    assert counts.quarters is not None
    known = dict(zip(PLACE.units[-1].tolist(), counts.quarters.occupied.tolist(), strict=True))
    codes = part.geography.units[-1].tolist()
    assert part.quarters.occupied.tolist() == [known[code] for code in codes]
    bounds = QuartersBounds(query="kind", caps=(9, 1, 1), floors=(0, 1, 1), vacant=True)
    kinds = part.dense().reshape(len(codes), 3, 2).sum(axis=2)  # a facility for each person
    part = replace(part, quarters=replace(part.quarters, occupied=kinds))
    mechanism = along(zcdp(1), bounds=(bounds,), invariants=())
    chain = Chain.of(mechanism)
    refused = [
        seed
        for seed in range(30)
        if not audit._NeighbouringRuns.of(part, UnitOfPrivacy.CHANGE_ONE, seed=seed).passes(chain)
    ]
    assert refused  # a facility with as many people as it may have, or with one alone
    release = protect(Tabulated.of(part), mechanism, keyed())
    truth = Truth(counts=part, protected=part, mechanism=mechanism)
    finding = audit.Audit(runs=24, seed=refused[0]).compute(release, truth)
    assert finding.table["runs"].to_list() == [24]


@pytest.mark.parametrize(
    ("keys", "counts", "said"),
    [
        ({}, "plain", "spine: found true for places without a spine"),
        (
            {"invariants": (Invariant(query="kind", level="state"),)},
            "spined",
            "'kind': found a spine that has units of 'state' in parts, expected the total",
        ),
        (
            {"invariants": (Invariant(query="total", level="town"),)},
            "spined",
            "spine, level 'town', unit .*: found leaves of two published units",
        ),
        (
            {"invariants": (Invariant(query="total", level="town"),)},
            "towns in parts",
            "spine, level 'town', unit 'A0.0': found the other parts of its published unit below "
            "another state, expected exact totals at no level below the one where the spine splits",
        ),
    ],
)
def test_what_a_spine_cannot_keep_is_refused_before_anything_is_spent(keys, counts, said):
    data = people()
    if counts == "plain":
        data = replace(data, domain=Domain(SCHEMA, replace(PLACE, spine=None)))
    if counts == "towns in parts":
        part = {leaf: f"{leaf[0]}{int(leaf in INSIDE)}" for leaf in LEAVES}
        towns = {leaf: f"{part[leaf]}.{int(leaf[1]) // 3}" for leaf in LEAVES}
        data = replace(data, domain=Domain(SCHEMA, replace(PLACE, spine=tree(part, towns))))
    with pytest.raises(ConfigError, match=said):
        along(zcdp(1), **keys).on(data.domain).check(data)


def test_bounds_with_wrong_floors_are_refused():
    with pytest.raises(ConfigError, match=r"floors: found \[0, 1\], expected 3 numbers from 0"):
        replace(BOUNDS, floors=(0, 1))
    assert repr(QuartersBounds(query="kind", caps=(1,))) == (
        "QuartersBounds(query='kind', caps=(1,), total_level='', unions=False)"
    )


def test_totals_of_parts_bound_them_where_the_switch_says_so_and_the_guarantee_lists_it():
    """As the Bureau did: a part with homes alone has its exact total, given away by its bounds."""
    counts = in_quarters()
    alone = {leaf for leaf in LEAVES if leaf.startswith("A") and leaf in INSIDE}
    homes = counts.dense()
    inside = np.array([leaf in alone for leaf in PLACE.units[-1]])
    homes[np.ix_(inside, np.arange(2, SCHEMA.size))] = 0  # nobody but in homes
    assert counts.quarters is not None
    occupied = counts.quarters.occupied * np.where(inside[:, None], [1, 0, 0], 1)
    quarters = replace(counts.quarters, occupied=occupied)
    counts = replace(counts_of(homes, PLACE), quarters=quarters)
    truth = int(homes[inside].sum())
    for exact in (False, True):
        bounds = replace(BOUNDS, part_totals=exact)
        mechanism = along(zcdp("1/50"), bounds=(bounds,))
        found = {
            int(dense(run(mechanism, counts, seed=seed))["leaf"][inside].sum()) for seed in range(4)
        }
        assert (found == {truth}) is exact
        said = mechanism.on(DOMAIN).guarantee.released_exactly
        assert ("the number of people in each part of a state on the spine" in said) is exact


def test_bounds_made_from_the_total_of_a_part_give_it_away_where_several_types_stand():
    """The most people in homes, with the others' fewest, is the total: so it is listed as exact."""
    mechanism = along(zcdp(1), bounds=(replace(BOUNDS, part_totals=True),))
    spined = along_spine(in_quarters())
    levels = {level: spined.at(level) for level in SPINE.levels}
    joint = joint_totals(mechanism, levels, PLACE)
    (found,) = restrict(mechanism.completed(SCHEMA, SPINE), levels, joint)["state"]
    assert spined.quarters is not None
    stand = add_up(SPINE, spined.quarters.occupied, "state")
    assert (stand > 0).all()  # several types in every part
    worked_out = found.high[:][:, 0] + stand[:, 1] + stand[:, 2]
    assert worked_out.tolist() == levels["state"].totals().tolist()
    exact = mechanism.on(DOMAIN).exact
    assert exact["the number of people in each part of a state on the spine"] == Preserved(
        "people", "leaf"
    )
