"""Certain blocks beside every set of records that their tables allow."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from tests.attacks.certainty import draw_case, judge

CASES = 300


def test_no_block_is_called_certain_that_is_not():
    seen: Counter[str] = Counter()
    wrong = []
    for number in range(CASES):
        case = draw_case(number)
        before = seen["wrong"] + seen["broken"]
        judge(case, case.attacked(), seen)
        if seen["wrong"] + seen["broken"] > before:
            wrong.append(number)
    assert wrong == []
    assert seen["certain"] > 200
    assert seen["certainly empty"] > 40
    assert CASES / 3 < seen["together"] < CASES * 5 / 6
    assert seen["withheld"] > 200
    # Limits instead of equations above the blocks lose a little, and truncated trials see less.
    assert seen["missed"] < 40


def test_the_comparison_sees_a_wrong_certainty_and_broken_tables():
    """As it was when a block without records always counted as certain."""
    seen: Counter[str] = Counter()
    for number in range(60):
        case = draw_case(number)
        found = case.attacked()
        careless = np.where(found.people == 0, 0.0, found.variability)
        judge(case, replace(found, variability=careless), seen)
    assert seen["wrong"] > 0
    assert seen["broken"] == 0
    case = draw_case(0)
    found = case.attacked()
    many = np.arange(4)
    judge(case, replace(found, unit=0 * many, cell=many, count=1 + 0 * many), seen)
    assert seen["broken"] > 0
