"""Attacks on a release, scored with the truth: against counting by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from headcount.attacks import ClaimedPeople, ClaimedRecords, Claims, People
from headcount.attacks.linkage import Link
from headcount.attacks.reconstruction import Reconstruct
from headcount.attacks.records import Features, records_of
from headcount.attacks.reidentification import NOBODY, Reidentify
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.evaluation import Truth
from headcount.evaluation.attacked import score_claims
from headcount.evaluation.evaluate import attack
from headcount.evaluation.part import Part, TruePeople, _only, part_of
from headcount.evaluation.reidentified import (
    agreement,
    beside_guesses,
    perfect_attacker,
    reidentified,
)
from headcount.geography import regular
from headcount.mechanisms import Geometric, Identity, protect
from headcount.population import Population
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate import Counts, Tabulated, tabulate


@pytest.fixture(scope="module")
def population() -> Population:
    households = towns(people=1000, counties=2, seed=3)
    return to_population(households, schema=load_schema("sex-age38-race7-hispanic"))


@pytest.fixture(scope="module")
def counts(population: Population) -> Counts:
    return tabulate(population)


def everybody(counts: Counts) -> TruePeople:
    return TruePeople.of(counts, counts.geography)


def moved(counts: Counts) -> Counts:
    """The same people, each third of them with the race and origin of the next cell's."""
    rng = np.random.default_rng(1)
    people = everybody(counts)
    levels = [people.codes(name) for name in counts.schema.names]
    some = rng.random(len(people)) < 0.3
    axis = counts.schema.names.index("race")
    levels[axis] = np.where(some, (levels[axis] + 1) % counts.schema.shape[axis], levels[axis])
    cell = np.ravel_multi_index(levels, counts.schema.shape)
    return tabulate(
        Population("moved", counts.domain, people.unit.astype(np.int32), cell.astype(np.int32))
    )


def test_true_people_are_the_counts_again(counts: Counts):
    people = everybody(counts)
    again = np.zeros(counts.matrix.shape, dtype=np.int64)
    np.add.at(again, (people.unit, people.cell), 1)
    assert np.array_equal(again, counts.dense())


def test_an_attacker_is_given_only_what_the_attack_says_it_knows(counts: Counts):
    known = everybody(counts).known(("sex", "age"))
    assert set(known.codes) == {"sex", "age"}
    with pytest.raises(InputError, match="found 1 rows, expected 2, one for each person"):
        People(name="x", unit=np.zeros(2, dtype=np.int64), codes={"sex": np.zeros(1, dtype=int)})


def test_linkage_claims_the_only_record_that_fits(counts: Counts):
    swapped = moved(counts)
    release = protect(Tabulated.of(swapped), Identity())
    kind = Link(exact=("race",))
    people = everybody(counts)
    claims = kind.run(release, people.known(kind.knows(counts.schema)))
    rows = everybody(swapped)
    keys = list(zip(rows.unit, rows.codes("age"), rows.codes("race"), strict=True))
    times, secret = Counter(keys), dict(zip(keys, rows.codes("hispanic"), strict=True))
    own = zip(people.unit, people.codes("age"), people.codes("race"), strict=True)
    expected = [secret[key] if times[key] == 1 else -1 for key in own]
    assert claims.value.tolist() == expected
    assert -1 in expected
    assert len(set(expected)) == 3


def test_claims_about_people_are_scored_as_one_would_count_them(counts: Counts):
    release = protect(Tabulated.of(moved(counts)), Identity())
    found = attack(release, Truth.of(counts), Link(exact=("race",)))
    people = everybody(counts)
    claims = Link(exact=("race",)).run(release, people.known(("age", "race")))
    true = people.codes("hispanic")
    mode = {
        unit: Counter(true[people.unit == unit].tolist()).most_common(1)[0][0]
        for unit in np.unique(people.unit)
    }
    like = np.array([mode[unit] for unit in people.unit]) == true
    table = {row["universe"]: row for row in found.table.to_dicts()}
    for universe, inside in (("all", np.ones_like(like)), ("unlike most in the unit", ~like)):
        claimed = inside & (claims.value >= 0)
        right = claimed & (claims.value == true)
        assert table[universe]["claimed"] == claimed.sum() > 0
        assert table[universe]["right"] == right.sum()
        assert table[universe]["precision_%"] == pytest.approx(100 * right.sum() / claimed.sum())
    assert table["unlike most in the unit"]["guess_%"] == 0
    assert "knows all of this about everybody" in found.explain()


def test_reidentification_in_an_evaluation_is_that_of_the_perfect_attacker(counts: Counts):
    release = protect(Tabulated.of(moved(counts)), Identity())
    found = attack(release, Truth.of(counts), Reidentify(orders=3, seed=2))
    truth = everybody(counts).records()
    records = records_of(release.at(release.geography.leaf), Features.of(counts.schema))
    expected = reidentified(
        records, perfect_attacker(truth), truth, geography=counts.geography, orders=3, seed=2
    )
    beside = beside_guesses(expected).rename({"putative": "claimed", "confirmed": "right"})
    assert found.table.equals(beside)


