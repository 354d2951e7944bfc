"""What attributes follow from: levels by household size, through recodes and together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import ConfigError, InputError
from headcount.schema import Attribute, Follows, Recode, Schema, load_schema
from headcount.schema.schema import ALONE, joined, level_at, looks_like_size, steps_of
from headcount.tabulate import Query

SIZE = Attribute("household_size", ("1", "2", "3", "4+", "none"), Follows.SIZE)


@pytest.mark.parametrize(
    ("levels", "steps"),
    [
        (("1", "2", "3", "4+", "none"), ((1, 0), (2, 1), (3, 2), (4, 3))),
        (("0", "1 person", "2 people", "3 and more"), ((1, 1), (2, 2), (3, 3))),
        (("5 or more", "3-4", "1 to 2"), ((1, 2), (3, 1), (5, 0))),
        (("1+",), ((1, 0),)),
    ],
)
def test_levels_begin_at_the_number_their_label_begins_with(levels, steps):
    assert steps_of(levels, name="size") == steps
    assert Attribute("size", levels, Follows.SIZE).steps == steps


@pytest.mark.parametrize("levels", [("one", "two"), ("2", "3"), ("1", "1 again"), ("1", "01")])
def test_levels_that_say_no_sizes_are_refused(levels):
    with pytest.raises(InputError, match="expected levels that begin with numbers of people") as no:
        Attribute("household_size", levels, Follows.SIZE)
    assert "attribute 'household_size', which follows the size of the household" in str(no.value)


def test_what_an_attribute_follows_is_no_part_of_what_it_is():
    """Digests, and so seeded noise, do not depend on it."""
    plain = Attribute(SIZE.name, SIZE.levels)
    assert plain == SIZE
    assert repr(plain) == repr(SIZE)
    assert plain.follows is Follows.PERSON
    assert plain.steps == ALONE


def test_a_recode_follows_what_its_source_follows():
    coarse = Recode.of(SIZE, "home", {"small": ["1", "2", "3"], "large": ["4+"], "none": ["none"]})
    assert coarse.attribute.follows is Follows.SIZE
    assert coarse.attribute.steps == ((1, 0), (4, 1))
    same = Recode.of(SIZE, "anyone", {"all": SIZE.levels})
    assert same.attribute.steps == ((1, 0),)  # nothing of the size is left
    ends = Recode.of(SIZE, "ends", {"1 or 4+": ["1", "4+"], "rest": ["2", "3", "none"]})
    assert ends.attribute.steps == ((1, 0), (2, 1), (4, 0))


def test_a_query_answers_with_attributes_that_know_what_they_follow():
    sex = Attribute("sex", ("f", "m"))
    coarse = Recode.of(SIZE, "home", {"1": ["1"], "2+": ["2", "3", "4+"], "none": ["none"]})
    answered = Query("q", ("sex", coarse)).attributes(Schema((sex, SIZE)))
    assert [a.follows for a in answered] == [Follows.PERSON, Follows.SIZE]
    assert answered[1].steps == ((1, 0), (2, 1))


def test_a_recode_cannot_hide_what_the_data_say_an_attribute_follows():
    """Attributes are equal whatever they follow, so the source of a recode may say less."""
    plain = Attribute(SIZE.name, SIZE.levels)
    hidden = Recode.of(plain, "home", {"1": ["1"], "more": ["2", "3", "4+", "none"]})
    assert hidden.attribute.follows is Follows.PERSON
    (answered,) = Query("q", (hidden,)).attributes(Schema((SIZE,)))
    assert answered.follows is Follows.SIZE
    assert answered.steps == ((1, 0), (2, 1))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(2, 9), st.integers(0, 2)), max_size=3),
        min_size=1,
        max_size=3,
    )
)
def test_together_levels_change_where_one_of_them_does(drawn):
    several = [
        ((1, 0), *sorted({size: (size, level) for size, level in one}.values())) for one in drawn
    ]
    both = joined(several)
    for size in range(2, 12):
        one_changes = any(level_at(s, size) != level_at(s, size - 1) for s in several)
        assert (level_at(both, size) != level_at(both, size - 1)) == one_changes


@pytest.mark.parametrize(
    "name",
    [
        "household_size",
        "HHSIZE",
        "hh size",
        "numprec",
        "n_persons",
        "persons_in_household",
        "size",
        "size.of.household",
        "famsize",
        "Household Members",
        "number_of_people",
        "hhsize_group",
        "NP",
    ],
)
def test_names_that_look_like_household_sizes(name):
    assert looks_like_size(name)
    assert looks_like_size("x", name)


@pytest.mark.parametrize(
    "name", ["age", "sex", "tenure", "hhgq", "household_type", "rooms", "race", "city_size", "n"]
)
def test_names_that_do_not(name):
    assert not looks_like_size(name)


def schema_file(tmp_path: Path, more: str = "") -> Path:
    path = tmp_path / "own.toml"
    path.write_text(f'[[attribute]]\nname = "household_size"\nlevels = ["1", "2+"]\n{more}')
    return path


def test_a_schema_must_say_what_a_household_size_is(tmp_path: Path):
    """A table of counts does not tell who lives together."""
    (size,) = load_schema(schema_file(tmp_path)).attributes
    assert size.follows is Follows.UNSTATED
    (said,) = load_schema(schema_file(tmp_path, 'follows = "person"')).attributes
    assert said.follows is Follows.PERSON
    with pytest.raises(ConfigError, match="attribute 1, follows: found 'size', expected 'person'"):
        load_schema(schema_file(tmp_path, 'follows = "size"'))
