"""Methods compared on one population: which are tried, what is measured, what may be published."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import headcount as hc
from headcount.cli.app import app
from headcount.comparison import report
from headcount.comparison.cases import Case, releases
from headcount.comparison.methods import NONE, ComparedDomain, _stated, offered
from headcount.comparison.run import _replicates_of, _settings_words
from headcount.comparison.settings import PRESETS, Settings
from headcount.config.load import load_comparison, load_config
from headcount.errors import ConfigError, InputError, PrivacyError, RunError
from headcount.evaluation.error import Error
from headcount.geography.geography import regular
from headcount.init import Told, draft, write_draft
from headcount.mechanisms import Chain, Geometric, Sampling, Tabulated
from headcount.mechanisms.coarsening.mechanism import Coarsening
from headcount.mechanisms.suppression import _pattern
from headcount.mechanisms.suppression import mechanism as suppression
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.mechanisms.suppression.witnesses import write_witnesses
from headcount.population.uniform import uniform
from headcount.privacy import UnitOfPrivacy
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.run._publishable import UNFIT, UNSAID
from headcount.run.close import close_run
from headcount.run.compare import WITHOUT_DATA, compare, compare_run
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from headcount.schema import Attribute, Schema
from tests.docs.examples import find
from tests.report.layout import layout_faults
from tests.run.town import LEDGER, MICRODATA, make_ledger, people, write_config, write_town

TWO = ("geometric", "sampling")
CASES = """
[[case]]
name = "noise"
mechanism = { name = "geometric", epsilon = 1 }

[[case]]
name = "a sample with noise"
[[case.mechanism]]
name = "sampling"
fraction = 0.5
exact = true
[[case.mechanism]]
name = "geometric"
epsilon = 2
unit = "add-remove"
"""


@pytest.fixture(autouse=True)
def _no_files_of_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Figures are written as files in one test alone: it takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        if "command" not in request.node.name:
            patch.setattr("headcount.report.directory.save_figures", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small town with a config of its own, compared once."""
    folder = tmp_path_factory.mktemp("town")
    write_town(folder)
    write_config(folder, mechanism='name = "topdown"\nepsilon = 1')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headcount.report.directory.save_figures", lambda *_: None)
        compare_run(folder / "config.toml", quick(), out=folder / "compared")
    return folder


def quick(**more: object) -> Settings:
    return Settings(**{"methods": TWO, "epsilon": (Fraction(1),), "replicates": 2, **more})  # type: ignore[arg-type]


def table(folder: Path, name: str, *, half: str = "internal") -> pl.DataFrame:
    return pl.read_csv(folder / "compared" / half / "tables" / f"{name}.csv")


# --- which cases there are


def domain(**more: object) -> ComparedDomain:
    schema = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("minor", "adult"))))
    made = ComparedDomain(schema=schema, geography=regular(children=3, depth=2))
    return replace(made, **more)  # type: ignore[arg-type]


def test_the_quick_preset_tries_every_method_that_fits_and_says_why_others_do_not():
    found = offered(Settings(), domain())
    names = [way.name for way in found.ways]
    assert names[0] == NONE
    assert {"TopDown, epsilon 0.1", "geometric noise, epsilon 4", "sample, 50 % of people"} <= {
        *names
    }
    reasons = {one.name: one.why for one in found.left_out}
    assert "who lives with whom is not known" in reasons["swapping"]
    tried = {way.method for way in found.ways} | {*reasons}
    assert set(PRESETS["quick"].methods) <= {one.partition(",")[0] for one in tried}


def test_households_are_swapped_at_three_rates_where_they_are_known():
    found = offered(Settings(methods=("swapping",)), domain(households=True))
    assert [way.strength for way in found.ways[1:]] == [
        "2 % swapped",
        "10 % swapped",
        "50 % swapped",
    ]


def test_a_method_whose_tables_do_not_fit_the_machine_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setenv("HEADCOUNT_MEMORY", "1")
    small = domain()
    monkeypatch.setattr("headcount.comparison.methods.memory_limit", lambda: 100)
    found = offered(Settings(methods=("geometric",)), small)
    assert "its tables need up to" in found.left_out[-1].why


