"""The rules of 1980 against loops over people, one by one."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from headcount.errors import ConfigError, InputError
from headcount.mechanisms.suppression.rules import (
    Thresholds,
    find_tables,
    occupied_homes,
    publish_cells,
    race_tables,
    small_groups,
    suppression_summary,
    too_small,
)
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.schema import load_schema
from headcount.tabulate import tabulate

SCHEMA = load_schema("sex-age38-race7-hispanic")
Tally = defaultdict[int, Counter[object]]


@pytest.fixture(scope="module")
def state():
    return to_population(towns(seed=4, people=4_000, counties=4), schema=SCHEMA)


@pytest.fixture(scope="module")
def people(state):
    """(unit at every level, race, origin, whether 18 or over) of everyone."""
    levels = np.unravel_index(state.cell, SCHEMA.shape)
    code = dict(zip(SCHEMA.names, levels, strict=True))
    ages = SCHEMA.attribute("age").levels
    adult = [int(ages[a].split("-")[0].rstrip("+")) >= 18 for a in code["age"]]
    return list(zip(state.unit, code["race"], code["hispanic"], adult, strict=True))


def by_hand(state, people, level, limits):
    """(table, rule) -> (total, withheld), counted person by person."""
    ancestor = state.geography.ancestors(level)
    p1: Tally = defaultdict(Counter)
    p2: Tally = defaultdict(Counter)
    p3: Tally = defaultdict(Counter)
    p4: Tally = defaultdict(Counter)
    for unit, race, origin, adult in people:
        at = ancestor[unit]
        p1[at][race] += 1
        p2[at][origin, race] += 1
        if adult:
            p3[at][race] += 1
            p4[at][origin, race] += 1
    found = {}
    for name, table, cells in (("P1", p1, 7), ("P2", p2, 14), ("P3", p3, 7), ("P4", p4, 14)):
        hidden = sum(1 <= n <= limits.cell for unit in p1 for n in table[unit].values())
        found[name, "cell"] = len(p1) * cells, hidden
    adults = [unit for unit in p1 if p3[unit].total()]
    for name, groups in (("P3", p1), ("P4", p2)):
        withheld = sum(any(1 <= n <= limits.group for n in groups[u].values()) for u in adults)
        found[name, "table"] = len(adults), withheld
    small = sum(table.total() <= limits.persons for table in p1.values())
    found["SF1_person", "table"] = len(p1), small
    homes: Counter[int] = Counter()
    hh = state.households
    for block, kind, size in zip(hh.block, hh.kind, hh.size, strict=True):
        if kind == 0 and size:
            homes[ancestor[block]] += 1
    found["SF1_housing", "table"] = len(homes), sum(n <= limits.homes for n in homes.values())
    return found


@pytest.mark.parametrize(
    "limits", [Thresholds(), Thresholds(cell=4, group=9, persons=30, homes=11)]
)
def test_the_summary_is_that_of_loops(state, people, limits):
    homes = occupied_homes(state)
    table = suppression_summary(tabulate(state), thresholds=limits, occupied=homes)
    assert table.columns == ["table", "rule", "level", "total", "withheld", "percent"]
    for level in state.geography.levels:
        rows = table.filter(level=level)
        found = {(r["table"], r["rule"]): (r["total"], r["withheld"]) for r in rows.to_dicts()}
        assert found == by_hand(state, people, level, limits)
    with_any = table.filter(table["total"] > 0)
    assert np.allclose(with_any["percent"], 100 * with_any["withheld"] / with_any["total"])


def test_blocks_with_minors_only_are_not_counted_for_tables_of_adults():
    state = to_population(towns(seed=4, people=4_000, counties=4), schema=SCHEMA)
    levels = np.unravel_index(state.cell, SCHEMA.shape)
    ages = levels[SCHEMA.names.index("age")]
    keep = (state.unit != state.unit[0]) | (ages < 18)  # one block keeps its minors only
    from dataclasses import replace

    fewer = replace(state, unit=state.unit[keep], cell=state.cell[keep], households=None)
    table = suppression_summary(tabulate(fewer)).filter(level="block")
    totals = {(r["table"], r["rule"]): r["total"] for r in table.to_dicts()}
    minors_only = bool((fewer.unit == state.unit[0]).any())
    assert totals["SF1_person", "table"] - totals["P3", "table"] == int(minors_only)
    assert totals["P3", "cell"] == 7 * totals["SF1_person", "table"]  # as in the slides
    assert ("SF1_housing", "table") not in totals  # who lives together is not known


def test_small_counts_are_published_as_0_and_the_total_is_not_touched():
    cells = race_tables()["P1"].on(SCHEMA)
    at = {label[0]: i for i, label in enumerate(cells.labels)}
    values = np.zeros((3, cells.size), dtype=np.int64)
    for unit, (white, black) in enumerate([(5, 1), (2, 0), (3, 2)]):
        values[unit, [at["white"], at["black"], at["total"]]] = white, black, white + black
    one = publish_cells(values, cells, level="block", most=2)
    assert one.value[:, at["white"]].tolist() == [5, 0, 3]
    assert one.value[:, at["black"]].tolist() == [0, 0, 0]
    assert one.value[:, at["total"]].tolist() == [6, 2, 5]
    assert one.zero_hides == 2
    assert not one.withheld.any()  # nothing says which zeros are real


def test_groups_are_those_of_the_detail_not_of_subtotals():
    cells = race_tables()["P2"].on(SCHEMA)
    at = {label: i for i, label in enumerate(cells.labels)}
    values = np.zeros((2, cells.size), dtype=np.int64)
    values[0, at["hispanic", "total"]] = 3  # a subtotal alone decides nothing
    values[1, at["hispanic", "white"]] = 3
    assert small_groups(values, cells, most=14).tolist() == [False, True]
    assert too_small(np.array([0, 1, 14, 15]), 14).tolist() == [False, True, True, False]


@pytest.mark.parametrize("name", ["cell", "group", "persons", "homes"])
def test_thresholds_begin_at_1(name):
    with pytest.raises(ConfigError, match=f"thresholds: {name}: found 0, expected 1 or more"):
        Thresholds(**{name: 0})


def test_unknown_and_impossible_tables_say_why():
    with pytest.raises(ConfigError, match=r"tables: found 'P99', expected some of .*P12"):
        find_tables(("P99",), SCHEMA)
    with pytest.raises(ConfigError, match="table P1: found P1: the schema has no attribute 'race'"):
        find_tables(("P1",), load_schema("total"))


def test_occupied_homes_need_a_number_for_each_block(state):
    with pytest.raises(InputError, match=r"occupied: found shape \(1,\), expected a number"):
        suppression_summary(tabulate(state), occupied=np.ones(1, dtype=np.int64))
