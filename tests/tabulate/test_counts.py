"""Counts at every level against brute force, and what they cost in memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.errors import InputError
from headcount.geography import Geography, regular
from headcount.population import Population
from headcount.schema import Attribute, Schema
from headcount.tabulate import counts as counts_module
from headcount.tabulate import tabulate
from headcount.testing.strategies import populations

GIB = 2**30


def brute_force(population: Population, level: str) -> list[list[int]]:
    """Counts (units x cells) at a level, one entry at a time."""
    tree = population.geography
    table = [[0] * population.schema.size for _ in range(tree.size(level))]
    for entry, (unit, cell) in enumerate(zip(population.unit, population.cell, strict=True)):
        at = int(unit)
        for depth in range(len(tree.levels) - 1, tree.depth(level), -1):
            at = int(tree.parents[depth][at])
        table[at][int(cell)] += 1 if population.count is None else int(population.count[entry])
    return table


@given(population=populations(), at_once=st.sampled_from([1, 2, 5, 1 << 22]))
def test_counts_at_every_level_equal_brute_force(population, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_module, "ENTRIES_AT_ONCE", at_once)
        leaf = tabulate(population)
    for level in population.geography.levels:
        expected = brute_force(population, level)
        counts = leaf.at(level)
        assert counts.dense().tolist() == expected
        assert counts.totals().tolist() == [sum(row) for row in expected]
        assert counts.dense().dtype == np.int64
        for higher in population.geography.levels[: population.geography.depth(level)]:
            assert counts.at(higher).dense().tolist() == brute_force(population, higher)


@given(populations())
def test_nothing_empty_is_stored(population):
    assert (tabulate(population).matrix.data > 0).all()


def test_counts_cannot_be_split_to_a_finer_level():
    population = Population(
        "p",
        Domain(Schema(), regular(children=2, depth=2), read_off=("which units exist",)),
        np.array([0], dtype=np.int32),
        np.array([0], dtype=np.int32),
    )
    counts = tabulate(population)
    assert counts.domain.read_off == counts.at("whole").domain.read_off == ("which units exist",)
    with pytest.raises(
        InputError, match="found level 'level_2', expected a level at or above 'lev"
    ):
        counts.at("level_1").at("level_2")


def test_the_repr_does_not_depend_on_the_people():
    tree = regular(children=2, depth=1)
    none = np.empty(0, dtype=np.int32)
    some = np.array([1], dtype=np.int32)
    empty = tabulate(Population("a", Domain(Schema(), tree), none, none))
    lived_in = tabulate(Population("a", Domain(Schema(), tree), some, np.zeros_like(some)))
    assert repr(empty) == repr(lived_in)
    assert repr(empty) == "<Counts at 'level_1': 1 cells, <Geography whole 1, level_1 2>>"


def nation(*, filled: int) -> Population:
    """132 million people in 135,000 leaves of 192 cells, ``filled`` of them not empty in each."""
    sizes = {"age": 2, "hispanic": 2, "race": 6, "kind": 8}
    schema = Schema(
        tuple(Attribute(name, tuple(f"{n}" for n in range(size))) for name, size in sizes.items())
    )
    units, parents = [np.array(["nation"])], [np.empty(0, dtype=np.int32)]
    for above, children in ((1, 50), (50, 54), (2_700, 50)):
        units.append(np.arange(above * children).astype(np.str_))
        parents.append(np.repeat(np.arange(above, dtype=np.int32), children))
    levels = ("nation", "state", "county", "district")
    rng = np.random.default_rng(1940)
    unit = np.repeat(np.arange(135_000, dtype=np.int32), filled)
    cell = (np.arange(len(unit)) * 5 % 192).astype(np.int32)
    count = 1 + rng.multinomial(132_000_000 - len(unit), np.full(len(unit), 1 / len(unit)))
    tree = Geography(levels, tuple(units), tuple(parents))
    return Population("nation", Domain(schema, tree), unit, cell, count, public=True)


def test_a_nation_fits_in_memory():
    population = nation(filled=6)
    assert population.schema.size == 192
    tracemalloc.start()
    try:
        leaf = tabulate(population)
        levels = [leaf.at(level) for level in population.geography.levels]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert leaf.matrix.shape == (135_000, 192)
    assert leaf.matrix.nnz == 135_000 * 6
    assert [int(counts.totals().sum()) for counts in levels] == [132_000_000] * 4
    arrays = (getattr(one.matrix, part) for one in levels for part in ("data", "indices", "indptr"))
    assert sum(array.nbytes for array in arrays) < 32 * 2**20
    assert peak < 256 * 2**20
    # The worst case, every cell of every unit filled, costs 12 bytes a count: 8 for the number
    # and 4 for its cell; and a pointer for each unit.
    assert leaf.matrix.data.itemsize == 8
    assert leaf.matrix.indices.itemsize == 4
    worst = 135_000 * 192 * 12 + 135_001 * leaf.matrix.indptr.itemsize
    upper_levels = (2_700 + 50 + 1) * 192 * 12
    assert worst + upper_levels < GIB / 3


def test_one_row_a_person_is_counted_a_part_at_a_time():
    people = 12_000_000
    unit = np.arange(people, dtype=np.int32) % 1000
    cell = np.zeros(people, dtype=np.int32)
    population = Population("p", Domain(Schema(), regular(children=10, depth=3)), unit, cell)
    tracemalloc.start()
    try:
        counts = tabulate(population)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (counts.totals() == people // 1000).all()
    # All at once it would take 20 bytes a person (240 MB): the ones, and their sorted copy.
    assert peak < 120e6
