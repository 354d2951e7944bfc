"""Perturbation tables: published rows, exactness, and settings that have no law."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from headcount.errors import ConfigError
from headcount.mechanisms.cell_key import perturbation
from headcount.mechanisms.cell_key.lookup import (
    ByColumn,
    ByInterval,
    column_laws,
    column_row,
    column_table,
)
from headcount.mechanisms.cell_key.perturbation import (
    STAYS,
    WORD,
    ChangeLaw,
    PerturbationLimits,
    exact_row,
    perturbation_rows,
    whole_weights,
)
from headcount.mechanisms.cell_key.tables import (
    cell_deltas,
    cycle_of,
    delta_between,
    facts_of,
    laws_of,
    published_law,
)
from tests.mechanisms.cell_key.words import stream_words

HALF = Fraction(1, 2)
LEAST, SLACK = 1e-8, Fraction(1, 2**30)  # of these tests: what rows may miss is under test
TABLES = {
    "2, 1": PerturbationLimits(2, Fraction(1)),
    "2, 1.05, 1": PerturbationLimits(2, Fraction(21, 20), 1),
    "3, 1.5, 1": PerturbationLimits(3, Fraction(3, 2), 1),
    "5, 3": PerturbationLimits(5, Fraction(3)),
    "5, 3, 2, .5": PerturbationLimits(5, Fraction(3), 2, HALF),
    "3, 1": PerturbationLimits(3, Fraction(1)),
}
ROWS = {name: perturbation_rows(limits) for name, limits in TABLES.items()}

# Table, count, {published count: probability}, variance: the R package ptable.
PEER: list[tuple[str, int, dict[int, float], float]] = [
    ("2, 1", 1, {0: 0.366486, 1: 0.366486, 2: 0.167572, 3: 0.099457}, 0.93188),
    ("2, 1", 2, {0: 0.063827, 1: 0.244691, 2: 0.382963, 3: 0.244691, 4: 0.063827}, 1),
    ("2, 1.05, 1", 1, {0: 0.508333, 2: 0.475000, 3: 0.016667}, 1.05),
    ("2, 1.05, 1", 2, {0: 0.161558, 2: 0.555650, 3: 0.242466, 4: 0.040325}, 1.05),
    ("2, 1.05, 1", 3, {2: 0.366486, 3: 0.366486, 4: 0.167572, 5: 0.099457}, 0.93188),
    ("2, 1.05, 1", 4, {2: 0.070125, 3: 0.244500, 4: 0.370750, 5: 0.244500, 6: 0.070125}, 1.05),
    ("3, 1.5, 1", 3, {0: 0.051171, 2: 0.296432, 3: 0.328767, 4: 0.217535, 5: 0.085871,
                      6: 0.020223}, 1.5),
    ("3, 1.5, 1", 5, {2: 0.017922, 3: 0.088987, 4: 0.232749, 5: 0.320682, 6: 0.232749,
                      7: 0.088987, 8: 0.017922}, 1.5),
    ("5, 3", 1, {0: 0.388938, 1: 0.388938, 2: 0.122093, 3: 0.056394, 4: 0.026048, 5: 0.012031,
                 6: 0.005557}, 1.30247),
    ("5, 3", 5, {0: 0.003792, 1: 0.016591, 2: 0.052293, 3: 0.118730, 4: 0.194193, 5: 0.228801,
                 6: 0.194193, 7: 0.118730, 8: 0.052293, 9: 0.016591, 10: 0.003792}, 3),
    ("5, 3, 2, .5", 3, {0: 0.187376, 3: 0.500000, 4: 0.156298, 5: 0.090814, 6: 0.043242,
                        7: 0.016874, 8: 0.005396}, 3),
    ("5, 3, 2, .5", 8, {3: 0.011585, 4: 0.025395, 5: 0.046760, 6: 0.072317, 7: 0.093943,
                        8: 0.500000, 9: 0.093943, 10: 0.072317, 11: 0.046760, 12: 0.025395,
                        13: 0.011585}, 3),
]  # fmt: skip

# Eurostat's test table for 100,000 keys: D = 3, V = 1; changes and probabilities.
EUROSTAT = {
    1: {-1: 0.36987, 0: 0.36988, 1: 0.17107, 2: 0.06870, 3: 0.02048},
    2: {-2: 0.06028, -1: 0.24724, 0: 0.39149, 1: 0.23934, 2: 0.05650, 3: 0.00515},
    3: {-3: 0.00451, -2: 0.05434, -1: 0.24204, 0: 0.39821, 1: 0.24204, 2: 0.05434, 3: 0.00451},
}


@pytest.mark.parametrize(("table", "count", "law", "variance"), PEER)
def test_rows_are_those_of_the_r_package(table, count, law, variance):
    row = ROWS[table][count]
    found = {count + v: float(p) for v, p in row.probabilities.items()}
    assert found == pytest.approx(law, abs=1e-6)
    assert float(row.variance) == pytest.approx(variance, abs=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_are_those_of_the_table_that_eurostat_published(count):
    """In whole keys of 100,000, as it was published, each number is the same or the next one."""
    keys = {v: round(p * 100_000) for v, p in ROWS["3, 1"][count].probabilities.items()}
    published = {v: round(p * 100_000) for v, p in EUROSTAT[count].items()}
    assert keys.keys() == published.keys()
    assert all(abs(keys[v] - published[v]) <= 1 for v in keys)


def test_tables_end_with_the_row_that_serves_all_larger_counts():
    assert [len(ROWS[name]) - 1 for name in ("2, 1", "3, 1.5, 1", "5, 3, 2, .5")] == [2, 5, 8]
    for rows in ROWS.values():
        assert rows[0] == STAYS
        assert rows[-1].changes == tuple(-v for v in reversed(rows[-1].changes))


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_exact(name):
    """Sum 2^64, mean 0; variance, stay, monotony and the least probability within 2^-30."""
    limits = TABLES[name]
    for n, row in enumerate(ROWS[name]):
        assert sum(row.weights) == WORD
        assert row.mean == 0
        assert row.variance <= limits.variance + SLACK
        assert all(abs(v) <= limits.largest for v in row.changes)
        assert not any(1 <= n + v <= limits.blocked for v in row.changes)
        law = row.probabilities
        if n and limits.stay is not None and 0 in law:
            assert law[0] >= limits.stay - SLACK
        if n:
            assert min(law.values()) >= LEAST - SLACK
        if 0 in law:
            assert all(law[v] <= law[w] + SLACK for v, w in pairwise(v for v in law if v <= 0))


def test_without_monotony_the_row_of_one_has_more_entropy():
    free = perturbation_rows(PerturbationLimits(2, Fraction(1), monotone=False))[1]

    def entropy(row: ChangeLaw) -> float:
        p = np.array([float(q) for q in row.probabilities.values()])
        return float(-(p * np.log(p)).sum())

    assert entropy(free) > entropy(ROWS["2, 1"][1]) + 1e-4
    assert free.mean == 0


def least_by_lp(n: int, limits: PerturbationLimits) -> float:
    """The least variance of a law for a count of n, by linear programming."""
    v = np.array(
        [
            j - n
            for j in range(n + limits.largest + 1)
            if n - limits.largest <= j and not 1 <= j <= limits.blocked
        ]
    )
    rises = np.diff(np.eye(len(v)), axis=0)[: int((v < 0).sum())]  # p_w - p_v, v < w <= 0
    held = limits.monotone and 0 in v
    found = linprog(
        v**2,
        A_ub=-rises if held else None,
        b_ub=np.zeros(len(rises)) if held else None,
        A_eq=np.vstack([np.ones(len(v)), v]),
        b_eq=[1, 0],
        bounds=[(float(limits.stay or 0) if x == 0 else 0, 1) for x in v],
    )
    assert found.status == 0
    return float(found.fun)


def some_limits() -> list[PerturbationLimits]:
    """Settings around the least variance, where laws begin to exist, and anywhere."""
    rng = np.random.default_rng(30)
    out = [PerturbationLimits(3, Fraction(1), 1)]
    while len(out) < 300:
        largest = int(rng.choice([1, 2, 3, 4, 5, 7, 10]))
        blocked = int(rng.integers(largest))
        beyond = Fraction(int(rng.integers(-1, 2)), int(rng.choice([1, 10**3, 10**6, 10**9])))
        near = (blocked + 1) ** 2 // 4 + beyond
        anywhere = Fraction(int(rng.integers(1, 1000 * largest**2 + 1)), 1000)
        stay = (None, HALF, Fraction(999, 1000), 1 - Fraction(1, 10**9))[rng.integers(4)]
        limits = PerturbationLimits(
            largest, near if rng.random() < 0.7 else anywhere, blocked, stay, rng.random() < 0.8
        )
        if 0 < limits.variance <= largest**2:
            out.append(limits)
    return out


def test_a_variance_is_refused_exactly_where_no_law_exists():
    refused = 0
    for limits in some_limits():
        last = limits.largest + limits.blocked + 1
        least = max(round(least_by_lp(n, limits), 7) for n in range(1, last + 1))
        if limits.variance < least:
            refused += 1
            with pytest.raises(ConfigError, match=f"expected at least {least:.0f}: a count of "):
                perturbation_rows(limits)
            limits = limits._replace(variance=Fraction(round(least)))
        for n, row in enumerate(perturbation_rows(limits)):
            law = row.probabilities
            assert sum(law.values()) == 1
            assert row.mean == 0
            assert row.variance <= limits.variance + SLACK
            assert not n or law.get(0, 1) >= (limits.stay or 0) - SLACK
            assert all(abs(v) <= limits.largest and n + v >= 0 for v in law)
            assert not any(1 <= n + v <= limits.blocked for v in law)
            if limits.monotone and 0 in law:
                assert all(law[v] <= law[w] + SLACK for v, w in pairwise(v for v in law if v <= 0))
    assert 30 < refused < 200


def test_a_large_variance_may_be_missed_by_that_part_of_it():
    """The solver's sum is 2e-11 short, which at a change of -24 is 1e-8 of a variance of 210."""
    limits = PerturbationLimits(40, Fraction(210), 28, Fraction(1, 10**9))
    off = perturbation._row(24, limits).variance - limits.variance
    assert off <= 210 * SLACK


