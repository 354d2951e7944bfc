"""Ranges of changed counts against counting every table, and against a program of the test's."""

from itertools import product as pairs

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from headcount.attacks.feasible_intervals import intervals_around, sampled_intervals
from headcount.attacks.intervals import UNBOUNDED, UNKNOWN, Near, tighten
from headcount.errors import InputError
from headcount.release.changed import Off
from headcount.tabulate.additive import flat, from_relations, product_of_trees, tree


def changed_intervals(additive, low, high, *, cells=None, effort="programs", steps=10_000):
    """The tightest intervals that the effort finds, with all relations around every cell."""
    least, most = tighten(additive, np.asarray(low), np.asarray(high))
    wanted = np.arange(additive.size) if cells is None else np.asarray(cells, dtype=np.int64)
    everywhere = Near(additive=additive, cell=np.arange(additive.size))
    return intervals_around([(everywhere, wanted)], least, most, wanted, effort, steps)


def ranges(value, off):
    value = np.asarray(value)
    every = np.ones(len(value), dtype=bool)
    return off.ends(value, inner=every, total=~every, unknown=UNKNOWN)


def cell_key(largest):
    return Off(down=largest, up=largest, zero_hides=largest)


def perturbed(rng, true, largest):
    """Each positive count changed by at most so much, and 0 left as it is."""
    change = rng.integers(-largest, largest + 1, len(true))
    return np.where(true > 0, np.maximum(true + change, 0), 0)


def table(rng, shape):
    made = product_of_trees(*(flat(size) for size in shape))
    where = [1 + one.ravel() for one in np.indices(shape)]
    return made.additive, made.fill(where, rng.integers(0, 4, int(np.prod(shape))))


def ends_by_program(additive, low, high, *, whole):
    """Both ends of every cell by scipy, cell after cell."""
    matrix = additive.matrix.toarray()
    keep = LinearConstraint(matrix, 0, 0)
    found = []
    for cell in range(additive.size):
        cost = np.zeros(additive.size)
        cost[cell] = 1.0
        both = [
            milp(
                sign * cost,
                bounds=Bounds(low, high),
                constraints=keep,
                integrality=np.full(additive.size, int(whole)),
            ).fun
            for sign in (1, -1)
        ]
        found.append((int(np.ceil(both[0] - 1e-6)), int(np.floor(-both[1] + 1e-6))))
    return np.array(found)


def test_the_example_of_the_guidelines_is_fully_disclosed():
    """1, 1 | 0 with D = 2: two people, one in each part, although 0 is published."""
    additive = from_relations(3, [(2, [0, 1])])
    for effort in ("relations", "programs", "whole"):
        found = changed_intervals(additive, *ranges([1, 1, 0], cell_key(2)), effort=effort)
        assert found.width.tolist() == [0, 0, 0]
        assert found.low.tolist() == [1, 1, 2]


def test_the_example_stays_open_to_who_does_not_know_the_largest_change():
    additive = from_relations(3, [(2, [0, 1])])
    found = changed_intervals(additive, *ranges([1, 1, 0], Off()))
    assert found.high.tolist() == [UNBOUNDED] * 3
    assert found.low.tolist() == [1, 1, 2]


@pytest.mark.parametrize("seed", range(200))
def test_intervals_are_those_of_a_program_of_the_tests(seed):
    rng = np.random.default_rng(seed)
    additive, true = table(rng, [(2, 2), (2, 3), (3, 2), (2, 2, 2)][seed % 4])
    low, high = ranges(perturbed(rng, true, 1 + seed % 3), cell_key(1 + seed % 3))
    found = changed_intervals(additive, low, high)
    assert np.stack([found.low, found.high], axis=1).tolist() == (
        ends_by_program(additive, low, high, whole=False).tolist()
    )
    assert (found.low <= true).all()
    assert (true <= found.high).all()


