"""Bounds tightened by each other and from below, beside every table of small counts."""

from __future__ import annotations

from itertools import product

import numpy as np

from headcount.geography import Geography
from headcount.schema import Attribute, Schema
from headcount.tabulate import Query
from headcount.topdown._tighten import always_shared, atoms, attained, tighten
from headcount.topdown.restrict import Restriction
from headcount.topdown.solve.batch import NO_BOUND
from tests.topdown.small import tree

SCHEMA = Schema((Attribute("a", ("0", "1")), Attribute("b", ("0", "1"))))
TOTAL, BY_A, BY_B = Query("total"), Query("a", ("a",)), Query("b", ("b",))
CELLS = Query("both", ("a", "b"))
EVERY = np.array(list(product(range(4), repeat=4)))
NESTED, CROSSING = (TOTAL, BY_A, CELLS), (BY_A, BY_B, TOTAL)


def answers(query: Query) -> np.ndarray:
    """Of every small table of counts."""
    made = np.zeros((len(EVERY), query.size(SCHEMA)), dtype=np.int64)
    for cell, group in enumerate(query.groups(SCHEMA)):
        made[:, group] += EVERY[:, cell]
    return made


def drawn(rng, queries, units=1) -> tuple[Restriction, ...]:
    """Bounds around some truth; some ends are free."""
    made = []
    truth = rng.integers(0, len(EVERY), size=units)
    for query in queries:
        at = answers(query)[truth]
        low = np.maximum(at - rng.integers(0, 3, size=at.shape), 0)
        high = at + rng.choice([0, 1, int(NO_BOUND)], size=at.shape, p=[0.4, 0.4, 0.2])
        made.append(Restriction(query, low, np.minimum(high, NO_BOUND)))
    return tuple(made)


def allowed(restrictions, unit=0) -> np.ndarray:
    good = np.ones(len(EVERY), dtype=bool)
    for one in restrictions:
        got = answers(one.query)
        good &= ((got >= one.low[unit]) & (got <= one.high[unit])).all(axis=1)
    return good


def test_nested_bounds_are_tightened_to_what_some_counts_attain():
    rng = np.random.default_rng(1)
    tighter = 0
    for _ in range(60):
        # With at most 3 in a cell, every table that may matter is among those tried.
        small = Restriction(CELLS, np.zeros((1, 4), np.int64), np.full((1, 4), 3))
        own = (*drawn(rng, NESTED[:2]), small)
        good = allowed(own)
        if not good.any():
            continue
        for one, (low, high) in zip(own, attained(own, SCHEMA), strict=True):
            got = answers(one.query)[good]
            assert low[0].tolist() == got.min(axis=0).tolist()
            assert high[0].tolist() == got.max(axis=0).tolist()
            tighter += int((high < one.high).sum() + (low > one.low).sum())
    assert tighter > 40


def test_no_counts_that_keep_the_bounds_are_lost():
    rng = np.random.default_rng(2)
    place = tree(("state", [2]))
    for _ in range(60):
        below = drawn(rng, CROSSING, units=2)
        free = tuple(
            Restriction(q, np.zeros((1, n), np.int64), np.full((1, n), NO_BOUND))
            for q in CROSSING
            for n in [q.size(SCHEMA)]
        )
        made = tighten({"whole": free, "state": below}, schema=SCHEMA, geography=place)
        for one in made["whole"]:
            parts = [answers(one.query)[allowed(below, unit)] for unit in range(2)]
            least, most = (sum(end(p, axis=0) for p in parts) for end in (np.min, np.max))
            # Tables with more than 3 in a cell are not tried: highs above that stay open.
            assert (one.low[:][0] <= least).all()
            assert (one.high[:][0] >= most).all()


def test_a_total_below_tightens_the_groups_above():
    """Two states of 10: the first has at most 9 in group 0, and the second at most 7."""
    place = tree(("state", [2]))
    ten = np.full((2, 1), 10)
    below = (
        Restriction(BY_A, np.array([[4, 0], [0, 3]]), np.array([[9, 8], [10, 10]])),
        Restriction(TOTAL, ten, ten),
    )
    above = (
        Restriction(BY_A, np.array([[4, 3]]), np.array([[19, 18]])),
        Restriction(TOTAL, np.array([[20]]), np.array([[20]])),
    )
    made = tighten({"whole": above, "state": below}, schema=SCHEMA, geography=place)
    assert made["whole"][0].high[:].tolist() == [[16, 18]]  # 18: the total says 16 anyway
    assert made["whole"][0].low[:].tolist() == [[4, 4]]
    assert made["state"] == below


def shared(restrictions: tuple[Restriction, ...], place: Geography, x: np.ndarray) -> bool:
    first, second = (EVERY[allowed(restrictions, unit)] for unit in range(2))
    rest = x - first
    return bool((rest[:, None, :] == second[None, :, :]).all(axis=2).any())


def test_what_is_shown_to_be_shared_always_is():
    rng = np.random.default_rng(3)
    place = tree(("state", [2]))
    shown = 0
    for k in range(60):
        queries = [(BY_A,), (CELLS, BY_A), (BY_A, BY_B), (TOTAL, BY_A)][k % 4]
        below = drawn(rng, queries, units=2)
        above = tuple(
            Restriction(
                one.query,
                one.low[:].sum(axis=0, keepdims=True),
                np.where((one.high >= NO_BOUND).any(axis=0), NO_BOUND, one.high[:].sum(axis=0))[
                    None
                ],
            )
            for one in below
        )
        if not always_shared(
            above, below, schema=SCHEMA, geography=place, levels=("whole", "state")
        ):
            continue
        shown += 1
        small = EVERY[allowed(above) & (EVERY.sum(axis=1) <= 6)]
        for x in small[rng.permutation(len(small))[:20]]:
            assert shared(below, place, x) or x.max() > 3
    assert 10 < shown < 60


def test_atoms_are_the_cells_that_no_bound_tells_apart():
    one = drawn(np.random.default_rng(0), (BY_A,))
    assert atoms({"whole": one}, SCHEMA).tolist() == [0, 0, 1, 1]
    assert len(set(atoms({"whole": drawn(np.random.default_rng(0), CROSSING)}, SCHEMA))) == 4
    assert atoms({"whole": ()}, SCHEMA).tolist() == [0, 0, 0, 0]
