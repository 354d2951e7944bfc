"""The study as the command runs it: files, refusals, and a report used in a real browser."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import polars as pl
import pytest

from headcount.errors import ConfigError, InputError, PrivacyError, RunError
from headcount.population.households import write_households
from headcount.population.town_people import AGE, HISPANIC, KINDS, RACE, SEX
from headcount.population.towns import towns
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.run.study import run_study
from headcount_papers.hawes_rodriguez_2021.methods import (
    COMPLEMENTARY,
    HI,
    LIKE_2010,
    LO,
    NONE,
    SUPPRESSION,
    TOPDOWN,
    methods,
)
from headcount_papers.hawes_rodriguez_2021.settings import Settings
from tests.engines.by_files import ByFiles
from tests.report.browser import choose, open_report
from tests.report.layout import layout_faults

HEADERS = {
    "suppression": "table,rule,level,total,withheld,percent,least,most",
    "complement": "table,rule,level,total,withheld,percent",
    "reid": "method,attacker,universe,putative,confirmed,precision,precision_low,precision_high",
    "mae": "method,area,size_category,statistic,mae,mae_low,mae_high",
    "redistricting": "method,area,size_category,statistic,mae,mae_low,mae_high,units",
    "claims": "id,section,source,claim,paper,finding,published,ours,difference,tolerance,rule,"
    "outcome,percentile,share,low,high,draws,needed,cause,reason,figure,covered_by,headline",
    "recovered": "table,level,changed,from_total,from_p12",
    "agreement": "method,blocks,people,records,agreement",
    "crossing": "loss,attacker,universe,guess",
    "methods": "method,kind,swapped_percent",
    "published": "id,section,source,claim,paper,finding,published,ours",
}


NAME = "hawes-rodriguez-2021"
EPSILONS = (Fraction(1), Fraction(16))


def command(out: Path, *, seed: int = 7, cache: Path | None = None) -> None:
    settings = Settings(
        people=1_200, counties=3, replicates=2, epsilons=EPSILONS, states=1, seed=seed
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headcount.run.study.engine_named", lambda *_: ByFiles())
        run_study(NAME, out, settings, cache=cache)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "hawes"
    command(folder)
    return folder


def rows(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_tables_have_the_promised_columns(out: Path):
    for name, header in HEADERS.items():
        first = (out / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith(header), name


def test_every_rate_has_its_guesses_and_is_confirmed_over_putative(out: Path):
    found = rows(out, "reid")
    methods = {row["method"] for row in found}
    assert {"none", "suppression 1980", "swapping LO", "swapping HI", "modal guess"} <= methods
    assert "suppression complementary" in methods
    assert {"topdown pure, epsilon 16", "topdown zCDP, epsilon 1, microdata"} <= methods
    for row in found:
        if float(row["putative"]) == 0:
            assert row["precision"] == ""
            continue
        share = 100 * float(row["confirmed"]) / float(row["putative"])
        assert float(row["precision"]) == pytest.approx(share)
        assert float(row["precision_low"]) <= share + 1e-9
        assert float(row["putative"]) <= float(row["people"])
        if not row["method"].endswith("guess"):
            assert "" not in (row["modal_guess"], row["proportional_guess"])


def test_suppression_is_counted_in_a_state_of_a_million_people(out: Path):
    (block,) = (
        row
        for row in rows(out, "suppression")
        if (row["table"], row["level"]) == ("SF1_person", "block")
    )
    assert int(block["total"]) > 15_000
    assert float(block["percent"]) == pytest.approx(38.7, abs=1.5)  # fitted
    (claim,) = (row for row in rows(out, "claims") if row["claim"].startswith("Other person"))
    assert (claim["outcome"], claim["needed"]) == ("undecided", "6")  # one state
    assert "was fitted to the share" in claim["rule"]


def test_published_rates_stand_beside_the_swap_like_2010_and_topdown(out: Path):
    found = [row for row in rows(out, "published") if row["id"] != "withheld"]
    assert {row["method"] for row in found if row["published"] == "44.6"} == {"swapping like 2010"}
    topdown = [row for row in found if row["method"].startswith("topdown")]
    assert [row["published"] for row in topdown] == ["21.6", "21.8"]
    drawn = [
        float(row["precision"])
        for row in rows(out, "reid_draws")
        if (row["method"], row["attacker"], row["universe"]) == (HI, "commercial-like", "all")
    ]
    (ours,) = (row for row in found if (row["id"], row["method"]) == ("precision", HI))
    assert (len(drawn), int(ours["draws"])) == (2, 2)
    assert float(ours["ours"]) == pytest.approx(sum(drawn) / 2)
    statistics = {row["statistic"] for row in rows(out, "mae") if row["area"] == "county"}
    assert {"race alone: white_alone", "race alone: other_alone"} <= statistics


def test_what_no_method_may_change_is_unchanged(out: Path):
    off = {
        (row["method"], row["area"]): float(row["mae"])
        for row in rows(out, "mae")
        if (row["statistic"], row["size_category"]) == ("total population", "all")
    }
    for method in ("none", "suppression 1980", "swapping LO", "swapping 50 %"):
        assert off[method, "county"] == off[method, "place"] == 0
    assert off["swapping HI", "county"] + off["swapping HI", "place"] > 0
    assert off["topdown pure, epsilon 1", "county"] > 0


def test_the_perfect_attacker_is_always_right_where_the_tables_leave_no_doubt(out: Path):
    (row,) = (
        row
        for row in rows(out, "reid")
        if (row["method"], row["attacker"]) == ("none", "perfect")
        and row["universe"] == "nonmodal unique, zero variability"
    )
    assert float(row["precision"]) == 100
    assert float(row["modal_guess"]) < 50


def test_the_manifest_names_settings_and_digests_of_all_files(out: Path):
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    digest = manifest["settings"].pop("digest")
    assert len(digest) == 64
    assert manifest["settings"] == {
        "population": "towns",
        "epsilons": ["1", "16"],
        "replicates": 2,
        "states": 1,
        "seed": 7,
    }
    files = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(manifest["files"]) == files
    for name, found in manifest["files"].items():
        assert sha256((out / name).read_bytes()).hexdigest() == found


def test_the_report_says_what_a_rate_means_and_how_to_make_it_again(out: Path):
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Statistical inference is not a privacy violation." in page
    assert "headcount study hawes-rodriguez-2021 --out hawes --people 1200 --counties 3" in page
    assert "--epsilon 1 --epsilon 16 --replicates 2 --states 1 --seed 7" in page
    assert CONFIDENTIAL_BANNER not in page


def test_a_second_call_keeps_the_result_and_another_is_refused(
    out: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_arguments: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("headcount_papers.hawes_rodriguez_2021.study.run", refuse)
    command(out)
    with pytest.raises(RunError, match=r"found another run .*'seed': 7.* expected a new"):
        command(out, seed=8)


def test_a_stopped_study_goes_on_from_what_is_kept(out: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: object, **_more: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("headcount.comparison.cases.releases", refuse)
    again = out.with_name("again")
    command(again, cache=out.with_name("hawes.cache"))
    for name in HEADERS:
        file = Path("tables") / f"{name}.csv"
        assert (again / file).read_bytes() == (out / file).read_bytes(), name


def config(folder: Path, population: str) -> Path:
    path = folder / "people.toml"
    path.write_text(f"[population]\n{population}\n", encoding="utf-8")
    return path


def test_nonsense_is_refused_before_anything_is_written(tmp_path: Path):
    out = tmp_path / "study"
    (epsilons,) = (one for one in Settings.options() if one.name == "epsilon")
    with pytest.raises(PrivacyError, match="--epsilon: found 'abc'"):
        epsilons.read(["1,abc"])
    with pytest.raises(ConfigError, match="epsilons: found 1, 1, expected distinct numbers"):
        Settings(epsilons=epsilons.read(["1,1.0"]))
    with pytest.raises(ConfigError, match=r"--people and --counties: found --population x\.toml"):
        Settings(people=2_000, population=Path("x.toml"))
    with pytest.raises(InputError, match="counties: found 900, expected 1 to 20"):
        run_study(NAME, out, Settings(people=2_000, counties=900))
    assert list(tmp_path.iterdir()) == []
    people = config(tmp_path, 'kind = "uniform"\npeople = 100\ndepth = 2\nmean = 10\nseed = 1')
    with pytest.raises(InputError, match="found people without dwellings, expected kind = "):
        run_study(NAME, out, Settings(population=people))


def own_files(folder: Path) -> Path:
    """A state written to CSV files, read as if its people were real."""
    write_households(towns(seed=3, people=1_000, counties=2), folder / "own")
    for name in ("persons", "dwellings", "units"):
        pl.read_parquet(folder / "own" / f"{name}.parquet").write_csv(folder / f"{name}.csv")
    attributes = "".join(
        f"[[population.attribute]]\nname = {a.name!r}\nlevels = {list(a.levels)!r}\n"
        for a in (AGE, SEX, RACE, HISPANIC)
    )
    return config(
        folder,
        'kind = "households"\npersons = "persons.csv"\nareas = ["place"]\n'
        'dwellings = "dwellings.csv"\nkey = "dwelling"\nunits = "units.csv"\n'
        f'kind_column = "kind"\nkinds = {list(KINDS)!r}\nsize_column = "size"\n'
        '[population.geography]\nroot = "state"\n'
        'columns = ["county", "tract", "block_group", "block"]\n' + attributes,
    )


def test_a_study_of_your_own_files_carries_the_banner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    few = {NONE, SUPPRESSION, COMPLEMENTARY, LIKE_2010, LO, HI}
    monkeypatch.setattr(
        "headcount_papers.hawes_rodriguez_2021.study.methods",
        lambda settings: [m for m in methods(settings) if m.name in few or m.kind == TOPDOWN],
    )
    out = tmp_path / "study"
    settings = Settings(population=own_files(tmp_path), replicates=1, epsilons=(Fraction(4),))
    run_study(NAME, out, settings)
    assert {row["area"] for row in rows(out, "mae")} == {"county", "place"}
    assert {row["outcome"] for row in rows(out, "claims")} == {"not judged"}
    assert {row["cause"] for row in rows(out, "claims")} == {""}
    exact = next(row for row in rows(out, "reid") if row["method"] == "none")
    assert exact["putative"] == exact["people"] == str(float(rows(out, "about")[0]["people"]))
    page = (out / "report.html").read_text(encoding="utf-8")
    assert CONFIDENTIAL_BANNER in page
    assert "--population people.toml" in page
    assert "nobody in it is real" not in page
    assert "their conclusions are not judged here" in page
    assert str(tmp_path) not in page


@pytest.mark.browser
def test_the_report_opens_and_its_controls_change_the_figures(out: Path):
    names = sorted(path.stem for path in (out / "figures").glob("*.svg"))
    assert len(names) == 6
    facts = open_report(out / "report.html", figures=names)
    assert facts.problems() == []
    assert facts.console_warnings == ()
    before = {figure.name: figure.marks for figure in facts.figures}

    def use(page):
        choose(page, "suppression-by-level", column="withheld", value="cells changed to 0")
        choose(page, "precision-by-method", column="people", value="everyone")
        choose(page, "precision-by-rate", column="people", value="everyone")
        choose(page, "topdown-by-epsilon", column="people", value="everyone")
        choose(page, "errors-by-size", column="areas", value="places")

    after = open_report(out / "report.html", use=use)
    assert after.problems() == []
    changed = {figure.name for figure in after.figures if figure.marks != before[figure.name]}
    assert changed == set(names) - {"errors-by-race"}


@pytest.mark.browser
def test_the_report_can_be_read_on_every_screen_and_on_paper(out: Path):
    assert layout_faults(out / "report.html") == []
