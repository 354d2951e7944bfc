"""The study as the command runs it: files, refusals, and a report used in a real browser."""

import csv
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from headcount.cli.study import command as command_of
from headcount.comparison.study import Findings
from headcount.errors import ConfigError, InputError, PrivacyError, RunError
from headcount.report.model import CONFIDENTIAL_BANNER
from headcount.run.study import run_study
from headcount_papers.frame.verdict import COLUMNS
from headcount_papers.petti_flaxman_2020 import STUDY
from headcount_papers.petti_flaxman_2020 import study as study_room
from headcount_papers.petti_flaxman_2020.settings import Settings
from tests.papers.petti_tables import made_up_tables
from tests.report.browser import choose, open_report
from tests.report.layout import layout_faults

HEADERS = {
    "topdown": "count_type,level,epsilon,mae,p95,max,rmse,mean_error,epl,epl_calibrated",
    "sampling": "count_type,level,fraction,mae,p95,max,rmse,epl",
    "bias": "level,epsilon,homogeneity_index,mean_error,n,index_definition,p05,p95",
    "equivalence": "epsilon,fraction,method,fraction_low,fraction_high",
    "paper": ",".join(COLUMNS),
    "targets": ",".join(COLUMNS),
    "fit": "quantity,level,target,achieved,difference",
}


def typed(out: Path, *words: str) -> None:
    """Run the command with these words; its errors are raised."""
    command_of(STUDY).main(["--out", str(out), *words], standalone_mode=False)


def command(out: Path, *, states: str = "DE", seed: int = 1940) -> None:
    """Three epsilons on one small state, as typed."""
    losses = ("--epsilon", "0.5", "--epsilon", "1,2")
    typed(out, "--states", states, *losses, "--replicates", "2", "--seed", str(seed))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "petti"
    command(folder)
    return folder