def test_methods_that_change_tables_are_tried_at_the_strengths_of_the_preset():
    found = offered(Settings(methods=("cell-key", "rounding")), domain())
    assert [way.name for way in found.ways[1:]] == [
        "cell keys, at most 2, variance 1",
        "cell keys, at most 5, variance 3",
        "rounding, to multiples of 3",
        "rounding, to multiples of 5",
    ]


def test_coarsening_is_tried_for_areas_of_the_preset_on_levels_of_the_domain():
    found = offered(Settings(methods=("coarsening",)), domain())
    assert [way.name for way in found.ways[1:]] == [
        "coarsening, areas of 100 people",
        "coarsening, areas of 500 people",
    ]
    method = found.ways[1].mechanism.last
    assert isinstance(method, Coarsening)
    assert method.ladder == (100, *domain().geography.levels[-2:0:-1])
    assert {one.at for _, one in method.wanted} == {100}
    assert "coarsening" not in PRESETS["demo"].methods


def test_settings_that_a_method_keeps_secret_are_not_among_its_words():
    chain = Chain.of(hc.CellKey(tables={"t": ["sex"]}, maximum=4))
    design = chain.on(domain())
    assert _settings_words(design, to_publish=True) == "cell-key: the settings are kept secret"
    assert _settings_words(design) == 'cell-key: tables = [["t", ["sex"]]], maximum = 4'


def test_the_config_own_mechanism_is_one_of_the_cases_once():
    same = Geometric(epsilon=Fraction(1))
    found = offered(quick(methods=("geometric",)), domain(), own=same)
    assert [way.name for way in found.ways] == [NONE, "geometric noise, epsilon 1"]
    assert found.own == "geometric noise, epsilon 1"
    other = offered(quick(methods=("geometric",)), domain(), own=Geometric(epsilon=Fraction(3)))
    assert other.own == "geometric noise, as configured"


def test_cases_that_differ_in_costs_alone_are_two():
    made = {
        sign: Suppression(
            tables={"t": ["age"]}, costs=_pattern.CostFile(file=Path("costs.csv"), sha256=sign)
        )
        for sign in ("1", "2")
    }
    assert len({repr(one) for one in made.values()}) == 1
    assert [way.name for way in offered(Settings(), domain(), cases=made).ways] == [NONE, "1", "2"]


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"--methods: found 'geometrik', expected .*geometric"):
        offered(Settings(methods=("geometrik",)), domain())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "slow"}, "--preset: found 'slow', expected one of 'quick', 'thorough', 'demo'"),
        ({"replicates": 0}, "--replicates: found 0, expected 1 or more"),
        ({"epsilon": (Fraction(0),)}, "--epsilon: found 0, expected distinct numbers above 0"),
        ({"seed": -1}, "--seed: found -1, expected 0 to"),
    ],
)
def test_settings_out_of_range_are_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        Settings(**given)


def test_counts_that_depend_on_the_release_and_unknown_units_are_refused():
    with pytest.raises(InputError, match="the set must not depend on the method"):
        Settings(cells="either")
    with pytest.raises(PrivacyError, match="--unit: found 'family', expected one of 'add-remove'"):
        Settings(unit="family")


def test_large_domains_are_run_less_often_unless_the_number_is_given(monkeypatch):
    assert _replicates_of(Settings(), domain()) == PRESETS["quick"].replicates
    assert _replicates_of(Settings(replicates=9), domain()) == 9
    small = replace(PRESETS["quick"], few_above=1)
    monkeypatch.setitem(PRESETS, "quick", small)
    assert _replicates_of(Settings(), domain()) == small.fewer


# --- one unit of privacy


def test_losses_are_stated_in_the_unit_of_the_comparison():
    known = domain()
    add = Chain.of(Geometric(epsilon=Fraction(1), unit=UnitOfPrivacy.ADD_REMOVE))
    guarantee = add.on(known).guarantee
    assert _stated(guarantee, UnitOfPrivacy.ADD_REMOVE).epsilon == 1
    assert _stated(guarantee, UnitOfPrivacy.CHANGE_ONE).epsilon == 2  # two counts move
    of_homes = _stated(guarantee, UnitOfPrivacy.HOUSEHOLD_CHANGE_ONE)
    assert of_homes.epsilon is None
    assert "stated only when one person is added or removed" in of_homes.words


