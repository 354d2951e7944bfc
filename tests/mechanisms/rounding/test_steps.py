"""Rounding by steps: what each count is shown as, and which counts a value may stand for."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headcount.attacks.changed_cells import NarrowedCells, narrowed_tables
from headcount.errors import ConfigError, HeadcountError
from headcount.mechanisms import Chain, Sampling, Tabulated, protect
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.release.changed import Off, Step, Steps, off_from_json, off_to_json
from headcount.tabulate.linked_tables import table_values
from tests.mechanisms.cell_key.test_cell_key_mechanism import DATA, TABLES
from tests.mechanisms.rounding.test_rounding_mechanism import release_of

UNKNOWN = 1 << 40
STEPS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 12), st.none() | st.integers(0, 30)),
    min_size=1,
    max_size=4,
)


def steps_of(drawn: list[tuple[int, int, int | None]], halves: Any, below: int) -> Steps:
    at, made = -1, []
    for more, base, value in drawn:
        at += more + 1
        made.append(Step(at=at, base=base) if value is None else Step(at=at, value=value))
    return Steps(steps=tuple(made), halves=halves, below=below)


def by_hand(count: int, steps: Steps) -> int | None:
    """What a count is shown as, in decimals; None where it is withheld."""
    if count < steps.below:
        return None
    step = ([Step(at=0)] + [one for one in steps.steps if one.at <= count])[-1]
    if step.value is not None:
        return step.value
    way = ROUND_HALF_UP if steps.halves == "up" else ROUND_HALF_EVEN
    return int((Decimal(count) / step.base).quantize(Decimal(1), way)) * step.base


@given(drawn=STEPS, halves=st.sampled_from(["up", "even"]), below=st.sampled_from([0, 0, 3, 15]))
def test_values_stand_for_the_counts_that_are_shown_so(drawn, halves, below):
    """Against every count from 0 on: the smallest and the largest that is shown as each value."""
    most = 150
    try:
        steps = steps_of(drawn, halves, below)
    except ConfigError:
        reject()  # larger counts shown as less
    stands_for: dict[int, list[int]] = {}
    for count in range(most):
        if (value := by_hand(count, steps)) is not None:
            assert steps.shown(np.array([count])).tolist() == [value]
            stands_for.setdefault(value, []).append(count)
    last = steps.steps[-1]
    for value in range(most - 2 * last.base):
        low, high = (one.item() for one in steps.ends(np.array([value]), unknown=UNKNOWN))
        if value == 0 and below:
            assert (low, high) == (0, 0)
        elif value not in stands_for:
            assert (low, high) == (0, UNKNOWN)
        else:
            assert low == min(stands_for[value])
            endless = last.value == value
            assert high == (UNKNOWN if endless else max(stands_for[value]))


DRB = {
    # Golden case 9; fewer than 15 are withheld.
    15: 20,
    25: 20,
    99: 100,
    124: 100,
    125: 100,
    175: 200,
    1_050: 1_000,
    1_150: 1_200,
    10_250: 10_000,
    123_456: 123_000,
    1_234_567: 1_235_000,
    12_345_678: 12_350_000,
    987_654_321: 987_700_000,
}


def test_the_rule_of_the_disclosure_review_board():
    rule = Rounding.from_preset("us-drb-2019")
    assert (rule.below, rule.withhold_zeros, rule.draws_noise) == (15, True, False)
    steps = Steps(steps=rule.steps, halves=rule.halves, below=rule.below)
    assert steps.shown(np.array(list(DRB))).tolist() == list(DRB.values())
    low, high = steps.ends(np.array([100, 20, 1_235_000]), unknown=UNKNOWN)
    assert low.tolist() == [95, 15, 1_234_500 + 1]
    assert high.tolist() == [125, 25, 1_235_500 - 1]


def test_the_rule_for_special_tabulations():
    """Golden case 10: 4 is 1 to 7, 10 is 8 to 12, 15 is 13 to 17, 0 is 0."""
    rule = Rounding.from_preset("us-special-2004")
    steps = Steps(steps=rule.steps, halves=rule.halves)
    assert steps.shown(np.arange(19)).tolist() == [0] + [4] * 7 + [10] * 5 + [15] * 5 + [20]
    low, high = steps.ends(np.array([4, 10, 15, 0]), unknown=UNKNOWN)
    assert (low.tolist(), high.tolist()) == ([1, 8, 13, 0], [7, 12, 17, 0])


@pytest.mark.parametrize("preset", ["us-drb-2019", "us-special-2004", "ons-10-5", "statcan-2011"])
def test_what_a_release_says_of_its_values_holds(preset):
    """Every true count is within what its value or its absence says, and an attacker uses that."""
    release = release_of(Rounding.from_preset(preset, tables=TABLES))
    narrowed = narrowed_tables(release)
    for one, cells in zip(release.published, narrowed.published, strict=True):
        true = table_values(DATA.counts.at(one.level), one.cells)
        low, high = one.ends(unknown=UNKNOWN)
        assert np.all((low <= true) & (true <= high))
        assert np.any(low < high)
        assert isinstance(cells, NarrowedCells)
        assert np.all((low <= cells.low) & (cells.low <= true))
        assert np.all((true <= cells.high) & (cells.high <= high))


def test_units_of_few_people_publish_their_total_alone():
    rule = Rounding.from_preset("statcan-2011", tables=TABLES, areas=110)
    gone = 0
    for one in release_of(rule).published:
        few = DATA.counts.at(one.level).totals() < 110
        assert one.withheld[few][:, one.cells.place != 0].all()
        assert not one.withheld[~few].any()
        gone += int(few.sum())
    assert gone


def test_steps_are_written_and_read():
    off = Off(steps=Steps(steps=(Step(at=3, value=4), Step(at=9, base=5)), below=3))
    assert off_from_json(off_to_json(off)) == off
    assert "steps" not in off_to_json(Off(down=1))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"how": "steps"}, "found steps from \\[\\], expected one or more"),
        ({"how": "steps", "steps": [{"at": 5}, {"at": 5}]}, "each from a larger count"),
        ({"how": "steps", "steps": [{"at": 5, "base": 2, "value": 3}]}, "expected one of them"),
        (
            {"how": "steps", "steps": [{"at": 1, "value": 9}, {"at": 6}]},
            "found 5 shown as 9, and 6 as 6, expected larger counts shown as no less",
        ),
        ({"how": "nearest", "steps": [{"at": 5}]}, "expected it with steps only"),
        ({"how": "nearest", "halves": "even"}, "expected it with steps only"),
        ({"preset": "us-drb"}, "us-drb-2019"),
    ],
)
def test_steps_that_say_nothing_are_refused(keys, said):
    with pytest.raises(ConfigError, match=said):
        Rounding.from_preset(keys.pop("preset", ""), **keys)


def test_a_sample_is_not_rounded_by_steps():
    steps = Rounding.from_preset("us-special-2004", tables=TABLES)
    with pytest.raises(HeadcountError, match="without thresholds"):
        protect(Tabulated.of(DATA.population), Chain((Sampling(fraction=Fraction(1, 2)),), steps))
