"""The study flaxman-2019 end to end on a small population, and its numbers on the real one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import exp, log
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

from headcount.comparison.cache import Cache
from headcount.comparison.cases import releases
from headcount.comparison.study import Findings, Work
from headcount.errors import ConfigError, InputError, PrivacyError
from headcount.mechanisms import Geometric, Sampling, protect, protect_runs
from headcount.noise import DiscreteGaussian, KeyedNoise, RunKey, Stream, TwoSidedGeometric
from headcount.population.uniform import uniform
from headcount.tabulate import tabulate
from headcount_papers.flaxman_2019.cases import case, counted
from headcount_papers.flaxman_2019.direct import (
    audit_table,
    direct_runs,
    direct_table,
    move_one,
    votes,
)
from headcount_papers.flaxman_2019.law import averaged_loss
from headcount_papers.flaxman_2019.pooled import epl_means, figure_1
from headcount_papers.flaxman_2019.settings import (
    EXACT,
    FIGURE_1,
    MECHANISMS,
    PUBLISHED,
    Settings,
    Variant,
)
from headcount_papers.flaxman_2019.study import judge, run
from headcount_papers.frame.published_noise import (
    AsPublished,
    GeometricByRatio,
    PublishedNoise,
    published_loss,
)
from headcount_papers.raked import Raked
from tests.engines.by_files import ByFiles

SMALL = Settings(
    seed=3,
    replicates=2,
    people=40_000,
    mean=100,
    moved=(0, 100),
    direct_runs=60,
    audit_runs=200,
    audit_epsilon=Fraction(4),
    swept={"epsilon": (Fraction(1, 5),), "depth": (2,), "kernel_factor": (0.1, 0.3)},
)
WORK = Work(cache=Cache(), engine=ByFiles())


@pytest.fixture(scope="module")
def small() -> Findings:
    return run(SMALL, WORK)


# --- the whole study --------------------------------------------------------------------------


def test_tables_have_the_agreed_columns(small: Findings) -> None:
    tables = small.tables
    epl = ["mechanism", "epsilon", "residual_sd", "median_abs_residual", "median_abs_epl"]
    assert tables["epl"].columns == tables["epl_exact"].columns == [*epl, "max_abs_epl"]
    assert tables["direct"].columns == [
        *("mechanism", "epsilon", "event", "k", "log_ratio", "audit_epsilon_lower", "confidence")
    ]
    assert {"parameter", "value", "mechanism", "median_abs_epl"} <= set(tables["sweep"].columns)
    assert {"epl_replicates", "raked_levels", "claims", "losses", "audit"} <= set(tables)


def test_tables_have_the_agreed_rows(small: Findings) -> None:
    tables = small.tables
    cases = {(name, float(epsilon)) for name in MECHANISMS for epsilon in SMALL.epsilons}
    for name in ("epl", "epl_exact"):
        assert set(tables[name].select("mechanism", "epsilon").iter_rows()) == cases
        assert tables[name].null_count().sum_horizontal().item() == 0
    by_event = tables["direct"].group_by("mechanism", "event").agg(pl.col("k").min(), n=pl.len())
    assert by_event.filter(pl.col("event") == "eq").select("k", "n").unique().rows() == [(-10, 21)]
    assert by_event.filter(pl.col("event") == "ge").select("k", "n").unique().rows() == [(-8, 17)]
    assert by_event.height == 6
    assert tables["epl_replicates"].height == 2 * 9 * 2
    assert tables["raked_levels"].height == 3 * 3 * 4
    assert tables["sweep"].height == 3 * 4


def test_epl_is_the_mean_of_its_replicates(small: Findings) -> None:
    rows = small.tables["epl_replicates"].filter(
        (pl.col("variant") == PUBLISHED)
        & (pl.col("mechanism") == "averaged")
        & (pl.col("epsilon") == 0.1)
    )
    mean = small.tables["epl"].filter(
        (pl.col("mechanism") == "averaged") & (pl.col("epsilon") == 0.1)
    )
    assert mean["residual_sd"].item() == pytest.approx(rows["residual_sd"].mean())
    assert rows["residual_sd"].n_unique() == 2


def test_the_same_seed_gives_the_same_study_and_another_does_not(small: Findings) -> None:
    again = run(SMALL, WORK).tables
    for name, table in small.tables.items():
        assert_frame_equal(table, again[name])
    made = figure_1(replace(SMALL, seed=4), WORK, variants=(EXACT,))
    other = epl_means(made["replicates"], EXACT)
    assert not other.equals(small.tables["epl_exact"])


def test_runs_do_not_depend_on_how_they_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SMALL, replicates=3)
    whole = figure_1(settings, WORK)["replicates"]
    monkeypatch.setattr("headcount.mechanisms._chain.NOISE_AT_ONCE", 1)
    assert_frame_equal(figure_1(settings, WORK)["replicates"], whole)


def test_raked_keeps_its_error_at_every_level_and_geometric_does_not(small: Findings) -> None:
    at = {
        (row["mechanism"], row["level"]): row["median_abs_residual"]
        for row in small.tables["raked_levels"]
        .filter(pl.col("epsilon") == 0.1)
        .iter_rows(named=True)
    }
    assert at["raked", "level_1"] < 3 * at["raked", "level_3"]
    assert at["geometric", "level_1"] > 3 * at["geometric", "level_3"]


def test_bad_settings_say_what_was_expected() -> None:
    with pytest.raises(ConfigError, match="areas 0 and 9261, expected two areas of 0 to 9260"):
        Settings(moved=(0, 9261))
    with pytest.raises(ConfigError, match="moved: found areas 5 and 5"):
        Settings(moved=(5, 5))
    with pytest.raises(ConfigError, match=r"epsilons: found .*, expected distinct numbers above 0"):
        Settings(epsilons=(Fraction(1, 10), Fraction(1, 10)))
    with pytest.raises(ConfigError, match=r"epsilons: found 2, expected below 1: the paper's code"):
        Settings(epsilons=(Fraction(2),))
    with pytest.raises(ConfigError, match=r"mechanisms: found raked, rake, expected some of geome"):
        Settings(mechanisms=("raked", "rake"))
    with pytest.raises(ConfigError, match=r"--mean: found 1 areas, expected 2 or more"):
        Settings(people=100, mean=100)
    with pytest.raises(ConfigError, match=r"--mean: found --population own.toml beside them"):
        Settings(population=Path("own.toml"), mean=50)
    with pytest.raises(ConfigError, match="replicates: found 0, expected 1 or more"):
        Settings(replicates=0)


def test_somebody_moves_as_far_as_in_the_paper_or_as_far_as_there_is() -> None:
    assert Settings().pair == (0, 1001)
    assert Settings(people=1000, depth=1).pair == (0, 9)
    assert Settings(moved=(3, 2)).pair == (3, 2)


def test_figure_1_has_the_papers_epsilons_or_the_nearest() -> None:
    assert Settings().figure_1 == FIGURE_1
    some = Settings(mechanisms=("averaged", "geometric"), epsilons=(Fraction(1, 4), Fraction(1, 2)))
    assert some.figure_1 == {"geometric": Fraction(1, 4), "averaged": Fraction(1, 4)}
    assert not Settings(depth=2).judged
    assert some.judged


# --- against the published numbers ------------------------------------------------------------


def test_published_numbers_come_out_again() -> None:
    table = judge(figure_1(Settings(replicates=6), WORK)["replicates"])["claims"]
    assert table.height == 21
    assert table["tolerance"].null_count() == 1  # raked at 0.025 is set by near-zero denominators
    assert set(table["draws"]) == {6}
    assert "not reproduced here" not in set(table["outcome"])
    assert set(table.filter(pl.col("headline") > 0)["outcome"]) <= {"reproduced", "undecided"}


def test_a_wrong_mechanism_does_not_pass_the_comparison() -> None:
    """Negative control: 10 % less noise, as if epsilon were larger, is found."""
    runs = figure_1(Settings(replicates=12), WORK)["replicates"]
    right = judge(runs)["claims"].filter(id="residual_sd")["outcome"]
    assert "not reproduced here" not in set(right)
    wrong = judge(runs.with_columns(pl.col("residual_sd") * 0.9))["claims"]
    assert set(wrong.filter(id="residual_sd")["outcome"]) == {"not reproduced here"}


def test_published_loss_is_above_the_stated_one() -> None:
    assert published_loss(Fraction(1, 10)) == pytest.approx(-log(0.9))
    assert published_loss(Fraction(1, 10), shares=4) == pytest.approx(-4 * log(1 - 0.025))
    with pytest.raises(PrivacyError, match=r"found epsilon 1 in one draw, .* less than 1"):
        published_loss(Fraction(1))


def test_losses_name_both_units(small: Findings) -> None:
    rows = {
        (r["variant"], r["mechanism"]): (r["true_loss_add_remove"], r["true_loss_change_one"])
        for r in small.tables["losses"].filter(pl.col("epsilon") == 0.1).iter_rows(named=True)
    }
    assert rows[EXACT, "geometric"] == pytest.approx((0.1, 0.2))
    assert rows[EXACT, "raked"] == pytest.approx((0.1, 0.15))
    assert rows[PUBLISHED, "geometric"] == pytest.approx((-log(0.9), -2 * log(0.9)))
    assert rows[PUBLISHED, "raked"] == pytest.approx((-4 * log(0.975), -6 * log(0.975)))


# --- the published variant of the noise -------------------------------------------------------


def noise(variant: str) -> KeyedNoise | PublishedNoise:
    base = KeyedNoise(RunKey.from_seed(1), "test", b"data", b"config")
    return PublishedNoise(base) if variant == PUBLISHED else base


@pytest.mark.parametrize("variant", [EXACT, PUBLISHED])
def test_noise_follows_its_law_and_not_the_other(variant: Variant) -> None:
    """At epsilon 0.5 the ratios are exp(-0.5) = 0.607 and 0.5: each fits one sample only."""
    stream = Stream("leaf", "cells", 20_000)
    drawn = noise(variant).draw(stream, TwoSidedGeometric(Fraction(1, 2)), draws=range(1))
    ratios = {EXACT: exp(-0.5), PUBLISHED: 0.5}
    fits = {name: _fit(np.abs(drawn).ravel(), ratio) for name, ratio in ratios.items()}
    wrong: Variant = EXACT if variant == PUBLISHED else PUBLISHED
    assert fits[variant] > 0.001
    assert fits[wrong] < 1e-10


def _fit(size: np.ndarray, ratio: float) -> float:
    """Chi-square p-value of |noise| against (1-r)/(1+r) r^|k|, the tail in one bin."""
    top = 8
    chance = 2 * (1 - ratio) / (1 + ratio) * ratio ** np.arange(top)
    chance[0] /= 2
    expected = np.append(chance, 1 - chance.sum()) * size.size
    observed = np.bincount(np.minimum(size, top), minlength=top + 1)
    return float(stats.chisquare(observed, expected).pvalue)


def test_published_noise_at_places_is_that_of_the_whole_draw() -> None:
    stream, index = Stream("leaf", "cells", 50), np.array([3, 40], dtype=np.int64)
    source = noise(PUBLISHED)
    whole = source.draw(stream, TwoSidedGeometric(Fraction(1, 10)), draws=range(2))
    some = source.draw_at(stream, TwoSidedGeometric(Fraction(1, 10)), draw=1, index=index)
    assert np.array_equal(some, whole[1, index])


def test_other_laws_pass_through_unchanged() -> None:
    stream, index = Stream("leaf", "cells", 9), np.array([2], dtype=np.int64)
    ours, base = noise(PUBLISHED), noise(EXACT)
    ratio, variance = Fraction(1, 3), Fraction(4)
    for a, b in (
        (
            ours.draw(stream, GeometricByRatio(ratio), draws=range(1)),
            base.draw(stream, GeometricByRatio(ratio), draws=range(1)),
        ),
        (
            ours.draw(stream, DiscreteGaussian(variance), draws=range(1)),
            base.draw(stream, DiscreteGaussian(variance), draws=range(1)),
        ),
        (
            ours.draw_at(stream, GeometricByRatio(ratio), draw=0, index=index),
            base.draw_at(stream, GeometricByRatio(ratio), draw=0, index=index),
        ),
        (
            ours.draw_at(stream, DiscreteGaussian(variance), draw=0, index=index),
            base.draw_at(stream, DiscreteGaussian(variance), draw=0, index=index),
        ),
    ):
        assert np.array_equal(a, b)


def test_no_release_can_be_made_with_published_noise() -> None:
    counts = uniform(people=1000, depth=1, mean=100)
    mechanism = Geometric(epsilon=Fraction(1, 10))
    with pytest.raises(PrivacyError, match=r"published variant of flaxman-2019 in a release"):
        protect(counts, mechanism, noise(PUBLISHED))
    assert protect(counts, mechanism, noise(EXACT)).key_kind == "seed"


def test_releases_of_the_published_variant_promise_nothing() -> None:
    d = uniform(people=1000, depth=1, mean=100)
    release = protect(d, AsPublished(Geometric(epsilon=Fraction(1, 10))), noise(EXACT))
    assert release.guarantee.losses == ()
    assert "loses -ln(1 - epsilon)" in release.guarantee.why_none
    exact = protect(d, Geometric(epsilon=Fraction(1, 10)), noise(EXACT))
    assert exact.guarantee.losses
    assert not np.array_equal(exact.at("level_1"), release.at("level_1"))


def test_many_runs_at_once_are_the_releases_one_by_one() -> None:
    d, mechanism = uniform(people=1000, depth=1, mean=100), Raked(epsilon=Fraction(1, 2))
    chain = (Sampling(fraction=Fraction(1, 2)), mechanism)
    for one in (mechanism, chain):
        together = protect_runs(d, one, noise(EXACT), runs=range(3, 6))
        for number, made in zip(range(3, 6), together, strict=True):
            alone = protect(d, one, noise(EXACT), run=number)
            assert made.guarantee == alone.guarantee
            for level in alone.as_counts().tables:
                assert np.array_equal(made.at(level), alone.at(level))


# --- two neighbouring databases ---------------------------------------------------------------


def test_one_person_moves() -> None:
    d = uniform(people=1000, depth=1, mean=100, seed=1)
    moved = move_one(d, source=2, target=7)
    before, after = (tabulate(one).totals() for one in (d, moved))
    difference = after - before
    assert difference.tolist() == [0, 0, -1, 0, 0, 0, 0, 1, 0, 0]
    noisy = case(SMALL, "geometric", Fraction(1), variant=EXACT, runs=range(1))
    first, second = (
        next(releases(noisy, counted(one), seed=SMALL.seed)).release for one in (d, moved)
    )
    noise_of_d, noise_of_moved = (
        first.at("level_1")[:, 0] - before,
        second.at("level_1")[:, 0] - after,
    )
    assert not np.array_equal(noise_of_d, noise_of_moved)
    empty = replace(d, count=np.zeros(10, dtype=np.int64))
    with pytest.raises(InputError, match="area 2: found nobody, expected a person to move"):
        move_one(empty, source=2, target=7)
    with pytest.raises(InputError, match="expected one count for each area"):
        move_one(replace(d, count=None), source=2, target=7)


def test_both_databases_are_really_run_through_every_mechanism() -> None:
    """With little noise the mean release moves by one person; in the null test it does not."""
    made = direct_runs(replace(SMALL, seed=5), WORK, runs=60, epsilon=Fraction(20))
    for name, d in made.d.items():
        step = made.d_prime[name][:, -1].mean(axis=0) - d[:, -1].mean(axis=0)
        assert step == pytest.approx([-1, 1], abs=0.15), name
    null = made.null[:, -1].mean(axis=0) - made.d["raked"][:, -1].mean(axis=0)
    assert null == pytest.approx([0, 0], abs=0.15)
    assert not np.array_equal(made.null, made.d["raked"])


def test_audit_finds_the_move_and_nothing_in_the_null_test() -> None:
    settings = replace(SMALL, seed=5)
    made = direct_runs(settings, WORK, runs=300, epsilon=Fraction(8))
    table = audit_table(made, settings)
    assert (table["audit_epsilon_lower"] <= table["promised_loss"]).all()
    real = table.filter(~pl.col("control"))["audit_epsilon_lower"]
    null = table.filter("control")["audit_epsilon_lower"]
    assert real.min() > 1  # type: ignore[operator]
    assert null.max() < 0.1  # type: ignore[operator]
    assert table["looks_at"].n_unique() == 2
    assert table["unit"].unique().to_list() == ["change-one"]


def test_direct_ratios_of_geometric_agree_with_the_law() -> None:
    """{error >= k} at k = 0: Pr under D over Pr under D' is exp(epsilon), exactly."""
    settings = replace(SMALL, seed=5, people=10_000, moved=(0, 10))
    made = direct_runs(settings, WORK, runs=4000, epsilon=Fraction(1))
    row = direct_table(made, settings).filter(
        (pl.col("mechanism") == "geometric") & (pl.col("event") == "ge") & (pl.col("k") == 0)
    )
    assert abs(row["log_ratio"].item() - 1) < 4 * row["standard_error"].item()
    assert row["standard_error"].item() < 0.06


