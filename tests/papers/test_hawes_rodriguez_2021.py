"""The study hawes-rodriguez-2021: its parts against brute force, its verdicts against mischief."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import nan

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array
from scipy.stats import t as student

from headcount.comparison.cases import releases
from headcount.errors import ConfigError, InputError
from headcount.evaluation.reidentified import MODAL, PROPORTIONAL, RECORDS
from headcount.geography import Geography
from headcount.mechanisms import Tabulated, protect
from headcount.mechanisms.suppression.rules import Thresholds, race_tables
from headcount.mechanisms.swapping.households import moved_population
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.mechanisms.swapping.risk import standing
from headcount.population.population import Households
from headcount.population.towns import towns
from headcount.privacy import ApproximateLoss, UnitOfPrivacy, ZCDPLoss
from headcount.privacy.convert import zcdp_to_approximate
from headcount.release import Release
from headcount.release.published import PublishedCells, is_total
from headcount.schema import Attribute
from headcount_papers.frame.claims import read_claims, verdicts
from headcount_papers.hawes_rodriguez_2021.accuracy import (
    ALONE,
    RACE_ALONE,
    TOTAL,
    categories,
    errors,
    errors_of_race_alone,
    race_alone,
)
from headcount_papers.hawes_rodriguez_2021.counted import added_up
from headcount_papers.hawes_rodriguez_2021.crossing import find_crossing
from headcount_papers.hawes_rodriguez_2021.measures import withheld
from headcount_papers.hawes_rodriguez_2021.methods import (
    COMPLEMENTARY,
    HI,
    LIKE_2010,
    LO,
    MICRODATA,
    MIDDLING,
    NONE,
    SUPPRESSION,
    TOPDOWN,
    Method,
    compared_by_race,
    methods,
    methods_table,
)
from headcount_papers.hawes_rodriguez_2021.product_2020 import APRIL, APRIL_4, RACES_ALONE
from headcount_papers.hawes_rodriguez_2021.recovered import recovered_table
from headcount_papers.hawes_rodriguez_2021.scores import percent, reid_table
from headcount_papers.hawes_rodriguez_2021.settings import (
    DELTA,
    Settings,
    households_digest,
    rho_for,
    seed_of,
)
from headcount_papers.hawes_rodriguez_2021.setup import Setup, prepare

LIMITS = Thresholds()


def claims_table(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    return verdicts("headcount_papers.hawes_rodriguez_2021", tables)["claims"]


@pytest.fixture(scope="module")
def state() -> Households:
    return towns(seed=5, people=1_500, counties=3)


@pytest.fixture(scope="module")
def setup(state: Households) -> Setup:
    return prepare(state, seed=1)


def method_named(name: str, settings: Settings | None = None) -> Method:
    return next(m for m in methods(settings or Settings()) if m.name == name)


def released(setup: Setup, name: str) -> Release:
    counts = setup.counts
    return protect(setup.data, method_named(name).mechanism(counts.schema, counts.geography))


def test_the_two_settings_of_the_slides_are_the_presets():
    for name, preset in ((LO, "lo"), (HI, "hi")):
        assert method_named(name)._swapping() == HouseholdSwapping.from_preset(preset)


def test_the_swap_like_2010_keeps_people_and_adults_of_blocks_and_takes_uniques_first(
    state: Households,
):
    mechanism = method_named(LIKE_2010)._swapping()
    made = mechanism.swap(state, np.random.default_rng(3))
    after = made.households

    def in_blocks(people: Households, which: np.ndarray) -> np.ndarray:
        return np.bincount(people.block[people.dwelling][which], minlength=len(tree.units[-1]))

    tree = state.geography
    for years in (0, 18):
        before, then = (people.persons["age"] >= years for people in (state, after))
        assert np.array_equal(in_blocks(state, before), in_blocks(after, then))
    assert mechanism.risk is not None
    unique = standing(state, mechanism.risk).unique & state.is_household
    moved = made.partner >= 0
    assert 0 < moved.sum() <= 0.04 * state.is_household.sum() + 1
    assert moved[unique].mean() > 5 * moved[state.is_household].mean()


def test_every_published_rate_has_a_method_of_this_study():
    known = {one.name for one in methods(Settings())}
    known |= {name + MICRODATA for name in known if name.startswith(TOPDOWN)}
    known |= {MODAL, PROPORTIONAL}
    rows = [
        row[0]
        for claim in read_claims("headcount_papers.hawes_rodriguez_2021")
        if claim.table == "reid_draws"
        for row in claim.published
    ]
    assert len(rows) == 21
    assert set(rows) <= known
    assert NONE not in rows  # what the slides compare with was swapped


def test_the_grid_has_every_rate_with_each_noise_and_no_name_twice():
    names = [method.name for method in methods(Settings())]
    assert len(names) == len(set(names)) == 3 + 1 + 4 * 8 + 2 * 4
    assert {"swapping 10 %", "swapping 25 %, size noise 80 %"} <= set(names)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(16)])
def test_rho_is_the_largest_that_is_worth_epsilon(epsilon: Fraction):
    def worth(rho: Fraction) -> float:
        loss = ZCDPLoss(rho=rho, unit=UnitOfPrivacy.CHANGE_ONE)
        value = zcdp_to_approximate(loss, delta=DELTA).value
        assert isinstance(value, ApproximateLoss)
        return float(value.epsilon)

    rho = rho_for(epsilon)
    assert worth(rho) <= epsilon < worth(rho * Fraction(1002, 1000))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilons": ()}, "epsilons: found none, expected distinct numbers above 0"),
        ({"epsilons": (Fraction(1), Fraction(1))}, "epsilons: found 1, 1"),
        ({"epsilons": (Fraction(-1),)}, "epsilons: found -1"),
        ({"replicates": 0}, "replicates: found 0, expected 1 to 1,000"),
    ],
)
def test_settings_that_make_no_sense(given, said: str):
    with pytest.raises(ConfigError, match=said):
        Settings(**given)


def test_a_geography_without_tracts_is_refused(state: Households):
    tree = state.geography
    above = tree.ancestors("county", of="block_group")
    flat = Geography(
        ("state", "county", "block_group", "block"),
        (tree.units[0], tree.units[1], tree.units[3], tree.units[4]),
        (tree.parents[0], tree.parents[1], above, tree.parents[4]),
    )
    other = Households(
        "x",
        flat,
        state.person_attributes,
        state.dwelling_attributes,
        state.kinds,
        state.block,
        state.kind,
        state.first,
        state.persons,
        state.dwellings,
    )
    with pytest.raises(InputError, match="found no level 'tract', expected levels named state, co"):
        prepare(other, seed=1)


def test_people_without_an_attribute_are_refused(state: Households):
    fewer = tuple(one for one in state.person_attributes if one.name != "hispanic")
    other = Households(
        "x",
        state.geography,
        fewer,
        state.dwelling_attributes,
        state.kinds,
        state.block,
        state.kind,
        state.first,
        {one.name: state.persons[one.name] for one in fewer},
        state.dwellings,
    )
    with pytest.raises(InputError, match="found no attribute 'hispanic', expected people with se"):
        prepare(other, seed=1)


def test_reconstructions_of_a_swap_make_the_swapped_tables(setup: Setup):
    counts = setup.counts
    mechanism = method_named(HI)._swapping()
    swapped = mechanism.swap(setup.households, np.random.default_rng(3))
    moved = Tabulated.of(moved_population(setup.data.population, swapped.households))
    matrix = moved.counts.matrix
    exact = released(setup, NONE)
    found = setup.reconstructed(replace(exact.as_counts(), tables={"block": matrix}))
    for one in setup.tables:
        cells = one.on(counts.schema).matrix
        assert np.array_equal((found @ cells).toarray(), (matrix @ cells).toarray())
    same = np.flatnonzero(np.asarray(abs(matrix - counts.matrix).sum(axis=1)).reshape(-1) == 0)
    assert len(same) > 0
    assert (abs(found[same] - setup.solved.matrix[same])).sum() == 0
    assert (abs(setup.reconstructed(exact) - setup.solved.matrix)).sum() == 0


def test_blocks_of_zero_variability_are_recovered_exactly(setup: Setup):
    certain = np.flatnonzero(setup.certain)
    assert len(certain) > 5
    assert abs(setup.solved.matrix[certain] - setup.counts.matrix[certain]).sum() == 0


def block_tables(release: Release) -> dict[str, PublishedCells]:
    return {one.name: one for one in release.as_tables().published if one.level == "block"}


def test_the_rules_of_1980_hide_what_they_say_and_no_more(setup: Setup):
    people = setup.counts.totals()
    release = released(setup, SUPPRESSION)
    truth = {
        name: (setup.counts.matrix @ one.cells.matrix).toarray()
        for name, one in block_tables(release).items()
    }
    for name, one in block_tables(release).items():
        shown = ~one.withheld
        if name in ("P1", "P2", "P8", "P9"):
            small = (truth[name] < 3) & ~is_total(one.cells)
            assert shown.all()
            assert np.array_equal(one.value, np.where(small, 0, truth[name]))
            assert one.zero_hides == 2
            continue
        assert np.array_equal(one.value[shown], truth[name][shown])
        closed = ((truth["P1"][:, :1] > 0) & (truth["P1"][:, :1] < 15))[:, 0]
        if name in ("P3", "P4", "P10", "P11"):
            decides = "P1" if name in ("P3", "P10") else "P2"
            inner = block_tables(release)[decides].cells.inner
            groups = truth[decides][:, inner]
            closed = ((groups > 0) & (groups < 15)).any(axis=1)
        else:
            assert np.array_equal(closed, (people > 0) & (people < 15))
        assert np.array_equal(one.withheld, np.repeat(closed[:, None], one.cells.size, axis=1))


@pytest.fixture(scope="module")
def left(setup: Setup) -> Release:
    return released(setup, COMPLEMENTARY)


def test_the_complement_withholds_all_small_counts_and_hardly_a_total_above_the_block(
    setup: Setup, left: Release
):
    for one in left.as_tables().published:
        if one.name not in ("P1", "P2", "P3", "P4"):
            continue
        truth = (setup.counts.at(one.level).matrix @ one.cells.matrix).toarray()
        spared = is_total(one.cells) & (one.name in ("P1", "P2") and one.level != "block")
        assert np.array_equal(one.value[~one.withheld], truth[~one.withheld])
        assert one.withheld[:, spared].sum() <= 0.1 * len(truth)
        assert one.withheld[(truth == 1) | (truth == 2)].all()
        assert one.holds == 1
        assert not one.withheld[truth == 0].any()


def test_what_the_complement_withholds_is_counted_and_has_witnesses(setup: Setup):
    case = method_named(COMPLEMENTARY).case(setup.counts.schema, setup.geography, runs=range(1))
    (found,) = (withheld(one) for one in releases(case, setup.data, seed=7))
    block = found.filter(table="P2", level="block").row(0, named=True)
    assert block["total"] == 14 * (setup.counts.totals() > 0).sum()
    assert 0 < block["withheld"] < block["total"]
    assert set(found["unprotected"]) == {0}


def test_withheld_counts_have_no_error(setup: Setup, left: Release):
    hidden = [
        replace(one, withheld=np.ones_like(one.withheld), value=np.zeros_like(one.value))
        if one.name == "P1" and one.level in ("county", "block")
        else one
        for one in left.as_tables().published
    ]
    for one in hidden:
        if one.name == "P1" and one.level == "county":
            one.withheld[0] = False
    release = replace(left.as_tables(), published=tuple(hidden))
    found = errors(setup.counts, release, areas=setup.households.areas)
    county = found.filter(area="county", size_category="all")
    assert set(county["units"]) == {1}
    assert "place" not in found["area"].to_list()  # no block's people are known


def test_recovered_cells_by_plain_loops(setup: Setup):
    found = recovered_table(setup.counts, LIMITS)
    counts = setup.counts
    races = race_tables()["P1"].on(counts.schema)
    values = (counts.matrix @ races.matrix).toarray()[:, races.inner]
    changed = again = by_total = 0
    for row in values:
        shown = [0 if value in (1, 2) else value for value in row]
        zeros, missing = shown.count(0), sum(row) - sum(shown)
        for value in row:
            if value in (1, 2):
                changed += 1
                again += sum(row) > 14
                by_total += zeros == 1 or missing == 2 * zeros
    row = found.filter(table="P1", level="block").row(0, named=True)
    assert (row["changed"], row["from_p12"], row["from_total"]) == (changed, again, by_total)
    assert changed > 0


def test_errors_by_plain_loops(setup: Setup):
    counts = setup.counts
    exact, other = released(setup, NONE), counts.matrix.copy()
    other.data = other.data + (np.arange(len(other.data)) % 3 == 0)
    found = errors(counts, replace(exact.as_counts(), tables={"block": other}))
    county = counts.geography.ancestors("county")
    before, after = np.zeros(3), np.zeros(3)
    np.add.at(before, county, counts.totals())
    np.add.at(after, county, np.asarray(other.sum(axis=1)).reshape(-1))
    total = found.filter(area="county", statistic="total population")
    assert total.filter(size_category="all")["mae"][0] == pytest.approx(abs(after - before).mean())
    for low, high, label in ((0, 1_000, "under 1,000"), (1_000, 5_000, "1,000 to 4,999")):
        inside = (before >= low) & (before < high)
        row = total.filter(size_category=label)
        assert row.height == inside.any()
        if row.height:
            assert row["units"][0] == inside.sum()
            assert row["mae"][0] == pytest.approx(abs(after - before)[inside].mean())
    assert (errors(counts, exact)["mae"] == 0).all()
    assert categories("place")[1:3] == ("under 500", "500 to 999")


def test_errors_of_race_alone_by_plain_loops(setup: Setup):
    people = race_alone(setup.data.population)
    assert people is not None
    alone = Tabulated.of(people)
    (swap,) = (one for one in compared_by_race(Settings()) if one.name == HI)
    case = swap.case(alone.counts.schema, setup.geography, runs=range(1))
    (one,) = releases(case, alone, seed=7)
    found = errors_of_race_alone(alone.counts, one.release).filter(size_category="all")
    assert found["statistic"].to_list() == [RACE_ALONE + name for name in ALONE]
    race = setup.households.persons["race"]
    county = setup.geography.ancestors("county")[setup.households.block[setup.households.dwelling]]
    shown = csr_array(one.release.as_counts().table("county")).toarray().reshape(3, 2, 38, 7, 2)
    for code, off in enumerate(found["mae"]):
        before = np.bincount(county[race == code], minlength=3)
        assert off == pytest.approx(np.abs(shown.sum(axis=(1, 2, 4))[:, code] - before).mean())
    assert found["mae"].sum() > 0


def test_people_without_all_combinations_of_races_have_no_errors_of_race_alone(
    state: Households, setup: Setup
):
    some = Attribute("race", tuple(f"x{code}" for code in range(63)))
    attributes = tuple(some if one.name == "race" else one for one in state.person_attributes)
    other = replace(state, person_attributes=attributes)
    assert race_alone(replace(setup.data.population, households=other)) is None


def test_states_are_added_up_as_the_nation_is():
    def state_with(withheld: int, total: int) -> pl.DataFrame:
        percent = 100 * withheld / total if total else nan
        row = {"table": "P1", "rule": "cell", "level": "county", "total": total}
        return pl.DataFrame([row | {"withheld": withheld, "percent": percent}])

    found = added_up([state_with(1, 10), state_with(9, 30), state_with(0, 0)])
    row = found.row(0, named=True)
    assert (row["total"], row["withheld"], row["percent"]) == (40, 10, 25)
    assert (row["least"], row["most"]) == (10, 30)


@pytest.mark.parametrize(("tiny", "outcome"), [(0, "not reproduced here"), (1, "reproduced")])
def test_tiny_tracts_are_looked_for_in_every_state(tiny: int, outcome: str):
    tables = made_up(0.98, 0.8)
    rows = tables["withheld_draws"].with_columns(percent=pl.lit(float(tiny)))
    tables["withheld_draws"] = rows.with_columns(table=pl.lit("SF1_person"))
    (found,) = claims_table(tables).filter(id="other tables withheld above").rows(named=True)
    assert (found["outcome"], found["draws"]) == (outcome, DRAWS)


def test_the_ratio_of_equal_wholes_is_a_mean_with_students_interval():
    part, whole = pl.Series([3.0, 5.0, 7.0, 5.0]), pl.Series([10.0] * 4)
    mean, low, high = percent(part, whole)
    reach = 100 * student.ppf(0.975, 3) * (part / whole).to_numpy().std(ddof=1) / 2
    assert (mean, low, high) == pytest.approx((50, 50 - reach, 50 + reach))
    assert percent(pl.Series([1.0]), pl.Series([0.0])) == (None, None, None)
    assert percent(pl.Series([1.0]), pl.Series([4.0])) == (25, None, None)


def test_precision_is_confirmed_over_putative_with_guesses_beside_it():
    rows = [
        {
            "method": NONE,
            "replicate": k,
            "attacker": "a",
            "universe": "all",
            "by": by,
            "people": 10.0,
            "putative": 8.0,
            "confirmed": right + k,
        }
        for k in range(2)
        for by, right in ((RECORDS, 6.0), (MODAL, 3.0), (PROPORTIONAL, 2.0))
    ]
    found = reid_table(pl.DataFrame(rows))
    row = found.filter(method=NONE).row(0, named=True)
    assert (row["putative"], row["confirmed"]) == (8, 6.5)
    assert row["precision"] == pytest.approx(100 * row["confirmed"] / row["putative"]) == 81.25
    assert (row["modal_guess"], row["proportional_guess"]) == (43.75, 31.25)
    assert row["above_proportional"] == pytest.approx(50)
    assert row["above_low"] == pytest.approx(row["above_high"])  # paired: both rise together
    assert found.filter(method=MODAL)["precision"][0] == 43.75
    assert (row["putative_percent"], row["replicates"]) == (80, 2)
    assert row["putative_of_population"] is None  # nobody has everybody in the file


def test_shares_of_the_population_are_of_everybody_not_of_the_file():
    rows = [
        {"method": NONE, "replicate": 0, "attacker": attacker, "universe": "all", "by": by}
        | {"people": people, "putative": 8.0, "confirmed": 4.0}
        for attacker, people in (("perfect", 20.0), ("commercial-like", 10.0))
        for by in (RECORDS, MODAL, PROPORTIONAL)
    ]
    found = reid_table(pl.DataFrame(rows)).filter(method=NONE, attacker="commercial-like")
    row = found.row(0, named=True)
    assert (row["putative_percent"], row["confirmed_percent"]) == (80, 40)
    assert (row["putative_of_population"], row["confirmed_of_population"]) == (40, 20)


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ([(1, 0.0), (4, 10.0)], "about 2 (between 1 and 4)"),
        ([(1, 6.0), (4, 10.0)], "at most 1"),
        ([(1, 0.0), (4, 1.0)], "above 4"),
        ([(1, 9.0), (2, 0.0), (8, 10.0)], "about 4 (between 2 and 8)"),  # the last time it is below
        ([(1, None)], "not known"),
    ],
)
def test_where_topdown_leaves_the_guess(gaps, said: str):
    assert str(find_crossing(gaps)) == said


def test_methods_say_what_they_promise(setup: Setup):
    settings = Settings(epsilons=(Fraction(1),))
    found = methods_table(methods(settings), setup.counts.schema, setup.geography)
    promised = dict(found.select("method", "guarantee").iter_rows())
    assert promised[LO] == promised[HI] == promised[NONE] == "none"
    assert promised["topdown pure, epsilon 1"] == "epsilon 1 when one person's record changes"
    assert promised["topdown zCDP, epsilon 1"].startswith("rho 0.01324 when")


def test_other_people_have_another_digest(state: Households):
    assert households_digest(state) == households_digest(towns(seed=5, people=1_500, counties=3))
    assert households_digest(state) != households_digest(towns(seed=6, people=1_500, counties=3))


def test_states_of_seeds_near_to_each_other_are_all_different():
    seeds = {seed_of(seed, draw) for seed in range(1, 6) for draw in range(1_000)}
    assert len(seeds) == 5_000
    one, other = Settings(people=1_000, replicates=2).drawn()
    assert (one[1], other[1]) == (range(1), range(1, 2))
    assert households_digest(one[0]) != households_digest(other[0])


DRAWS = 8


def made_up(lo: float, hi: float, none: float = 0.37) -> dict[str, pl.DataFrame]:
    """Tables of a study whose swaps come out as given in eight states, a little apart."""
    telling = "nonmodal unique, zero variability"
    rates = {NONE: (none, 0.985), LO: (none - 0.01, lo), HI: (none - 0.07, hi)}
    rates |= {"swapping 25 %": (none - 0.03, 0.9), "suppression complementary": (none, 0.22)}
    rates |= {LIKE_2010: (none - 0.01, lo - 0.02)}
    rates |= {f"topdown {loss}, epsilon 1": (0.3, 0.22) for loss in ("pure", "zCDP")}
    reid = pl.DataFrame(
        [
            {
                "method": name,
                "attacker": attacker,
                "universe": universe,
                "draw": draw,
                "precision": 100 * rate + draw / 10,
                "above_proportional": 2.0,
                "proportional_guess": 20.0,
                "putative_of_population": 45.0,
                "confirmed_of_population": 16.0,
            }
            for draw in range(DRAWS)
            for name, pair in rates.items()
            for attacker in ("perfect", "commercial-like")
            for universe, rate in zip(("all", telling), pair, strict=True)
        ]
    )
    known = [(NONE, "none", "none"), (LO, "swapping", "none")]
    known += [(f"topdown {x}, epsilon 1", TOPDOWN, "epsilon 1") for x in ("pure", "zCDP")]
    levels = ("county", "tract", "block_group", "block")
    withheld = [
        {"table": table, "rule": rule, "level": level, "draw": draw, "percent": 60.0 + draw}
        for table in ("P3", "P4")
        for rule in ("table", "cell")
        for level in levels
        for draw in range(DRAWS)
    ]
    back = [
        {"table": "P1", "level": "block", "draw": draw, "from_p12_percent": 70.0}
        for draw in range(DRAWS)
    ]
    return {
        "reid_draws": reid,
        "methods": pl.DataFrame(known, schema=["method", "kind", "guarantee"], orient="row"),
        "product_draws": errors_of({HI: 3.0, MIDDLING: 2.5, APRIL: 2.0, APRIL_4: 9.0}),
        "withheld_draws": pl.DataFrame(withheld),
        "recovered_draws": pl.DataFrame(back),
    }


def errors_of(known: dict[str, float]) -> pl.DataFrame:
    """Errors of the product's counts by method, the same in every state."""
    return pl.DataFrame(
        [
            {"method": name, "area": area, "statistic": statistic, "draw": draw, "mae": mae}
            for name, mae in known.items()
            for area in ("county", "place")
            for statistic in (TOTAL, RACES_ALONE)
            for draw in range(DRAWS)
        ]
    )


