"""The measuring step: which noise, on what, how much of it, and where the truth goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from scipy.sparse import csr_array

from headcount.domain import Domain
from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.noise import DiscreteGaussian, TwoSidedGeometric
from headcount.privacy import UnitOfPrivacy
from headcount.schema import load_schema
from headcount.tabulate import CELLS, Query
from headcount.topdown import measure
from headcount.topdown.measure import Measurements, distance_to_truth
from headcount.topdown.mechanism import TopDown
from headcount.topdown.settings import noise_of, planned_noise
from tests.mechanisms.test_private_path import floats_on_the_way
from tests.topdown import small
from tests.topdown.small import (
    AGE,
    HALF,
    KIND,
    PEOPLE,
    SCHEMA,
    SHARES,
    TOTAL,
    VILLAGE,
    add_up,
    answers,
    by_level,
    counts_of,
    dense,
    keyed,
    pure,
    same,
    settings,
    tree,
    village,
    zcdp,
)

E2E = load_schema("e2e-2018")
NATION = tree(("state", [2]), ("county", [1, 2]), ("district", [2, 1, 3]))


def preset(**loss) -> TopDown:
    return TopDown.from_preset("e2e-2018", **loss)


def test_the_preset_has_the_published_variances():
    """E8, E9: a quarter for each level, 10 / 22.5 / 67.5 %, rate epsilon / 2."""
    planned = planned_noise(preset(epsilon="0.25"), E2E, NATION)
    assert len(planned) == 4 * 3
    published = {
        CELLS: ("0.00625", 204799.8, 192),
        "hhgq": ("0.0140625", 40454.2, 8),
        "va_hisp_race": ("0.0421875", 4494.8, 24),
    }
    for (level, query), noise in planned.items():
        epsilon, variance, scalars = published[query]
        assert noise.law == TwoSidedGeometric(Fraction(epsilon) / 2)
        assert 1 / noise.weight == pytest.approx(variance, abs=0.05)
        assert noise.entries == NATION.size(level) * scalars


def test_224_scalars_are_measured_in_each_unit():
    """E10: the plan has 192 + 8 + 24 answers for each unit of each level."""
    plan = preset(epsilon="0.25").on(Domain(E2E, NATION)).plan
    entries: Counter[str] = Counter()
    for one in plan:
        if one.query != "distance to the truth":
            entries[one.level] += one.entries
    assert entries == {level: 224 * NATION.size(level) for level in NATION.levels}


def test_gaussian_noise_has_the_variance_that_rho_buys():
    """Changing one record moves two answers by 1: sigma^2 = 2 / (2 rho)."""
    planned = planned_noise(preset(rho="2.56"), E2E, NATION)
    shares = {CELLS: "0.1", "hhgq": "0.225", "va_hisp_race": "0.675"}
    for (_, query), noise in planned.items():
        law = DiscreteGaussian(4 / Fraction("2.56") / Fraction(shares[query]))
        assert noise.law == law
        assert 1 / noise.weight == pytest.approx(law.variance, rel=1e-12)


def test_weights_are_of_the_discrete_law_where_it_differs_from_the_continuous():
    noise = noise_of(zcdp(8), entries=10)
    assert noise.law == DiscreteGaussian(Fraction(1, 8))
    k = np.arange(-40, 41)
    mass = np.exp(-(k**2) / (2 / 8))
    assert 1 / noise.weight == pytest.approx((mass * k**2).sum() / mass.sum(), rel=1e-12)
    assert abs(1 / noise.weight - 1 / 8) > 0.01


def test_adding_or_removing_one_person_costs_half_the_noise():
    change = noise_of(pure(1), entries=6)
    add = noise_of(pure(1, UnitOfPrivacy.ADD_REMOVE), entries=6)
    assert change.law == TwoSidedGeometric(HALF)
    assert add.law == TwoSidedGeometric(Fraction(1))


def test_levels_and_queries_get_the_shares_they_are_given():
    mechanism = settings(
        pure(8),
        level_shares=(
            ("whole", Fraction(1, 8)),
            ("state", HALF),
            ("county", Fraction(0)),
            ("leaf", Fraction(3, 8)),
        ),
        level_queries=(("leaf", ((CELLS, Fraction(1, 3)), ("total", Fraction(2, 3)))),),
    )
    planned = planned_noise(mechanism, SCHEMA, VILLAGE)
    rates = {
        where: 2 * noise.law.rate
        for where, noise in planned.items()
        if isinstance(noise.law, TwoSidedGeometric)
    }
    assert rates == {
        ("whole", CELLS): Fraction(1, 4),
        ("whole", "kind"): Fraction(1, 4),
        ("whole", "age"): HALF,
        ("state", CELLS): 1,
        ("state", "kind"): 1,
        ("state", "age"): 2,
        ("leaf", CELLS): 1,
        ("leaf", "total"): 2,
    }
    assert mechanism.on(Domain(SCHEMA, VILLAGE)).guarantee.losses[0] == pure(8)
    measurements = Measurements(by_level(village()), mechanism, keyed(), run=0)
    assert measurements.planned.get(("county", CELLS)) is None
    with pytest.raises(PrivacyError, match="'kind' at 'county' has no share and is not measured"):
        measurements.values("county", "kind")
    one = np.zeros(1, np.int64)
    picked = measurements.picker("county", one)
    with pytest.raises(PrivacyError, match="'cells' at 'county' has no share"):
        picked(CELLS, one, one)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"query_shares": ((CELLS, HALF), ("age", Fraction(1, 4)))}, "expected exactly 1"),
        (
            {"query_shares": ((CELLS, Fraction(2)), ("age", Fraction(-1)))},
            "share: found -1, expected a number above 0",
        ),
        ({"level_shares": (("a", Fraction(2)), ("b", Fraction(-1)))}, "found -1 for 'b', expected"),
        ({"level_shares": (("whole", HALF), ("leaf", Fraction(1, 4)))}, "expected exactly 1"),
        ({"level_queries": (("leaf", ((CELLS, HALF),)),)}, "query shares at level 'leaf'"),
        ({"level_queries": (("leaf", (("sex", Fraction(1)),)),)}, "found 'sex', expected one of"),
        (
            {
                "level_shares": (("whole", HALF), ("leaf", HALF)),
                "level_queries": (("lea", SHARES),),
            },
            "found 'lea', expected one of 'whole', 'leaf'",
        ),
    ],
)
def test_wrong_shares_are_refused_when_the_settings_are_made(changed, says):
    with pytest.raises((PrivacyError, ConfigError), match=says):
        settings(pure(1), **changed)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"level_shares": (("whole", HALF), ("tract", HALF))}, "found 'tract', expected one of"),
        ({"level_queries": (("tract", SHARES),)}, "found 'tract', expected one of 'whole'"),
    ],
)
def test_shares_of_unknown_levels_are_refused_before_anything_is_measured(changed, says):
    mechanism = settings(pure(1), **changed)
    with pytest.raises(PrivacyError, match=says):
        mechanism.on(Domain(SCHEMA, VILLAGE))


def test_unknown_and_repeated_queries_are_refused():
    with pytest.raises(ConfigError, match="queries: found 'kind' twice"):
        settings(None, queries=(KIND, KIND, AGE))
    with pytest.raises(ConfigError, match=r"queries\.cells: found by, expected by = "):
        settings(None, queries=(KIND, AGE, Query(CELLS)))
    with pytest.raises(ConfigError, match=r"queries\.sex: found no by, expected by = "):
        settings(None, query_shares=(("sex", HALF), (CELLS, HALF)))
    other = settings(pure(1), queries=(TOTAL, KIND, Query("age", ("income",))))
    with pytest.raises(Exception, match="found attribute 'income', expected one of 'kind', 'age'"):
        other.on(Domain(SCHEMA, VILLAGE))


def test_a_total_that_no_changed_record_can_move_is_not_measured():
    mechanism = settings(pure(1), query_shares=((CELLS, HALF), ("total", HALF)))
    with pytest.raises(PrivacyError, match=r"topdown: 'total' at 'whole': .* sensitivity 0"):
        mechanism.on(Domain(SCHEMA, VILLAGE))
    settings(pure(1, UnitOfPrivacy.ADD_REMOVE), query_shares=((CELLS, HALF), ("total", HALF))).on(
        Domain(SCHEMA, VILLAGE)
    )


class Recorded:
    """Noise of zero, or of one number, that keeps what was asked of it."""

    key_kind, backend = "seed", "table"

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.asked: list[Any] = []

    def draw_at(self, stream, law, *, draw, index):
        self.asked.append((stream, law, draw, np.array(index)))
        return np.full(len(index), self.value, dtype=np.int64)


@pytest.mark.parametrize("loss", [pure(1), zcdp(1)])
def test_each_answer_is_the_true_one_plus_its_own_noise(loss):
    """Marginals are summed over the full truth; every answer has an address of its own."""
    noise: Any = Recorded(1000)
    measurements = Measurements(by_level(village()), settings(loss), noise, run=3)
    for level in VILLAGE.levels:
        truth = add_up(VILLAGE, PEOPLE, level)
        for query in (KIND, AGE):
            got = measurements.values(level, query.name)
            assert np.array_equal(got, answers(truth, query) + 1000)
        unit, cell = (i.ravel().astype(np.int64) for i in np.indices(truth.shape))
        got = measurements.picker(level, unit)(CELLS, unit, cell)
        assert np.array_equal(got.reshape(truth.shape), truth + 1000)
    addresses = set()
    for stream, _, draw, index in noise.asked:
        assert draw == 3
        assert index.min() >= 0
        assert index.max() < stream.size
        for position in index:
            addresses.add((stream.level, stream.query, int(position)))
    units = sum(VILLAGE.size(level) for level in VILLAGE.levels)
    assert len(addresses) == units * (6 + 3 + 2) == sum(len(asked[3]) for asked in noise.asked)


def test_noise_is_on_every_unit_and_cell_whether_anyone_lives_there_or_not():
    """In 200 runs every single answer of every level takes several values."""
    mechanism = settings(pure(1))
    levels, noise = by_level(village()), keyed()
    drawn: dict[tuple[str, str], list[np.ndarray]] = {}
    for run in range(200):
        measurements = Measurements(levels, mechanism, noise, run=run)
        for level in VILLAGE.levels:
            shape = (VILLAGE.size(level), SCHEMA.size)
            unit, cell = (i.ravel().astype(np.int64) for i in np.indices(shape))
            drawn.setdefault((level, CELLS), []).append(
                measurements.picker(level, unit)(CELLS, unit, cell)
            )
            for query in ("kind", "age"):
                got = measurements.values(level, query).ravel()
                drawn.setdefault((level, query), []).append(got)
    for values in drawn.values():
        table = np.array(values)
        assert (table != table[0]).any(axis=0).all()


@pytest.mark.parametrize("loss", [pure("1/2"), zcdp("1/2")])
def test_answers_drawn_one_by_one_are_those_of_a_full_draw(loss):
    measurements = Measurements(by_level(village()), settings(loss), keyed(), run=0)
    unit, cell = (i.ravel().astype(np.int64) for i in np.indices((7, 6)))
    whole = measurements.picker("leaf", unit)(CELLS, unit, cell)
    order = np.random.default_rng(0).permutation(42)[:17]
    ordered = measurements.picker("leaf", unit[order])(CELLS, unit[order], cell[order])
    assert np.array_equal(ordered, whole[order])
    for k in (0, 20, 41):
        one = unit[k : k + 1]
        assert measurements.picker("leaf", one)(CELLS, one, cell[k : k + 1])[0] == whole[k]


@pytest.mark.parametrize("noise", [None, Recorded(1000)])
def test_every_answer_of_some_units_is_what_is_drawn_one_by_one(noise: Any):
    """Units by units: marginals and cells; a structural zero has neither noise nor people."""
    possible = SCHEMA.possible
    assert not possible.all()
    got = Measurements(by_level(village()), settings(zcdp("1/2")), noise or keyed(), run=2)
    for level in VILLAGE.levels:
        size = VILLAGE.size(level)
        unit, cell = (i.ravel().astype(np.int64) for i in np.indices((size, 6)))
        cells = got.picker(level, unit)(CELLS, unit, cell).reshape(size, 6) * possible
        for units in (None, range(size), range(size // 2, size), range(1)):
            some = slice(None) if units is None else slice(units.start, units.stop)
            assert np.array_equal(got.values(level, CELLS, units), cells[some])
            for query, groups in (("kind", 3), ("age", 2)):
                one, group = (i.ravel().astype(np.int64) for i in np.indices((size, groups)))
                whole = got.picker(level, one)(query, one, group).reshape(size, groups)
                assert np.array_equal(got.values(level, query, units), whole[some])


def test_noise_has_the_variance_it_is_weighted_by():
    """Sample variance of some 40,000 answers within 5 of its standard errors; a control is not."""
    place = tree(("leaf", [3500]))
    empty = np.zeros((3500, 6), dtype=np.int64)
    levels = by_level(counts_of(empty, place))
    for loss in (pure(1), zcdp("1/5")):
        measurements = Measurements(levels, settings(loss), keyed(7), run=0)
        for query in ("kind", "age"):
            got = measurements.values("leaf", query).ravel()
            noise = measurements.planned.get(("leaf", query))
            assert noise is not None
            error = np.std(got.astype(float) ** 2) / np.sqrt(len(got))
            assert abs((got.astype(float) ** 2).mean() - 1 / noise.weight) < 5 * error
            assert abs((got.astype(float) ** 2).mean() - 4 / noise.weight) > 5 * error


def test_no_loss_means_no_noise_and_draws_nothing():
    noise: Any = Recorded(5)
    measurements = Measurements(by_level(village()), settings(None), noise, run=0)
    assert np.array_equal(measurements.values("leaf", "age"), answers(PEOPLE, AGE))
    assert noise.asked == []


@examples(max_examples=30)
@given(st.permutations(range(12)), st.integers(0, 3))
def test_a_truth_with_entries_out_of_order_or_twice_is_measured_right(order, double):
    """What a caller builds by hand need not be sorted."""
    place = tree(("leaf", [2]))
    cells = np.arange(1, 13).reshape(2, 6)
    first, second = ([k % 6 for k in order if k // 6 == u] for u in (0, 1))
    index = np.array([*first, *first[:double], *second])
    value = np.concatenate(
        [cells[0][first] - (np.arange(6) < double), np.ones(double), cells[1][second]]
    ).astype(np.int64)
    matrix = csr_array((value, index, [0, 6 + double, 12 + double]), shape=(2, 6))
    counts = replace(counts_of(cells, place), matrix=matrix)
    unit, cell = (i.ravel().astype(np.int64) for i in np.indices((2, 6)))
    got = Measurements(by_level(counts), settings(None), keyed(), run=0)
    assert np.array_equal(got.picker("leaf", unit)(CELLS, unit, cell), cells.ravel())


def test_the_distance_to_the_truth_is_exact_but_for_its_noise():
    counts = village()
    released = counts.matrix.copy()
    released.data[:3] += 2
    noise: Any = Recorded(-7)
    noise_law = TwoSidedGeometric(Fraction(1, 200))
    got = distance_to_truth(counts, released, law=noise_law, noise=noise, run=0)
    assert got == 6 - 7
    ((stream, law, draw, index),) = noise.asked
    assert (stream.query, law, draw) == ("distance to the truth", noise_law, 0)
    assert index.tolist() == [0]


@pytest.mark.parametrize("loss", [pure(1), zcdp(1)])
def test_no_float_between_the_truth_and_the_noisy_answers(loss, monkeypatch):
    def floats() -> list[str]:
        def work() -> None:
            measurements = Measurements(by_level(village()), settings(loss), keyed(), run=0)
            measurements.values("leaf", "age")
            measurements.picker("leaf", np.arange(7))(CELLS, np.arange(7), np.arange(7) % 6)
            law = TwoSidedGeometric(HALF)
            distance_to_truth(village(), village().matrix, law=law, noise=keyed(), run=0)

        return floats_on_the_way(work, [measure])

    assert floats() == []
    draw = Measurements._draw
    monkeypatch.setattr(Measurements, "_draw", lambda *given: draw(*given) * 1.0)
    assert floats() != []


@pytest.mark.parametrize("loss", [pure(10**3), pure(10**6), zcdp(10**3), zcdp(10**6)])
def test_noise_that_is_never_drawn_has_a_weight_all_the_same(loss):
    """A variance below every float once divided by zero; the release is then the truth."""
    made = dense(small.run(settings(loss), village()))
    assert same(made, {level: counts.dense() for level, counts in by_level(village()).items()})


@pytest.mark.parametrize("loss", [pure("1/100000000000000"), zcdp(Fraction(1, 10**26))])
def test_noise_too_wide_for_floats_is_refused_before_a_loss(loss):
    with pytest.raises(
        PrivacyError, match=r"'\w+' at 'whole': noise: (rate|sigma2): found \d+(/\d+)?, expected 1/"
    ):
        settings(loss).on(village().domain).check(village())


def test_more_people_than_floats_count_are_refused_before_a_loss():
    many = replace(village(), matrix=village().matrix * 2**40)
    with pytest.raises(InputError, match=r"found more than 2\^40 people, expected counts that fl"):
        settings(pure(1)).on(many.domain).check(many)
