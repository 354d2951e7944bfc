"""Witnesses checked by arithmetic: what is no table, what is not shown, what one person knows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.evaluation import suppressed
from headcount.evaluation.suppressed import check_witnesses
from headcount.mechanisms.suppression.complementary import complement
from headcount.mechanisms.suppression.witnesses import Witnesses, read_witnesses, write_witnesses
from headcount.tabulate.additive import from_relations
from tests.support.additive_tables import random_table, small_table

ROW = from_relations(5, [(0, [1, 2, 3, 4])])
VALUES = np.array([17, 1, 6, 10, 0])
PRIMARY = VALUES == 1
WITHHELD = np.array([False, True, True, False, False])


def witnesses(*tables):
    return Witnesses.of([(np.array(list(one)), np.array(list(one.values()))) for one in tables])


def check(*tables, withheld=WITHHELD, values=VALUES, primary=PRIMARY, additive=ROW, **asked):
    return check_witnesses(
        additive, values, withheld=withheld, primary=primary, witnesses=witnesses(*tables), **asked
    )


def test_one_table_shows_enough():
    found = check({1: 3, 2: -3})
    assert found.clean
    assert found.primaries == 1
    assert found.to_json()["primary_unprotected"] == 0
    assert "1 of 1 small counts have witnesses (1 tables, 0 wrong)" in str(found)


@pytest.mark.parametrize(
    "table",
    [
        {1: 3, 3: -3},  # changes what is published
        {1: 3, 2: -2},  # no longer adds up
        {1: 6, 2: -6},  # leaves 0 where there is somebody
        {1: 3, 2: -4, 4: 1},  # puts somebody where there is nobody
        {1: 3},
        {1: 3, 2: -3, 3: 0},
    ],
)
def test_what_is_no_table_shows_nothing(table):
    found = check(table)
    assert found.wrong.tolist() == [0]
    assert found.unprotected.tolist() == [1]
    assert found.idle.tolist() == [2]
    assert not found.clean


def test_a_cell_named_twice_is_wrong():
    twice = Witnesses(start=np.array([0, 3]), cell=np.array([1, 1, 2]), change=np.array([2, 1, -3]))
    found = check_witnesses(ROW, VALUES, withheld=WITHHELD, primary=PRIMARY, witnesses=twice)
    assert found.wrong.tolist() == [0]


def test_both_conditions_count():
    assert check({1: 2, 2: -2}).unprotected.tolist() == [1]  # above the threshold, not wide enough
    assert check({1: 2, 2: -2}, width=2).clean
    assert check({1: 3, 2: -3}, threshold=4).unprotected.tolist() == [1]  # wide, never above
    two = np.array([18, 2, 6, 10, 0])
    low, high = {1: -1, 2: 1}, {1: 2, 2: -2}
    assert check(low, high, values=two, primary=two == 2).clean
    assert not check(high, values=two, primary=two == 2).clean
    assert not check(low, values=two, primary=two == 2).clean


def test_a_small_count_that_is_published_or_a_zero_that_is_not_is_seen():
    shown = check({2: 3, 3: -3}, withheld=np.array([False, False, True, True, False]))
    assert shown.unprotected.tolist() == [1]
    zero = check({1: 3, 2: -3}, withheld=WITHHELD | (VALUES == 0))
    assert zero.zeros.tolist() == [4]
    assert not zero.clean
    nobody = check({1: 3, 2: -3}, withheld=WITHHELD | (VALUES == 0), published=VALUES > 0)
    assert nobody.clean  # what no table has is nobody's secret


def test_who_is_alone_in_another_cell_is_counted():
    additive = from_relations(6, [(0, [1, 2, 3]), (4, [2, 5])])
    values = np.array([12, 1, 1, 10, 5, 4])
    withheld = np.array([False, True, True, True, True, False])
    primary = values == 1
    table = {1: 3, 2: 3, 3: -6, 4: 3}
    asked = {"additive": additive, "values": values, "withheld": withheld, "primary": primary}
    assert check(table, **asked).lone.tolist() == [1, 2]
    apart = check(table, {1: 3, 3: -3}, **asked)  # 1 changes while 2 stands still, not 2 without 1
    assert apart.lone.tolist() == [2]


def test_the_same_person_in_two_cells_tells_nothing_new():
    additive = from_relations(6, [(0, [1, 3]), (1, [2, 4]), (3, [5])])
    values = np.array([9, 1, 1, 8, 0, 8])
    asked = {"additive": additive, "values": values, "withheld": values > 0, "primary": values == 1}
    found = check({0: 3, 1: 3, 2: 3}, {0: 1, 3: 1, 5: 1}, **asked)
    assert found.clean
    assert not len(found.lone)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_every_check_is_that_of_whole_tables(seed, data):
    """Oracle: build each table in full and add up its relations one by one."""
    table, _ = random_table(seed)
    pattern = complement(table.additive, table.values, table.primary, effort=0)
    listed = [(cell.copy(), change.copy()) for cell, change in pattern.witnesses]
    for cell, change in listed:
        if data.draw(st.booleans()):
            i = data.draw(st.integers(0, len(cell) - 1))
            change[i] += data.draw(st.sampled_from([-2, -1, 1, 2]))
    wrong = []
    for number, (cell, change) in enumerate(listed):
        full = table.values.copy()
        full[cell] += change
        sums = [
            full[total] == full[table.additive.part[a:b]].sum()
            for total, a, b in zip(
                table.additive.total,
                table.additive.start[:-1],
                table.additive.start[1:],
                strict=True,
            )
        ]
        if not all(sums) or (full[cell] < 1).any() or not change.all():
            wrong.append(number)
    found = check_witnesses(
        table.additive,
        table.values,
        withheld=pattern.withheld,
        primary=pattern.primary,
        witnesses=Witnesses.of(listed),
    )
    assert found.wrong.tolist() == wrong


def test_pieces_change_nothing(monkeypatch):
    table = small_table(2)
    pattern = complement(table.additive, table.values, table.primary, publish=table.publish)
    leaky = pattern.withheld.copy()
    leaky[np.flatnonzero(pattern.secondary)[::2]] = False

    def found(withheld):
        return check_witnesses(
            table.additive,
            table.values,
            withheld=withheld,
            primary=pattern.primary,
            witnesses=pattern.witnesses,
        ).to_json()

    whole = [found(withheld) for withheld in (pattern.withheld, leaky)]
    monkeypatch.setattr(suppressed, "AT_ONCE", 5)
    assert [found(withheld) for withheld in (pattern.withheld, leaky)] == whole
    assert [one["clean"] for one in whole] == [True, False]


def test_witnesses_are_written_through_no_link(tmp_path):
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "w.parquet"
    elsewhere.write_text("another's")
    link.symlink_to(elsewhere)
    write_witnesses(link, [Witnesses.of([])])
    assert elsewhere.read_text() == "another's"
    assert len(read_witnesses(link, groups=1)[0]) == 0


def test_witnesses_come_back_from_disk(tmp_path):
    first, none = witnesses({1: 3, 2: -3}, {4: 1}), Witnesses.of([])
    write_witnesses(tmp_path / "w.parquet", [first, none, first])
    back = read_witnesses(tmp_path / "w.parquet", groups=3)
    assert [len(one) for one in back] == [2, 0, 2]
    for one, other in zip(back, (first, none, first), strict=True):
        for a, b in zip(one, other, strict=True):
            assert a[0].tolist() == b[0].tolist()
            assert a[1].tolist() == b[1].tolist()
    assert repr(first) == "<Witnesses 2 tables, 3 differences>"