def outcomes(tables: dict[str, pl.DataFrame], of: str) -> list[str]:
    return claims_table(tables).filter(id=of)["outcome"].to_list()


@pytest.mark.parametrize(
    ("lo", "hi", "outcome"), [(0.98, 0.80, "reproduced"), (0.90, 0.95, "not reproduced here")]
)
def test_a_claim_is_judged_by_the_numbers(lo: float, hi: float, outcome: str):
    tables = made_up(lo, hi)
    assert outcomes(tables, "heavy_beside_light") == [outcome] * 2
    assert outcomes(tables, "uniques_first") == ["reproduced"] * 2
    assert outcomes(tables, "extreme") == ["reproduced"]
    assert outcomes(tables, "prevented") == ["not testable here"]  # nobody said what is enough
    assert outcomes(tables, "six months") == ["not testable here"]
    assert outcomes(tables, "below_heavy_swap") == ["reproduced"] * 2  # epsilon 1 alone was run


@pytest.mark.parametrize(("off", "outcome"), [(1.0, "reproduced"), (4.5, "not reproduced here")])
def test_a_light_swap_is_judged_beside_that_of_2010(off: float, outcome: str):
    tables = made_up(0.98, 0.8)
    other = pl.when(method=LO, universe="all").then(36 - off).otherwise("precision")
    tables["reid_draws"] = tables["reid_draws"].with_columns(other.alias("precision"))
    found = claims_table(tables).filter(id="light_swap")
    assert found["outcome"].to_list() == [outcome] * 2
    assert found["source"].to_list() == ["slides", "later report"]