def rows(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_tables_have_the_promised_columns_and_rows(out: Path):
    for name, header in HEADERS.items():
        first = (out / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith(header), name
    assert len(rows(out, "topdown")) == 3 * 2 * 3
    fractions = {float(row["fraction"]) for row in rows(out, "sampling")}
    assert sorted(fractions) == pytest.approx([k / 20 for k in range(1, 20)])
    exact = [
        row for row in rows(out, "topdown") if (row["count_type"], row["level"]) == ("TC", "state")
    ]
    assert {(float(row["max"]), row["epl"]) for row in exact} == {(0.0, "")}
    assert {row["index_definition"] for row in rows(out, "bias")} == {"words", "code"}


def test_every_figure_is_there_as_svg_and_png(out: Path):
    kinds = {kind: {p.stem for p in (out / "figures").glob(f"*.{kind}")} for kind in ("svg", "png")}
    assert kinds["svg"] == kinds["png"]
    assert {"figure-1a", "figure-1b", "figure-2", "figure-3"} <= kinds["svg"]


def test_the_manifest_names_settings_and_digests_of_all_files(out: Path):
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["settings"] == {
        "population": "us1940",
        "scale": 1.0,
        "states": ["DE"],
        "epsilons": ["1/2", "1", "2"],
        "replicates": 2,
        "seed": 1940,
    }
    assert "nothing here is a private release" in manifest["not_private"]
    files = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(manifest["files"]) == files
    for name, digest in manifest["files"].items():
        assert sha256((out / name).read_bytes()).hexdigest() == digest


def test_the_report_says_how_to_make_it_again_and_is_public(out: Path):
    page = (out / "report.html").read_text(encoding="utf-8")
    recipe = "headcount study petti-flaxman-2020 --out petti --states DE --replicates 2"
    assert f"{recipe} --epsilon 1/2 --epsilon 1 --epsilon 2 --seed 1940" in page
    assert CONFIDENTIAL_BANNER not in page
    assert "This run covers Delaware: 3 counties, not the nation." in page


def test_finished_releases_are_kept_beside_the_directory(out: Path):
    kept = list(out.with_name("petti.cache").glob("*.npz"))
    assert len(kept) == 2 * (3 + 19)


def test_a_second_call_keeps_the_result_and_another_is_refused(
    out: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_arguments: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(study_room, "run", refuse)
    command(out)
    with pytest.raises(AssertionError, match="computed again"):
        command(out.with_name("other"))
    with pytest.raises(RunError, match=r"found another run .*'seed': 1940.* expected a new"):
        command(out, seed=1)
    with pytest.raises(RunError, match=r"found another run .*'states': \['DE'\]"):
        command(out, states="WA")


@pytest.mark.parametrize(
    ("people", "error", "said"),
    [
        (
            {"population": "us1950"},
            ConfigError,
            r"--population: found 'us1950', expected 'us1940', 'us1940:presence', or 'ipums:FILE'",
        ),
        (
            {"population": "ipums:none.dat"},
            InputError,
            "none.dat: found no such file, expected an IPUM",
        ),
        ({"population": "ipums:x", "states": ("WA",)}, ConfigError, "an extract is taken whole"),
        (
            {"population": "ipums:x", "scale": 0.5},
            ConfigError,
            "--scale and --states: found",
        ),
    ],
)
def test_people_that_make_no_sense(people: dict[str, Any], error: type[Exception], said: str):
    with pytest.raises(error, match=said):
        Settings(**people)


def test_other_nonsense_is_refused_before_anything_is_written(tmp_path: Path):
    out = tmp_path / "study"
    with pytest.raises(InputError, match="'XX'"):
        typed(out, "--states", "XX")
    with pytest.raises(InputError, match="above 0, at most 1"):
        typed(out, "--scale", "2")
    with pytest.raises(PrivacyError, match="--epsilon: found 'abc'"):
        typed(out, "--epsilon", "1,abc")
    with pytest.raises(ConfigError, match="distinct numbers above 0"):
        typed(out, "--states", "DE", "--epsilon", "1,1.0")
    assert list(tmp_path.iterdir()) == []


def extract(path: Path) -> Path:
    """One household of two in one district of Washington, in the layout of IPUMS."""

    def line(kind: str, length: int, fields: dict[int, str]) -> str:
        text = list(kind.ljust(length))
        for start, value in {7: "00000001", **fields}.items():
            text[start : start + len(value)] = value
        return "".join(text) + "\n"

    home = line("H", 159, {53: "53", 55: "0330", 93: "1", 94: "0", 124: "0007"})
    person = line("P", 273, {73: "030", 84: "1", 88: "0"})
    path.write_text(home + person + person, encoding="latin-1")
    return path


def test_a_file_of_the_real_census_is_read_and_carries_the_banner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen = []

    def study(population, settings, _work) -> Findings:
        seen.append((population.geography.size("county"), int(population.count.sum())))
        assert population.quarters is not None
        return Findings(
            settings=settings,
            tables=made_up_tables(),
            confidential=not population.public,
            facts=study_room._facts(population),
        )

    monkeypatch.setattr(study_room, "run_on", study)
    people = Settings(population=f"ipums:{extract(tmp_path / 'usa.dat')}")
    report = run_study(STUDY.name, tmp_path / "real", people)
    assert seen == [(1, 2)]
    page = report.read_text(encoding="utf-8")
    assert CONFIDENTIAL_BANNER in page
    assert "Washington: 1 county" in page
    settings = json.loads((tmp_path / "real" / "manifest.json").read_text())["settings"]
    assert settings["population"] == "ipums:usa.dat"
    assert settings["bytes"] == people.file.stat().st_size
    assert settings["sha256_of_ends"] == sha256(people.file.read_bytes()).hexdigest()
    for file in (tmp_path / "real").rglob("*"):
        assert not file.is_file() or str(tmp_path).encode() not in file.read_bytes(), file


def test_files_that_differ_at_either_end_are_told_apart(tmp_path: Path):
    big = tmp_path / "big.dat"
    people = Settings(population=f"ipums:{extract(big)}")
    body = bytearray(3 << 20)
    seen = set()
    for place in (0, -1):
        other = body.copy()
        other[place] = 1
        big.write_bytes(other)
        seen.add(people.identity()["sha256_of_ends"])
    big.write_bytes(body)
    seen.add(people.identity()["sha256_of_ends"])
    assert len(seen) == 3
    assert {len(digest) for digest in seen} == {64}


@pytest.mark.browser
def test_the_report_opens_and_its_controls_change_the_figures(out: Path):
    names = sorted(path.stem for path in (out / "figures").glob("*.svg"))
    facts = open_report(out / "report.html", figures=names)
    assert facts.problems() == []
    assert facts.console_warnings == ()
    before = {figure.name: figure.marks for figure in facts.figures}

    def use(page):
        choose(page, "figure-1a", column="epsilon", value="2")
        choose(page, "figure-1b", column="place", value="Counties")
        choose(page, "figure-2", column="place", value="Enumeration districts")
        choose(page, "errors-by-epsilon", column="counts", value="All people")
        page.locator("#figure-3 input[type=checkbox]").click()
        choose(page, "figure-3", column="place", value="Enumeration districts")

    after = open_report(out / "report.html", use=use)
    assert after.problems() == []
    changed = {figure.name for figure in after.figures if figure.marks != before[figure.name]}
    assert changed == {"figure-1a", "figure-1b", "figure-2", "errors-by-epsilon", "figure-3"}


@pytest.mark.browser
def test_choices_with_nothing_to_draw_say_so_and_warn_of_nothing(out: Path):
    """One state: its total is exact under TopDown and in a sample, so there is no curve at all."""
    names = ("figure-1a", "figure-1b", "figure-2", "small-samples", "errors-by-epsilon")

    def use(page):
        for name in names:
            choose(page, name, column="counts", value="All people")
            choose(page, name, column="place", value="States")

    facts = open_report(out / "report.html", use=use)
    assert facts.problems() == []
    assert facts.console_warnings == ()
    for name in ("figure-1a", "figure-1b"):
        assert any("no curve, because its errors" in mark for mark in facts.figure(name).marks)
    for name in ("figure-2", "small-samples"):
        (mark,) = facts.figure(name).marks
        assert "nothing to draw" in mark


@pytest.mark.browser
def test_the_report_can_be_read_on_every_screen_and_on_paper(out: Path):
    assert layout_faults(out / "report.html") == []
