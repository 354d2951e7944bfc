"""Coverage of intervals and plans against simulated noise: the parts, on few places."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks import intervals, plan
from benchmarks.exact_law import characteristic, within
from benchmarks.noisy_trees import NoisyTree, places, settings
from headcount.noise import DiscreteGaussian, Law, TwoSidedGeometric

LAWS: tuple[Law, ...] = (
    TwoSidedGeometric(Fraction(1, 3)),
    DiscreteGaussian(Fraction(1, 4)),
    DiscreteGaussian(Fraction(5, 2)),
)


def probabilities(law: Law, most: int = 120) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of -most .. most, from the law's own tail."""
    beyond = np.array([float(law.survival(k)) for k in range(most + 1)])
    each = -np.diff(np.concatenate([[1.0], beyond]))
    return np.concatenate([each[:0:-1] / 2, each[:1], each[1:] / 2])


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_characteristic_functions_are_those_of_the_laws(law: Law) -> None:
    u, k = np.linspace(-9, 9, 41), np.arange(-120, 121)
    expected = (np.cos(np.multiply.outer(u, k)) * probabilities(law)).sum(axis=1)
    assert characteristic(law, u) == pytest.approx(expected, abs=1e-9)


def test_the_law_of_a_sum_is_that_of_adding_up_all_cases() -> None:
    """2 X + Y - Y' with whole numbers as weights, where the law is a sum over all cases."""
    first, second = LAWS[0], LAWS[2]
    doubled = np.zeros(481)
    doubled[::2] = probabilities(first)
    whole = np.convolve(np.convolve(doubled, probabilities(second)), probabilities(second)[::-1])
    values = np.arange(len(whole)) - len(whole) // 2
    for reach in (0.5, 3.5, 8.5, 20.5):
        parts = [(first, np.array([2.0])), (second, np.array([1.0, -1.0]))]
        expected = whole[np.abs(values) < reach].sum()
        assert within(reach, parts) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("level", ["county", "tract", "block"])
@pytest.mark.parametrize("query", ["cells", "age", "total"])
def test_weights_of_answers_have_the_variance_of_the_estimate(level: str, query: str) -> None:
    tree = NoisyTree(settings(rho="1", cells="1/2"), places(6))
    for unit in tree.classes(level)[1].tolist():
        variance = 0.0
        for law, weights in tree.weights(level, query, unit):
            variance += law.variance * float(np.sum(weights**2))
        assert variance == pytest.approx(tree.deviations(level, query)[unit, 0] ** 2, rel=1e-9)


def test_intervals_hold_as_often_as_the_exact_law_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "LEAST_UNITS", 40)
    tree = NoisyTree(settings(rho="1", cells="97/100"), places(10))
    found = list(intervals._coverage("few", tree, 30))
    blocks = [one for one in found if " at block: from the exact" in one.what]
    assert len(found) == 8  # tracts and blocks, four queries each, all of them narrow
    assert len(blocks) == 4
    assert all(one.value < 0.03 for one in blocks)


def test_a_large_tree_is_gone_through_in_pieces() -> None:
    rows, cpu, peak = intervals.pieces_of_nation(0.002)
    leaves = int(rows.what.split()[0].replace(",", ""))
    assert leaves > 5_000
    assert rows.value == 5 * leaves  # four cells and a total
    assert cpu.value > 0
    assert peak.value > 0


def test_a_plan_is_held_against_simulated_noise_and_releases() -> None:
    tree = NoisyTree(settings(rho="1"), places(200))
    found = {one.what: one for one in plan._compared("one loss", tree, 4)}
    assert len(found) == 24
    assert found["one loss: cells at block: estimate off plan"].value < 1
    release = found["one loss: cells at block: release, root mean square error"]
    assert 0 < release.value < tree.errors.by_level()[-4].own
    assert release.at_most is None
