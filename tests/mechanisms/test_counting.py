"""The counting mechanisms: what they publish, against oracles, and what they promise."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.domain import Domain
from headcount.errors import PrivacyError
from headcount.geography import Geography, regular
from headcount.mechanisms import Geometric, Identity
from headcount.mechanisms._noisy import cell_stream
from headcount.noise import KeyedNoise, RunKey, Stream, TwoSidedGeometric
from headcount.population import uniform
from headcount.privacy import UnitOfPrivacy
from headcount.schema import Attribute, Schema, impossible
from headcount.tabulate import CELLS, Counts, tabulate
from headcount.testing.strategies import geographies, populations
from headcount_papers.averaged import Averaged
from headcount_papers.raked import Raked, rake

SEX = Attribute("sex", ("f", "m"))
NOISY: list[Any] = [Geometric, Averaged, Raked]
ADD_REMOVE, CHANGE_ONE = UnitOfPrivacy.ADD_REMOVE, UnitOfPrivacy.CHANGE_ONE


def keyed(seed: int = 1) -> KeyedNoise:
    return KeyedNoise(RunKey.from_seed(seed), "test", b"data", b"config")


@settings(max_examples=30)
@given(populations())
def test_identity_publishes_the_truth(population):
    counts = tabulate(population)
    outcome = Identity().on(counts.domain).run(counts, keyed(), runs=range(2)).as_counts()
    assert list(outcome.tables) == [counts.level]
    assert outcome.dense(counts.level).tolist() == [counts.dense().tolist()] * 2


@settings(max_examples=30)
@given(population=populations(), first=st.integers(0, 3))
def test_geometric_is_truth_plus_the_streams_noise_on_every_possible_cell(population, first):
    counts = tabulate(population)
    runs = range(first, first + 2)
    mechanism = Geometric(epsilon=Fraction(1, 3), unit=ADD_REMOVE)
    made = mechanism.on(counts.domain).run(counts, keyed(), runs=runs).as_counts().tables
    stream = Stream(counts.level, CELLS, counts.dense().size)
    drawn = keyed().draw(stream, TwoSidedGeometric(Fraction(1, 3)), draws=runs)
    for run, noise in zip(made[counts.level], drawn, strict=True):
        for unit, row in enumerate(counts.dense()):
            for cell, truth in enumerate(row):
                hidden = noise[unit * len(row) + cell] if population.schema.possible[cell] else 0
                assert run[unit, cell] == truth + hidden


@settings(max_examples=30)
@given(population=populations(), parts=st.integers(1, 5), first=st.integers(0, 3))
def test_averaged_is_the_mean_of_parts_no_other_run_uses(population, parts, first):
    counts = tabulate(population)
    mechanism = Averaged(epsilon=Fraction(1), parts=parts, unit=ADD_REMOVE)
    outcome = mechanism.on(counts.domain).run(counts, keyed(), runs=range(first, first + 1))
    made = outcome.as_counts().tables[counts.level][0]
    share = Fraction(1, parts)
    stream = cell_stream(counts)
    part_numbers = range(first * parts, (first + 1) * parts)
    drawn = keyed().draw(stream, TwoSidedGeometric(share), draws=part_numbers)
    total = drawn.sum(axis=0).reshape(made.shape) * population.schema.possible
    assert np.array_equal(made, (counts.dense() * parts + total) / parts)


def rake_by_hand(answers, above, parent) -> tuple[list[list[Fraction]], int]:
    """Rake one run in exact fractions, child by child."""
    cells = len(answers[0])
    raked = [[Fraction(0)] * cells for _ in answers]
    zeros = 0
    for number, parent_row in enumerate(above):
        children = [child for child, its in enumerate(parent) if its == number]
        for cell in range(cells):
            total = sum(int(answers[child][cell]) for child in children)
            zeros += total == 0
            for child in children:
                if total:
                    share = Fraction(int(answers[child][cell]), total)
                else:
                    share = Fraction(1, len(children))
                raked[child][cell] = share * Fraction(parent_row[cell])
    return raked, zeros


@given(st.data())
def test_raking_equals_exact_fractions(data):
    tree = data.draw(geographies(max_depth=2, max_children=4))
    depth = len(tree.levels) - 1
    parent = tree.parents[depth]
    cells = data.draw(st.integers(1, 2))
    small = st.integers(-2, 2)  # sums of zero from +1 and -1, and all zeros, are common
    answers = np.array(data.draw(_table(small, len(parent), cells)), dtype=np.int64)
    parents = tree.size(tree.levels[depth - 1])
    above = np.array(data.draw(_table(st.integers(-9, 9), parents, cells)), dtype=np.float64)
    raked, zeros = rake(
        answers[None],
        above[None],
        parent=parent,
        start=tree.children_start(tree.levels[depth - 1]),
        possible=np.ones(cells, dtype=bool),
    )
    expected, expected_zeros = rake_by_hand(answers, above.astype(int).tolist(), parent)
    assert zeros == expected_zeros
    np.testing.assert_allclose(raked[0], np.array(expected, dtype=np.float64), rtol=1e-12)


def _table(values, rows, columns):
    return st.lists(
        st.lists(values, min_size=columns, max_size=columns), min_size=rows, max_size=rows
    )


@pytest.mark.parametrize(
    ("children", "expected", "zeros"),
    [
        ([0, 0, 0], [2, 2, 2], 1),  # nobody measured: the parent is shared equally
        ([1, -1, 0], [2, 2, 2], 1),  # a zero sum of non-zero counts likewise
        ([1, 2, 0], [2, 4, 0], 0),
        ([2, -1, 0], [12, -6, 0], 0),  # negative counts are scaled like any other
    ],
)
def test_a_zero_sum_shares_the_parent_equally_and_is_counted(children, expected, zeros):
    raked, counted = rake(
        np.array(children).reshape(1, 3, 1),
        np.array([[[6.0]]]),
        parent=np.zeros(3, dtype=np.int32),
        start=np.zeros(1, dtype=np.int64),
        possible=np.ones(1, dtype=bool),
    )
    assert raked[0, :, 0].tolist() == expected
    assert counted == zeros


def test_structural_zeros_are_not_counted_as_zero_sums():
    raked, counted = rake(
        np.array([[[0, 1], [0, 1]]]),
        np.array([[[0.0, 4.0]]]),
        parent=np.zeros(2, dtype=np.int32),
        start=np.zeros(1, dtype=np.int64),
        possible=np.array([False, True]),
    )
    assert raked.tolist() == [[[0, 2], [0, 2]]]
    assert counted == 0


@settings(max_examples=30)
@given(populations())
def test_raked_follows_its_measurements_and_adds_up_at_every_level(population):
    counts = tabulate(population)
    tree, schema = population.geography, population.schema
    mechanism = Raked(epsilon=Fraction(1, 2), unit=ADD_REMOVE)
    outcome = mechanism.on(counts.domain).run(counts, keyed(), runs=range(2)).as_counts()
    assert tuple(outcome.tables) == tree.levels
    share = Fraction(1, 2) / len(tree.levels)
    zeros = 0
    for run in range(2):
        above: list[list[Fraction]] = []
        for depth, level in enumerate(tree.levels):
            truth = counts.at(level).dense()
            stream = Stream(level, CELLS, truth.size)
            drawn = keyed().draw(stream, TwoSidedGeometric(share), draws=range(2))[run]
            answers = (truth + drawn.reshape(truth.shape) * schema.possible)[:, schema.possible]
            if depth == 0:
                above = [[Fraction(int(value)) for value in answers[0]]]
            else:
                above, found = rake_by_hand(answers, above, tree.parents[depth])
                zeros += found
            published = outcome.tables[level][run]
            assert not published[:, ~schema.possible].any()
            expected = np.array(above, dtype=np.float64)
            np.testing.assert_allclose(published[:, schema.possible], expected, rtol=1e-9)
    assert outcome.notes == {"raked_from_a_zero_sum": zeros}


def test_raked_children_sum_to_their_parents():
    counts = tabulate(uniform(people=20_000, depth=3, mean=20))
    tree = counts.geography
    design = Raked(epsilon=Fraction(1, 20)).on(counts.domain)
    tables = design.run(counts, keyed(), runs=range(3)).as_counts().tables
    for depth in range(1, len(tree.levels)):
        children, parents = tables[tree.levels[depth]], tables[tree.levels[depth - 1]]
        start = tree.children_start(tree.levels[depth - 1])
        sums = np.add.reduceat(children, start, axis=1)
        scale = np.add.reduceat(np.abs(children), start, axis=1)  # near-zero sums cancel
        assert (np.abs(sums - parents) <= 1e-12 * scale).all()


@pytest.mark.parametrize("mechanism", NOISY)
@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        (0, "epsilon: found 0, expected a number above 0"),
        (Fraction(-1, 2), "epsilon: found -1/2, expected a number above 0"),
        ("-0.5", "epsilon: found -1/2, expected a number above 0"),
        ("much", "epsilon: found 'much', expected a finite number"),
        ("nan", "epsilon: found 'nan', expected a finite number"),
        (Decimal("nan"), r"epsilon: found NaN, expected a finite number"),
        (Decimal("inf"), r"epsilon: found Infinity, expected a finite number"),
        (None, "epsilon: found None, expected a finite number"),
        (0.5, r"epsilon: found 0.5 \(float\), expected an exact number"),
        (float("nan"), r"epsilon: found nan \(float\), expected an exact number"),
        (float("inf"), r"epsilon: found inf \(float\), expected an exact number"),
        (True, r"epsilon: found True \(bool\), expected an exact number"),
    ],
)
def test_an_epsilon_that_is_none(mechanism, epsilon, message):
    with pytest.raises(PrivacyError, match=f"{mechanism.name}: {message}"):
        mechanism(epsilon=epsilon)


@pytest.mark.parametrize("parts", [0, -1, 1.5, True, "4", None])
def test_parts_that_cannot_be(parts):
    with pytest.raises(PrivacyError, match=r"averaged: parts: found .*, expected 1 or more"):
        Averaged(epsilon=Fraction(1), parts=parts)


def test_an_epsilon_is_kept_as_an_exact_fraction():
    assert Geometric(epsilon="0.1").epsilon == Fraction(1, 10)  # type: ignore[arg-type]


def losses(mechanism, schema: Schema, tree: Geography) -> tuple[object, object]:
    guarantee = mechanism.on(Domain(schema, tree)).guarantee
    found = (guarantee.loss_for(unit) for unit in (ADD_REMOVE, CHANGE_ONE))
    added, changed = (None if loss is None else loss.epsilon for loss in found)
    return added, changed


@pytest.mark.parametrize("mechanism", [Geometric, Averaged])
@pytest.mark.parametrize("schema", [Schema(), Schema((SEX,))])
def test_epsilon_is_the_loss_under_the_chosen_unit_and_the_other_stands_beside_it(
    mechanism, schema
):
    tree, third = regular(children=3, depth=2), Fraction(1, 3)
    added = mechanism(epsilon=third, unit=ADD_REMOVE)
    assert losses(added, schema, tree) == (third, 2 * third)
    changed = mechanism(epsilon=third)
    assert losses(changed, schema, tree) == (third / 2, third)
    domain = Domain(schema, tree)
    first = changed.on(domain).guarantee.losses[0]
    assert first.unit is CHANGE_ONE  # what was asked for, first
    assert added.on(domain).guarantee.losses[0].unit is ADD_REMOVE


@pytest.mark.parametrize("mechanism", NOISY)
def test_one_default_unit(mechanism):
    assert mechanism(epsilon=1) == mechanism(epsilon=1, unit="change-one")
    assert mechanism(epsilon=1).unit is CHANGE_ONE
    message = f"{mechanism.name}: unit: found 'person', expected one of 'add-remove', 'change-one'"
    with pytest.raises(PrivacyError, match=message):
        mechanism(epsilon=1, unit="person")


@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_a_moved_person_leaves_the_root_of_raked_alone(depth):
    tree = regular(children=2, depth=depth)
    epsilon = Fraction(1, 10)
    added, changed = (Raked(epsilon=epsilon, unit=unit) for unit in (ADD_REMOVE, CHANGE_ONE))
    parts = Fraction(depth, depth + 1)
    totals = losses(added, Schema(), tree)
    assert totals == (epsilon, 2 * epsilon * parts)
    # The levels that cost something share the whole epsilon; the root has noise like theirs.
    assert losses(changed, Schema(), tree) == (epsilon / (2 * parts), epsilon)
    laws = {one.law for one in changed.on(Domain(Schema(), tree)).plan}
    assert laws == {TwoSidedGeometric(epsilon / (2 * depth))}
    # With several possible cells a changed record can change the root's cells as well.
    assert losses(added, Schema((SEX,)), tree) == (epsilon, 2 * epsilon)
    assert losses(changed, Schema((SEX,)), tree) == (epsilon / 2, epsilon)
    one_cell = Schema((SEX,), (impossible({"sex": ["m"]}),))
    assert losses(added, one_cell, tree) == totals


def test_a_level_with_one_unit_is_left_alone_like_the_root():
    one = np.array(["only"])
    tree = Geography(
        ("whole", "state", "county"),
        (np.array(["whole"]), one, np.array(["a", "b"])),
        tuple(np.array(parent, dtype=np.int32) for parent in ([], [0], [0, 0])),
    )
    assert losses(Raked(epsilon=Fraction(3), unit=ADD_REMOVE), Schema(), tree) == (3, 2)
    assert losses(Raked(epsilon=Fraction(3)), Schema(), tree) == (Fraction(9, 2), 3)


@pytest.mark.parametrize("mechanism", NOISY)
def test_one_count_alone_needs_add_remove(mechanism):
    """When a record changes it stays as it is, so that no noise would cost anything."""
    tree = regular(children=1, depth=2)
    message = (
        f"{mechanism.name}: found a single count with unit 'change-one', expected 'add-remove': "
        "when one person's record changes the count does not change"
    )
    with pytest.raises(PrivacyError, match=message):
        mechanism(epsilon=Fraction(1)).on(Domain(Schema(), tree))
    added = mechanism(epsilon=Fraction(1), unit=ADD_REMOVE)
    assert losses(added, Schema(), tree) == (1, None)
    assert losses(added, Schema((SEX,)), tree) == (1, 2)


def most_moved(changed_counts: list[tuple[Counts, Counts]], level: str) -> int:
    return max(
        int(np.abs(one.at(level).dense() - other.at(level).dense()).sum())
        for one, other in changed_counts
    )


@settings(max_examples=20)
@given(population=populations(counted=False, max_people=2))
def test_the_promised_loss_is_the_sensitivity_of_every_neighbour(population):
    """Brute force over every changed record: rate x the most that any level's counts move."""
    if not len(population.unit):
        return
    counts = tabulate(population)
    pairs = []
    for unit in range(counts.geography.size(counts.level)):
        for cell in np.flatnonzero(population.schema.possible):
            units, cells = population.unit.copy(), population.cell.copy()
            units[0], cells[0] = unit, cell
            pairs.append((counts, tabulate(replace(population, unit=units, cell=cells))))
    levels = counts.geography.levels
    epsilon = Fraction(1)
    by_level = {level: most_moved(pairs, level) for level in levels}
    for mechanism, expected in [
        (Geometric, epsilon * by_level[counts.level]),
        (Averaged, epsilon * by_level[counts.level]),
        (Raked, epsilon / len(levels) * sum(by_level.values())),
    ]:
        made: Any = mechanism
        added = made(epsilon=epsilon, unit=ADD_REMOVE)
        _, changed = losses(added, counts.schema, counts.geography)
        assert (changed or 0) == expected
        if expected:
            _, whole = losses(made(epsilon=epsilon), counts.schema, counts.geography)
            assert whole == epsilon


def test_identity_says_why_it_promises_nothing():
    guarantee = Identity().on(Domain(Schema(), regular(children=2, depth=1))).guarantee
    assert not guarantee.exists
    assert guarantee.why_none == "the true counts are published as they are"