def test_votes_count_what_speaks_for_the_first_database() -> None:
    exact = np.array([[10, 20], [5, 6]])
    as_d, as_d_prime = [[10.0, 20.0], [5.0, 6.0]], [[9.0, 21.0], [4.0, 7.0]]
    released = np.array([as_d, as_d_prime, [[10.0, 21.0], [5.0, 7.0]]])
    assert votes(released, exact).tolist() == [4, 0, 2]


# --- the exact law of averaged ----------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_law_of_averaged_agrees_with_a_plain_convolution(parts: int) -> None:
    epsilon = Fraction(1, 2)
    reach = 600
    draw = np.exp(-float(epsilon) / parts * np.abs(np.arange(-reach, reach + 1)))
    law = draw
    for _ in range(parts - 1):
        law = np.convolve(law, draw)
    middle = len(law) // 2
    x = np.arange(12.0)
    at = middle + np.rint(parts * x).astype(int)
    brute = np.log(law[at]) - np.log(law[at + parts])
    assert averaged_loss(x, epsilon=epsilon, parts=parts) == pytest.approx(brute, rel=1e-9)


def test_averaged_loses_nearly_epsilon_far_out_and_never_more() -> None:
    loss = averaged_loss(np.array([0.0, 100.0, 10_000.0]), epsilon=Fraction(1, 20), parts=4)
    assert loss[0] < 0.01 * 0.05
    assert 0.5 * 0.05 < loss[1] < 0.05
    assert 0.99 * 0.05 < loss[2] < 0.05
