"""The study of swapping and cell keys: bets, surface, targets, and a tiny run of the whole."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.comparison.cache import Cache
from headcount.comparison.cases import Case, releases, seeded_noise
from headcount.comparison.study import Findings, Work
from headcount.comparison.template import write_text
from headcount.errors import ConfigError, InputError
from headcount.mechanisms import Chain, Tabulated, protect
from headcount.mechanisms.rounding.mechanism import Rounding
from headcount.report.html import write_report
from headcount.report.model import gather_provenance
from headcount_papers.swapping_and_cell_keys import STUDY, chains, measures, report, slow, study
from headcount_papers.swapping_and_cell_keys.bets import FIRST_LEAN, LEAN, bet, joined
from headcount_papers.swapping_and_cell_keys.settings import (
    LADDER,
    RATES,
    TABLES,
    Settings,
    synthetic,
)
from headcount_papers.swapping_and_cell_keys.surface import Surface, contour, crossing
from headcount_papers.swapping_and_cell_keys.targets import BetTargets
from tests.engines.by_files import ByFiles

# --- bets


def bet_by_hand(steps, truth, half, claims, odds):
    """Right and wrong bets, count by count, from dictionaries."""
    right = wrong = 0
    for learning in (True, False):
        known = [n for n in range(len(truth)) if half[n] == learning]
        for n in range(len(truth)):
            if half[n] == learning:
                continue
            best: tuple[int, ...] = ()
            chance = -1.0
            for claim in claims:
                p = sum(truth[m] in claim for m in known) / len(known)
                for step in steps:
                    same = [m for m in known if step[m] == step[n]]
                    hits = sum(truth[m] in claim for m in same)
                    lean = FIRST_LEAN if step is steps[0] else LEAN
                    p = (hits + lean * p) / (len(same) + lean)
                if p > chance:
                    best, chance = claim, p
            if chance > odds / (1 + odds):
                right += truth[n] in best
                wrong += truth[n] not in best
    return right, wrong


@pytest.mark.parametrize("claim", ["exact", "few"])
@pytest.mark.parametrize("odds", [1, 9])
def test_bets_are_those_that_plain_counting_makes(claim, odds):
    rng = np.random.default_rng(7)
    truth = rng.integers(0, 4, 400)
    seen = np.where(rng.random(400) < 0.85, truth, rng.integers(0, 4, 400))
    steps = [seen, joined(seen, rng.integers(0, 3, 400), most=5)]
    half = rng.random(400) < 0.5
    made = bet(steps, truth, half, claim=claim, odds=odds)
    claims = [(1,), (2,)] if claim == "exact" else [(1, 2)]
    assert (made.right, made.wrong) == bet_by_hand(steps, truth, half, claims, odds)
    assert made.small == ((truth == 1) | (truth == 2)).sum()
    assert made.percent == 100 * (made.right - odds * made.wrong) / made.small
    if odds == 1:
        assert made.right > 0


def test_who_sees_everything_wins_everything_and_who_sees_nothing_wins_nothing():
    rng = np.random.default_rng(1)
    truth = rng.choice(5, 4000, p=[0.7, 0.12, 0.08, 0.06, 0.04])
    half = rng.random(4000) < 0.5
    assert bet([truth], truth, half, claim="exact", odds=1).percent == 100
    blind = bet([rng.permutation(truth)], truth, half, claim="exact", odds=1)
    assert abs(blind.percent) < 2
    assert bet([0 * truth], truth, half, claim="few", odds=1).right == 0


def test_clues_of_another_shape_are_refused():
    few = np.zeros(4, dtype=int)
    with pytest.raises(InputError, match="clues of another shape"):
        bet([few[:3]], few, few > 0, claim="few", odds=1)


# --- the surface


def plane() -> Surface:
    x, y = np.meshgrid(np.arange(6), np.arange(4), indexing="ij")
    return Surface(
        rates=(0.0, 0.02, 0.05, 0.1, 0.2, 0.5),
        noise=(0.0, 1.0, 2.0, 4.0),
        risk=(100 - 20 * x - 30 * y).astype(np.float64),
        errors={
            "block": (3 * x + 2 * y).astype(np.float64),
            "county": y.astype(np.float64),
        },
    )


def test_contour_lines_of_a_plane_are_straight():
    for x, y in contour(plane().risk, 25.0):
        assert 100 - 20 * x - 30 * y == pytest.approx(25)
    assert not list(contour(plane().risk, 500.0))
    assert crossing(np.array([5.0, 3.0, 3.0]), 3.0) == 1
    assert crossing(np.array([5.0, 4.0]), 3.0) is None
    assert crossing(np.array([1.0, 2.0, 4.0]), 3.0) == 1.5


def test_prices_on_a_plane_are_those_of_algebra():
    prices = list(plane().prices(25.0))
    by = {price["by"]: price for price in prices if price["by"] != "mix"}
    assert by["swapping"]["rate"] == pytest.approx(0.1 + 0.75 * 0.1)
    assert by["swapping"]["block"] == pytest.approx(3 * 3.75)
    assert by["swapping"]["county"] == 0
    assert by["noise"]["noise"] == pytest.approx(2 + 0.5 * 2)
    assert by["noise"]["block"] == pytest.approx(2 * 2.5)
    mixes = [price for price in prices if price["by"] == "mix"]
    assert [mix["rate"] for mix in mixes] == [0.02, 0.05, 0.1]  # at 20 % the risk is 20 already
    assert mixes[0]["block"] == pytest.approx(3 + 2 * (75 - 20) / 30)
    assert not list(plane().prices(1000.0))


# --- targets and chains


@pytest.fixture(scope="module")
def data() -> Tabulated:
    return Tabulated.of(synthetic(2_000))


@pytest.fixture(scope="module")
def targets(data: Tabulated) -> BetTargets:
    way = chains.ways(TABLES)[1]
    published = way.method.on(data.counts.domain).tables
    return BetTargets(counts=data.counts, tables=published, seed=3)


def test_each_kind_of_people_is_a_target_once_and_counted_plainly(data, targets):
    # 3 ages, 2 sexes, 7 races, 2 origins, and races by each of them: margins are shared.
    assert len(targets.columns) == 3 + 2 + 7 + 2 + 21 + 14 + 14
    population = data.population
    race = np.unravel_index(population.cell, population.schema.shape)[2]
    sex = np.unravel_index(population.cell, population.schema.shape)[0]
    cells = next(cells for cells, _ in targets.tables if cells.table.name == "sex_race")
    for number, (name, column) in enumerate(targets.columns):
        if name == "sex_race" and cells.labels[column] == ("female", "asian"):
            here = (race == 2) & (sex == 1)
            plain = np.bincount(population.unit[here], minlength=len(targets.truth))
            assert targets.truth[:, number].tolist() == plain.tolist()
            break
    else:
        raise AssertionError("no such column")


def test_a_swap_and_a_way_to_publish_are_the_chain_that_protect_runs(data):
    step = chains.swap_step(Settings(people=2_000), Fraction("0.2"))
    nearest = Rounding(tables=TABLES, base=3, how="nearest")
    chain = Chain((step,), nearest)
    noise = seeded_noise(chain, seed=5, digest=data.digest)
    whole = protect(data, chain, noise)
    swapped = chains.swapped(data.population, step, chain.noise_of(0, noise), run=0)
    parts = protect(swapped, nearest, noise)
    for one, other in zip(whole.as_tables().published, parts.as_tables().published, strict=True):
        assert (one.value == other.value).all()
    assert (swapped.counts.matrix != data.counts.matrix).nnz > 0


def test_the_84_chains_are_those_of_the_plan():
    every = chains.chains(Settings(replicates=1))
    assert len(every) == 84
    assert len({(case.columns["rate"], case.columns["method"]) for case in every}) == 84
    kinds = [case.columns["kind"] for case in every]
    assert [kinds.count(kind) for kind in ("none", "cell-key", "rounding")] == [6, 60, 18]


def test_a_release_of_other_people_wins_nothing(data, targets):
    """Negative control: the tables of a town whose blocks were dealt out anew."""
    population = data.population
    dealt = np.random.default_rng(2).permutation(len(targets.truth))
    moved = replace(population, unit=dealt[population.unit].astype(np.int32), households=None)
    case = Case(name="moved", mechanism=chains.ways(TABLES)[4].method)
    own, other = (
        next(releases(case, people, seed=1)).release for people in (data, Tabulated.of(moved))
    )
    best = {"attacker": measures.TOGETHER, "claim": "exact", "odds": 1}
    percent = [
        measures.bets_frame(measures.seen_by(one, targets), targets).filter(**best)["percent"][0]
        for one in (own, other)
    ]
    assert percent[0] > percent[1] + 3
    assert abs(percent[1]) < 3


# --- the whole study, tiny


@pytest.fixture(scope="module")
def tiny() -> Findings:
    """Few chains of few people, all attacks."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (chains, study):
            patch.setattr(module, "RATES", RATES[0:4:3])
        patch.setattr(chains, "LADDER", LADDER[2:4])
        patch.setattr(chains, "OTHER_KEYS", ())
        patch.setattr(chains, "BASES", (3,))
        settings = Settings(people=2_000, replicates=2, epsilons=(Fraction(4),), slow=10, seed=1)
        return study.run(settings, Work(cache=Cache(None), engine=ByFiles()))


