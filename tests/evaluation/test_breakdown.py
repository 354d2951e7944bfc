"""Errors broken down by level, group and size: sums that equal those of a plain loop."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from headcount.domain import Domain
from headcount.evaluation.answers import COUNT_BANDS, MOST_LARGEST, break_down
from headcount.evaluation.tally import SUMS
from headcount.geography.geography import regular
from headcount.mechanisms import Geometric, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.tabulate import Tabulated

EDGES = (3, 10)
SCHEMA = Schema(
    (Attribute("sex", ("f", "m")), Attribute("age", ("young", "adult", "old"))),
    structural_zeros=((("sex", ("m",)), ("age", ("old",))),),
)
GEOGRAPHY = regular(children=3, depth=2)


@pytest.fixture(scope="module")
def data() -> Tabulated:
    """70 people in nine places, the first of which is empty."""
    rng, places = np.random.default_rng(3), np.arange(9.0) ** 2
    unit = rng.choice(9, 70, p=places / places.sum()).astype(np.int32)
    cell = rng.choice(np.flatnonzero(SCHEMA.possible), 70).astype(np.int32)
    return Tabulated.of(Population("people", Domain(SCHEMA, GEOGRAPHY), unit=unit, cell=cell))


@pytest.fixture(scope="module")
def released(data: Tabulated) -> Any:
    noise = KeyedNoise(RunKey.from_seed(5), "geometric", data.digest, b"test")
    return protect(data, Geometric(epsilon=Fraction(1, 2)), noise)


def answers(data: Tabulated, released: Any, level: str, attribute: str) -> list[tuple[Any, ...]]:
    """(unit, group, true, released) of every count, one by one, impossible cells left out."""
    true = data.counts.at(level).dense().reshape(-1, *SCHEMA.shape)
    made = np.asarray(released.at(level)).reshape(-1, *SCHEMA.shape)
    found: list[tuple[Any, ...]] = []
    for unit in range(len(true)):
        if attribute == "everyone":
            found.append((unit, "everyone", true[unit].sum(), made[unit].sum()))
        elif attribute == "every cell":
            possible = np.argwhere(SCHEMA.possible.reshape(SCHEMA.shape))
            found += [(unit, "every cell", true[unit][*c], made[unit][*c]) for c in possible]
        else:
            axis = SCHEMA.names.index(attribute)
            pair = (true[unit].sum(axis=1 - axis), made[unit].sum(axis=1 - axis))
            levels = SCHEMA.attributes[axis].levels
            found += [(unit, *row) for row in zip(levels, *pair, strict=True)]
    return found


def sums(rows: list[tuple[Any, ...]]) -> dict[str, float]:
    error = [made - true for *_, true, made in rows]
    gone = [true for *_, true, made in rows if true > 0 and made <= 0]
    return {
        "counts": len(rows),
        "people": sum(true for *_, true, _ in rows),
        "absolute": sum(map(abs, error)),
        "signed": sum(error),
        "squared": sum(one * one for one in error),
        "lost": len(gone),
        "lost_people": sum(gone),
        "negative": sum(made < 0 for *_, made in rows),
    }


def band(value: int, edges: tuple[int, ...]) -> tuple[int, int | None]:
    bounds = [0, *edges, None]
    number = sum(value >= edge for edge in edges)
    return bounds[number], bounds[number + 1]  # type: ignore[return-value]


@pytest.mark.parametrize("cells", ["all", "truth"])
@pytest.mark.parametrize("attribute", ["everyone", "sex", "age", "every cell"])
@pytest.mark.parametrize("level", GEOGRAPHY.levels)
def test_sums_by_group_and_people_in_the_unit_are_those_of_a_loop(
    data, released, level, attribute, cells
):
    found = break_down(data.counts, released, cells=cells, edges=EDGES).by_place
    people = data.counts.at(level).totals()
    every = [one for one in answers(data, released, level, attribute) if cells == "all" or one[2]]
    wanted: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for one in every:
        wanted.setdefault((one[1], *band(people[one[0]], EDGES)), []).append(one)
    rows = found.filter(level=level, attribute=attribute)
    assert rows.height == len(wanted)
    for row in rows.iter_rows(named=True):
        expected = sums(wanted[row["group"], row["low"], row["high"]])
        assert {name: row[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("attribute", ["everyone", "every cell"])
def test_sums_by_size_of_the_count_are_those_of_a_loop(data, released, attribute):
    found = break_down(data.counts, released).by_count
    wanted: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for one in answers(data, released, "level_2", attribute):
        wanted.setdefault(band(one[2], COUNT_BANDS), []).append(one)
    rows = found.filter(level="level_2", attribute=attribute)
    assert rows.height == len(wanted)
    for row in rows.iter_rows(named=True):
        expected = sums(wanted[row["low"], row["high"]])
        assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_the_largest_errors_are_the_largest_of_totals_and_groups_with_their_place(data, released):
    found = break_down(data.counts, released).largest
    every = [
        abs(made - true)
        for level in GEOGRAPHY.levels
        for attribute in ("everyone", "sex", "age")
        for *_, true, made in answers(data, released, level, attribute)
    ]
    assert found["error"].abs().to_list() == sorted(every, reverse=True)[:MOST_LARGEST]
    for row in found.iter_rows(named=True):
        assert row["error"] == row["released"] - row["truth"]
        units = GEOGRAPHY.units[GEOGRAPHY.levels.index(row["level"])]
        listed = answers(data, released, row["level"], row["attribute"])
        assert (
            list(units).index(row["unit"]),
            row["group"],
            row["truth"],
            row["released"],
        ) in listed


def test_a_sparse_release_is_broken_down_as_its_dense_table(data, released):
    from dataclasses import replace

    from scipy.sparse import csr_array

    sparse = {level: csr_array(table) for level, table in released.tables.items()}
    both = [
        break_down(data.counts, one).by_place
        for one in (released, replace(released, tables=sparse))
    ]
    assert both[0].equals(both[1])
    assert set(SUMS) <= set(both[0].columns)
    assert both[0].filter(pl.col("absolute") > 0).height > 0
