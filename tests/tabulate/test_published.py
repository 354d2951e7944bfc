"""Published tables: cells, universes, subtotals, and which schema can make which table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.population.quarters import Quarters
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.published import housing_counts, supported, tables
from headcount.tabulate.published.codings import codings
from headcount.tabulate.published.races import (
    alone,
    combinations_of_races,
    in_combination,
    race_name,
)

FINE = load_schema("persons-2010")
COARSE = load_schema("sex-age38-race7-hispanic")
SF1, PL94 = tables("sf1"), tables("pl94-171")


def people(schema: Schema, *, n: int = 400, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Levels of random people (n x attributes), and their counts in one unit."""
    rng = np.random.default_rng(seed)
    levels = np.stack([rng.integers(0, size, n) for size in schema.shape], axis=1)
    cells = np.ravel_multi_index(tuple(levels.T), schema.shape)
    return levels, np.bincount(cells, minlength=schema.size)[None]


def published(
    name: str, counts: np.ndarray, schema: Schema, product=SF1
) -> dict[tuple[str, ...], int]:
    table = product[name]
    values = table.of(counts, schema).toarray()[0]
    return dict(zip(table.on(schema).labels, values.tolist(), strict=True))


def test_races_are_numbered_as_the_bureau_does():
    assert len(combinations_of_races()) == 63
    assert [race_name(code) for code in (1, 6, 7, 21, 22, 42, 57, 63)] == [
        "white", "other", "white+black", "nhpi+other", "white+black+aian",
        "white+black+aian+asian", "white+black+aian+asian+nhpi",
        "white+black+aian+asian+nhpi+other",
    ]  # fmt: skip
    assert alone("asian") == {4}
    assert len(in_combination("asian")) == 32


def test_seven_groups_and_age_groups_are_the_published_ones():
    seven = dict(codings()["race", "seven"].layers[0])
    assert seven["black"] == {2, 7}
    assert seven["white"] == {1}
    assert len(seven["multiple"]) == 63 - 11
    assert len(codings()["age", "p12"].layers[0]) == 23
    assert len(codings()["age", "bins38"].layers[0]) == 38
    assert len(codings()["age", "pct12"].layers[0]) == 103
    assert tuple(label for label, _ in codings()["age", "bins38"].layers[0]) == (
        COARSE.attribute("age").levels
    )


def test_every_table_of_the_attack_is_there():
    cells, reasons = supported(SF1.values(), FINE)
    assert len(cells) == 34
    assert not reasons
    assert PL94["P2"].on(FINE).inner.sum() == 126
    assert PL94["P2"].on(COARSE).inner.sum() == 14


def test_cells_hold_the_people_they_say():
    levels, counts = people(FINE)
    sex, age, race, hispanic = levels.T
    p12b = published("P12B", counts, FINE)
    assert p12b["female", "22-24"] == np.sum((sex == 1) & (age >= 22) & (age <= 24) & (race == 1))
    assert p12b["total", "85+"] == np.sum((age >= 85) & (race == 1))
    assert p12b["total", "total"] == np.sum(race == 1)
    p11 = published("P11", counts, FINE)
    assert p11["hispanic", "white+black"] == np.sum((age >= 18) & (race == 6) & (hispanic == 1))
    assert p11["total", "two races"] == np.sum((age >= 18) & (race >= 6) & (race <= 20))
    p14 = published("P14", counts, FINE)
    assert p14["total", "total"] == np.sum(age < 20)
    assert p14["male", "7"] == np.sum((age == 7) & (sex == 0))
    o = published("PCT12O", counts, FINE)
    assert o["male", "100-104"] == np.sum(
        (sex == 0) & (age >= 100) & (age <= 104) & (race >= 6) & (hispanic == 0)
    )


def test_a_person_of_two_races_counts_twice_where_races_are_tallied():
    _, counts = people(FINE, n=1, seed=0)
    counts[:] = 0
    counts[0, FINE.cell(sex="male", age="30", race="7", hispanic="hispanic")] = 1
    assert [label for label, n in published("P6", counts, FINE).items() if n] == [
        ("white",),
        ("black",),
    ]


@pytest.mark.parametrize("schema", [FINE, COARSE], ids=["63 races", "7 groups"])
def test_subtotals_are_the_sums_of_their_parts(schema: Schema):
    _, counts = people(schema)
    for cells in supported((*SF1.values(), *PL94.values()), schema)[0]:
        values = cells.table.of(counts, schema).toarray()[0]
        assert not (cells.relations @ values).any()
        wrong = values.copy()
        wrong[0] += 1
        assert cells.size == 1 or cells.axes[0].overlapping or (cells.relations @ wrong).any()
        for family in range(cells.family.max() + 1):
            assert cells.matrix[:, cells.family == family].sum(axis=1).max() <= 1