@pytest.mark.parametrize("seed", range(6))
def test_whole_intervals_are_those_of_an_integer_program_of_the_tests(seed):
    rng = np.random.default_rng(seed)
    additive, true = table(rng, (2, 2, 2))
    low, high = ranges(perturbed(rng, true, 2), cell_key(2))
    found = changed_intervals(additive, low, high, effort="whole")
    assert np.stack([found.low, found.high], axis=1).tolist() == (
        ends_by_program(additive, low, high, whole=True).tolist()
    )


def test_one_relation_at_a_time_is_never_narrower_than_all_together():
    rng = np.random.default_rng(5)
    narrower = 0
    for _ in range(20):
        additive, true = table(rng, (2, 2, 2))
        ends = ranges(perturbed(rng, true, 2), cell_key(2))
        fast, slow = (
            changed_intervals(additive, *ends, effort=e) for e in ("relations", "programs")
        )
        assert (fast.low <= slow.low).all()
        assert (fast.high >= slow.high).all()
        narrower += int((fast.width > slow.width).sum())
    assert narrower > 0


def test_whole_numbers_find_what_linear_programs_cannot():
    """Of three counts every two sum to 1, 1 and 1 or 2; the sum of these sums is even."""
    additive = from_relations(
        8, [(3, [0, 1]), (4, [1, 2]), (5, [0, 2]), (6, [3, 4, 5]), (7, [0, 1, 2])]
    )
    low = np.array([0, 0, 0, 1, 1, 1, 3, 0])
    high = np.array([9, 9, 9, 1, 1, 2, 9, 9])
    programs = changed_intervals(additive, low, high, cells=[6])
    whole = changed_intervals(additive, low, high, cells=[6], effort="whole")
    assert (programs.low.tolist(), programs.high.tolist()) == ([3], [4])
    assert (whole.low.tolist(), whole.high.tolist()) == ([4], [4])


def rounded(rng, true, base):
    """Random rounding: up with probability remainder / base."""
    up = rng.random(true.shape) < (true % base) / base
    return true // base * base + np.where(up, base, 0)


@pytest.mark.parametrize(("base", "parts"), [(3, 2), (5, 4)])
def test_un_rounding_finds_planted_exact_values(base, parts):
    """Some k parts of b - 1, all rounded down, with a total rounded up: (b - 1) k = a - (b - 1)."""
    rng = np.random.default_rng(base)
    rows = 12
    true = rng.integers(0, 2 * base, (rows, parts))
    shown = np.hstack(
        [rounded(rng, true, base), rounded(rng, true.sum(axis=1, keepdims=True), base)]
    )
    planted = rows // 2
    true[planted] = base - 1
    shown[planted] = [0] * parts + [(base - 1) * (parts + 1)]
    number = np.arange(shown.size).reshape(shown.shape)
    additive = from_relations(shown.size, [(int(one[-1]), one[:-1].tolist()) for one in number])
    off = Off(down=base - 1, up=base - 1, zero_hides=base - 1, multiples_of=base)
    low, high = (one.reshape(shown.shape) for one in ranges(shown.ravel(), off))
    found = changed_intervals(additive, low.ravel(), high.ravel(), effort="whole")
    assert (found.width.reshape(shown.shape)[planted] == 0).all()
    assert found.low.reshape(shown.shape)[planted].tolist() == [*true[planted], true[planted].sum()]
    for row in range(rows):
        every = np.array(
            list(
                pairs(
                    *(range(a, b + 1) for a, b in zip(low[row, :-1], high[row, :-1], strict=True))
                )
            )
        )
        every = np.hstack([every, every.sum(axis=1, keepdims=True)])
        fits = every[(every[:, -1] >= low[row, -1]) & (every[:, -1] <= high[row, -1])]
        assert found.low[number[row]].tolist() == fits.min(axis=0).tolist()
        assert found.high[number[row]].tolist() == fits.max(axis=0).tolist()