def test_rebuilt_records_agree_as_often_as_they_are_those_of_people(counts: Counts):
    release = protect(Tabulated.of(counts), Identity())
    kind = Reconstruct(most_units=0, variability=False)
    found = attack(release, Truth.of(counts), kind)
    people = everybody(counts)
    claims = kind.run(release, people.known(()))
    own = records_of(claims.matrix, Features.of(counts.schema))
    whole = agreement(own, people.records(), blocks=counts.geography.size(counts.geography.leaf))
    row = found.table.row(0, named=True)
    assert row["exact_percent"] == pytest.approx(100 * whole["exact"][0] / whole["people"][0])
    assert 50 < row["exact_percent"] < 100
    plain = ClaimedRecords(
        attack="plain",
        title="?",
        schema=counts.schema,
        geography=counts.geography,
        words="",
        matrix=counts.matrix,
    )
    scored = score_claims(plain, people, Part(release, 1, 1))
    assert scored.table["exact_percent"][0] == 100


def test_a_part_of_a_release_is_some_of_its_units_and_says_so(counts: Counts):
    release = protect(Tabulated.of(counts), Identity())
    part = part_of(release, counts, most=5)
    leaf = counts.geography.leaf
    numbers = [counts.geography.unit_numbers[str(c)] for c in part.release.geography.units[-1]]
    assert len(numbers) == 5
    assert np.array_equal(part.release.at(leaf), release.at(leaf)[numbers])
    every = counts.geography.size(leaf)
    assert f"5 of {every} units were attacked, drawn at random" in part.words
    living = counts.totals()[numbers].sum()
    assert len(TruePeople.of(counts, part.release.geography)) == living
    assert part_of(release, counts, most=0).words == "Every unit was attacked."


def test_the_levels_above_a_part_are_those_of_its_units(counts: Counts):
    release = protect(Tabulated.of(counts), Identity())
    leaves = np.array([0, counts.geography.size(counts.geography.leaf) - 1])
    some = _only(
        replace(
            release.as_counts(),
            tables={level: counts.at(level).dense() for level in counts.geography.levels},
        ),
        leaves,
    )
    for level in counts.geography.levels:
        ancestor = np.unique(counts.geography.ancestors(level)[leaves])
        assert np.array_equal(some.at(level), counts.at(level).dense()[ancestor])
        codes = counts.geography.units[counts.geography.depth(level)][ancestor]
        assert some.geography.units[some.geography.depth(level)].tolist() == codes.tolist()


def test_an_attack_says_why_it_cannot_be_made(counts: Counts):
    alone = replace(counts, of_dwellings=False)
    noisy = protect(Tabulated.of(alone), Geometric(epsilon=Fraction(1)))
    for kind in (Link(), Reidentify(), Reconstruct()):
        assert "below 0 or not whole" in kind.supports(noisy).why_not
        with pytest.raises(InputError, match=f"attack '{kind.name}': found .*below 0 or not whole"):
            attack(noisy, Truth.of(alone), kind)
    exact = protect(Tabulated.of(counts), Identity())
    assert all(kind.supports(exact) for kind in (Link(), Reidentify(), Reconstruct()))
    assert Link(secret="income").supports(exact).why_not == "the schema has no attribute income"
    assert Link(level="parish").supports(exact).why_not == "the release has no level parish"
    with pytest.raises(ConfigError, match="age_width: found 0, expected 1 or more"):
        Link(age_width=0)


def test_where_shipped_tables_tell_nothing_each_pair_of_known_and_learnt_is_one():
    sex, age = Attribute("sex", ("male", "female")), Attribute("age", ("0-17", "18+"))
    race = Attribute("race", ("blue", "green"))  # no published table knows these
    schema = Schema((sex, age, race))
    one = np.zeros(3, dtype=np.int32)
    town = Population("town", Domain(schema, regular(children=2, depth=1)), one, one)
    release = protect(town, Identity())
    assert Reconstruct().supports(release)
    rebuilt = Reconstruct().run(release, NOBODY)
    assert rebuilt.facts["tables"] == ["sex age race sex by race age by race at level_1"]
    assert Reidentify().supports(release)


def test_claims_that_do_not_fit_are_refused(counts: Counts):
    people = everybody(counts).known(())
    given: dict[str, Any] = {
        "attack": "mine",
        "title": "?",
        "schema": counts.schema,
        "geography": counts.geography,
    }
    with pytest.raises(InputError, match="attack 'mine': found 1 claims, expected"):
        ClaimedPeople(**given, words="", people=people, learnt=("sex",), value=np.zeros(1, int))
    with pytest.raises(InputError, match="value: found a number out of range, expected -1 to 1"):
        ClaimedPeople(
            **given, words="", people=people, learnt=("sex",), value=np.full(len(people), 2)
        )

    class Strange(Claims):
        pass

    with pytest.raises(InputError, match="found Strange, expected ClaimedRecords, Claimed"):
        score_claims(Strange(**given, words=""), everybody(counts), Part(None, 1, 1))  # type: ignore[arg-type]


def test_nobody_is_learnt_anything_of_where_nothing_is_claimed(counts: Counts):
    people = everybody(counts)
    claims = ClaimedPeople(
        attack="mine",
        title="?",
        schema=counts.schema,
        geography=counts.geography,
        words="",
        people=people.known(()),
        learnt=("sex",),
        value=np.full(len(people), -1),
    )
    found = score_claims(claims, people, Part(protect(Tabulated.of(counts), Identity()), 1, 1))
    assert found.table["precision_%"].to_list() == [None, None, None]
    assert found.table["claimed"].sum() == 0
    assert [number.value for number in found.numbers()] == ["0"]
    assert isinstance(found.table, pl.DataFrame)
