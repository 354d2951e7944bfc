"""Tables over a geography as one set of cells: every relation holds, shared cells are one."""

import numpy as np
import pytest

from headcount.geography import Geography
from headcount.mechanisms.suppression.rules import find_tables
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.schema import load_schema
from headcount.tabulate import tabulate
from headcount.tabulate.linked_tables import all_values, levels_of, link_tables

SCHEMA = load_schema("sex-age38-race7-hispanic")


@pytest.fixture(scope="module")
def counts():
    return tabulate(to_population(towns(seed=4, people=3_000, counties=4), schema=SCHEMA))


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (("P1", "P2", "P3", "P4"), [{"P1", "P2", "P3", "P4"}]),
        (("P12", "P14"), [{"P12", "P14"}]),
        (("P3", "P12", "P12A", "P12B"), [{"P3", "P12", "P12A", "P12B"}]),
        (("P2", "P12", "P12A", "P12H"), [{"P2", "P12", "P12A", "P12H"}]),
        (("P3", "P14"), [{"P3"}, {"P14"}]),
        (("P2", "P12", "PCT12"), [{"P2", "P12", "PCT12"}]),
    ],
)
def test_true_tables_keep_every_relation(counts, names, groups):
    made = find_tables(names, SCHEMA)
    values = all_values(counts, tuple(one.crossed for one in made))
    published = all_values(counts, made)
    linked = link_tables(made, counts.geography)
    assert [{name for name, _ in one.number} for one in linked] == groups
    for one in linked:
        truth = one.gather(values)
        one.additive.check(truth)  # raises if a total is not the sum of its parts
        for where, number in one.number.items():
            assert np.array_equal(truth[number], published[where])
        assert one.published.sum() == len(
            np.unique(np.concatenate([number.ravel() for number in one.number.values()]))
        )
        moved = truth.copy()
        moved[next(iter(one.number.values()))[0, 0]] += 1
        with pytest.raises(Exception, match="totals that are not the sum"):
            one.additive.check(moved)


def test_cells_that_are_not_published_have_sums_all_the_same(counts):
    made = find_tables(("P12",), SCHEMA)
    (one,) = link_tables(made, counts.geography)
    (cells,) = made
    assert one.number["P12", "block"].shape[1] == 49
    assert one.crossed["P12", "block"].shape[1] == 72
    ages = [i for i, (sex, age) in enumerate(cells.crossed.labels) if sex == "total" != age]
    assert len(ages) == 23
    assert not one.published[one.crossed["P12", "block"][:, ages]].any()


def test_a_margin_is_the_same_cell(counts):
    made = find_tables(("P1", "P2"), SCHEMA)
    (one,) = link_tables(made, counts.geography)
    p1, p2 = made
    black = {label: i for i, label in enumerate(p2.labels)}["total", "black"]
    own = {label: i for i, label in enumerate(p1.labels)}[("black",)]
    assert np.array_equal(one.number["P1", "block"][:, own], one.number["P2", "block"][:, black])


def test_a_county_of_one_tract_has_its_cells_once():
    made = find_tables(("P1",), SCHEMA)
    whole = np.empty(0, dtype=np.int32)
    geography = Geography(
        ("state", "county", "tract"),
        (np.array(["s"]), np.array(["a", "b"]), np.array(["a1", "b1", "b2"])),
        (whole, np.zeros(2, dtype=np.int32), np.array([0, 1, 1], dtype=np.int32)),
    )
    (one,) = link_tables(made, geography)
    assert np.array_equal(one.number["P1", "county"][0], one.number["P1", "tract"][0])
    assert one.additive.size == 5 * made[0].size


def test_nothing_below_the_lowest_level(counts):
    (cells,) = find_tables(("PCT12",), SCHEMA)
    assert levels_of(cells, counts.geography) == ("state", "county", "tract")
    assert levels_of(cells, counts.geography, "county") == ("state", "county")
    (one,) = link_tables([cells], counts.geography, lowest="county")
    assert {level for _, level in one.number} == {"state", "county"}