def two_counties(rng, largest):
    """A state of two counties with two blocks each, by sex and age: ranges and true counts."""
    made = product_of_trees(tree([-1, 0, 0, 1, 1, 2, 2]), flat(2), flat(2))
    where = [one.ravel() for one in np.meshgrid([3, 4, 5, 6], [1, 2], [1, 2], indexing="ij")]
    true = made.fill(where, rng.integers(0, 4, 16))
    return made.additive, true, *ranges(perturbed(rng, true, largest), cell_key(largest))


def test_counts_searched_for_near_their_unit_are_those_of_the_relations_there():
    """Blocks see their county, but neither the other one nor the state."""
    rng, narrowed, wider = np.random.default_rng(9), 0, 0
    for _ in range(8):
        additive, true, low, high = two_counties(rng, 2)
        every = np.arange(additive.size)
        found = sampled_intervals(additive, low, high, cells=every, effort="programs")
        best = changed_intervals(additive, low, high)
        fast = changed_intervals(additive, low, high, effort="relations")
        assert ((found.low <= true) & (true <= found.high)).all()
        assert ((fast.low <= found.low) & (found.low <= best.low)).all()
        assert ((fast.high >= found.high) & (found.high >= best.high)).all()
        narrowed += int((found.width < fast.width).sum())
        wider += int((found.width > best.width).sum())
    assert narrowed > 0
    assert wider > 0


def test_one_unit_and_those_around_it_are_all_of_two_levels():
    made = product_of_trees(flat(3), flat(2))
    rng = np.random.default_rng(3)
    true = made.fill([np.repeat([1, 2, 3], 2), np.tile([1, 2], 3)], rng.integers(0, 4, 6))
    low, high = ranges(perturbed(rng, true, 2), cell_key(2))
    for effort in ("relations", "programs", "whole"):
        some = sampled_intervals(made.additive, low, high, cells=[2, 7], effort=effort)
        all_ = changed_intervals(made.additive, low, high, cells=[2, 7], effort=effort)
        assert (some.low.tolist(), some.high.tolist()) == (all_.low.tolist(), all_.high.tolist())


def test_a_search_that_has_no_step_proves_nothing_of_whole_numbers():
    rng = np.random.default_rng(3)
    additive, true = table(rng, (3, 4))
    low, high = ranges(perturbed(rng, true, 2), cell_key(2))
    wide = changed_intervals(additive, low, high, effort="programs")
    hurried = changed_intervals(additive, low, high, effort="whole", steps=0)
    assert (wide.low < wide.high).any()
    assert (hurried.low <= true).all()
    assert (true <= hurried.high).all()
    assert (hurried.low == wide.low).all()
    assert (hurried.high == wide.high).all()


def test_ranges_that_no_relation_allows_are_an_error():
    additive = from_relations(3, [(2, [0, 1])])
    with pytest.raises(
        InputError, match=r"around cell \d: found ranges that contradict each other"
    ):
        changed_intervals(additive, *ranges([9, 9, 3], cell_key(2)))


def test_ranges_that_no_whole_table_keeps_are_an_error():
    """Of three counts every two sum to 1: halves do, whole numbers do not."""
    additive = from_relations(
        9, [(3, [0, 1]), (4, [1, 2]), (5, [0, 2]), (6, [0, 1, 2]), (7, [6, 8])]
    )
    low, high = np.array([0, 0, 0, 1, 1, 1, 0, 0, 0]), np.array([9, 9, 9, 1, 1, 1, 9, 9, 3])
    assert changed_intervals(additive, low, high, cells=[8]).high.tolist() == [3]
    with pytest.raises(InputError, match="found ranges that no table of whole counts keeps"):
        changed_intervals(additive, low, high, cells=[8], effort="whole")


def test_a_total_without_parts_is_an_error():
    with pytest.raises(InputError, match="found a total without parts"):
        changed_intervals(from_relations(2, [(1, [])]), np.zeros(2, int), np.ones(2, int))
