"""Tables of the census of 2020: recodes, blocks under two trees, living quarters, refusals."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from headcount.errors import InputError
from headcount.geography import Geography
from headcount.population.redistricting_2020 import read_persons_2020, read_units_2020
from headcount.schema import load_schema

SCHEMA = load_schema("redistricting-2020")
TRACT = "44001000100"
BLOCKS = [
    # code, area, place: the third lies in a reservation, nothing stands in the last
    (f"{TRACT}1000", "9999", "00001"),
    (f"{TRACT}1001", "9999", "00001"),
    (f"{TRACT}2000", "0012", "00001"),
    (f"{TRACT}2001", "9999", "00002"),
]


def blocks() -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "block": code,
                "state": "44",
                "county": "44001",
                "tract": TRACT,
                "area": area,
                "place": place,
                "subdivision": "00001",
            }
            for code, area, place in BLOCKS
        ]
    )


def units() -> pl.DataFrame:
    rows = [
        (BLOCKS[0][0], "000", 1, 5),
        (BLOCKS[0][0], "000", 0, 2),
        (BLOCKS[0][0], "301", 1, 1),
        (BLOCKS[1][0], "000", 0, 1),
        (BLOCKS[2][0], "901", 1, 2),
    ]
    return pl.DataFrame(rows, schema=["block", "gqtype", "occupied", "count"], orient="row")


def persons(*more: tuple[str, str, int, int, int]) -> pl.DataFrame:
    rows = [
        (BLOCKS[0][0], "000", 17, 1, 1),
        (BLOCKS[0][0], "000", 18, 2, 63),
        (BLOCKS[0][0], "301", 80, 1, 7),
        (BLOCKS[2][0], "901", 40, 1, 2),
        *more,
    ]
    columns = ["block", "gqtype", "age", "cenhisp", "cenrace"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_people_get_the_recodes_of_the_product():
    people = read_persons_2020(persons(), blocks=blocks(), units=units())
    shape = [one.size for one in SCHEMA.attributes]
    found = np.stack(np.unravel_index(people.cell, shape), axis=1).tolist()
    assert found == [[0, 0, 0, 0], [0, 1, 1, 62], [3, 1, 0, 6], [7, 1, 0, 1]]
    codes = people.geography.units[-1][people.unit].tolist()
    assert codes == persons()["block"].to_list()


def test_blocks_stand_under_their_own_codes_and_along_the_spine():
    people = read_persons_2020(persons(), blocks=blocks(), units=units())
    tree = people.geography
    assert tree.levels == ("us", "state", "county", "tract", "block_group", "block")
    assert tree.units[4].tolist() == [f"{TRACT}1", f"{TRACT}2"]
    assert tree.units[5].tolist() == [code for code, _, _ in BLOCKS[:3]]  # nothing on the fourth
    assert tree.spine is not None
    assert tree.spine.units[1].tolist() == ["044", "144"]
    assert tree.units[-1][tree.along_spine].tolist() == tree.spine.units[-1].tolist()
    # The first block has a nursing home, the second none: two block groups of the spine.
    assert tree.spine.size("block_group") == 3


def test_a_move_within_a_published_place_can_be_one_between_larger_units_of_the_spine():
    """What docs/redistricting.md says of the certificate: which of its lines a move costs."""
    tree = read_persons_2020(persons(), blocks=blocks(), units=units()).geography
    spine = tree.spine
    assert spine is not None

    def smallest(place: Geography, one: str, other: str) -> str:
        ends = np.flatnonzero(np.isin(place.units[-1], [one, other]))
        held = [level for level in place.levels if len(set(place.ancestors(level)[ends])) == 1]
        return held[-1]

    first, beside, in_area = (code for code, _, _ in BLOCKS[:3])
    assert smallest(tree, first, beside) == "block_group"
    assert smallest(spine, first, beside) == "tract"
    assert smallest(tree, first, in_area) == "tract"
    assert smallest(spine, first, in_area) == "us"


def test_living_quarters_are_counted_by_type_and_vacant_homes_apart():
    people = read_persons_2020(persons(), blocks=blocks(), units=units())
    assert people.quarters is not None
    assert people.quarters.occupied.tolist() == [
        [5, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 2],
    ]
    assert people.quarters.vacant.tolist() == [2, 1, 0]


def test_without_units_every_block_is_there_and_nothing_is_known_of_quarters():
    people = read_persons_2020(persons(), blocks=blocks())
    assert people.quarters is None
    assert people.geography.size("block") == 4
    assert people.domain.read_off == ()


def test_that_blocks_were_left_out_by_their_quarters_is_said():
    people = read_persons_2020(persons(), blocks=blocks(), units=units())
    assert people.domain.read_off[0] == "which blocks have living quarters"


def test_that_the_spine_was_cut_by_kinds_of_group_quarters_is_said_where_it_was():
    """The same places with other group quarters have another spine: it tells which stand where."""
    said = "which kinds of group quarters stand in each block"
    homes = units().with_columns(pl.lit("000").alias("gqtype"))
    few = persons().head(2)  # in homes
    cut = read_persons_2020(few, blocks=blocks(), units=units())
    plain = read_persons_2020(few, blocks=blocks(), units=homes)
    assert cut.geography.spine is not None
    assert plain.geography.spine is not None
    assert cut.geography.spine.size("block_group") > plain.geography.spine.size("block_group")
    assert (
        cut.domain.read_off == plain.domain.read_off == ("which blocks have living quarters", said)
    )
    assert said not in read_units_2020(units(), blocks=blocks()).domain.read_off


def test_housing_units_are_vacant_or_occupied_and_facilities_do_not_count():
    homes = read_units_2020(units(), blocks=blocks())
    assert homes.schema.attribute("h1").levels == ("vacant", "occupied")
    table = np.zeros((3, 2), dtype=int)
    assert homes.count is not None
    np.add.at(table, (homes.unit, homes.cell), homes.count)
    assert table.tolist() == [[2, 5], [1, 0], [0, 0]]
    # Kinds of quarters do not split the spine of units.
    assert homes.geography.spine is not None
    assert homes.geography.spine.size("block_group") == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((BLOCKS[0][0], "012", 30, 1, 1), "'gqtype', row 5: found '012', expected 000, or three"),
        ((BLOCKS[0][0], "000", -1, 1, 1), "'age', row 5: found -1, expected a whole number from 0"),
        ((BLOCKS[0][0], "000", 30, 3, 1), "'cenhisp', row 5: found 3, expected .* from 1 to 2"),
        ((BLOCKS[0][0], "000", 30, 1, 64), "'cenrace', row 5: found 64, expected .* 1 to 63"),
        ((BLOCKS[3][0], "000", 30, 1, 1), f"found unit '{BLOCKS[3][0]}', expected one of the 3"),
        ((BLOCKS[2][0], "000", 30, 1, 1), f"someone in 'household' in block '{BLOCKS[2][0]}'"),
        ((BLOCKS[1][0], "301", 30, 1, 1), f"someone in 'nursing' in block '{BLOCKS[1][0]}'"),
    ],
)
def test_people_whom_the_tables_contradict_are_refused_by_row(wrong, said):
    with pytest.raises(InputError, match=said):
        read_persons_2020(persons(wrong), blocks=blocks(), units=units())


def test_people_may_live_in_a_home_that_was_vacant():
    """Bounds count all housing units, so nobody is refused for the day of the interview."""
    people = read_persons_2020(
        persons((BLOCKS[1][0], "000", 30, 1, 1)), blocks=blocks(), units=units()
    )
    assert len(people.unit) == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tract": "44001000200"}, "expected a code that begins with that of its tract"),
        ({"area": "4990"}, "'area', row 1: found '4990', expected a code of an area"),
        ({"block": BLOCKS[1][0]}, "a second row for block"),
    ],
)
def test_blocks_that_contradict_themselves_are_refused_by_row(change, said):
    table = blocks()
    for column, value in change.items():
        first = pl.int_range(pl.len()) == 0
        table = table.with_columns(
            pl.when(first).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
        )
    with pytest.raises(InputError, match=said):
        read_persons_2020(persons(), blocks=table)


def test_a_state_by_itself_is_the_whole():
    table = blocks().with_columns(pl.lit("9999").alias("area"))
    people = read_persons_2020(persons(), blocks=table, units=units(), whole="state")
    tree = people.geography
    assert tree.levels == ("state", "county", "tract", "block_group", "block")
    assert tree.spine is not None
    assert tree.spine.levels == tree.levels
    assert tree.units[0].tolist() == tree.spine.units[0].tolist() == ["state"]
    homes = read_units_2020(units(), blocks=table, whole="state")
    assert homes.geography.levels == tree.levels


def test_two_states_or_parts_of_one_are_no_whole():
    with pytest.raises(InputError, match="'state': found several states, or blocks inside and out"):
        read_persons_2020(persons(), blocks=blocks(), units=units(), whole="state")


def test_rows_that_stand_for_nobody_say_nothing():
    """Neither of people where nothing stands, nor of kinds of quarters, nor of blocks."""
    some = persons().with_columns(pl.lit(1).alias("count"))
    nobody = [(BLOCKS[2][0], "000", 30, 1, 1, 0), (BLOCKS[3][0], "601", 30, 1, 1, 0)]
    people = pl.concat([pl.DataFrame(nobody, schema=some.schema, orient="row"), some])
    nothing = pl.DataFrame(
        [(BLOCKS[1][0], "601", 1, 0), (BLOCKS[3][0], "000", 0, 0)],
        schema=units().schema,
        orient="row",
    )
    found = read_persons_2020(people, blocks=blocks(), units=pl.concat([nothing, units()]))
    expected = read_persons_2020(persons(), blocks=blocks(), units=units())
    assert [rows for _, rows in found.reading.rows] == [6, 7, 4]
    assert dict(found.reading.left_out) == {
        "rows that stand for 0": 2,
        "blocks without living quarters": 1,
    }
    assert found.unit.tolist() == expected.unit.tolist()
    assert found.cell.tolist() == expected.cell.tolist()
    for one, other in zip(found.geography.units, expected.geography.units, strict=True):
        assert one.tolist() == other.tolist()
    assert found.geography.spine is not None
    assert expected.geography.spine is not None
    assert found.geography.spine.size("block_group") == expected.geography.spine.size("block_group")


def test_units_that_no_number_holds_are_refused():
    many = units().with_columns(pl.lit(2**62).alias("count"))
    with pytest.raises(InputError, match="'count': found too many units, expected at most 2\\^62"):
        read_units_2020(many, blocks=blocks())


def test_facilities_are_known_beside_housing_units_and_which_homes_are_vacant_is_not():
    homes = read_units_2020(units(), blocks=blocks())
    assert homes.quarters is not None
    assert homes.quarters.occupied.tolist() == [
        [0, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 2],
    ]
    assert not homes.quarters.vacant.any()
    assert homes.domain.read_off[-1].startswith("how many facilities of each type")
