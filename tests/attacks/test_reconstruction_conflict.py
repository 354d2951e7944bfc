"""Tables that contradict each other: the least change, by name, and records after it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from headcount.attacks._problem import Effort
from headcount.attacks.knowledge import Knowledge, KnownTable, between, exact
from headcount.attacks.reconstruction import reconstruct
from headcount.schema import load_schema
from headcount.tabulate.published import supported, tables
from tests.attacks.small_blocks import PAIRS, TINY, every_file, flat, hold, table
from tests.support.persons import block_people, knowledge_of

COUNTS = np.array([[1, 0, 2, 1, 0, 0, 1, 3]])


def moved(cell: tuple[str, str], by: int) -> tuple[KnownTable, ...]:
    """True tables of COUNTS but for one cell of the first."""
    held = list(hold(csr_array(COUNTS), TINY, PAIRS))
    values = held[0].low.toarray()
    values[0, held[0].cells.labels.index(cell)] += by
    held[0] = exact(held[0].cells, values, level="block")
    return tuple(held)


def test_the_cell_that_was_moved_is_named():
    found = reconstruct(Knowledge(TINY, flat(1), moved(("male", "total"), 3)))
    assert found.conflict.tolist() == [True]
    assert found.proven.tolist() == [True]
    assert found.method.tolist() == ["none"]
    assert found.people.tolist() == [0]
    assert [str(one) for one in found.moves] == ["block b0000, SA male / total: 7 must move by -3"]


def test_records_follow_from_the_tables_after_the_least_change():
    wrong = Knowledge(TINY, flat(1), moved(("total", "total"), -2))
    found = reconstruct(wrong, on_conflict="least-change")
    assert found.conflict.tolist() == [True]
    assert found.people.tolist() == [8]
    right = reconstruct(Knowledge(TINY, flat(1), hold(csr_array(COUNTS), TINY, PAIRS)))
    assert not right.conflict.any()
    assert (found.matrix != right.matrix).nnz == 0
    assert found.variability.tolist() == right.variability.tolist()


def test_a_weight_decides_which_table_moves():
    held = list(hold(csr_array(COUNTS), TINY, PAIRS[:2]))
    totals = held[1].low.toarray() * 0
    held[1] = exact(held[1].cells, totals, level="block")  # one table says that nobody is there
    both = Knowledge(TINY, flat(1), tuple(held))
    for weights, moving in (({"SA": 10}, {"SH"}), ({"SH": 10}, {"SA"})):
        found = reconstruct(both, on_conflict="least-change", weights=weights)
        assert {one.table for one in found.moves} == moving
        assert found.people.tolist() == [8 if moving == {"SH"} else 0]


@given(st.lists(st.integers(-2, 2), min_size=27, max_size=27))
@settings(max_examples=20, deadline=None)
def test_no_smaller_change_exists(noise: list[int]):
    held, start = [], 0
    counts = np.array([[1, 0, 0, 0, 1, 0, 0, 1]])
    for one in hold(csr_array(counts), TINY, PAIRS):
        values = one.low.toarray() + np.array(noise[start : start + 9])
        start += 9
        held.append(exact(one.cells, values, level="block"))
    found = reconstruct(
        Knowledge(TINY, flat(1), tuple(held)), on_conflict="least-change", steps_to_fix=100_000
    )
    adds = np.vstack([one.cells.matrix.T.toarray() for one in held])
    said = np.concatenate([one.low.toarray()[0] for one in held])
    every = np.vstack([every_file(8, n) for n in range(8)])
    least = np.abs(every @ adds.T - said).sum(axis=1).min()
    assert sum(abs(one.by) for one in found.moves) == least
    assert found.proven.tolist() == [True]
    assert found.conflict.tolist() == [least > 0]
    changed = said.copy()
    names = [(one.name, label) for one in held for label in one.cells.labels]
    for move in found.moves:
        changed[names.index((move.table, move.cell))] += move.by
    assert (adds @ found.matrix.toarray()[0] == changed).all()


def test_a_range_moves_as_a_whole():
    ranges = between(PAIRS[0].on(TINY), np.zeros((1, 9)), np.ones((1, 9)), level="block")
    sexes = table("S", sex="sex")
    firm = exact(sexes.on(TINY), np.array([[5, 5, 0]]), level="block")
    found = reconstruct(
        Knowledge(TINY, flat(1), (ranges, firm)), on_conflict="least-change", weights={"S": 100}
    )
    assert found.people.tolist() == [5]
    said = [str(one) for one in found.moves]
    assert "block b0000, SA male / total: 0 to 1 must move by +4" in said
    assert sum(one.by for one in found.moves) == 4 + 4 + 3 + 3


def test_blocks_without_conflict_are_not_touched():
    wrong = moved(("male", "total"), 1)
    both = tuple(
        exact(one.cells, np.vstack([one.low.toarray(), true.low.toarray()]), level="block")
        for one, true in zip(wrong, hold(csr_array(COUNTS), TINY, PAIRS), strict=True)
    )
    found = reconstruct(Knowledge(TINY, flat(2), both))
    assert found.conflict.tolist() == [True, False]
    assert found.people.tolist() == [0, 8]


def test_tables_on_which_no_step_was_spent_are_not_called_least():
    schema = load_schema("sex-age38-race7-hispanic")
    rng = np.random.default_rng(2)
    cells, _ = supported((t for t in tables("sf1").values() if t.lowest == "block"), schema)
    counts = csr_array(rng.poisson(0.02, (6, schema.size)))
    held = []
    for one in cells:
        values = one.table.of(counts, schema).toarray()
        held.append(exact(one, values + rng.integers(-2, 3, values.shape), level="block"))
    found = reconstruct(Knowledge(schema, flat(6), tuple(held)), steps_to_fix=0)
    assert found.conflict.all()
    assert found.moves
    assert not found.proven.all()


def tract_of(blocks: int, seed: int) -> Knowledge:
    people = block_people(load_schema("persons-2010"), blocks=blocks, seed=seed)
    return knowledge_of(people, ("sf1",))


def replaced(held: Knowledge, name: str, cell: tuple[str, ...], by: int) -> Knowledge:
    tables = []
    for one in held.tables:
        if one.name == name:
            values = one.low.toarray()
            values[0, one.cells.labels.index(cell)] += by
            one = exact(one.cells, values, level=one.level)
        tables.append(one)
    return Knowledge(held.schema, held.geography, tuple(tables))


@pytest.mark.parametrize(
    ("name", "cell", "level"),
    [("PCT12", ("total", "total"), "tract t0"), ("P12", ("total", "total"), "block b00000")],
)
def test_a_tract_with_a_wrong_table_is_repaired(name: str, cell: tuple[str, ...], level: str):
    true = tract_of(4, 5)
    wrong = replaced(true, name, cell, 2)
    found = reconstruct(wrong, together="tract")
    assert found.conflict.any()
    assert found.people.sum() == 0
    assert [str(one).split(":")[0] for one in found.moves] == [f"{level}, {name} total / total"]
    assert found.moves[0].by == -2
    again = reconstruct(wrong, together="tract", on_conflict="least-change", effort=Effort())
    for one in true.tables:
        counts = again.matrix if one.level == "block" else csr_array(again.matrix.sum(axis=0)[None])
        assert (one.cells.table.of(counts, true.schema) != one.low).nnz == 0
