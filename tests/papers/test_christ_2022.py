"""The parts of christ-2022 against small computations of another kind."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.comparison.cases import seeded_noise
from headcount.errors import ConfigError, InputError
from headcount.evaluation.representation import (
    HISPANIC_BY_RACE,
    _mean_squared_error,
    minorities,
    smoothed_kl,
)
from headcount.mechanisms import protect
from headcount_papers.christ_2022.accuracy import FourAttributes, score_noise, score_swaps
from headcount_papers.christ_2022.cases import (
    noise_cases,
    released_cells,
    swap_cases,
    swapped,
    unique_rows,
)
from headcount_papers.christ_2022.detailed import READINGS, swap_detailed
from headcount_papers.christ_2022.kinks import find_kinks, kink_table
from headcount_papers.christ_2022.people import (
    Area,
    Synthetic,
    national_order,
    read_table,
    with_pool,
)
from headcount_papers.christ_2022.pieces import about
from headcount_papers.christ_2022.places import DWELLING
from headcount_papers.christ_2022.privacy import attack_swaps
from headcount_papers.christ_2022.rates import AreaSwaps
from headcount_papers.christ_2022.settings import FOUR, RACE, UNIQUE_BY, Settings
from headcount_papers.christ_2022.theory import combinations, theorem_1, theorem_2, variances

SETTINGS = Settings(draws=2, rates=5, epsilons=4, replicates=6, pool=20_000)
GRID = SETTINGS.full


@pytest.fixture(scope="module")
def source() -> Synthetic:
    return Synthetic(seed=2022, pool=20_000)


@pytest.fixture(scope="module")
def area(source: Synthetic) -> Area:
    return source.area("Cibola")


@pytest.fixture(scope="module")
def swaps(area: Area) -> AreaSwaps:
    cases = swap_cases([area], runs=GRID.runs, swappers=["3-similar"])
    (made,) = swapped([area], cases, seed=SETTINGS.seed)
    return made


def test_rates_and_epsilons_run_from_end_to_end():
    rates, promises = Settings().full.rates, Settings().full.epsilons
    assert rates[:3] == (Fraction(0), Fraction(1, 100), Fraction(2, 100))
    assert rates[-1] == 1
    assert len(rates) == 101
    assert (promises[0], promises[-1], len(promises)) == (Fraction(1, 10), Fraction(10), 200)
    with pytest.raises(ConfigError, match=r"christ-2022: rates: found 1, expected 2 to 1,000"):
        Settings(rates=1)
    with pytest.raises(
        ConfigError, match=r"christ-2022: people: found 3, expected 0, or 50 to 10,000"
    ):
        Settings(people=3)
    assert "people 600 to 1500" in Settings(people=0).source.key()


def test_the_reduced_grid_is_never_finer_than_the_full_one():
    usual, small = Settings().reduced, SETTINGS.reduced
    assert (len(usual.rates), len(usual.epsilons), usual.runs) == (24, 9, 4)
    assert (usual.epsilons[0], usual.epsilons[-1]) == (Fraction(2), Fraction(10))
    assert (len(small.rates), len(small.epsilons), small.runs) == (6, 4, 4)


def test_the_order_of_frequency_is_a_permutation_with_whites_first():
    order = national_order()
    assert sorted(order) == list(range(126))
    assert order[0] == 0  # not Hispanic, white


def test_a_lower_rate_is_the_beginning_of_a_higher_one(area: Area, swaps: AreaSwaps):
    unique = unique_rows(swaps.rows, UNIQUE_BY)
    before = np.zeros((GRID.runs, area.size), dtype=bool)
    for rate in GRID.rates:
        made = swaps.at(rate)
        taken = made.swapped
        assert (taken.sum(axis=1) == round(rate * area.size)).all()
        assert (taken | before == taken).all()
        if rate <= Fraction(int(unique.sum()), area.size):
            assert unique[np.nonzero(taken)[1]].all()
        for name, own in swaps.rows.items():
            assert (made.records[name][~taken] == np.broadcast_to(own, taken.shape)[~taken]).all()
        assert (made.records["tenure"] == swaps.rows["tenure"]).all()
        before = taken


def test_swaps_of_the_study_are_releases_of_the_mechanism(area: Area, swaps: AreaSwaps):
    """At a rate between, counted cell by cell."""
    data, made = with_pool([area]), swaps.at(GRID.rates[3])
    noise = seeded_noise(swaps.mechanism, seed=SETTINGS.seed, digest=data.digest)
    release = protect(data, made.mechanism, noise, run=4)
    schema = data.counts.schema
    cell = np.ravel_multi_index([made.records[name] for name in schema.names], schema.shape)
    assert np.array_equal(made.counts(cell, schema.size)[4], release.at("area")[0])


def test_block_groups_of_a_county_differ_and_share_a_pool(source: Synthetic):
    areas = [source.area("Cibola", draw) for draw in (0, 1)]
    assert areas[0].pool is areas[1].pool
    assert not np.array_equal(areas[0].rows["age"], areas[1].rows["age"])
    cases = swap_cases(areas, runs=2, swappers=["random"])
    first, second = swapped(areas, cases, seed=1)
    assert [one.mechanism.area for one in (first, second)] == ["Cibola", "Cibola 1"]
    assert first.people == second.people == 1090
    assert [about(one)["draw"] for one in areas] == [0, 1]


def test_accuracy_of_swaps_is_that_of_released_rows(area: Area, swaps: AreaSwaps):
    table = score_swaps(area, swaps, GRID, mechanism="3-similar")
    rate = GRID.rates[3]
    made = swaps.at(rate).records
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
    (case,) = noise_cases([Fraction(4, 5)], runs=GRID.runs)
    made = np.maximum(released_cells(case, query.counts, seed=SETTINGS.seed), 0)
    few = minorities(area.truth())[HISPANIC_BY_RACE.groups(schema)]
    assert truth.sum() == area.size
    found = {(row["group"], row["metric"]): row["mean"] for row in query.rows(made)}
    for group, only in (("everyone", None), ("minorities", few)):
        assert found[group, "kl"] == pytest.approx(smoothed_kl(truth, made, only=only).mean())
        wanted = _mean_squared_error(truth, made, only=only).mean()
        assert found[group, "mse"] == pytest.approx(wanted)


def test_releases_of_the_study_have_the_noise_of_the_stated_epsilon(area: Area):
    query = FourAttributes(area, 6)
    (case,) = noise_cases([Fraction(9, 10)], runs=60)
    drawn = released_cells(case, query.counts, seed=SETTINGS.seed) - query.counts.dense()[0]
    a = np.exp(-0.9)
    for k in range(1, 6):
        chance = a**k / (1 + a)
        error = np.sqrt(chance * (1 - chance) / drawn.size)
        assert abs((drawn >= k).mean() - chance) < 5 * error
        wrong = np.exp(-1.1 * 0.9) ** k / (1 + np.exp(-1.1 * 0.9))
        assert abs((drawn >= k).mean() - wrong) > 5 * error  # another epsilon is told apart


def test_noise_says_how_it_was_clipped_and_clipping_cells_adds_people(area: Area):
    table = score_noise(area, 45, GRID, seed=SETTINGS.seed)
    assert set(table.filter(query=RACE)["clip"]) == {"query", "cell"}
    four = score_noise(area, 2, GRID, seed=SETTINGS.seed).filter(query=FOUR)
    assert set(four["clip"]) == {"query = cell"}
    mse = table.filter(query=RACE, metric="mse", group="everyone", parameter=0.1)
    by_clip = dict(mse.select("clip", "mean").iter_rows())
    assert by_clip["cell"] > 10 * by_clip["query"]


def test_the_attack_agrees_with_one_row_by_row(area: Area, swaps: AreaSwaps):
    rate, width = GRID.rates[2], 15
    table = attack_swaps(area, swaps, GRID, mechanism="3-similar")
    made, taken = swaps.at(rate).records, swaps.at(rate).swapped
    few = minorities(area.truth())[area.group(swaps.rows)]
    wanted: dict[tuple[str, str], list[int]] = {}
    for run in range(GRID.runs):
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


@pytest.mark.parametrize("reading", READINGS)
def test_fifteen_attributes_are_swapped_as_the_reading_says(source: Synthetic, reading: str):
    area = source.area("Cibola", detailed=True)
    assert len(area.rows) == 15
    swaps = swap_detailed(area, reading, "1-similar", runs=1, seed=1)
    unique = unique_rows(area.rows, tuple(area.rows))
    assert unique.mean() > 0.9
    assert (np.sort(swaps.turn, axis=1) == np.arange(area.size)).all()
    assert swaps.turn[:, unique].max() < swaps.turn[:, ~unique].min(initial=area.size)
    made = swaps.at(Fraction(1))
    kept = {n for n, own in area.rows.items() if (made.records[n] == own).all()}
    assert (
        kept
        == {
            "dwelling stays": set(DWELLING),
            "household stays": {*DWELLING, "household_size"},
            "alike in everything": {"tenure"},
        }[reading]
    )
    apart = np.abs(made.records["year_built"][0].astype(int) - area.rows["year_built"])
    if reading == "alike in everything":
        assert np.median(apart) <= 2
    assert np.abs(made.records["age"][0].astype(int) - area.rows["age"]).mean() < 8


def test_what_is_the_dwellings_is_the_same_for_housemates(source: Synthetic):
    rows = source.area("Cibola", detailed=True).rows
    together = rows["household_size"] == 1  # households of two stand side by side
    pairs = {name: codes[together].reshape(-1, 2) for name, codes in rows.items()}
    for name in (*DWELLING, "race", "hispanic"):
        assert (pairs[name][:, 0] == pairs[name][:, 1]).all()
    assert (pairs["age"][:, 0] != pairs["age"][:, 1]).any()


def test_kinks_are_found_where_lines_meet():
    x = np.linspace(0, 1, 41)
    levels = np.minimum(x, 0.25)
    rises = levels + 3 * np.maximum(x - 0.7, 0)
    found = find_kinks(x, [levels, rises, np.zeros(41)])
    assert found[0] is not None
    assert found[0].at == pytest.approx(0.25)
    assert found[0].before == pytest.approx(1)
    assert found[0].after == 0  # exactly, on any processor
    assert found[0].explained == pytest.approx(1)
    assert found[1] is not None
    assert found[1].at > 0.6
    assert found[2] is None
    half = x <= 0.5
    (early,) = find_kinks(x[half], [rises[half]])
    assert early is not None
    assert early.at == pytest.approx(0.25)  # the late rise is out of its range


def test_kinks_are_fitted_to_both_ranges(area: Area, swaps: AreaSwaps):
    accuracy = score_swaps(area, swaps, GRID, mechanism="3-similar")
    privacy = attack_swaps(area, swaps, GRID, mechanism="3-similar", rules=("slot",))
    table = kink_table(accuracy, privacy, pl.DataFrame([about(area)]))
    assert set(table["fitted_to"]) == {0.5, 1.0}
    assert table.filter(curve="kl").height == 2
    assert table.filter(curve="identified").height == 2 * 3
    share = unique_rows(area.rows, UNIQUE_BY).mean()
    assert table["unique_share"].unique().to_list() == pytest.approx([share])


def test_theorem_1_is_an_expectation_and_not_an_error(source: Synthetic):
    """Washington is like its state: shares move by chance, and errors do not cancel."""
    table = theorem_1(source.area("Washington"), seed=SETTINGS.seed)
    assert (table["expected_absolute_change"] >= table["expected_change"].abs()).all()
    simulated = table["simulated_absolute_change"] / table["expected_absolute_change"]
    assert ((simulated - 1).abs() < 0.25).all()
    off = (table["simulated_change"] - table["expected_change"]).abs() / table["standard_error"]
    assert (off < 3.5).all()
    wrong = (table["simulated_change"] - table["expected_change"] - 0.05).abs()
    assert (wrong / table["standard_error"] > 3.5).all()  # another expectation is told apart


def test_theorem_2_bounds_what_is_simulated(area: Area):
    table = theorem_2(area, seed=1)
    slack = 4 * (table["simulated"] * (1 - table["simulated"]) / 400).sqrt() + 0.005
    assert (table["lower"] <= table["simulated"] + slack).all()
    assert (table["simulated"] <= table["upper"] + slack).all()
    late = table.filter(people=100_000, unique=1).row(0, named=True)
    early = table.filter(people=1_000, unique=1).row(0, named=True)
    assert late["simulated"] < early["simulated"]


def test_variances_are_the_printed_ones_and_simulated():
    table = variances(SETTINGS.seed)
    assert ((table["paper"] - table["exact"]).abs() < 1e-3).all()
    assert ((table["simulated"] / table["exact"] - 1).abs() < 0.06).all()
    cells = dict(combinations().select("buckets", "combinations").head(3).iter_rows())
    assert cells == {2: 8, 6: 24, 45: 180}
    assert combinations()["combinations"][3] == 411_505_920 * 6


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
