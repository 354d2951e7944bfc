"""Cells that add up: products of trees against plain sums, links, refusals."""

from itertools import product as pairs

import numpy as np
import pytest

from headcount.errors import InputError
from headcount.tabulate.additive import (
    Additive,
    flat,
    from_relations,
    link,
    product_of_trees,
    tree,
)
from tests.support.additive_tables import levels_tree


def small_product():
    rng = np.random.default_rng(3)
    geography = tree([-1, 0, 0, 1, 1, 1, 2, 2])
    product = product_of_trees(geography, flat(3), flat(2))
    inner = rng.integers(0, 9, size=(5, 3, 2))
    leaf, race, sex = (one.ravel() for one in np.indices(inner.shape))
    values = product.fill([geography.leaves[leaf], 1 + race, 1 + sex], inner.ravel())
    return product, inner, values


def test_margins_are_plain_sums():
    product, inner, values = small_product()
    table = values.reshape(product.shape)
    groups = [range(5), range(3), range(3, 5), [0], [1], [2], [3], [4]]
    for (u, units), r, s in pairs(enumerate(groups), range(4), range(3)):
        races = range(3) if r == 0 else [r - 1]
        sexes = range(2) if s == 0 else [s - 1]
        assert table[u, r, s] == inner[np.ix_(units, races, sexes)].sum()
    assert product.cells([1], [2], [0])[0] == np.ravel_multi_index((1, 2, 0), product.shape)


def test_relations_hold_and_leave_only_the_inner_cells_free():
    product, inner, values = small_product()
    product.additive.check(values)
    rank = np.linalg.matrix_rank(product.additive.matrix.toarray())
    assert product.additive.size - rank == inner.size
    values[-1] += 1
    with pytest.raises(InputError, match=r"found 3 totals that are not the sum of their parts"):
        product.additive.check(values)
    with pytest.raises(InputError, match=r"found shape .*, expected one value for each of 96"):
        product.additive.check(values[:-1])


def test_the_census_shape_has_24_cells_a_unit():
    geography = tree(np.concatenate([[-1], np.zeros(20, int), 1 + np.arange(400) // 20]))
    made = product_of_trees(geography, flat(7), flat(2))
    assert made.additive.size == 10_104
    assert made.additive.unit.tolist() == np.repeat(np.arange(421), 24).tolist()


def test_a_unit_with_one_child_is_that_child():
    chain = tree([-1, 0, 0, 1, 3, 4, 4])
    assert chain.node.tolist() == [0, 1, 2, 1, 1, 3, 4]
    assert chain.parent.tolist() == [-1, 0, 0, 1, 1]
    made = product_of_trees(chain, flat(2))
    assert made.additive.size == 5 * 3
    assert tree([-1, 0, 1]).parent.tolist() == [-1]


def test_trees_of_columns_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    county, tract = np.array(list("bbaaac")), np.array(["1", "2", "1", "2", "2", "9"])
    found, leaf = levels_tree([county, tract])
    assert found.parent.tolist() == [-1, 0, 0, 0, 1, 1, 2, 2]  # c has one tract: they are one
    assert leaf.tolist() == [6, 7, 4, 5, 5, 3]
    order = rng.permutation(6)
    again, moved = levels_tree([county[order], tract[order]])
    assert again.parent.tolist() == found.parent.tolist()
    assert moved.tolist() == leaf[order].tolist()


def test_linked_tables_share_cells_and_relations():
    first = from_relations(3, [(0, [1, 2])])
    second = from_relations(4, [(0, [1, 2]), (2, [3])])
    both = link([(first, [0, 1, 2]), (second, [0, 3, 4, 4]), (first, [0, 1, 2])])
    assert both.size == 5
    assert len(both.total) == 2  # a shared relation once; a cell that is itself not at all
    both.check([9, 4, 5, 3, 6])
    with pytest.raises(InputError, match="cell 1 in no table"):
        link([(first, [0, 2, 3])])


@pytest.mark.parametrize("seed", range(20))
def test_linked_relations_are_those_of_a_dictionary(seed):
    """Each relation once, in the order of the first, its parts in order."""
    rng = np.random.default_rng(seed)
    made = [
        product_of_trees(*(flat(int(n)) for n in rng.integers(1, 4, rng.integers(1, 4)))).additive
        for _ in range(rng.integers(1, 4))
    ]
    names = [rng.permutation(max(one.size, 20))[: one.size] for one in made]
    _, dense = np.unique(np.concatenate(names), return_inverse=True)
    numbers = np.split(dense, np.cumsum([one.size for one in made])[:-1])
    expected: dict[tuple[int, ...], None] = {}
    for one, number in zip(made, numbers, strict=True):
        for k, total in enumerate(number[one.total].tolist()):
            parts = sorted(number[one.part[one.start[k] : one.start[k + 1]]].tolist())
            if parts != [total]:
                expected[total, *parts] = None
    both = link(list(zip(made, numbers, strict=True)))
    found = [
        (total, *both.part[both.start[k] : both.start[k + 1]].tolist())
        for k, total in enumerate(both.total.tolist())
    ]
    assert found == list(expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_relations(2, [(0, [1, 2])]), "found cells 0 to 2, expected cells from 0 to"),
        (lambda: from_relations(2, [], unit=[0]), "units of 1 cells, expected a unit for each of"),
        (
            lambda: Additive(
                size=2,
                total=np.array([0]),
                start=np.array([0]),
                part=np.array([1]),
                unit=np.zeros(2, dtype=np.int64),
                parent=np.array([-1]),
            ),
            "found 1 starts that end at .*, expected 2 starts that end at 1",
        ),
        (lambda: tree([-1, 2, 0]), "a node before its parent"),
        (lambda: tree([]), "or no nodes"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(InputError, match=message):
        make()