def test_the_printed_fall_of_precision_is_like_ours_or_not():
    tables = made_up(0.98, 0.8)
    slides, later = claims_table(tables).filter(id="heavy_swap").rows(named=True)
    assert (slides["published"], slides["outcome"]) == (0.804, "reproduced")  # 0.83, a tenth off
    none = pl.when(method=HI, universe="all").then(10.0).otherwise("precision").alias("precision")
    tables["reid_draws"] = tables["reid_draws"].with_columns(none)
    assert outcomes(tables, "heavy_swap") == ["not reproduced here"] * 2
    assert later["published"] == 0.868


def test_a_claim_whose_numbers_are_missing_is_left_out():
    tables = made_up(0.98, 0.8)
    tables["reid_draws"] = tables["reid_draws"].filter(pl.col("universe") == "all")
    found = claims_table(tables)
    assert found.filter(pl.col("claim").str.contains("HI protects|swap of 2010 prot")).is_empty()


def test_a_promise_of_swapping_would_be_noticed():
    tables = made_up(0.98, 0.8)
    assert outcomes(tables, "formal") == ["reproduced"]
    known = tables["methods"]
    tables["methods"] = known.with_columns(pl.lit("epsilon 1").alias("guarantee"))
    assert outcomes(tables, "formal") == ["not reproduced here"]


def test_hi_is_judged_beside_the_data_of_april_2021_and_others_stand_beside():
    found = claims_table(made_up(0.98, 0.8))
    april = found.filter(id="less_accurate")
    assert april["outcome"].to_list() == ["reproduced"] * 3
    assert april["finding"][0] == "1.5 times; true in 8 of 8 draws"
    others = found.filter(id="less accurate than others")
    assert set(others["outcome"]) == {"not reproduced here"}  # of APRIL_4 alone, 9 people
    assert set(others["covered_by"]) == {"less_accurate"}
    middling = found.filter(id="middling accuracy")
    assert middling["outcome"].to_list() == ["reproduced"] * 2  # 1.25 is similar
    far = made_up(0.98, 0.8) | {"product_draws": errors_of({HI: 3.0, MIDDLING: 3.0, APRIL: 2.0})}
    assert outcomes(far, "middling accuracy") == ["not reproduced here"] * 2
    nothing = far["product_draws"].clear()
    assert outcomes(far | {"product_draws": nothing}, "less_accurate") == []
