"""The noisy histogram: its cells, both ways of clipping, and the fast draws of studies."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography import regular
from headcount.mechanisms import Geometric, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.privacy import PureLoss, UnitOfPrivacy
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import Query, Tabulated, tabulate
from headcount.testing.contracts import mechanism_checks
from headcount_papers.histogram import (
    Histogram,
    age_buckets,
    answers,
    coarsen,
    histogram_query,
)

HALF = Fraction(1, 2)
AGE = Attribute("age", tuple(str(a) for a in range(91)))
SEX = Attribute("sex", ("f", "m"))
RACE = Attribute("race", tuple(str(r) for r in range(63)))
HISPANIC = Attribute("hispanic", ("no", "yes"))
SIZE = Attribute("household_size", ("1", "2", "3", "4", "5", "6", "7"))
SMALL = Schema((Attribute("age", tuple("0123456")), SEX, Attribute("race", ("a", "b")), HISPANIC))
CLIPPED = Histogram(epsilon=HALF, clip="cell")
SCORED = Query("hispanic x race", ("hispanic", "race"))


@pytest.mark.parametrize("check", list(mechanism_checks(Histogram(epsilon=HALF))), ids=str)
def test_contract(check):
    check()


@pytest.mark.parametrize("check", list(mechanism_checks(CLIPPED)), ids=str)
def test_contract_clipped(check):
    check()


def town(schema=SMALL, rows=200):
    rng = np.random.default_rng(1)
    tree = regular(children=2, depth=1)
    unit = rng.integers(0, 2, rows).astype(np.int32)
    return Population(
        "town", Domain(schema, tree), unit, rng.integers(0, schema.size, rows, np.int32)
    )


@pytest.mark.parametrize(("buckets", "width"), [(2, 45), (6, 15), (45, 2)])
def test_the_cells_of_the_paper(buckets, width):
    recode = age_buckets(AGE, buckets)
    expected = [min(age // width, buckets - 1) for age in range(91)]
    assert list(recode.group_of_level) == expected
    schema = Schema((AGE, RACE, HISPANIC, SIZE))
    query = histogram_query(schema, buckets=buckets)
    assert query.size(schema) == buckets * 2 * 63 * 4
    assert query.attributes(schema)[3].levels == ("1", "2", "3", "4 to 7")
    some = Attribute("household_size", ("1", "2", "3", "4+", "none"))
    quarters = histogram_query(Schema((AGE, RACE, HISPANIC, some)), buckets=buckets)
    kept = quarters.attributes(Schema((AGE, RACE, HISPANIC, some)))[3].levels
    assert kept == ("1", "2", "3", "4+", "none")
    without = Schema((AGE, RACE, HISPANIC))
    assert histogram_query(without, buckets=buckets).size(without) == buckets * 2 * 63


def test_coarse_counts_are_those_of_the_query():
    counts = tabulate(town())
    query = histogram_query(SMALL, buckets=3)
    coarse = coarsen(counts, query)
    assert np.array_equal(coarse.dense(), counts.dense() @ query.matrix(SMALL).toarray())
    assert coarse.schema.names == ("age_bucket", "hispanic", "race")
    assert np.array_equal(
        coarse.dense() @ SCORED.matrix(coarse.schema).toarray(),
        counts.dense() @ SCORED.matrix(SMALL).toarray(),
    )


def test_a_coarse_cell_is_impossible_only_if_all_of_it_is():
    zero = impossible({"age": ["0", "1"], "race": ["b"]})
    schema = Schema(SMALL.attributes, (zero, impossible({"age": ["2"], "hispanic": ["yes"]})))
    empty = Population(
        "e",
        Domain(schema, regular(children=2, depth=1)),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
    )
    coarse = coarsen(tabulate(empty), histogram_query(schema, buckets=3)).schema
    expected = np.ones((3, 2, 2), dtype=bool)
    expected[0, :, 1] = False  # ages 0 and 1; age 2 alone leaves its bucket possible
    assert np.array_equal(coarse.possible.reshape(3, 2, 2), expected)


@pytest.mark.parametrize("clip", ["query", "cell"])
def test_noise_is_that_of_the_geometric_mechanism_and_the_output_says_how_it_was_clipped(clip):
    counts = coarsen(tabulate(town()), histogram_query(SMALL, buckets=3))
    mechanism = Histogram(epsilon=HALF, clip=clip)
    noise = KeyedNoise(RunKey.from_seed(1), "x", b"", b"")
    made = mechanism.on(counts.domain).run(counts, noise, runs=range(3)).as_counts()
    plain = Geometric(epsilon=HALF).on(counts.domain)
    cells = plain.run(counts, noise, runs=range(3)).as_counts().dense("level_1")
    shown = cells if clip == "query" else np.maximum(cells, 0)
    assert np.array_equal(made.dense("level_1"), shown)
    words = {
        "query": "summed from cells with their noise, then set to 0",
        "cell": "cells set to 0 where negative, then summed",
    }[clip]
    assert words in str(made.notes["negative_counts"])
    assert words in mechanism.on(counts.domain).check(counts)[0]
    scored = answers(cells.astype(np.int64), counts.schema, SCORED, clip=clip)
    by_hand = shown.reshape(3, 2, 3, 4).sum(axis=2)
    assert np.array_equal(scored, np.maximum(by_hand, 0))
    loss = protect(Tabulated.of(counts), mechanism).guarantee.losses[0]
    assert loss == PureLoss(epsilon=HALF, unit=UnitOfPrivacy.CHANGE_ONE)


def test_clipping_cell_by_cell_makes_phantoms():
    """45 buckets x 4 household sizes, nobody there: 63 areas of one noisy histogram."""
    ages = Attribute("age", tuple(str(age) for age in range(180)))
    schema = Schema((ages, HISPANIC, Attribute("race", ("a",))))
    nobody = Population(
        "e",
        Domain(schema, regular(children=63, depth=1)),
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
    )
    noise = KeyedNoise(RunKey.from_seed(1), "x", b"", b"")
    mechanism = Histogram(epsilon=2, unit=UnitOfPrivacy.ADD_REMOVE)  # type: ignore[arg-type]
    cells = protect(nobody, mechanism, noise).at("level_1").astype(np.int64)
    assert answers(cells, schema, SCORED, clip="cell").sum() > 3000
    assert answers(cells, schema, SCORED, clip="query").sum() < 600


def test_bad_settings_are_refused():
    never: Any = "never"
    with pytest.raises(ConfigError, match="clip: found 'never', expected query or cell"):
        replace(CLIPPED, clip=never)
    with pytest.raises(ConfigError, match="buckets: found 92, expected 1 to 91"):
        age_buckets(AGE, 92)
    with pytest.raises(InputError, match="found attribute 'race'"):
        histogram_query(Schema((AGE, HISPANIC)), buckets=2)