def test_at_the_smallest_variance_two_changes_are_the_only_law():
    assert perturbation_rows(PerturbationLimits(3, Fraction(1), 1))[1].probabilities == {
        -1: HALF,
        1: HALF,
    }
    row = perturbation_rows(PerturbationLimits(4, Fraction(2), 2))[
        1
    ]  # thirds, in multiples of 2^-64
    assert {v: float(p) for v, p in row.probabilities.items()} == pytest.approx(
        {-1: 2 / 3, 2: 1 / 3, 3: 0}
    )
    assert row.mean == 0
    with pytest.raises(
        ConfigError,
        match="cell-key: variance: found 199/100, expected at least 2: a count of 1 becomes 0, or "
        "3 or more, and stays 1 on average",
    ):
        perturbation_rows(PerturbationLimits(4, Fraction(199, 100), 2))


def test_a_variance_that_the_solver_cannot_tell_from_the_smallest_has_a_law():
    """At D = 4, V = 1e-6 the solver misses the variance by 1e-8 and makes -3 likelier than -2."""
    limits = PerturbationLimits(4, Fraction(1, 10**6), 0, HALF)
    law = perturbation_rows(limits)[3].probabilities
    assert float(law[-1]) == pytest.approx(5e-7, abs=1e-8)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (PerturbationLimits(0, Fraction(1)), "maximum: found 0, expected 1 or more"),
        (PerturbationLimits(2, Fraction(0)), "variance: found 0, expected more than 0"),
        (
            PerturbationLimits(2, Fraction(1), 2),
            "blocked: found 2, expected 0 to 1, less than the largest",
        ),
        (PerturbationLimits(2, Fraction(1), -1), "blocked: found -1, expected 0 to 1"),
        (
            PerturbationLimits(2, Fraction(1), 0, Fraction(1)),
            "stay: found 1, expected 0 or more, less than 1",
        ),
    ],
)
def test_settings_out_of_range_are_refused(limits, message):
    with pytest.raises(ConfigError, match=message):
        perturbation_rows(limits)


