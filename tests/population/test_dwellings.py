"""People in dwellings: what is derived, by brute force, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.geography import Geography, regular
from headcount.population.population import Households, adults
from headcount.schema import Attribute

TREE: Geography = regular(children=3, depth=1)
AGE = Attribute("age", ("0-17", "18+"))
SEX = Attribute("sex", ("f", "m", "x"))
TENURE = Attribute("tenure", ("own", "rent"))


def made(**changes: Any) -> Households:
    """Two people in unit 0, a vacant dwelling there, three in unit 2, one in a prison in unit 0."""
    fields: dict[str, Any] = {
        "name": "made",
        "geography": TREE,
        "person_attributes": (AGE, SEX),
        "dwelling_attributes": (TENURE,),
        "kinds": ("household", "vacant", "prison"),
        "block": np.array([0, 0, 2, 0], dtype=np.int32),
        "kind": np.array([0, 1, 0, 2], dtype=np.int8),
        "first": np.array([0, 2, 2, 5, 6]),
        "persons": {"age": np.array([1, 0, 1, 1, 0, 1]), "sex": np.array([0, 2, 1, 1, 0, 2])},
        "dwellings": {"tenure": np.array([0, 0, 1, 1])},
    } | changes
    return Households(**fields)


def test_derived() -> None:
    state = made()
    assert state.size.tolist() == [2, 0, 3, 1]
    assert state.is_household.tolist() == [True, False, True, False]
    assert state.dwelling.tolist() == [0, 0, 2, 2, 2, 3]
    assert state.of_person("tenure").tolist() == [0, 0, 1, 1, 1, 1]
    assert state.of_person("sex").tolist() == [0, 2, 1, 1, 0, 2]
    assert adults(state).tolist() == [1, 0, 2, 1]
    schema, cell = state.cells(["tenure", "sex", "age"])
    assert schema.names == ("tenure", "sex", "age")
    assert cell.tolist() == [
        schema.cell(tenure=TENURE.levels[t], sex=SEX.levels[s], age=AGE.levels[a])
        for t, s, a in zip([0, 0, 1, 1, 1, 1], [0, 2, 1, 1, 0, 2], [1, 0, 1, 1, 0, 1], strict=True)
    ]


def test_repr_tells_no_count() -> None:
    assert repr(made()) == "<Households 'made': age, sex, <Geography whole 1, level_1 3>>"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "lengths": (
        {"kind": np.zeros(3, dtype=np.int8)},
        "made: block, kind and first: found lengths that do not fit, expected n, n and n",
    ),
    "a fall": (
        {"first": np.array([0, 2, 1, 5, 6])},
        "first: found a decrease, expected numbers that rise",
    ),
    "not from 0": (
        {"first": np.array([1, 2, 2, 5, 6])},
        "first: found a decrease, expected numbers",
    ),
    "block": (
        {"block": np.array([0, 0, 3, 0], dtype=np.int32)},
        "block: found a code out of range, expected 0 to 2",
    ),
    "kind": (
        {"kind": np.array([0, 1, 0, 3], dtype=np.int8)},
        "kind: found a code out of range, expected 0 to 2",
    ),
    "no codes": ({"dwellings": {}}, "found no 'tenure', expected a code for each row"),
    "short codes": (
        {"dwellings": {"tenure": np.array([0])}},
        "tenure: found another number of codes, expected one for each row",
    ),
    "negative code": (
        {"dwellings": {"tenure": np.array([0, 0, -1, 0])}},
        "tenure: found a code out of range, expected 0 to 1",
    ),
    "people in a vacant dwelling": (
        {"kind": np.array([0, 1, 1, 2], dtype=np.int8)},
        "found people in a vacant dwelling, expected nobody",
    ),
    "empty household": (
        {"kind": np.array([0, 0, 0, 2], dtype=np.int8)},
        "found an empty household, expected a vacant dwelling",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(InputError, match=message):
        made(**changes)


def test_unknown_attributes_are_named() -> None:
    with pytest.raises(InputError, match="found attribute 'income', expected one of"):
        made().of_person("income")


def test_nobody_at_all() -> None:
    empty = replace(
        made(),
        block=np.empty(0, dtype=np.int32),
        kind=np.empty(0, dtype=np.int8),
        first=np.zeros(1, dtype=np.int64),
        persons={"age": np.empty(0, dtype=np.int64), "sex": np.empty(0, dtype=np.int64)},
        dwellings={"tenure": np.empty(0, dtype=np.int64)},
    )
    assert empty.size.tolist() == []
    assert adults(empty).tolist() == []
