"""What settings tell of a published value, against changing every count in every way."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headcount.attacks.intervals import UNKNOWN
from headcount.mechanisms.cell_key.mechanism import CellKey
from headcount.mechanisms.cell_key.tables import PerturbationFile
from headcount.mechanisms.rounding.cells import CellRule, How, parts, round_cells
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.release.changed import ChangeTable, KnownChange, Off

MOST = 60
NAMES = ("P1",)


def rounding(**settings: Any) -> Rounding:
    return Rounding(tables=NAMES, **settings)


def law(mechanism: Any) -> ChangeTable:
    table = mechanism.known_change().table
    assert isinstance(table, ChangeTable)
    return table


def ons_file(folder: Path) -> CellKey:
    """Counts above 750 use the rows 501 to 750 in turn: only 501 and 751 can become 0."""
    path = folder / "ons.csv"
    rows = [
        (n, key, -n if n == 501 and key < 64 else 0) for n in range(1, 751) for key in range(256)
    ]
    path.write_text("pcv,ckey,pvalue\n" + "\n".join(",".join(map(str, row)) for row in rows))
    return CellKey(tables=NAMES, ptable=PerturbationFile(file=path))


def outcomes(mechanism, count):
    """Every value that a count may be given, with its probability."""
    if isinstance(mechanism, CellKey):
        law = mechanism.laws[min(count, len(mechanism.laws) - 1)]
        return {count + v: p for v, p in law.probabilities.items() if p}
    base, how = mechanism.base, How(mechanism.how)
    if how in (How.RANDOM, How.FIXED):
        found = parts(np.array([count]), base=base, weight=Fraction(1))
        low, chance = int(found.lower[0]), Fraction(int(found.remainders[0]), found.denominator)
        return {low + up: p for up, p in ((0, 1 - chance), (base, chance)) if p}
    return {int(round_cells(np.array([count]), CellRule(base=base, how=how))[0]): Fraction(1)}


@pytest.mark.parametrize(
    "mechanism",
    [
        CellKey(tables=NAMES, maximum=2, variance=Fraction(1)),
        CellKey(tables=NAMES, maximum=5, variance=Fraction(3), blocked=2, stay=Fraction(1, 2)),
        CellKey(tables=NAMES, maximum=3, variance=Fraction(1), columns=256),
        CellKey(tables=NAMES, rule="10-5"),
        *(rounding(base=b, how=how.value) for b in (3, 4, 5) for how in How),
    ],
    ids=lambda one: repr(one).replace("tables=('P1',), ", ""),
)
def test_a_value_stands_for_the_counts_that_can_become_it(mechanism):
    known = mechanism.known_change()
    table = law(mechanism)
    behind: dict[int, list[int]] = {}
    for count in range(MOST):
        for value, p in outcomes(mechanism, count).items():
            behind.setdefault(value, []).append(count)
            chance = table.of_change(np.array([count]), np.array([value]))
            assert chance.tolist() == [pytest.approx(float(p))]
    values = np.array([v for v in sorted(behind) if v < MOST - 12])
    none = np.zeros(len(values), dtype=bool)
    low, high = known.ends(values, inner=~none, total=none, unknown=UNKNOWN)
    assert low.tolist() == [min(behind[v]) for v in values.tolist()]
    assert high.tolist() == [max(behind[v]) for v in values.tolist()]
    wide = known.off.ends(values, inner=~none, total=none, unknown=UNKNOWN)
    assert (wide[0] <= low).all()
    assert (wide[1] >= high).all()


def test_blocked_values_tell_more_than_the_largest_change():
    """With js = 2 a value of 3 may be a 3 of 1 to 8, but no count becomes 1 or 2."""
    table = law(CellKey(tables=NAMES, maximum=5, variance=Fraction(3), blocked=2))
    counts = np.arange(9)
    assert not table.possible(counts, np.array(2)).any()
    assert table.possible(counts, np.array(3)).tolist() == [False, *[True] * 8]


def test_large_counts_of_the_ons_use_rows_in_turn(tmp_path):
    table = law(ons_file(tmp_path))
    assert table.cycle == 250
    counts = np.array([501, 750, 751, 752, 1001])
    assert table.possible(counts, np.zeros(5, dtype=int)).tolist() == [
        True,
        False,
        False,
        False,
        False,
    ]
    # The change is -501 in the row of 751 and of 1001 too.
    assert table.of_change(counts, counts - 501).tolist() == [0.25, 0, 0.25, 0, 0.25]


def test_zeros_that_are_raised_are_possible(tmp_path):
    path = tmp_path / "loses.csv"
    path.write_text("i,j,p\n0,0,1\n1,0,0.5\n1,1,0.5\n2,2,1\n")
    loses = CellKey(tables=NAMES, ptable=PerturbationFile(file=path), zeros="balance")
    known = loses.known_change()
    assert law(loses).raised == 1
    one = np.array([0, 1, 2])
    none = np.zeros(3, dtype=bool)
    low, high = known.ends(one, inner=~none, total=none, unknown=UNKNOWN)
    assert (low.tolist(), high.tolist()) == ([0, 0, 2], [1, 1, 2])


def test_an_exact_total_is_its_count():
    known = CellKey(tables=NAMES, rule="10-5", exact_total=True).known_change()
    value, total = np.array([[7, 0, 10]]), np.array([True, False, False])
    low, high = known.ends(value, inner=~total, total=total, unknown=UNKNOWN)
    assert (low.tolist(), high.tolist()) == ([[7, 0, 10]], [[7, 9, 12]])


def test_of_a_value_that_no_count_becomes_the_law_says_nothing():
    table = ChangeTable.of([{0: 1.0}, {1: 1.0}])
    low, high = table.ends(np.array([0, 1, 2]), unknown=UNKNOWN)
    assert (low.tolist(), high.tolist()) == ([0, 0, 1], [0, UNKNOWN, 1])
    known = KnownChange(off=Off(down=1, up=1, zero_hides=0), table=table)
    flags = np.ones(1, dtype=bool)
    ends = known.ends(np.array([1]), inner=flags, total=~flags, unknown=UNKNOWN)
    assert [one.tolist() for one in ends] == [[1], [2]]


def test_the_variance_is_that_of_large_counts():
    cell_key = CellKey(tables=NAMES, maximum=3, variance=Fraction(1))
    assert law(cell_key).variance == pytest.approx(1, abs=1e-6)
    # r (b - r) over r = 0, 1, 2: 0, 2 and 2.
    assert law(rounding(base=3)).variance == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    "settings", [{"how": "controlled"}, {"how": "small-counts"}, {"small_only": True}]
)
def test_sums_that_are_kept_have_no_law_of_their_own(settings):
    assert rounding(**settings).known_change() is None
