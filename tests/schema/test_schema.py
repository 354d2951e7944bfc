"""Schemas: cells, structural zeros, recodes, and the TOML that describes them."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import ConfigError, InputError
from headcount.schema import Attribute, Recode, Schema, impossible, load_schema, shipped
from headcount.testing.strategies import attributes, recodes, schemas

SEX = Attribute("sex", ("female", "male"))
AGE = Attribute("age", ("0-17", "18-64", "65+"))


def test_cells_are_numbered_row_by_row():
    schema = Schema((SEX, AGE))
    assert schema.size == 6
    assert schema.cell(sex="male", age="0-17") == 3
    assert schema.cell_names[3] == "male_0-17"


def test_a_schema_without_attributes_has_one_cell_the_total():
    schema = Schema()
    assert schema.size == 1
    assert schema.cell() == 0
    assert schema.cell_names == ("total",)
    assert schema.possible.tolist() == [True]


@given(schemas())
def test_cell_numbers_follow_the_order_of_the_levels(schema):
    combinations = product(*(attribute.levels for attribute in schema.attributes))
    for number, levels in enumerate(combinations):
        assert schema.cell(**dict(zip(schema.names, levels, strict=True))) == number
        if schema.attributes:
            assert schema.cell_names[number] == "_".join(levels)


@given(schemas())
def test_structural_zeros_are_every_cell_that_matches_a_combination(schema):
    combinations = product(*(attribute.levels for attribute in schema.attributes))
    for number, levels in enumerate(combinations):
        person = dict(zip(schema.names, levels, strict=True))
        zero = any(
            all(person[name] in gathered for name, gathered in combination)
            for combination in schema.structural_zeros
        )
        assert schema.possible[number] == (not zero)


def test_the_mask_of_possible_cells_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Schema((SEX,)).possible[0] = False


@given(st.data())
def test_a_recode_puts_each_level_in_its_group(data):
    source = data.draw(attributes())
    recode = data.draw(recodes(source))
    for level, group in zip(source.levels, recode.group_of_level, strict=True):
        label, gathered = recode.groups[group]
        assert level in gathered
        assert recode.attribute.levels[group] == label


def test_a_schema_compares_and_hashes_by_value():
    zero = impossible({"sex": ["male"], "age": ["65+"]})
    assert Schema((SEX, AGE), (zero,)) == Schema((SEX, AGE), (zero,))
    assert hash(Schema((SEX, AGE))) == hash(Schema((SEX, AGE)))
    assert eval(repr(Schema((SEX, AGE), (zero,)))) == Schema((SEX, AGE), (zero,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Attribute("", ("a",)), "schema: attribute: found no name, expected a name"),
        (lambda: Attribute("sex", ()), "attribute 'sex': found no levels, expected at least one"),
        (lambda: Attribute("sex", ("f", "f")), "found level 'f' twice, expected distinct levels"),
        (lambda: Attribute("sex", ("", "")), "found level '' twice, expected distinct levels"),
        (lambda: SEX.index("x"), "found level 'x', expected one of 'female', 'male'"),
        (lambda: Schema((SEX, SEX)), "found attribute 'sex' twice, expected distinct attributes"),
        (lambda: Schema((SEX,)).attribute("age"), "found attribute 'age', expected one of 'sex'"),
        (lambda: Schema((SEX, AGE)).cell(sex="male"), r"cell: found .*\['sex'\], expected all of"),
        (
            lambda: Schema((SEX,), (impossible({"sex": ["female", "male"]}),)),
            "found every cell a structural zero, expected at least one possible",
        ),
        (lambda: Schema((SEX,), (impossible({"sex": ["x"]}),)), "'sex': found level 'x'"),
        (lambda: Schema((SEX,), (impossible({"x": ["y"]}),)), "found attribute 'x', expected one"),
        (
            lambda: Schema((Attribute("a", ("x", "x_y")), Attribute("b", ("z", "y_z")))).cell_names,
            "found two cells named 'x_y_z', expected distinct cell names",
        ),
        (
            lambda: Schema(
                tuple(Attribute(f"a{i}", tuple(f"l{j}" for j in range(1300))) for i in range(3))
            ),
            "found 2,197,000,000 cells, expected at most 16,777,216",
        ),
        (
            lambda: Recode.of(SEX, "all", {"f": ["female"]}),
            "recode 'all' of 'sex': found level 'male' in no group, expected each level in one",
        ),
        (
            lambda: Recode.of(SEX, "all", {"f": ["female", "male"], "m": ["male"]}),
            "found level 'male' in two groups, expected each level in one group",
        ),
        (lambda: Recode.of(SEX, "all", {"f": ["x"]}), "found level 'x', expected one of 'female'"),
        (
            lambda: Recode("all", SEX, (("a", ("female",)), ("a", ("male",)))),
            "attribute 'all': found level 'a' twice, expected distinct levels",
        ),
    ],
)
def test_a_bad_schema_says_what_is_wrong(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_long_list_of_levels_is_cut_in_the_message():
    attribute = Attribute("n", tuple(str(number) for number in range(20)))
    with pytest.raises(InputError, match="'11' and 8 more"):
        attribute.index("x")


def test_every_shipped_schema_loads():
    assert "total" in shipped()
    sizes = {name: load_schema(name).size for name in shipped()}
    assert sizes["total"] == 1
    assert sizes["voting-age-by-group"] == 16
    assert sizes["redistricting-2020"] == 2_016
    assert sizes["h1-2020"] == 2
    assert sizes["voting-age-by-race-1940"] == 24


TOML = """
description = "small"
[[attribute]]
name = "sex"
levels = ["female", "male"]
[[attribute]]
name = "age"
levels = ["0-17", "18-64", "65+"]
[[structural_zero]]
sex = ["male"]
age = ["65+", "18-64"]
"""


def test_a_schema_from_a_users_file(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(TOML)
    expected = Schema((SEX, AGE), (impossible({"sex": ["male"], "age": ["65+", "18-64"]}),))
    assert load_schema(file) == expected
    assert np.flatnonzero(~expected.possible).tolist() == [4, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = [", r"mine.toml: found text that is not TOML \(.*\), expected TOML"),
        ("atribute = []", "mine.toml: atribute: found an unknown key, expected one of 'attribute'"),
        ("attribute = 3", r"attribute: found 3, expected \[\[attribute\]\] tables"),
        ("[attribute]\nname = 'a'\nlevels = ['b']", r"expected \[\[attribute\]\] tables"),
        ("structural_zero = ['a']", r"structural_zero: found \['a'\], expected \[\[structural"),
        ("[[attribute]]\nname = 'sex'", r"attribute 1: found keys \['name'\], expected name and"),
        ("[[attribute]]\nname = 1\nlevels = ['a']", "attribute 1, name: found 1, expected a str"),
        (
            "[[attribute]]\nname = 'n'\nlevels = [1, 2]",
            r"attribute 1: found \[1, 2\], expected a list of strings",
        ),
        (
            "[[attribute]]\nname = 'sex'\nlevels = ['f', 'f']",
            "mine.toml: attribute 'sex': found level 'f' twice, expected distinct levels",
        ),
        (
            "[[attribute]]\nname = 'sex'\nlevels = ['f']\n[[structural_zero]]\nsex = ['x']",
            "mine.toml: attribute 'sex': found level 'x', expected one of 'f'",
        ),
    ],
)
def test_a_bad_schema_file_is_named_in_the_error(tmp_path: Path, text, message):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_schema(file)


def test_a_schema_that_is_not_there(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=r"no-such: found no such file, expected a schema: .* 'total'"
    ):
        load_schema("no-such")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'description = "caf\xe9"')
    with pytest.raises(ConfigError, match=r"latin.toml: found text that is not TOML .*utf-8"):
        load_schema(latin)


def test_races_of_2020_are_numbered_as_in_the_census_and_no_minor_is_in_a_nursing_home():
    schema = load_schema("redistricting-2020")
    races = schema.attribute("cenrace").levels
    sizes = [1 + name.count("+") for name in races]
    assert [sizes.count(one) for one in range(1, 7)] == [6, 15, 20, 15, 6, 1]
    assert sizes == sorted(sizes)
    assert races[6] == "white+black"
    assert races[20] == "pacific_islander+other"
    assert schema.possible.sum() == 2_016 - 2 * 63
