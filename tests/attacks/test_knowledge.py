"""A release of counts as an attacker's knowledge, and how far records are known."""

from fractions import Fraction

import numpy as np
import pytest

from headcount.attacks.knowledge import knowledge_of_release, tells_years
from headcount.attacks.reconstruction import reconstruct
from headcount.attacks.records import Features, records_of
from headcount.attacks.reidentification import reidentify
from headcount.errors import InputError
from headcount.evaluation.reidentified import perfect_attacker, true_records
from headcount.mechanisms import Identity, protect
from headcount.mechanisms.geometric import Geometric
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.schema import load_schema
from headcount.tabulate.published import tables


@pytest.fixture(scope="module")
def state():
    schema = load_schema("sex-age38-race7-hispanic")
    return to_population(towns(seed=4, people=1_500, counties=2), schema=schema)


@pytest.fixture(scope="module")
def released(state):
    return protect(state, Identity())


def test_tables_are_made_at_the_leaf_and_where_they_are_solved_together(released):
    sf1 = list(tables("sf1").values())
    alone = knowledge_of_release(released, sf1)
    assert {held.level for held in alone.tables} == {"block"}
    assert not {"PCT12", "PCT12A"} & {held.name for held in alone.tables}
    both = knowledge_of_release(released, sf1, together="tract")
    assert "PCT12" in {held.name for held in both.at("tract")}
    assert {held.name for held in both.at("block")} == {held.name for held in alone.tables}


def test_counts_that_are_not_of_people_make_no_tables(state):
    noisy = protect(state, Geometric(epsilon=Fraction(1)))
    with pytest.raises(InputError, match="found counts that are negative or not whole"):
        knowledge_of_release(noisy, list(tables("sf1").values()))


def test_a_schema_that_makes_no_table_says_why(released):
    with pytest.raises(InputError, match="found no tables to make, expected a schema"):
        knowledge_of_release(released, [])


def test_race_tables_tell_grown_ups_from_minors_and_nothing_more(state, released):
    """Sex and age of such records are anybody's: only the two groups may be matched on."""
    whole = Features.of(state.schema)
    found = reconstruct(
        knowledge_of_release(released, list(tables("pl94-171").values())), variability=False
    )
    told = whole.as_known_by(found.class_of, years=False)
    assert told.bins == 2
    sexes, ages = 2, state.schema.attribute("age").levels
    adult = np.array([not (a.isdigit() and int(a) < 18) for a in ages] * sexes)
    assert len({*told.binned[adult]}) == len({*told.binned[~adult]}) == 1
    records = records_of(found.matrix, told)
    truth = true_records(state, whole)
    match = next(reidentify(perfect_attacker(truth), records, orders=1))
    assert match.matched.all()  # P1 to P4 are exact on {18+, origin, race}
    assert (match.grade == 2).all()


def test_tables_by_sex_and_age_tell_every_bin(state, released):
    whole = Features.of(state.schema)
    found = reconstruct(
        knowledge_of_release(released, list(tables("sf1").values())), variability=False
    )
    told = whole.as_known_by(found.class_of, years=False)
    assert told.bins == whole.bins == 76
    assert tells_years(found.class_of, whole.key)  # bins are all the ages that there are


def test_years_within_a_class_are_not_believed():
    features = Features.of(load_schema("persons-2010"))
    per_bin = features.binned[features.key] * features.secrets + features.secret
    assert not tells_years(per_bin, features.key)
    assert tells_years(np.arange(features.schema.size), features.key)
    told = features.as_known_by(per_bin, years=False)
    assert not told.years
    assert told.bins == features.bins
    assert features.as_known_by(per_bin, years=True) is features


def test_a_release_that_ends_above_the_leaf_is_attacked_where_it_ends():
    from headcount.attacks.reconstruction import reconstruct
    from headcount.mechanisms import protect
    from headcount.mechanisms.suppression.mechanism import Suppression
    from headcount.population.from_households import to_population
    from headcount.population.towns import towns
    from headcount.schema import load_schema
    from headcount.tabulate import Tabulated, tabulate

    schema = load_schema("sex-age38-race7-hispanic")
    counts = tabulate(to_population(towns(seed=4, people=1_500, counties=2), schema=schema))
    release = protect(Tabulated.of(counts), Suppression(tables=("P1", "P2"), lowest="tract"))
    known = knowledge_of_release(release)
    assert known.geography.leaf == "tract"
    found = reconstruct(known, variability=False)
    assert np.array_equal(found.people, counts.at("tract").totals())
