"""Published tables: cells, universes, subtotals, and which schema can make which table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.schema import Attribute, Schema, load_schema
from headcount.tabulate.codings import (
    alone,
    codings,
    combinations_of_races,
    in_combination,
    race_name,
)
from headcount.tabulate.published import supported, tables

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
        "white",
        "other",
        "white+black",
        "nhpi+other",
        "white+black+aian",
        "white+black+aian+asian",
        "white+black+aian+asian+nhpi",
        "white+black+aian+asian+nhpi+other",
    ]
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
    assert PL94["P2"].on(FINE).inner.sum() == 64
    assert PL94["P2"].on(COARSE).inner.sum() == 14


SIZES = {"P1": 1, "P6": 7, "P7": 15, "P8": 71, "P9": 73, "P10": 71, "P11": 73, "P14": 43}


def test_tables_have_the_cells_of_the_products_of_2010():
    """As the technical documentation of Summary File 1 and P.L. 94-171 lists them."""
    ages = {"P12": 49} | {f"P12{letter}": 49 for letter in "ABCDEFGHI"}
    years = {"PCT12": 209} | {f"PCT12{letter}": 209 for letter in "ABCDEFGHIJKLMNO"}
    assert {name: table.on(FINE).size for name, table in SF1.items()} == SIZES | ages | years
    person = {name: table.on(FINE).size for name, table in PL94.items() if name != "H1"}
    assert person == {"P1": 71, "P2": 73, "P3": 71, "P4": 73}


def test_what_follows_from_others_is_marked():
    p2 = PL94["P2"].on(FINE)
    detail = {label for label, inner in zip(p2.labels, p2.inner, strict=True) if inner}
    assert ("hispanic", "total") in detail
    assert ("not_hispanic", "white+black") in detail
    assert ("not_hispanic", "two or more races") not in detail
    assert len(detail) == 64
    assert p2.matrix[:, p2.inner].sum(axis=1).tolist() == [1] * FINE.size  # everybody once
    assert p2.crossed.size == 3 * 71
    assert p2.crossed.crossed is p2.crossed
    assert [p2.crossed.labels[i] for i in p2.place] == list(p2.labels)
    p12 = SF1["P12"].on(FINE)
    assert p12.inner.sum() == 46
    assert ("total", "20") not in p12.labels


def test_races_nest_in_two_or_more_and_in_their_number():
    coding = codings()["race", "sixty-three"]
    labels = [label for label, _ in coding.groups]
    above = {label: labels[up] for label, up in zip(labels, coding.parents, strict=True) if up >= 0}
    assert above["one race"] == above["two or more races"] == "total"
    assert above["two races"] == above["six races"] == "two or more races"
    assert above["white"] == "one race"
    assert above["white+black"] == "two races"
    assert coding.parents[0] == -1


def test_cells_hold_the_people_they_say():
    levels, counts = people(FINE)
    sex, age, race, hispanic = levels.T
    p12b = published("P12B", counts, FINE)
    assert p12b["female", "22-24"] == np.sum((sex == 1) & (age >= 22) & (age <= 24) & (race == 1))
    assert p12b["male", "total"] == np.sum((sex == 0) & (race == 1))
    assert p12b["total", "total"] == np.sum(race == 1)
    p11 = published("P11", counts, FINE)
    adult, other = age >= 18, hispanic == 0
    assert p11["not_hispanic", "white+black"] == np.sum(adult & (race == 6) & other)
    assert p11["not_hispanic", "two races"] == np.sum(adult & (race >= 6) & (race <= 20) & other)
    assert p11["not_hispanic", "two or more races"] == np.sum(adult & (race >= 6) & other)
    assert p11["hispanic", "total"] == np.sum(adult & ~other)
    assert ("hispanic", "white") not in p11
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
    assert {label: n for label, n in published("P6", counts, FINE).items() if n} == {
        ("total",): 2,
        ("white",): 1,
        ("black",): 1,
    }
    assert {label: n for label, n in published("P7", counts, FINE).items() if n} == {
        ("total", "total"): 2,
        ("hispanic", "total"): 2,
        ("hispanic", "white"): 1,
        ("hispanic", "black"): 1,
    }


@pytest.mark.parametrize("schema", [FINE, COARSE], ids=["63 races", "7 groups"])
def test_subtotals_are_the_sums_of_their_parts(schema: Schema):
    _, counts = people(schema)
    for cells in supported((*SF1.values(), *PL94.values()), schema)[0]:
        values = cells.table.of(counts, schema).toarray()[0]
        assert not (cells.relations @ values).any()
        wrong = values.copy()
        wrong[0] += 1
        assert cells.size == 1 or (cells.relations @ wrong).any()
        tallied = any(coding.overlapping for coding in cells.axes)
        for family in range(cells.family.max() + 1):
            if (own := cells.matrix[:, cells.family == family]).shape[1] and not tallied:
                assert own.sum(axis=1).max() <= 1


@pytest.mark.parametrize("name", ["P8", "P12", "PCT12"])
def test_the_detail_is_a_query(name: str):
    cells = SF1[name].on(FINE)
    detail = cells.matrix[:, cells.inner]
    assert (detail != cells.query(FINE).matrix(FINE)).nnz == 0


def test_a_query_cannot_count_a_person_twice():
    with pytest.raises(InputError, match="table P6: found overlapping groups, expected none"):
        SF1["P6"].on(FINE).query(FINE)
    with pytest.raises(InputError, match="table P9: found groups that are not crossed with others"):
        SF1["P9"].on(FINE).query(FINE)


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
            "[[table]]\nname='A'\ntitle='a'\nlowest='block'\naxes={sex=['sex'], age=['p12']}\n"
            "within={sex=['male']}",
            "table A, within: found 'sex', expected one of 'age'",
        ),
        (
            "[[table]]\nname='A'\ntitle='a'\nlowest='block'\naxes={sex=['sex'], age=['p12']}\n"
            "within={age=['men']}",
            "table A, within: found 'men', expected one of 'female', 'male', 'total'",
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