def test_a_rho_is_also_written_as_epsilon_at_a_delta():
    from headcount.topdown.mechanism import TopDown

    known = domain(unit=UnitOfPrivacy.ADD_REMOVE)
    chain = Chain.of(TopDown(rho=Fraction(1, 8), unit=UnitOfPrivacy.ADD_REMOVE))
    found = _stated(chain.on(known).guarantee, known.unit)
    assert found.words.startswith("rho 0.125, epsilon ")
    assert found.words.endswith(" at delta 1e-10")
    assert found.epsilon is not None
    assert found.epsilon > 1


def test_the_unit_of_a_case_is_that_of_the_config_unless_another_is_asked_for(tmp_path):
    write_town(tmp_path)
    write_config(tmp_path, mechanism='name = "geometric"\nepsilon = 1\nunit = "add-remove"')
    compare_run(tmp_path / "config.toml", quick(methods=("geometric",)), out=tmp_path / "compared")
    assert set(table(tmp_path, "cases")["epsilon"].drop_nulls()) == {1.0}


# --- [[case]] tables


def test_cases_of_the_config_take_the_place_of_the_preset(tmp_path):
    write_town(tmp_path)
    (tmp_path / "c.toml").write_text(f"[population]\n{MICRODATA}\n{CASES}")
    settings = Settings(replicates=1)
    compare_run(tmp_path / "c.toml", settings, out=tmp_path / "compared")
    cases = table(tmp_path, "cases")
    assert cases["case"].to_list() == [NONE, "noise", "a sample with noise"]
    # epsilon 2 when one is added or removed is 4 when one changes; the sample passes it on
    assert cases["epsilon"].to_list() == [None, 1.0, 4.0]


def test_protect_takes_no_notice_of_cases(tmp_path):
    write_town(tmp_path)
    plain = write_config(tmp_path)
    text = plain.read_text()
    (tmp_path / "more.toml").write_text(text + CASES)
    from headcount.config.load import config_digest

    both = [config_digest(load_config(tmp_path / name)) for name in ("config.toml", "more.toml")]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[case]\nname = 'a'", r"case: found .*, expected \[\[case\]\] tables"),
        ("[[case]]\nnam = 'a'", "case 1.nam: found an unknown key, expected .*did you mean 'name'"),
        ("[[case]]\nname = 3", "case 1.name: found 3, expected a name of its own, in quotes"),
        ("[[case]]\nname = 'a'", "case 1.mechanism: found none, expected one or more"),
        (CASES.replace("a sample with noise", "noise"), "case 2.name: found 'noise' twice"),
        (
            "[[case]]\nname = 'a'\nmechanism = { name = 'geometric', epsilon = 0 }",
            "case 1.mechanism.epsilon: found 0",
        ),
    ],
)
def test_a_fault_in_a_case_is_refused_at_its_key(tmp_path, text, message):
    write_town(tmp_path)
    (tmp_path / "c.toml").write_text(f"[population]\n{MICRODATA}\n{text}\n")
    with pytest.raises(ConfigError, match=message):
        load_comparison(tmp_path / "c.toml")


def test_the_cases_of_the_page_are_compared(tmp_path):
    block = find("compare.md", 'name = "noise on every count"')
    (tmp_path / "c.toml").write_text(block.text, encoding="utf-8")
    compare_run(tmp_path / "c.toml", Settings(replicates=1), out=tmp_path / "compared")
    assert table(tmp_path, "cases")["case"].to_list() == [
        NONE,
        "noise on every count",
        "a sample, then noise",
    ]


# --- what is measured


