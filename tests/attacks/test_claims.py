"""What is proven, certain and likely by a release: against all people who fit, and scored."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.attacks.claims import Claim, Statements
from headcount.errors import ConfigError
from headcount.evaluation import Truth
from headcount.evaluation.evaluate import attack
from headcount.evaluation.part import TruePeople
from headcount.mechanisms import Identity, protect
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.geometric import Geometric
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.population.towns import Towns
from headcount.schema.roles import Attacker
from headcount.tabulate import Counts, Tabulated
from headcount.testing import check_attack
from tests.support.coarsening_worlds import Scene

LEVELS = (("k", 2), ("s", 3))
AUDIT: dict[str, Any] = {"known": ("k",), "secret": ("s",)}
MEANT = Attacker(knows=("k",), sensitive=("s",))


def coarsening(**tables: Any) -> Coarsening:
    made: Any = {name: {"by": by, "at": at} for name, (by, at) in tables.items()}
    return Coarsening(ladder=(), tables=made, audit=AUDIT)  # type: ignore[arg-type]


APART = coarsening(k=(("k",), "block"), s=(("s",), "block"))
BOTH = coarsening(s=(("s",), "block"), x=(("k", "s"), "whole"))
CROSSED = coarsening(x=(("k", "s"), "block"))


def counted(people: Any, method: Any) -> Counts:
    x = np.array(people)
    scene = Scene(len(x), LEVELS, method)
    counts = scene.counts(tuple(x.ravel().tolist()))
    schema = replace(counts.schema, attacker=MEANT)
    return replace(counts, domain=replace(counts.domain, schema=schema))


def stated(counts: Counts, method: Any, **settings: Any) -> Statements:
    """The statements of an attacker who knows the key of everybody."""
    release = protect(Tabulated.of(counts), method)
    release = replace(release, domain=replace(release.domain, schema=counts.schema))
    people = TruePeople.of(counts, release.geography).known(("k",))
    return Claim(**settings).run(release, people)


def test_one_group_in_a_place_is_proven_of_all_and_two_of_nobody():
    alone, both = [[[40, 0, 0], [0, 0, 0]]], [[[39, 1, 0], [0, 0, 0]]]
    found = stated(counted(alone, APART), APART)
    assert found.proven.all()
    assert set(found.value.tolist()) == {0}
    found = stated(counted(both, APART), APART)
    assert not found.proven.any()
    assert (found.value == 0).all()  # 39 of 40 are a share of more than 0.9


@pytest.mark.parametrize("method", [APART, BOTH, CROSSED], ids=["apart", "both", "crossed"])
@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_called_proven_or_certain_that_is_not(method, seed):
    """All populations that give the same release have what is called proven, and certain."""
    lot = np.random.default_rng(seed)
    scene = Scene(2, LEVELS, method)
    population = tuple(np.bincount(lot.integers(0, 12, 5), minlength=12).tolist())
    kind = next(one for one in scene.classes(5) if population in one)
    worlds = np.array(kind).reshape(len(kind), 2, 2, 3)
    counts = counted(np.array(population).reshape(2, 2, 3), method)
    found = stated(counts, method)
    people = TruePeople.of(counts, counts.geography)
    for person in np.flatnonzero(found.proven).tolist():
        here = worlds[:, people.unit[person], people.codes("k")[person]]
        assert (here.sum(axis=1) == here[:, found.value[person]]).all()
    for place, key, secret, least in zip(*(one.tolist() for one in found.certain), strict=True):
        assert worlds[:, place, key, secret].min() >= least
    if method is CROSSED:  # a table of one division alone: nothing is missed
        x = worlds[0]
        assert found.proven.sum() == x.sum(axis=2)[(x > 0).sum(axis=2) == 1].sum()


def test_a_sum_proves_what_no_table_shows():
    """All of key 0 are of group 0 by the cross, though the place has two groups."""
    people = [[[3, 0, 0], [0, 2, 0]], [[1, 0, 0], [0, 0, 4]]]
    found = stated(counted(people, BOTH), BOTH)
    assert found.proven.all()


def test_counts_with_noise_prove_nothing_and_make_some_things_likely():
    people = [[[30, 0, 0], [2, 2, 2]]]
    found = stated(counted(people, APART), Geometric(epsilon=Fraction(50)))
    assert not found.proven.any()
    assert len(found.certain[0]) == 0
    assert (found.value >= 0).sum() == 30
    assert "Counts with noise prove nothing" in found.words


def test_somebody_who_knows_few_people_proves_no_more():
    counts = counted([[[4, 0, 0], [0, 3, 0]], [[2, 0, 0], [0, 0, 3]]], BOTH)
    release = protect(Tabulated.of(counts), BOTH)
    release = replace(release, domain=replace(release.domain, schema=counts.schema))
    everybody = TruePeople.of(counts, release.geography).known(("k",))
    few = replace(everybody, unit=everybody.unit[:2], codes={"k": everybody.codes["k"][:2]})
    whole, part = (Claim().run(release, who) for who in (everybody, few))
    assert whole.proven.all()
    assert not (part.proven & ~whole.proven[:2]).any()
    nobody = replace(few, unit=np.array([-1, -1]))
    assert (Claim().run(release, nobody).value == -1).all()


def test_what_is_too_large_is_said_and_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr("headcount.release.readers_estimate.LARGEST", 3)
    found = stated(counted([[[4, 1, 0], [0, 3, 0]]], APART), APART)
    assert (found.value == -1).all()
    assert "Nothing was claimed: " in found.words
    assert "more than 3 numbers to fit" in found.words


def test_a_confidence_of_a_half_is_none():
    for wrong in (Fraction(1, 2), Fraction(0)):
        with pytest.raises(ConfigError, match="expected more than 1/2, at most 1"):
            Claim(confidence=wrong)


TOWNS = Towns(people=1_500, counties=2, seed=7, attributes=("sex", "age", "hispanic")).read()


@pytest.mark.parametrize(
    "method",
    [
        Identity(),
        Geometric(epsilon=Fraction(1)),
        Coarsening(ladder=(100,), tables={"x": {"by": ("sex", "hispanic"), "at": 100}}),  # type: ignore[dict-item]
        Suppression(rule="complementary", tables={"origin": ("hispanic",)}),
    ],
    ids=["everything", "geometric", "coarsening", "suppression"],
)
def test_every_kind_of_release_is_scored(method):
    counts = Tabulated.of(TOWNS).counts
    release = protect(TOWNS, method)
    found = attack(release, Truth.of(counts).made_by(method), Claim())
    table = found.table
    assert table["statement"].unique(maintain_order=True).to_list() == [
        "proven",
        "likely, with a share of 0.9 or more",
        "certain record",
    ]
    proven = table.filter(statement="proven", universe="all")
    assert proven["right"].item() == proven["claimed"].item()  # what is proven is true
    certain = table.filter(statement="certain record")
    assert certain["right"].item() == certain["claimed"].item()
    assert (
        "is right" in " ".join(one.label for one in found.numbers()) or not table["claimed"].sum()
    )
    assert found.figure().chart is not None


def test_without_a_secret_there_is_no_claim():
    people = Towns(people=1_000, counties=1, attributes=("sex",)).read()
    support = Claim().supports(protect(people, Identity()))
    assert support.why_not == "nothing says what an attacker knows and wants ([attacker] sensitive)"


def test_it_keeps_the_contract():
    check_attack(Claim())