def test_nothing_done_has_the_highest_risk_and_totals_alone_give_none(tiny):
    bets = tiny.tables["bets"].filter(claim="exact", odds=1)
    together = bets.filter(attacker=measures.TOGETHER)
    plain = together.filter(rate=0.0, kind="none")["percent"]
    assert min(plain.to_list()) > 90
    assert together["percent"].max() == plain.max()
    assert max(bets.filter(attacker=measures.TOTALS)["percent"].abs().to_list()) < 2


def test_certain_claims_are_wrong_only_after_a_swap(tiny):
    certain = tiny.tables["certain"].filter(pl.col("kind") != "topdown")
    assert certain.filter(rate=0.0)["wrong"].sum() == 0
    assert certain.filter(rate=0.0, kind="none")["right_percent"].to_list() == [100]
    assert certain.filter(pl.col("rate") > 0)["wrong"].sum() > 0
    found = tiny.tables["slow"]
    assert found.filter(rate=0.0)["wrong"].sum() == 0
    assert set(found["effort"]) == set(slow.EFFORTS)
    narrower = found.pivot("effort", index=["rate", "method"], values="width")
    assert (narrower["programs"] <= narrower["relations"] + 1e-9).all()


def test_swapping_costs_nothing_where_nobody_leaves_and_noise_costs_everywhere(tiny):
    cost = tiny.tables["cost"]
    swap = cost.filter(kind="none", rate=0.1)
    assert swap.filter(level="county")["percent"].to_list() == [0]
    assert swap.filter(level="block")["percent"][0] > 0
    noise = cost.filter(rate=0.0, kind="cell-key", level="county")
    assert (noise["percent"] > 0).all()
    groups = tiny.tables["errors"].filter(rate=0.1, kind="none", level="block", attribute="race")
    assert groups.height == 7


