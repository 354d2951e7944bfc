"""The nearest point of a trade-off curve, against a dense search and the published table."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount_papers.petti_flaxman_2020.appendix import published_data
from headcount_papers.petti_flaxman_2020.tradeoff import Point, nearest_of, nearest_on_curve

CURVE = [
    Point(parameter=p, error=10 * (1 - p), loss=p) for p in (0.1, 0.2, 0.4, 0.8)
]  # a straight line in both


def test_the_nearest_point_is_found_on_the_curve_and_between_its_points():
    on = nearest_on_curve(Point(parameter=7, error=6, loss=0.4), CURVE)
    assert on is not None
    assert on.parameter == pytest.approx(0.4)
    assert on.distance == pytest.approx(0)
    between = nearest_on_curve(Point(parameter=7, error=7, loss=0.3), CURVE)
    assert between is not None
    assert between.parameter == pytest.approx(0.3)
    assert not between.at_end


@settings(max_examples=40)
@given(st.floats(0, 20), st.floats(0, 2))
def test_no_point_of_the_curve_is_nearer(error, loss):
    curve = [Point(parameter=p, error=1 / p, loss=p * p) for p in (0.1, 0.2, 0.4, 0.8)]
    point = Point(parameter=0, error=error, loss=loss)
    found = nearest_on_curve(point, curve)
    assert found is not None
    places = np.array([[error, loss], *([one.error, one.loss] for one in curve)], dtype=float)
    places /= np.ptp(places, axis=0)
    steps = np.linspace(0, 1, 400)[:, None]
    dense = np.concatenate([a + steps * (b - a) for a, b in pairwise(places[1:])])
    nearest = np.linalg.norm(dense - places[0], axis=1).min()
    assert nearest - 1e-2 <= found.distance <= nearest + 1e-9


def test_a_unit_of_measure_changes_nothing():
    point = Point(parameter=0, error=3.0, loss=0.5)
    here = nearest_on_curve(point, CURVE)
    other = [Point(parameter=p.parameter, error=1000 * p.error, loss=p.loss) for p in CURVE]
    there = nearest_on_curve(Point(parameter=0, error=3000.0, loss=0.5), other)
    assert here is not None
    assert there is not None
    assert there.parameter == pytest.approx(here.parameter)


def test_ends_of_the_curve_are_told_and_undefined_losses_left_out():
    beyond = nearest_on_curve(Point(parameter=0, error=0.1, loss=9.0), CURVE)
    assert beyond is not None
    assert beyond.at_end
    assert beyond.parameter == 0.8
    assert nearest_on_curve(Point(parameter=0, error=1.0, loss=None), CURVE) is None
    assert nearest_on_curve(Point(parameter=0, error=1.0, loss=1.0), CURVE[:1]) is None
    point = Point(parameter=0, error=2.5, loss=0.4)
    holes = [*CURVE, Point(parameter=0.9, error=0.0, loss=None)]
    assert nearest_on_curve(point, holes) == nearest_on_curve(point, CURVE)


def test_points_at_one_error_do_not_divide_by_zero():
    flat = [Point(parameter=p, error=1.0, loss=p) for p in (0.1, 0.9)]
    found = nearest_on_curve(Point(parameter=0, error=1.0, loss=0.5), flat)
    assert found is not None
    assert found.parameter == pytest.approx(0.5)


def test_the_method_comes_near_the_published_table_on_the_published_curves():
    """Stratified counts of counties; by eye epsilon 1 is like 50 %, epsilon 2 like 75 %."""
    where = {"count_type": "SC", "level": "county"}
    curve = [
        Point(parameter=row["fraction"], error=row["mae"], loss=row["epl"])
        for row in published_data("sampling").filter(**where).iter_rows(named=True)
    ]
    topdown = {
        row["epsilon"]: Point(parameter=row["epsilon"], error=row["mae"], loss=row["epl"])
        for row in published_data("topdown").filter(**where).iter_rows(named=True)
    }
    for epsilon, fraction, by_eye in ((1.0, 0.47, 0.50), (2.0, 0.70, 0.75)):
        found = nearest_on_curve(topdown[epsilon], curve, others=list(topdown.values()))
        assert found is not None
        assert found.parameter == pytest.approx(fraction, abs=0.005)
        assert found.parameter == pytest.approx(by_eye, abs=0.06)


def test_nearest_of_options():
    assert nearest_of(0.474, [0.45, 0.5]) == 0.45
    assert nearest_of(0.476, [0.45, 0.5]) == 0.5
