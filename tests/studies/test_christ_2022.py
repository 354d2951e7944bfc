"""The parts of christ-2022 against small computations of another kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.errors import ConfigError, InputError
from headcount.evaluate.representation import (
    HISPANIC_BY_RACE,
    mean_squared_error,
    minorities,
    smoothed_kl,
)
from headcount.mechanisms import protect
from headcount.mechanisms.swapping.rates import AreaSwaps
from headcount.studies.christ_2022.accuracy import (
    FourAttributes,
    released_cells,
    score_noise,
    score_swaps,
)
from headcount.studies.christ_2022.claims import kink, near
from headcount.studies.christ_2022.claims_privacy import expected_change, expected_error
from headcount.studies.christ_2022.detailed import NeighbouringTables, swap_detailed
from headcount.studies.christ_2022.kinks import find_kinks
from headcount.studies.christ_2022.people import Area, Synthetic, national_order, read_table
from headcount.studies.christ_2022.privacy import attack_swaps
from headcount.studies.christ_2022.settings import FOUR, RACE, UNIQUE_BY, Settings
from headcount.studies.christ_2022.swapped import noise_for, swap_all, swapping, unique_rows
from headcount.studies.christ_2022.theory import detailed_combinations, theorem_1, variances
from headcount.studies.frame.claims import MeasuredClaim

SETTINGS = Settings(rates=5, epsilons=4, replicates=6, pool=20_000)


@pytest.fixture(scope="module")
def source() -> Synthetic:
    return Synthetic(seed=2022, pool=20_000)


@pytest.fixture(scope="module")
def area(source: Synthetic) -> Area:
    return source.area("Cibola")


@pytest.fixture(scope="module")
def swaps(area: Area) -> AreaSwaps:
    return swap_all(area, "3-similar", SETTINGS)


def test_rates_and_epsilons_run_from_end_to_end():
    rates, promises = Settings().swap_rates(), Settings().promises()
    assert rates[:3] == (Fraction(0), Fraction(1, 100), Fraction(2, 100))
    assert rates[-1] == 1
    assert len(rates) == 101
    assert (promises[0], promises[-1], len(promises)) == (Fraction(1, 10), Fraction(10), 200)
    with pytest.raises(ConfigError, match=r"christ-2022: rates: found 1, expected 2 to 1,000"):
        Settings(rates=1)


def test_the_order_of_frequency_is_a_permutation_with_whites_first():
    order = national_order()
    assert sorted(order) == list(range(126))
    assert order[0] == 0  # not Hispanic, white


def test_a_lower_rate_is_the_beginning_of_a_higher_one(area: Area, swaps: AreaSwaps):
    unique = unique_rows(swaps.rows, UNIQUE_BY)
    before = np.zeros((SETTINGS.replicates, area.size), dtype=bool)
    for rate in SETTINGS.swap_rates():
        made, taken = swaps.at(rate)
        assert (taken.sum(axis=1) == round(rate * area.size)).all()
        assert (taken | before == taken).all()
        if rate <= Fraction(int(unique.sum()), area.size):
            assert unique[np.nonzero(taken)[1]].all()
        for name, own in swaps.rows.items():
            assert (made[name][~taken] == np.broadcast_to(own, taken.shape)[~taken]).all()
        assert (made["tenure"] == swaps.rows["tenure"]).all()
        before = taken


def test_swaps_of_the_study_are_runs_of_the_mechanism(area: Area, swaps: AreaSwaps):
    """At a rate between, counted cell by cell."""
    rate, counts = SETTINGS.swap_rates()[3], area.with_pool()
    whole = swapping(area, "3-similar")
    noise = noise_for(whole, counts, SETTINGS)
    release = protect(counts, replace(whole, rate=rate), noise, run=4)
    made, _ = swaps.at(rate)
    schema = counts.population.schema
    cell = np.ravel_multi_index([made[name][4] for name in schema.names], schema.shape)
    own = release.at("area")[0]
    assert np.array_equal(np.bincount(cell, minlength=schema.size), own)


def test_accuracy_of_swaps_is_that_of_released_rows(area: Area, swaps: AreaSwaps):
    table = score_swaps(area, swaps, SETTINGS, mechanism="3-similar")
    rate = SETTINGS.swap_rates()[3]
    made, _ = swaps.at(rate)
    tally = [
        Counter(zip(h.tolist(), r.tolist(), strict=True))
        for h, r in zip(made["hispanic"], made["race"], strict=True)
    ]
    released = np.array([[c[h, r] for h in (0, 1) for r in range(63)] for c in tally])
    kl = smoothed_kl(area.truth(), released)
    row = table.filter(
        query=RACE, group="everyone", metric="kl", mu=1e-4, parameter=float(rate)
    ).row(0, named=True)
    assert row["mean"] == pytest.approx(kl.mean())
    assert row["sd"] == pytest.approx(kl.std(ddof=1))
    assert table.filter(parameter=0.0)["mean"].max() == 0
    assert table["clip"].null_count() == table.height


@pytest.mark.parametrize("buckets", [2, 45])
def test_four_attributes_are_scored_as_all_cells_would_be(area: Area, buckets: int):
    query = FourAttributes(area, buckets)
    truth, schema = query.counts.dense()[0], query.counts.schema
    made = np.maximum(released_cells(query.counts, Fraction(4, 5), SETTINGS), 0)
    few = minorities(area.truth())[HISPANIC_BY_RACE.groups(schema)]
    assert truth.sum() == area.size
    found = {(row["group"], row["metric"]): row["mean"] for row in query.rows(made)}
    for group, only in (("everyone", None), ("minorities", few)):
        assert found[group, "kl"] == pytest.approx(smoothed_kl(truth, made, only=only).mean())
        wanted = mean_squared_error(truth, made, only=only).mean()
        assert found[group, "mse"] == pytest.approx(wanted)
    everybody = np.broadcast_to(area.rows["age"], (1, area.size))
    own = {name: np.broadcast_to(column, everybody.shape) for name, column in area.rows.items()}
    assert np.array_equal(query.count(own)[0], truth)


def test_releases_of_the_study_have_the_noise_of_the_stated_epsilon(area: Area):
    query = FourAttributes(area, 6)
    many = Settings(rates=5, epsilons=4, replicates=60, pool=20_000)
    drawn = released_cells(query.counts, Fraction(9, 10), many) - query.counts.dense()[0]
    a = np.exp(-0.9)
    for k in range(1, 6):
        chance = a**k / (1 + a)
        error = np.sqrt(chance * (1 - chance) / drawn.size)
        assert abs((drawn >= k).mean() - chance) < 5 * error
        wrong = np.exp(-1.1 * 0.9) ** k / (1 + np.exp(-1.1 * 0.9))
        assert abs((drawn >= k).mean() - wrong) > 5 * error  # another epsilon is told apart


def test_noise_says_how_it_was_clipped_and_clipping_cells_adds_people(area: Area):
    table = score_noise(area, 45, SETTINGS)
    assert set(table.filter(query=RACE)["clip"]) == {"query", "cell"}
    assert set(table.filter(query=FOUR)["clip"]) == {"query = cell"}
    mse = table.filter(query=RACE, metric="mse", group="everyone", parameter=0.1)
    by_clip = dict(mse.select("clip", "mean").iter_rows())
    assert by_clip["cell"] > 10 * by_clip["query"]


def test_the_attack_agrees_with_one_row_by_row(area: Area, swaps: AreaSwaps):
    rate, width = SETTINGS.swap_rates()[2], 15
    table = attack_swaps(area, swaps, SETTINGS, mechanism="3-similar")
    made, taken = swaps.at(rate)
    few = minorities(area.truth())[area.group(swaps.rows)]
    wanted: dict[tuple[str, str], list[int]] = {}
    for run in range(SETTINGS.replicates):
        keys = list(
            zip(
                made["age"][run] // width,
                made["race"][run],
                made["household_size"][run],
                strict=True,
            )
        )
        where = {key: row for row, key in enumerate(keys)}
        alone = {key for key, count in Counter(keys).items() if count == 1}
        right: Counter[tuple[str, str]] = Counter()
        for row in range(area.size):
            key = (
                swaps.rows["age"][row] // width,
                swaps.rows["race"][row],
                swaps.rows["household_size"][row],
            )
            if key not in alone:
                continue
            hit = where[key]
            told = made["hispanic"][run, hit] == swaps.rows["hispanic"][row]
            for rule, same in (
                ("slot", hit == row),
                ("person", hit == row and not taken[run, hit]),
                ("value", True),
            ):
                for group in ("everyone", "minorities") if few[row] else ("everyone",):
                    right[rule, group] += bool(same and told)
        for rule in ("slot", "person", "value"):
            for group in ("everyone", "minorities"):
                wanted.setdefault((rule, group), []).append(right[rule, group])
    for (rule, group), counts in wanted.items():
        scored = table.filter(
            identity_rule=rule, group=group, bucket_width=width, rate=float(rate)
        ).row(0, named=True)
        assert scored["confirmed"] == pytest.approx(np.mean(counts))
        assert scored["percent"] == pytest.approx(100 * np.mean(counts) / scored["people"])
        assert scored["confirmed_one_to_one"] <= scored["confirmed"]
    end = table.filter(identity_rule="person", rate=1.0)
    assert end["confirmed"].max() == 0


def test_neighbours_on_fifteen_attributes_are_those_of_a_full_scan(source: Synthetic):
    area = source.area("Cibola", detailed=True)
    near_by = NeighbouringTables(area)
    assert area.order is not None
    order = np.argsort(area.order)
    rank = {
        side: order[rows["race"].astype(int) * 2 + rows["hispanic"]]
        for side, rows in (("here", area.rows), ("there", area.pool))
    }
    for row in (0, 100, 500):
        away = np.abs(rank["there"] - rank["here"][row])
        for name in set(area.rows) - {"race", "hispanic", "tenure"}:
            gap = np.abs(area.pool[name].astype(int) - int(area.rows[name][row]))
            away = np.maximum(away, gap)
        for k in (1, 3):
            least = max(k, int(away.min()))
            assert set(near_by.within(row, k)) == set(np.flatnonzero(away <= least))


def test_fifteen_attributes_are_swapped_with_uniques_first(source: Synthetic):
    few = Settings(rates=2, epsilons=2, replicates=2, pool=20_000)
    area = source.area("Cibola", detailed=True)
    assert len(area.rows) == 15
    made = swap_detailed(area, "0-similar", few)
    unique = unique_rows(area.rows, tuple(area.rows))
    assert unique.mean() > 0.95
    assert (np.sort(made.turn, axis=1) == np.arange(area.size)).all()
    assert made.turn[:, unique].max() < made.turn[:, ~unique].min(initial=area.size)


def test_kinks_are_found_where_lines_meet():
    x = np.linspace(0, 1, 41)
    levels = np.minimum(x, 0.25)
    rises = levels + 3 * np.maximum(x - 0.7, 0)
    one = find_kinks(x, [levels, rises, np.zeros(41)], bends=1)
    two = find_kinks(x, [levels, rises, np.zeros(41), x**2], bends=2)
    assert one[0] is not None
    assert one[0].at == pytest.approx(0.25)
    assert one[0].explained == pytest.approx(1)
    assert one[1] is not None
    assert one[1].at > 0.6
    assert two[1] is not None
    assert two[1].at == pytest.approx(0.25)
    assert two[1].before == pytest.approx(1)
    assert two[1].after == pytest.approx(0, abs=1e-9)
    assert one[2] is two[2] is None
    assert two[3] is None  # ever steeper


def test_tolerances_and_curves_without_a_kink():
    assert near(12, 16.9, points=5)
    assert near(100, 129, points=5)
    assert not near(12, 18, points=5)
    assert not near(100, 131, points=5)
    assert not near(0.25, 0.33, points=0.05)
    same = {"curve": "kl", "attributes": 6, "county": "x", "bends": 2}
    curves = {"a": 0.25, "b": None, "c": None}
    kinks = pl.DataFrame([{**same, "mechanism": name, "kink": at} for name, at in curves.items()])
    found = kink({"kinks": kinks}, county="x", bends=2, printed=0.25)
    assert found == MeasuredClaim(true=1, of=3, finding="a 0.25, b none, c none")  # none is a miss
    assert kink({"kinks": kinks}, county="y", bends=2, printed=0.25) is None


def test_theorem_1_is_judged_as_expectation_and_as_error(source: Synthetic):
    """Washington is like its state: shares move by chance, and errors do not cancel."""
    table = theorem_1(source.area("Washington"), SETTINGS)
    change, error = (judge({"theorem_1": table}) for judge in (expected_change, expected_error))
    assert (table["expected_absolute_change"] >= table["expected_change"].abs()).all()
    simulated = table["simulated_absolute_change"] / table["expected_absolute_change"]
    assert ((simulated - 1).abs() < 0.25).all()
    assert change.true == change.of == table.height
    assert (error.true, error.of) == (0, 1)
    wrong = expected_change({"theorem_1": table.with_columns(pl.col("expected_change") + 0.05)})
    assert wrong.true is not None
    assert 2 * wrong.true <= table.height


def test_variances_are_the_printed_ones_and_simulated():
    table = variances(SETTINGS)
    assert ((table["paper"] - table["exact"]).abs() < 1e-3).all()
    assert ((table["simulated"] / table["exact"] - 1).abs() < 0.06).all()
    assert detailed_combinations() == 411_505_920 * 6


PEOPLE = pl.DataFrame(
    {
        "tract": ["a", "a", "b", "b"],
        "age": [3, 97, 40, 41],
        "sex": ["f", "m", "f", "m"],
        "race": ["2", "10", "2", "2"],
        "hispanic": [True, False, False, False],
        "household_size": [1, 7, 2, 2],
    }
)


def test_a_table_of_ones_own(tmp_path: Path):
    for ending, write in (("csv", PEOPLE.write_csv), ("parquet", PEOPLE.write_parquet)):
        path = tmp_path / f"people.{ending}"
        write(path)
        table = read_table(path, column="tract", names=("a",))
        area = table.area("a")
        assert area.rows["age"].tolist() == [3, 90]
        assert area.rows["hispanic"].tolist() == [1, 0]
        assert area.rows["household_size"].tolist() == [0, 3]
        assert area.rows["race"].tolist() == [1, 0]
        assert area.pool["age"].tolist() == [40, 41]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (PEOPLE.drop("race"), r"column 'race': found no such column, expected one of"),
        (PEOPLE.with_columns(age=pl.lit("old")), r"'age': found 'old', expected whole numbers"),
        (PEOPLE.with_columns(hispanic=pl.lit("maybe")), r"found 'maybe', expected 0 or 1"),
        (PEOPLE.with_columns(sex=pl.lit(None, pl.String)), r"'sex': found an empty value"),
        (PEOPLE.with_columns(tract=pl.lit("a")), r"'tract': found one area, expected people"),
        (PEOPLE.head(0), r"found no rows, expected at least one"),
    ],
)
def test_a_table_that_will_not_do(change: pl.DataFrame, message: str, tmp_path: Path):
    change.write_csv(tmp_path / "people.csv")
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "people.csv", column="tract")


def test_areas_that_are_not_there_or_too_many(tmp_path: Path):
    path = tmp_path / "people.csv"
    PEOPLE.write_csv(path)
    with pytest.raises(InputError, match=r"found no area 'z', expected one of a, b"):
        read_table(path, column="tract", names=("z",))
    with pytest.raises(InputError, match=r"found no such file, expected a .parquet or .csv"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "people.doc").write_text("x")
    with pytest.raises(InputError, match=r"found a file ending in '.doc', expected"):
        read_table(tmp_path / "people.doc")
    PEOPLE.with_columns(tract=pl.Series(["a", "a", "a", "b"])).write_csv(path)
    with pytest.raises(InputError, match=r"area 'a': found more than half of all people"):
        read_table(path, column="tract", names=("a",))
    many = pl.concat([PEOPLE.with_columns(tract=pl.lit(str(n))) for n in range(10)])
    many.write_csv(path)
    with pytest.raises(InputError, match=r"--counties: found 10 areas .* and none chosen"):
        read_table(path, column="tract")


def test_an_unknown_county_is_named():
    with pytest.raises(InputError, match=r"found county 'Kings', expected one of"):
        Synthetic(names=("Kings",), seed=1)