@pytest.mark.parametrize("name", ["P8", "P9", "P12", "PCT12"])
def test_the_detail_is_a_query(name: str):
    cells = SF1[name].on(FINE)
    detail = cells.matrix[:, cells.inner]
    assert (detail != cells.query(FINE).matrix(FINE)).nnz == 0


def test_a_query_cannot_count_a_person_twice():
    with pytest.raises(InputError, match="table P6: found overlapping groups, expected none"):
        SF1["P6"].on(FINE).query(FINE)


def test_coarse_schemas_restate_tables_or_say_why_not():
    assert [coding.name for coding in SF1["P9"].on(COARSE).axes] == ["hispanic", "seven"]
    assert SF1["P12B"].supports(COARSE).universe[0][1].name == "seven"
    reason = SF1["P6"].supports(COARSE).reason
    assert reason == "P6: race level 'black' lies across 'white' of 'combination'"
    with pytest.raises(InputError, match="table P6: found P6: race level 'black' lies across"):
        SF1["P6"].on(COARSE)
    top = Schema((Attribute("sex", ("male", "female")), Attribute("age", ("0-17", "18-44", "45+"))))
    assert SF1["P1"].supports(top)
    assert "age level '0-17' lies across '0-4' of 'p12'" in SF1["P12"].supports(top).reason
    assert PL94["P1"].supports(top).reason == "P1: the schema has no attribute 'race'"
    strange = Schema((Attribute("age", ("young", "old")), *COARSE.attributes[2:]))
    assert "age level 'young' is not a year" in PL94["P3"].supports(strange).reason
    assert "neither the codes 1-63" in PL94["P1"].supports(load_schema("e2e-2018")).reason


def test_voting_age_alone_is_enough_for_redistricting_tables():
    schema = Schema((Attribute("voting_age", ("under_18", "18_and_over")), *FINE.attributes[2:]))
    _, counts = people(schema)
    assert published("P4", counts, schema, PL94)["total", "total"] == counts[0, 126:].sum()


def test_levels_of_publication():
    whole = Geography(
        ("state", "tract", "block"),
        (np.array(["s"]), np.array(["t"]), np.array(["b"])),
        (np.empty(0, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)),
    )
    assert SF1["P12"].published_at(whole) == ("state", "tract", "block")
    assert SF1["PCT12"].published_at(whole) == ("state", "tract")
    towns = Geography(("all", "town"), whole.units[:2], whole.parents[:2])
    assert SF1["P12"].published_at(towns) == ("all", "town")
    with pytest.raises(InputError, match="level 'tract'"):
        SF1["PCT12"].published_at(towns)


def test_homes_come_from_living_quarters():
    schema = load_schema("e2e-2018")
    place = Geography(("all",), (np.array(["x"]),), (np.empty(0, np.int32),))
    quarters = Quarters(place, "hhgq", np.arange(8)[None] + 5, np.array([3]))
    assert housing_counts(quarters, home="household", schema=schema).tolist() == [[8, 5, 3]]
    assert "made from living quarters" in PL94["H1"].supports(schema).reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[table]]\nname='A'\ntitle='a'", "table A, lowest: found no text, expected a text"),
        ("x = 1", r"found no \[\[table\]\], expected at least one"),
        ("= 1", "found text that is not TOML"),
        ("[[table]]\nname='A'\ntitle='a'\nlowest='block'\nsize=1", "table A: found key 'size'"),
        (
            "[[table]]\nname='A'\ntitle='a'\nlowest='block'\naxes={race=['nine']}",
            "table A, race: found coding 'nine', expected one of 'sixty-three'",
        ),
        (
            "[[table]]\nname='A'\ntitle='a'\nlowest='block'\nuniverse={sex=['sex/x']}",
            "table A, sex: found group 'x', expected one of 'total', 'male'",
        ),
        (
            "[[table]]\nname='A'\ntitle='a'\nlowest='block'\niterations='Z'",
            "table A: found iteration 'Z'",
        ),
        (
            "[[table]]\nname='A'\ntitle='a'\nlowest='block'\ncounts='cars'",
            "table A, counts: found 'cars', expected one of 'persons', 'housing'",
        ),
        (
            "[[table]]\nname='A'\ntitle='a'\nlowest='block'\n" * 2,
            "found table 'A' twice, expected each name once",
        ),
    ],
)
def test_tables_of_ones_own_are_checked(text: str, message: str, tmp_path: Path):
    file = tmp_path / "tables.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        tables(file)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(
        ConfigError, match="nowhere: found no such file, expected tables: a TOML file"
    ):
        tables("nowhere")