def test_errors_are_those_of_the_shipped_metric_on_the_same_releases(town):
    data = Tabulated.of(load_comparison(town / "config.toml").population.read())
    case = Case(name="g", mechanism=Geometric(epsilon=Fraction(1)), runs=range(2))
    wanted = []
    for one in releases(case, data, seed=0):
        found = Error().compute(one.release, one.truth).table.filter(level="tract", query="total")
        wanted.append(found["mean_absolute"].item())
    errors = table(town, "errors").filter(
        case="geometric noise, epsilon 1", level="tract", attribute="everyone", band="all sizes"
    )
    assert errors["error"].item() == pytest.approx(sum(wanted) / 2)
    assert errors["replicates"].item() == 2


def test_segregation_and_shares_are_scored_and_the_reference_has_the_true_ones(town):
    for name, figure in (("segregation", "apart as they do"), ("rates", "How far off shares are")):
        rows = table(town, name)
        assert set(rows["case"]) == set(table(town, "cases")["case"])
        assert rows.filter(case="no protection")["mean_absolute"].to_numpy().max() == 0
        others = rows.filter(pl.col("case") != "no protection")
        assert others["mean_absolute"].drop_nulls().to_numpy().max() > 0
        report = (town / "compared/internal/report.html").read_text(encoding="utf-8")
        assert figure in report
        assert figure not in (town / "compared/publish/report.html").read_text(encoding="utf-8")


def test_the_reference_has_no_error_and_the_memo_has_a_row_for_each_case(town):
    memo = table(town, "memo")
    assert memo["case"].to_list() == [
        NONE,
        "geometric noise, epsilon 1",
        "sample, 10 % of people",
        "sample, 50 % of people",
        "TopDown, as configured",
    ]
    assert memo.filter(case=NONE)["leaf_percent"].item() == 0
    assert (memo.filter(pl.col("case") != NONE)["leaf_percent"] > 0).all()


def test_the_report_says_what_it_is_and_that_choosing_by_it_is_not_protected(town):
    text = (town / "compared" / "internal" / "report.html").read_text(encoding="utf-8")
    assert "computed from confidential data, not protected, do not publish" in text
    assert "Choosing a method by looking at these figures is itself not protected" in text
    assert "The largest errors" in text


@pytest.mark.browser
@pytest.mark.parametrize("half", ["internal", "publish"])
def test_both_reports_can_be_read_on_every_screen_and_on_paper(town, half: str):
    assert layout_faults(town / "compared" / half / "report.html") == []


def test_a_comparison_of_public_data_may_be_shown_whole(tmp_path):
    write_town(tmp_path)
    write_config(tmp_path, population=MICRODATA + "public = true\n")
    out = tmp_path / "compared"
    done = compare_run(tmp_path / "config.toml", quick(methods=("geometric",)), out=out)
    assert done.public
    assert table(tmp_path, "memo", half="publish").equals(table(tmp_path, "memo"))
    for path in (done.internal, done.publish):
        assert "do not publish" not in path.read_text(encoding="utf-8")


def test_nobody_to_count_is_refused():
    empty = uniform(people=200, depth=2, mean=20, seed=1)
    assert empty.count is not None
    nobody = replace(empty, count=empty.count * 0)
    with pytest.raises(InputError, match="found only counts of 0, expected at least one person"):
        compare(nobody)


# --- Python


def test_python_gives_tables_and_writes_reports(tmp_path):
    population = replace(uniform(people=300, depth=2, mean=20, seed=1), public=False)
    found = hc.compare(
        population,
        cases={"half": Sampling(fraction=Fraction(1, 2)), "noise": Geometric(epsilon=Fraction(1))},
        replicates=2,
    )
    assert isinstance(found, hc.Comparison)
    assert repr(found) == "<Comparison of 3 cases>"
    assert found.tables["memo"]["case"].to_list() == [NONE, "half", "noise"]
    assert found.report(tmp_path / "whole.html").read_text(encoding="utf-8").startswith("<!DOCTYPE")
    known = found.publish(tmp_path / "known.html").read_text(encoding="utf-8")
    assert "what is known without the data" in known
    again = hc.compare(
        population,
        cases={"half": Sampling(fraction=Fraction(1, 2)), "noise": Geometric(epsilon=Fraction(1))},
        replicates=2,
    )
    assert_frame_equal(again.tables["errors"], found.tables["errors"])


# --- nothing of the data is in the version to publish


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.report.model.datetime", _Noon)


