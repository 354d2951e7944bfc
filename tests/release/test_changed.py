"""What a published value may stand for, where counts are changed."""

from __future__ import annotations

import numpy as np
import pytest

from headcount.errors import ConfigError
from headcount.release.changed import ChangeRules, Off, off_from_json, off_to_json
from headcount.release.published import Rules, Thresholds, rules_from_json, rules_to_json

VALUE = np.array([[9, 0, 4], [0, 0, 2]])
INNER, TOTAL = np.array([False, True, True]), np.array([True, False, False])


def ends(off: Off) -> tuple[list[list[int]], list[list[int]]]:
    low, high = off.ends(VALUE, inner=INNER, total=TOTAL, unknown=99)
    return low.tolist(), high.tolist()


@pytest.mark.parametrize(
    ("off", "low", "high"),
    [
        (Off(), [[1, 0, 1], [0, 0, 1]], [[99, 99, 99], [99, 99, 99]]),
        (Off(raises_zeros=True), [[0, 0, 0], [0, 0, 0]], [[99, 99, 99], [99, 99, 99]]),
        (
            Off(down=3, up=2, zero_hides=1),
            [[6, 0, 1], [0, 0, 1]],
            [[11, 1, 6], [1, 1, 4]],
        ),
        (
            Off(down=3, up=2, zero_hides=1, exact_totals=True),
            [[9, 0, 1], [0, 0, 1]],
            [[9, 1, 6], [0, 1, 4]],
        ),
        (
            Off(down=2, up=2, zero_hides=2, exact_above=3, sums=True),
            [[1, 0, 4], [0, 0, 1]],
            [[99, 2, 4], [99, 2, 4]],
        ),
    ],
)
def test_ranges_of_the_counts_behind_published_values(off, low, high):
    assert ends(off) == (low, high)


def test_what_is_said_of_values_comes_back_from_files():
    off = Off(down=3, up=2, zero_hides=1, exact_above=4, multiples_of=5, withheld_below=10)
    assert off_from_json(off_to_json(off)) == off
    changed = ChangeRules(method="rounding", tables=("P1",), words=("To base 5.",))
    assert rules_from_json(rules_to_json(changed)) == changed
    kept = Rules(rule="1980", tables=("P1",), thresholds=Thresholds(), width=3, audit=5)
    assert rules_from_json(rules_to_json(kept)) == kept


def test_a_distance_below_0_and_a_base_below_1_are_refused():
    with pytest.raises(ConfigError, match="off: down: found -1, expected 0 or more"):
        Off(down=-1)
    with pytest.raises(ConfigError, match="off: multiples_of: found 0, expected 1 or more"):
        Off(multiples_of=0)
