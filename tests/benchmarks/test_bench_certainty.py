"""Certain blocks beside every set of records: some cases of ``make bench NAME=certainty``."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from benchmarks import certainty


def test_no_block_is_called_certain_that_is_not():
    found = {one.what.strip(): one.value for one in certainty.measure(cases=150)}
    assert found["cases"] == 150
    assert found["called certain, and wrongly"] == 0
    assert found["records that break a table"] == 0
    assert found["called certain"] > 100
    assert found["of them without records"] > 20
    assert 50 < found["of blocks solved together"] < 130
    assert found["with something withheld"] > 100
    # Limits instead of equations above the blocks lose a little, and truncated trials see less.
    assert found["one solution, not called certain"] < 20


def test_the_comparison_sees_a_wrong_certainty_and_broken_tables():
    """As it was when a block without records always counted as certain."""
    seen: Counter[str] = Counter()
    for number in range(60):
        case = certainty.draw_case(number)
        found = certainty._attack(case)
        careless = np.where(found.people == 0, 0.0, found.variability)
        certainty.judge(case, replace(found, variability=careless), seen)
    assert seen["wrong"] > 0
    assert seen["broken"] == 0
    case = certainty.draw_case(0)
    found = certainty._attack(case)
    many = np.arange(4)
    certainty.judge(case, replace(found, unit=0 * many, cell=many, count=1 + 0 * many), seen)
    assert seen["broken"] > 0
