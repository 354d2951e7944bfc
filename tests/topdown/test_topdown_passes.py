"""Passes: what is fitted and rounded first stays as near to its own answers as it can be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from headcount.errors import ConfigError, HeadcountError
from headcount.tabulate import CELLS
from headcount.tabulate.counts import every_level
from headcount.topdown.choices import LevelPasses
from headcount.topdown.measure import Measurements
from tests.topdown.small import (
    VILLAGE,
    bounded,
    counts_of,
    dense,
    keyed,
    run,
    same,
    settings,
    tree,
    village,
    zcdp,
)

SHARES = (
    ("total", Fraction(1, 50)),
    ("kind", Fraction(1, 50)),
    ("age", Fraction(1, 50)),
    (CELLS, Fraction(47, 50)),
)
FIRST = {"fit": [["total"], ["kind", "age", CELLS]], "round": [["total"], ["kind", CELLS]]}
"""The total has little of the loss, so that together with the cells it would hardly count."""


def of_towns(**keys):
    """The whole measured by its cells, for nobody comes or goes."""
    keys = {"level_queries": {"whole": {CELLS: 1}}, **keys}
    return settings(zcdp("1/20"), query_shares=SHARES, **keys)


def towns(number: int = 40):
    geography = tree(("town", [number]))
    people = np.random.default_rng(5).integers(20, 90, (number, 6))
    people[:, 4] = 0  # no minors in homes for the elderly
    return counts_of(people, geography)


def nearest(answers, total):
    """The point of {t >= 0, sum t = total} that is nearest to some answers, by bisection."""
    low, high = answers.min() - total, answers.max() + total
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if np.maximum(answers - level, 0).sum() > total else (low, level)
    return np.maximum(answers - low, 0)


def moved(mechanism, seed):
    """How far released totals of towns are from what their own answers alone would give."""
    counts = towns()
    asked = Measurements(every_level(counts), mechanism, keyed(seed), run=0)
    released = dense(run(mechanism, counts, seed=seed))["town"].sum(axis=1)
    return np.abs(
        released - nearest(asked.values("town", "total")[:, 0].astype(float), released.sum())
    )


def test_totals_fitted_first_are_those_of_their_own_answers():
    for seed in range(3):
        assert moved(of_towns(passes={"town": FIRST}), seed).max() <= 1 + 0.1 + 1e-6


def test_in_one_pass_they_are_not():
    assert moved(of_towns(), 0).max() > 3


def test_one_pass_over_all_and_rounding_by_cells_is_what_happens_without_passes():
    counts = village()
    plain = bounded(zcdp("1/4"))
    every = [name for name, _ in plain.query_shares]
    levels = counts.geography.levels[1:]
    same_thing = bounded(zcdp("1/4"), passes={level: {"fit": [every]} for level in levels})
    assert same(dense(run(plain, counts)), dense(run(same_thing, counts)))


def test_every_bound_and_sum_stands_with_passes():
    counts = village()
    passes = {
        level: {"fit": [["kind"], ["age", CELLS]], "round": [["kind"], [CELLS, CELLS]]}
        for level in VILLAGE.levels
    }
    for seed in range(5):
        made = dense(run(bounded(zcdp("1/10"), passes=passes), counts, seed=seed))
        for level, below in zip(VILLAGE.levels, VILLAGE.levels[1:], strict=False):
            parents = VILLAGE.parents[VILLAGE.depth(below)]
            summed = np.zeros_like(made[level])
            np.add.at(summed, parents, made[below])
            assert np.array_equal(summed, made[level])
        assert (made[VILLAGE.leaf] >= 0).all()


@pytest.mark.parametrize(
    ("passes", "said"),
    [
        ({"fit": [["total"], ["total", CELLS]]}, "found 'total' twice, expected each query in one"),
        ({"fit": [[CELLS], ["total"]]}, "found 'cells' in an early pass"),
        ({"round": [["total"], ["total", CELLS]]}, "found 'total' in two passes, expected it in"),
        ({"fit": [[]]}, "found a pass without queries"),
        ({"within": 0}, "within: found 0, expected a number above 0"),
    ],
)
def test_passes_that_make_no_plan_are_refused(passes, said):
    with pytest.raises(HeadcountError, match=said):
        LevelPasses(**passes)


@pytest.mark.parametrize(
    ("level", "passes", "said"),
    [
        ("town", {"fit": [["total"], [CELLS]]}, r"passes\.town\.fit.*'kind' in no pass"),
        ("town", {"fit": [["sex"], [CELLS]]}, r"passes\.town\.fit.*'sex'.*a query measured there"),
        ("town", {"round": [["sex"]]}, r"passes\.town\.round.*'sex'.*a query"),
        ("village", {"round": [["total"]]}, r"passes\.village.*found level 'village'"),
        ("town", {"round": [["kind", "age"]], "nested": True}, "pass 1 that cross"),
        ("town", {"round": [["kind"], ["age"]], "nested": True}, "pass 2 that cross"),
    ],
)
def test_passes_that_do_not_fit_the_data_are_refused_before_anything_is_spent(level, passes, said):
    mechanism = of_towns(passes={level: passes})
    with pytest.raises(ConfigError, match=said):
        mechanism.on(towns().domain).check(towns())


def test_queries_that_cross_are_rounded_by_an_integer_programme_unless_that_is_refused():
    passes = {"town": {"round": [["kind", "age"], [CELLS]]}}
    mechanism = of_towns(passes=passes)
    mechanism.on(towns(4).domain).check(towns(4))
    outcome = run(mechanism, towns(4))
    assert outcome.notes["town: rounded by MIP"] == 1