def test_each_kind_of_bet_has_prices_of_its_own(tiny):
    runs, bets = tiny.tables["price_runs"], tiny.tables["bets"]
    assert runs["claim"].unique(maintain_order=True).to_list() == ["exact", "few"]
    plain = bets.filter(attacker=measures.TOGETHER, odds=1, kind="none", replicate=0)
    for claim in ("exact", "few"):
        swaps = plain.filter(claim=claim).sort("rate")
        risk = swaps["percent"].to_numpy()
        place = crossing(risk, 50.0)
        assert place is not None
        rate = np.interp(place, np.arange(len(risk)), swaps["rate"].to_numpy())
        own = runs.filter(claim=claim, by="swapping", risk=50.0, replicate=0)
        assert own["rate"].unique().to_list() == pytest.approx([rate])


def test_an_interval_is_that_of_student():
    rows = pl.DataFrame({"a": ["x"] * 5 + ["y"], "v": [1.0, 2, 3, 4, 5, 9]})
    found = study.interval(rows, ["a"], "v")
    half = 2.776445 * np.std([1, 2, 3, 4, 5], ddof=1) / np.sqrt(5)
    assert found["v"].to_list() == [3, 9]
    assert found["low"][0] == pytest.approx(3 - half, abs=1e-5)
    assert found["high"].to_list()[1] is None
    wide = pl.DataFrame({"a": ["x"] * 4, "v": [0.0, 0.2, 9.0, 0.0]})
    assert study.interval(wide, ["a"], "v")["low"].to_list() == [0.0]  # no share is below 0
    below = pl.DataFrame({"a": ["x"] * 3, "v": [-1.0, 0.2, 9.0]})
    assert study.interval(below, ["a"], "v")["low"][0] < -1  # what was won may be


