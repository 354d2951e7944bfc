"""The study as the command runs it: files, and a report that opens in a real browser."""

import csv
import json
from hashlib import sha256
from pathlib import Path

import pytest

from headcount.errors import RunError
from headcount.run.study import run_study
from headcount_papers.flaxman_2019.settings import Settings
from tests.report.browser import choose, open_report
from tests.report.layout import layout_faults

EPL = "mechanism,epsilon,residual_sd,median_abs_residual,median_abs_epl,max_abs_epl"
DIRECT = "mechanism,epsilon,event,k,log_ratio,audit_epsilon_lower,confidence"


def run(out: Path, *, seed: int) -> Path:
    few = Settings(seed=seed, replicates=1, direct_runs=50, audit_runs=500)
    return run_study("flaxman-2019", out, few)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "flaxman"
    assert run(folder, seed=12345) == folder / "report.html"
    return folder


def header(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0]


def test_the_tables_have_the_promised_columns(out: Path):
    assert header(out / "tables" / "epl.csv") == EPL
    assert header(out / "tables" / "direct.csv") == DIRECT
    with (out / "tables" / "epl.csv").open(encoding="utf-8") as file:
        rows = [(row["mechanism"], float(row["epsilon"])) for row in csv.DictReader(file)]
    wanted = [(m, e) for m in ("geometric", "raked", "averaged") for e in (0.025, 0.05, 0.1)]
    assert sorted(rows) == sorted(wanted)
    assert (out / "tables" / "sweep.csv").is_file()


def test_every_figure_is_there_as_svg_and_png(out: Path):
    kinds = {kind: {p.stem for p in (out / "figures").glob(f"*.{kind}")} for kind in ("svg", "png")}
    assert kinds["svg"] == kinds["png"]
    assert len(kinds["svg"]) >= 6


def test_the_manifest_names_settings_and_digests_of_all_files(out: Path):
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["settings"]["seed"], manifest["settings"]["replicates"]) == (12345, 1)
    assert manifest["settings"]["epsilons"] == ["1/40", "1/20", "1/10"]
    assert manifest["settings"]["population"] is None
    files = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(manifest["files"]) == files
    for name, digest in manifest["files"].items():
        assert sha256((out / name).read_bytes()).hexdigest() == digest


def test_a_second_call_keeps_the_result_and_another_is_refused(out: Path):
    before = (out / "report.html").stat().st_mtime_ns
    run(out, seed=12345)
    assert (out / "report.html").stat().st_mtime_ns == before
    with pytest.raises(RunError, match=r"found another run .*'seed': 12345.* expected a new"):
        run(out, seed=1)


def test_a_folder_with_other_files_is_refused(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match=r"found 'thesis.txt', expected a new or empty directory"):
        run(tmp_path, seed=1)


@pytest.mark.browser
def test_the_report_opens_and_its_controls_change_the_figures(out: Path):
    names = sorted(path.stem for path in (out / "figures").glob("*.svg"))
    facts = open_report(out / "report.html", figures=names)
    assert facts.problems() == []
    assert facts.console_warnings == ()
    before = {figure.name: figure.marks for figure in facts.figures}

    def use(page):
        choose(page, "curves-by-epsilon", column="epsilon", value="0.05")
        choose(page, "promise-and-measurement", column="noise", value="exact mechanism")

    after = open_report(out / "report.html", use=use)
    assert after.problems() == []
    changed = {figure.name for figure in after.figures if figure.marks != before[figure.name]}
    assert changed == {"curves-by-epsilon", "promise-and-measurement"}


@pytest.mark.browser
def test_the_report_can_be_read_on_every_screen_and_on_paper(out: Path):
    assert layout_faults(out / "report.html") == []