class _Noon:
    @staticmethod
    def now(zone: object) -> _Noon:
        return _Noon()

    def strftime(self, form: str) -> str:
        return "1 January 2030, 12:00 UTC"


def test_what_the_curator_has_of_a_case_is_below_the_cache_and_goes(tmp_path, monkeypatch):
    write_town(tmp_path)
    write_config(tmp_path)
    cache, seen = tmp_path / "compared.cache", []
    left = cache / "handed-of-a-killed-process"
    left.mkdir(parents=True)
    (left / "witnesses.parquet").write_text("the truth")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))  # any use of it fails
    write = write_witnesses

    def look(path: Path, *arguments: Any, **named: Any) -> None:
        write(path, *arguments, **named)
        seen.append((path, stat.S_IMODE(path.stat().st_mode), left.exists()))

    monkeypatch.setattr(suppression, "write_witnesses", look)
    settings = quick(methods=("suppression", "cell-key"))
    compare_run(tmp_path / "config.toml", settings, out=tmp_path / "compared")
    assert seen
    assert {(path.parent.parent, mode, old) for path, mode, old in seen} == {(cache, 0o600, False)}
    assert {path.suffix for path in cache.iterdir()} == {".frames"}
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_without_a_cache_it_is_in_a_folder_of_its_own_and_those_of_killed_processes_go(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, others = tmp_path / "headcount-handed-x", tmp_path / "handed-by-another-program"
    for folder in (left, others):
        folder.mkdir()
        (folder / "some").write_text("text")
    case = Case(name="one", mechanism=Geometric(epsilon=Fraction(1)))
    small = uniform(people=200, depth=2, mean=20, seed=1)
    for one in releases(case, Tabulated.of(small), seed=0):
        inside = one.truth.folders[0]
        assert (inside.parent, left.exists()) == (tmp_path, False)
        assert stat.S_IMODE(inside.stat().st_mode) == 0o700
    assert [path.name for path in tmp_path.iterdir()] == [others.name]


def to_publish(folder: Path) -> dict[str, bytes]:
    public = folder / "compared" / "publish"
    files = sorted(path for path in public.rglob("*") if path.is_file())
    return {str(path.relative_to(public)): path.read_bytes() for path in files}


@pytest.mark.usefixtures("at_noon")
def test_two_populations_with_one_public_domain_give_the_same_version_to_publish(tmp_path):
    made = []
    for name, rows in (("one", people(1, count=40)), ("two", people(2, count=200))):
        folder = tmp_path / name
        folder.mkdir()
        write_town(folder, rows=rows)
        write_config(folder, mechanism='name = "topdown"\nepsilon = 1')
        compare_run(folder / "config.toml", quick(), out=folder / "compared")
        made.append(to_publish(folder))
    assert made[0] == made[1]
    assert {"report.html", "manifest.json", "tables/cases.csv", "tables/predicted.csv"} <= {
        *made[0]
    }
    whole = [
        (tmp_path / name / "compared/internal/tables/errors.csv").read_bytes()
        for name in ("one", "two")
    ]
    assert whole[0] != whole[1]  # the test could fail


READ_OFF = """
kind = "microdata"
file = "people.csv"
geography = { columns = ["state", "county"] }
attribute = [{ name = "sex" }]
"""


@pytest.mark.usefixtures("at_noon")
def test_lists_read_from_the_data_do_not_tell_of_one_who_moved_to_a_second_state(tmp_path):
    made = []
    for name, last in (("one", "s,s2,f"), ("two", "t,t1,f"), ("three", "s,s2,x")):
        folder = tmp_path / name
        folder.mkdir()
        rows = ["state,county,sex", *("s,s1,f" for _ in range(30)), "s,s2,f", "s,s1,m", last]
        (folder / "people.csv").write_text("\n".join(rows) + "\n")
        write_config(folder, population=READ_OFF, mechanism='name = "topdown"\nepsilon = 1')
        compare_run(folder / "config.toml", quick(methods=TWO), out=folder / "compared")
        made.append(to_publish(folder))
    assert made[0] == made[1] == made[2]
    page = made[0]["report.html"].decode()
    assert page.index("depends on lists that were read from the data") < page.index("promises")
    assert "Predicted errors</h2>" not in page
    assert made[0]["tables/predicted.csv"].decode().splitlines() == ["case,level,query,within"]


@pytest.mark.usefixtures("at_noon")
def test_the_levels_that_init_found_do_not_tell_of_a_second_state(tmp_path):
    """Of a single state it makes no level, also if it is named."""
    made, levels = [], []
    for name, last in (("one", "s,s1,f,30"), ("two", "t,t1,f,30")):
        folder = tmp_path / name
        folder.mkdir()
        rows = [f"s,s{n % 5},{'mf'[n * n % 7 % 2]},{n * n * 37 % 97}" for n in range(60)]
        (folder / "people.csv").write_text("\n".join(["state,county,sex,age", *rows, last]))
        told = Told(places=("state", "county"))
        write_draft(draft(folder / "people.csv", told=told), folder / "config.toml")
        source: Any = load_config(folder / "config.toml").population
        levels.append(source.geography.columns)
        compare_run(folder / "config.toml", quick(methods=TWO), out=folder / "compared")
        made.append(to_publish(folder))
    assert levels == [("county",), ("state", "county")]  # the test could fail
    assert made[0] == made[1]
    # The mechanism that init writes names the root, which is the state if there is one only.
    found = pl.read_csv(made[0]["tables/cases.csv"])["settings"]
    assert set(found) == {UNSAID}
    inside = pl.read_csv(tmp_path / "one/compared/internal/tables/cases.csv")["settings"]
    assert '"level": "state"' in inside[-1]


def test_a_domain_read_from_the_data_is_not_shown(tmp_path):
    write_town(tmp_path)
    read_off = MICRODATA + "units_from_data = true\n"
    write_config(tmp_path, population=read_off)
    compare_run(tmp_path / "config.toml", quick(methods=("geometric",)), out=tmp_path / "compared")
    assert table(tmp_path, "domain", half="publish").is_empty()
    text = (tmp_path / "compared/publish/report.html").read_text(encoding="utf-8")
    assert "read from the data, and every release publishes them without noise" in text


def test_why_a_case_does_not_fit_names_nothing_that_was_read_from_the_data(tmp_path):
    write_town(tmp_path)
    own = 'name = "topdown"\nepsilon = 1\nlevels = { nowhere = 1 }'
    write_config(tmp_path, population=MICRODATA + "units_from_data = true\n", mechanism=own)
    compare_run(tmp_path / "config.toml", quick(methods=("geometric",)), out=tmp_path / "compared")
    (inside,) = table(tmp_path, "left_out")["why"]
    assert "tract" in inside
    assert table(tmp_path, "left_out", half="publish")["why"].to_list() == [UNFIT]


def test_of_units_with_shares_of_their_own_the_widest_noise_is_predicted():
    rows = [
        ("a", "tract", "total", 3.0),
        ("a", "tract", "total", 5.0),
        ("a", "block", "total", 7.0),
    ]
    table = pl.DataFrame(rows, schema=["case", "level", "query", "within"], orient="row")
    findings: Any = SimpleNamespace(tables={"predicted": table})
    shown = report.VIEWS["predicted-errors"](findings)
    assert shown.rows() == [("a", "tract", 5.0), ("a", "block", 7.0)]


def test_predicted_errors_are_the_reach_of_the_noise(town):
    predicted = table(town, "predicted", half="publish").filter(case="geometric noise, epsilon 1")
    from headcount.noise import TwoSidedGeometric
    from headcount.noise.laws import reach

    cells = predicted.filter(level="tract", query="every cell")
    assert cells["within"].item() == reach(TwoSidedGeometric(Fraction(1, 2)))


# --- finished releases


def test_a_finished_release_that_the_ledger_knows_is_described(tmp_path):
    write_town(tmp_path)
    make_ledger(tmp_path)
    config = write_config(tmp_path, run=LEDGER, out="first")
    run = protect_run(config)
    settings = quick(methods=("geometric",), release=(str(run),))
    compare_run(config, settings, out=tmp_path / "compared")
    found = table(tmp_path, "releases", half="publish")
    assert set(found["run"]) == {"first"}
    released = hc.read_release(run / "release")
    assert found.filter(table="tract")["people"].item() == released.at("tract").sum()
    assert str(tmp_path) not in (tmp_path / "compared/publish/report.html").read_text()


def test_a_run_that_the_ledger_does_not_know_is_refused(tmp_path):
    write_town(tmp_path)
    plain = protect_run(write_config(tmp_path, out="plain"))
    make_ledger(tmp_path)
    config = write_config(tmp_path, run=LEDGER, out="first")
    settings = quick(methods=("geometric",), release=(str(plain),))
    with pytest.raises(RunError, match="does not know as complete under"):
        compare_run(config, settings, out=tmp_path / "compared")
    assert not (tmp_path / "compared").exists()
    none = write_config(tmp_path, out="second")
    with pytest.raises(RunError, match="found a config without a ledger"):
        compare_run(none, settings, out=tmp_path / "compared")
    missing = quick(methods=("geometric",), release=(str(tmp_path / "nowhere"),))
    with pytest.raises(RunError, match="found no finished run"):
        compare_run(config, missing, out=tmp_path / "compared")


def test_a_seeded_run_is_refused(tmp_path):
    write_town(tmp_path)
    make_ledger(tmp_path)
    config = write_config(tmp_path, run=f"{LEDGER}\nseed = 3", out="first")
    run = protect_run(config)
    settings = quick(methods=("geometric",), release=(str(run),))
    with pytest.raises(RunError, match="found a seeded run, expected a release"):
        compare_run(config, settings, out=tmp_path / "compared")


# --- no release, nothing spent


def test_a_comparison_is_no_run_and_spends_nothing(tmp_path):
    write_town(tmp_path)
    ledger = make_ledger(tmp_path)
    config = write_config(tmp_path, run=LEDGER, out="first")
    before = ledger.balance("town")
    out = tmp_path / "compared"
    compare_run(config, quick(methods=("geometric",)), out=out)
    assert ledger.balance("town") == before
    for folder in (out, out / "internal", out / "publish"):
        with pytest.raises(RunError, match="found a comparison"):
            evaluate_run(folder)
        with pytest.raises(RunError, match="found a comparison"):
            close_run(folder, why="to see")
        with pytest.raises(RunError, match="found a comparison"):
            hc.read_release(folder)
    assert not [path for path in out.rglob("*") if path.suffix == ".parquet"]
    for folder in (out / "internal", tmp_path / "compared.cache"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    manifest = json.loads((out / "internal" / "manifest.json").read_text())
    assert "nothing here is a private release" in manifest["not_private"]
    manifest = json.loads((out / "publish" / "manifest.json").read_text())
    assert manifest["not_private"] == WITHOUT_DATA


# --- stopped and resumed


def test_a_finished_comparison_is_not_made_again_and_another_is_refused(town):
    out = town / "compared"
    before = (out / "internal/report.html").stat().st_mtime_ns
    compare_run(town / "config.toml", quick(), out=out)
    assert (out / "internal/report.html").stat().st_mtime_ns == before
    with pytest.raises(RunError, match="found another run"):
        compare_run(town / "config.toml", quick(seed=4), out=out)


@pytest.mark.parametrize(
    "changed",
    [
        {"mechanism": 'name = "geometric"\nepsilon = 2'},
        {"population": MICRODATA + "public = true\n"},
    ],
)
def test_another_config_of_the_same_name_is_refused(tmp_path, changed):
    write_town(tmp_path)
    config = write_config(tmp_path)
    compare_run(config, quick(methods=("geometric",)), out=tmp_path / "compared")
    write_config(tmp_path, **changed)
    with pytest.raises(RunError, match="found another run"):
        compare_run(config, quick(methods=("geometric",)), out=tmp_path / "compared")


def test_a_whole_report_does_not_stay_to_be_published_when_data_are_no_longer_public(tmp_path):
    write_town(tmp_path)
    config = write_config(tmp_path, population=MICRODATA + "public = true\n")
    out = tmp_path / "compared"
    compare_run(config, quick(methods=("geometric",)), out=out)
    assert (out / "publish/tables/errors.csv").is_file()
    write_config(tmp_path)
    with pytest.raises(RunError, match="found another run"):
        compare_run(config, quick(methods=("geometric",)), out=out)
    for half in ("internal", "publish"):  # as if it had been stopped before the end
        (out / half / "manifest.json").unlink()
    (out / "internal").chmod(0o755)
    compare_run(config, quick(methods=("geometric",)), out=out)
    assert not (out / "publish/tables/errors.csv").exists()
    assert stat.S_IMODE((out / "internal").stat().st_mode) == 0o700


def test_other_data_in_the_same_folder_are_refused(tmp_path):
    write_town(tmp_path)
    config = write_config(tmp_path)
    compare_run(config, quick(methods=("geometric",)), out=tmp_path / "compared")
    write_town(tmp_path, rows=people(9))
    with pytest.raises(RunError, match="found another run"):
        compare_run(config, quick(methods=("geometric",)), out=tmp_path / "compared")


KILLED = """
import os, signal, sys
from pathlib import Path
from fractions import Fraction
from headcount.run.compare import compare_run
from headcount.comparison.settings import Settings

def progress(items, *, what, total=None):
    for number, item in enumerate(items):
        if number == 1:
            os.kill(os.getpid(), getattr(signal, sys.argv[2]))
        yield item

folder = Path(sys.argv[1])
settings = Settings(methods=("geometric", "sampling"), epsilon=(Fraction(1),), replicates=2)
compare_run(folder / "config.toml", settings, out=folder / "compared", progress=progress)
"""


@pytest.mark.usefixtures("signals_as_usual")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_a_stopped_comparison_goes_on_with_the_same_command(town, tmp_path, how):
    write_town(tmp_path)
    config = write_config(tmp_path, mechanism='name = "topdown"\nepsilon = 1')
    command = [sys.executable, "-c", KILLED, str(tmp_path), how]
    done = subprocess.run(command, env=os.environ, capture_output=True, check=False)
    assert done.returncode in (-getattr(signal, how), 1, 130)
    kept = sorted((tmp_path / "compared.cache").glob("*.frames"))
    assert len(kept) >= 2  # two pieces were finished, and those that other threads had begun
    assert not (tmp_path / "compared" / "internal" / "manifest.json").exists()
    times = {path: path.stat().st_mtime_ns for path in kept}
    compare_run(config, quick(), out=tmp_path / "compared")
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    assert_frame_equal(table(tmp_path, "errors"), table(town, "errors"))


def test_a_damaged_piece_is_named_and_made_again(tmp_path, town, caplog):
    write_town(tmp_path)
    config = write_config(tmp_path, mechanism='name = "topdown"\nepsilon = 1')
    first = quick()
    compare_run(config, first, out=tmp_path / "compared")
    damaged, _ = (tmp_path / "compared.cache").glob("geometric*.frames")
    damaged.write_bytes(damaged.read_bytes()[:-40])
    for path in sorted((tmp_path / "compared").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    compare_run(config, first, out=tmp_path / "compared")
    assert f"{damaged}: the file is damaged" in caplog.text
    assert_frame_equal(table(tmp_path, "errors"), table(town, "errors"))


# --- the command


def test_the_command_prints_both_reports_and_the_errors(tmp_path, monkeypatch):
    write_town(tmp_path)
    write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["compare", "config.toml", "--methods", "geometric", "--epsilon", "0.5,1"]
    done = CliRunner().invoke(app, [*words, "--replicates", "1"])
    assert done.exit_code == 0, done.output
    assert "geometric noise," in done.output
    assert "For you to judge: which of these counts are needed" in " ".join(done.output.split())
    assert "comparisons/config/internal/report.html (confidential" in done.output
    assert "comparisons/config/publish/report.html" in done.output
    assert CONFIDENTIAL_BANNER in done.output
    answer = CliRunner().invoke(app, [*words, "--replicates", "1", "--json"])
    told = json.loads(answer.output)
    assert told["confidential"] is True
    assert told["memo"][0]["case"] == NONE
    assert (tmp_path / "comparisons/config/publish/report.html").is_file()
