"""People in dwellings as a population: every cell by brute force."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.population.from_households import KIND, age_bins, seven_races, to_population
from headcount.population.population import HOUSEHOLD, VACANT, Households
from headcount.population.town_people import RACE_SETS
from headcount.population.towns import towns
from headcount.schema import Attribute, Recode, Schema, impossible, load_schema


@pytest.fixture(scope="module")
def state() -> Households:
    return towns(seed=4, people=2_000, counties=2)


def test_all_attributes_of_persons_by_default(state: Households) -> None:
    people = to_population(state)
    assert people.schema.names == ("age", "sex", "race", "hispanic")
    assert people.households is state
    assert people.public
    assert people.quarters is None
    decoded = np.unravel_index(people.cell, people.schema.shape)
    for name, code in zip(people.schema.names, decoded, strict=True):
        assert np.array_equal(code, state.persons[name])
    assert np.array_equal(people.unit, state.block[state.dwelling])


def test_a_shipped_schema(state: Households) -> None:
    """Ages in 38 bins and races in 7 groups, against a rule written out by hand."""
    people = to_population(state, schema=load_schema("sex-age38-race7-hispanic"))
    sex, age, race, hispanic = np.unravel_index(people.cell, people.schema.shape)
    assert people.schema.size == 1_064
    assert np.array_equal(sex, state.persons["sex"])
    assert np.array_equal(hispanic, state.persons["hispanic"])
    for bin_, years in zip(age, state.persons["age"].tolist(), strict=True):
        label = people.schema.attribute("age").levels[bin_]
        low, _, high = label.partition("-")
        assert int(low.rstrip("+")) <= years
        assert years <= (130 if label.endswith("+") else int(high or low))
    for group, code in zip(race, state.persons["race"].tolist(), strict=True):
        beyond = set(RACE_SETS[code]) - {0}
        order = ["white", "black", "aian", "asian", "nhpi", "other"]
        expected = "multiple" if len(beyond) > 1 else order[max(beyond, default=0)]
        assert people.schema.attribute("race").levels[group] == expected


def test_kind_of_dwelling_brings_living_quarters(state: Households) -> None:
    people = to_population(state, [KIND, "hispanic"])
    levels = people.schema.attribute(KIND).levels
    assert levels == ("household", *state.kinds[2:])
    assert people.quarters is not None
    found: Counter[tuple[int, str]] = Counter()
    for block, kind in zip(state.block.tolist(), state.kind.tolist(), strict=True):
        found[block, state.kinds[kind]] += 1
    for k, level in enumerate(levels):
        assert people.quarters.occupied[:, k].tolist() == [
            found[block, level] for block in range(state.geography.size("block"))
        ]
    assert people.quarters.vacant.sum() == np.sum(state.kind == VACANT)
    kind, _ = np.unravel_index(people.cell, people.schema.shape)
    names = [state.kinds[k] for k in state.kind[state.dwelling]]
    assert [levels[k] for k in kind] == names
    at_home = people.quarters.occupied[:, 0].sum()
    assert at_home == np.sum(state.kind == HOUSEHOLD)


def test_an_empty_facility_is_not_occupied() -> None:
    state = towns(seed=4, people=1_000, counties=1)
    closed = replace(
        state,
        block=np.append(state.block, np.int32(0)),
        kind=np.append(state.kind, np.int8(4)),
        first=np.append(state.first, state.first[-1]),
        dwellings={name: np.append(codes, 0) for name, codes in state.dwellings.items()},
    )
    one, two = to_population(state, [KIND]).quarters, to_population(closed, [KIND]).quarters
    assert one is not None
    assert two is not None
    assert np.array_equal(one.occupied, two.occupied)


def test_dwelling_attributes_and_recodes(state: Households) -> None:
    owners = Recode.of(state.attribute("tenure"), "owner", {"yes": ["own"], "no": ["rent", "none"]})
    people = to_population(state, [owners, "household_size"])
    owner, size = np.unravel_index(people.cell, people.schema.shape)
    assert np.array_equal(owner == 0, state.dwellings["tenure"][state.dwelling] == 0)
    assert np.array_equal(size, state.of_person("household_size"))


def test_structural_zeros_of_the_schema_are_kept(state: Households) -> None:
    sex, own = state.attribute("sex"), state.attribute("tenure")
    schema = Schema((sex, own), (impossible({"sex": ["male"], "tenure": ["none"]}),))
    with pytest.raises(InputError, match="someone in a structural zero"):
        to_population(state, schema=schema)


def test_refused(state: Households) -> None:
    with pytest.raises(InputError, match="found attribute 'income', expected one of"):
        to_population(state, ["income"])
    with pytest.raises(InputError, match="found attribute 'income', expected some of"):
        to_population(state, schema=Schema((Attribute("income", ("low", "high")),)))
    with pytest.raises(InputError, match="found attributes and a schema, expected one or"):
        to_population(state, ["age"], schema=Schema())
    other = Recode.of(Attribute("sex", ("m", "f")), "s", {"all": ["m", "f"]})
    with pytest.raises(InputError, match="recode 's': found other levels of 'sex'"):
        to_population(state, [other])
    with pytest.raises(InputError, match="attribute 'hispanic': found levels that cannot be made"):
        to_population(state, schema=Schema((Attribute("hispanic", ("no", "yes")),)))
    with pytest.raises(InputError, match="attribute 'race': found levels that cannot be made"):
        to_population(state, schema=Schema((Attribute("race", ("white", "not")),)))


def test_recodes() -> None:
    ages = Attribute("age", tuple(map(str, range(91))))
    recode = age_bins(ages, Attribute("age", ("0-17", "18-64", "65+")))
    assert [recode.group_of_level[age] for age in (0, 17, 18, 64, 65, 90)] == [0, 0, 1, 1, 2, 2]
    with pytest.raises(InputError, match="attribute 'age': found level 'old', expected years"):
        age_bins(ages, Attribute("age", ("0-64", "old")))
    with pytest.raises(InputError, match="level '65' in no group"):
        age_bins(ages, Attribute("age", ("0-64",)))
    with pytest.raises(InputError, match="level '5' in two groups"):
        age_bins(ages, Attribute("age", ("0-5", "5+")))
    coarse = Attribute("age", ("0-17", "18+"))
    with pytest.raises(InputError, match=r"level '18\+' in no group"):
        age_bins(coarse, Attribute("age", ("0-20", "21+")))
    races = seven_races(Attribute("race", tuple(map(str, range(1, 64)))))
    assert [len(levels) for _, levels in races.groups] == [1, 2, 2, 2, 2, 2, 52]