def test_a_law_is_made_exact_with_mean_zero():
    row = exact_row((-1, 0, 1), np.array([0.2500000001, 0.5, 0.25]))
    assert sum(row.weights) == WORD
    assert row.mean == 0
    assert float(row.probabilities[-1]) == pytest.approx(0.25, abs=1e-9)
    with pytest.raises(ConfigError, match=r"changes -2, 0, 2 of a count, none of them one apart"):
        exact_row((-2, 0, 2), np.array([0.2500000001, 0.5, 0.25]))


def test_a_row_that_misses_its_bounds_is_refused(monkeypatch):
    monkeypatch.setattr(
        perturbation, "_most_entropy", lambda changes, limits: np.full(len(changes), 0.2)
    )
    with pytest.raises(ConfigError, match=r"misses a bound by more than 2\^-30"):
        perturbation._row(4, PerturbationLimits(2, Fraction(1)))


def test_weights_that_do_not_sum_to_one_are_no_row():
    with pytest.raises(ConfigError, match=f"found weights that sum to 7, expected .* {WORD}"):
        ChangeLaw((0, 1), (3, 4))
    with pytest.raises(ConfigError, match="weights of 0 or more"):
        ChangeLaw((0, 1), (-1, WORD + 1))


def test_what_is_left_over_never_makes_a_weight_negative():
    row = whole_weights((-1, 0, 1), [Fraction(51, 100), Fraction(0), Fraction(50, 100)])
    assert row.weights[1] == 0
    assert float(row.probabilities[-1]) == pytest.approx(0.5)