def test_the_cheapest_way_is_cheaper_draw_by_draw_and_beyond_chance():
    def runs(**errors: list[float]) -> pl.DataFrame:
        rows = [
            {"replicate": draw, "by": by, "error": error}
            for by, several in errors.items()
            for draw, error in enumerate(several)
        ]
        return pl.DataFrame(rows)

    # Draws differ by more than the ways do, but noise is cheaper in each by about as much.
    apart = runs(noise=[1.0, 2.0, 3.0], swapping=[1.51, 2.5, 3.49])
    assert report.cheapest(apart) == "noise"
    assert report.cheapest(runs(noise=[1.0, 2.0, 3.0], swapping=[2.0, 1.5, 3.1])) == ""
    # Who does not come down to the risk in every draw does not count.
    assert report.cheapest(runs(noise=[0.1], mix=[1.0, 1.1], swapping=[2.0, 2.1])) == "mix"
    said = report.message({5.0: "mix", 10.0: "mix", 50.0: "noise", 25.0: "noise"})
    assert said == (
        "At a risk of 50 to 25 % noise alone costs least; at 10 to 5 % swapping before the noise "
        "costs least."
    )
    # Nothing is said of a risk at which no way is shown to cost least.
    assert report.message({50.0: "noise", 25.0: "", 10.0: "noise", 5.0: ""}) == (
        "At a risk of 50 % noise alone costs least; at 10 % noise alone costs least."
    )
    assert "No way" in report.message({50.0: ""})


def test_the_limits_say_by_how_much_one_attack_alone_wins_more_than_all_together():
    rows = [
        (0.0, "a", measures.TOGETHER, 10.0),
        (0.0, "a", measures.TOTALS, 0.0),
        (0.0, "b", measures.TOGETHER, 4.0),
        (0.0, "b", "reads the count", 5.5),
        (0.1, "b", measures.TOGETHER, 9.0),
        (0.1, "b", "reads the count", 9.5),
    ]
    risk = pl.DataFrame(rows, schema=["rate", "method", "attacker", "percent"], orient="row")
    assert report.alone_more(risk) == 1.5
    assert report.alone_more(risk.filter(method="a")) == 0


def test_the_report_shows_every_figure_and_table(tiny, tmp_path):
    made = write_text(STUDY, tiny, provenance=gather_provenance(recipe="x", seeds=[1], config=""))
    assert [figure.name for figure in made.figures()] == [
        *("trade-off", "surface", "attackers", "levels", "groups"),
    ]
    assert not made.confidential
    write_report(made, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for words in ("swap, then noise", "risk 25 %", "cell keys alone"):
        assert words in page


# --- own data, and bad input


def test_own_people_must_live_somewhere(tmp_path):
    config = tmp_path / "people.toml"
    config.write_text('[population]\nkind = "uniform"\npeople = 500\n')
    with pytest.raises(InputError, match="people without dwellings"):
        _ = Settings(population=config).protected
    with pytest.raises(ConfigError, match="it for synthetic people only"):
        Settings(population=config, people=5_000)


def test_own_data_are_published_in_tables_of_each_attribute(tmp_path: Path):
    config = tmp_path / "people.toml"
    config.write_text(
        '[population]\nkind = "towns"\npeople = 1200\nattributes = ["sex", "hispanic"]\n'
    )
    settings = Settings(population=config, risk=("hispanic",), replicates=1)
    data = Tabulated.of(settings.protected)
    way = chains.ways(settings.tables)[1]
    published = way.method.on(data.counts.domain).tables
    targets = BetTargets(counts=data.counts, tables=published, seed=0)
    assert targets.lowest == "block"
    case = chains.chains(settings)[14 * 3 + 1]
    people = chains.PeopleOf(settings, data)(case)
    (one,) = releases(case, people, seed=0)
    found = measures.bets_frame(measures.seen_by(one.release, targets), targets)
    assert min(found["small"].to_list()) > 0
    assert settings.identity()["population"] == "people.toml"


def test_the_command_lists_the_study():
    found = CliRunner().invoke(app, ["study", "swapping-and-cell-keys", "--help"])
    assert found.exit_code == 0
    assert "84 chains" in found.output