# -- columns --------------------------------------------------------------------------------


def best_columns_by_trying(row: ChangeLaw, columns: int) -> float:
    """The smallest distance of whole columns with mean 0, by trying three steps either way."""
    exact = [float(p) * columns for p in row.probabilities.values()]
    states = {(0, 0): 0.0}
    for v, x in zip(row.changes, exact, strict=True):
        after: dict[tuple[int, int], float] = {}
        for (many, moment), cost in states.items():
            for c in range(max(int(x) - 3, 0), int(x) + 5):
                key, new = (many + c, moment + v * c), cost + abs(c - x)
                if new < after.get(key, np.inf):
                    after[key] = new
        states = after
    return states[(columns, 0)]


@pytest.mark.parametrize("columns", [256, 4096])
def test_columns_are_the_nearest_to_the_law_that_keep_the_mean(columns):
    for row in ROWS["2, 1.05, 1"][1:]:
        found = column_row(row, columns)
        assert found.mean == 0
        assert not any(w % (WORD // columns) for w in found.weights)
        many = [w * columns // WORD for w in found.weights]
        exact = [float(p) * columns for p in row.probabilities.values()]
        distance = sum(abs(c - x) for c, x in zip(many, exact, strict=True))
        assert distance == pytest.approx(best_columns_by_trying(row, columns), abs=1e-6)


def largest_remainders(row: ChangeLaw, columns: int) -> ChangeLaw:
    parts = [divmod(w * columns, WORD) for w in row.weights]
    many = [c for c, _ in parts]
    most = sorted(range(len(parts)), key=lambda k: -parts[k][1])[: columns - sum(many)]
    share = WORD // columns
    return ChangeLaw(row.changes, tuple((c + (k in most)) * share for k, c in enumerate(many)))


def test_largest_remainders_would_move_the_mean():
    rows = [row for name in ("5, 3", "3, 1.5, 1") for row in ROWS[name][1:]]
    assert sum(largest_remainders(row, 256).mean != 0 for row in rows) > len(rows) / 3
    assert all(column_row(row, 256).mean == 0 for row in rows)


def test_a_law_without_whole_columns_of_mean_zero_says_its_mean():
    """Changes of -1 and 2 need a third of the columns: 256 are not divisible by three."""
    third = whole_weights((-1, 2), [Fraction(2, 3), Fraction(1, 3)])
    found = column_row(third, 256)
    assert [w * 256 // WORD for w in found.weights] == [171, 85]
    assert found.mean == Fraction(-1, 256)


def test_a_table_of_columns_has_the_laws_of_its_rows_in_an_order_of_its_own():
    rows = [STAYS, *(column_row(row, 256) for row in ROWS["2, 1"][1:])]
    table = column_table(rows, 256, words=stream_words(1))
    assert table.shape == (2, 256)
    assert column_laws(table) == tuple(rows)
    assert not np.array_equal(table, np.sort(table, axis=1))
    assert np.array_equal(table, column_table(rows, 256, words=stream_words(1)))
    assert not np.array_equal(table, column_table(rows, 256, words=stream_words(2)))


def test_a_number_of_columns_that_is_no_power_of_two_is_refused():
    with pytest.raises(ConfigError, match="columns: found 100, expected a power of two"):
        column_row(ROWS["2, 1"][1], 100)


# -- delta ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "at_zero", "between_large"),
    [("2, 1", 0.634, 0.135), ("5, 3", 0.611, 0.017), ("3, 1.5, 1", 0.424, 0.058)],
)
def test_deltas_at_epsilon_one_are_those_of_the_fact_sheet(table, at_zero, between_large):
    found = cell_deltas(ROWS[table], epsilon=1.0)
    assert found[0] == max(found)
    assert found[0] == pytest.approx(at_zero, abs=5e-4)
    assert found[-1] == pytest.approx(between_large, abs=5e-4)


def test_deltas_of_a_table_of_the_ons_are_those_of_the_rows_that_large_counts_use_in_turn():
    changes = np.zeros((760, 256), dtype=np.int64)
    changes[500, :192] = -1  # a count of 501, and so of 751, is one less three times in four
    changes[755:] = 9  # rows that no count uses
    lookup = ByColumn(changes)
    keys = np.arange(256, dtype=np.uint64) << np.uint64(56)
    found = {n: lookup.changes(np.full(256, n), keys) for n in (501, 750, 751, 756, 1001)}
    assert [int(some.sum()) for some in found.values()] == [-192, 0, -192, 0, -192]
    laws, cycle = laws_of(lookup), cycle_of(lookup)
    assert (len(laws), cycle) == (751, 250)
    deltas = cell_deltas(laws, epsilon=1.0, cycle=cycle)
    later = published_law(laws, 751, cycle=cycle)
    assert later == {751: Fraction(1, 4), 750: Fraction(3, 4)}
    assert deltas[750] == delta_between({750: Fraction(1)}, later, epsilon=1.0) == 1 / 4
    assert facts_of(laws, cycle=cycle)["largest_change"] == 1
    assert cycle_of(ByColumn(changes[:749])) == cycle_of(ByInterval(laws)) == 1


def test_delta_is_the_largest_advantage_over_all_sets_of_answers():
    """By trying every set of published counts, in both directions."""
    one, other = published_law(ROWS["2, 1"], 1), published_law(ROWS["2, 1"], 2)
    answers = sorted({*one, *other})
    best = 0.0
    for choice in range(1 << len(answers)):
        some = [a for k, a in enumerate(answers) if choice >> k & 1]
        for p, q in ((one, other), (other, one)):
            gap = sum(float(p.get(a, 0)) - np.exp(0.5) * float(q.get(a, 0)) for a in some)
            best = max(best, gap)
    assert delta_between(one, other, epsilon=0.5) == pytest.approx(best, abs=1e-12)
    assert delta_between(one, one, epsilon=0.5) == 0
