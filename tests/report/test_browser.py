"""A report opens in a real browser, and the check that says so fires on broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from headcount.report.html import write_report
from tests.report import browser
from tests.report.browser import choose, figure_facts, open_report
from tests.report.layout import layout_faults
from tests.report.sample import FIGURE_NAMES, sample_report

pytestmark = pytest.mark.browser

POLICY = "default-src 'none'; "


@pytest.fixture(scope="module")
def report_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(sample_report(confidential=True), path)
    return path


def broken(report_path: Path, old: str, new: str) -> Path:
    """A copy of the report with its first ``old`` replaced."""
    text = report_path.read_text(encoding="utf-8")
    assert old in text
    copy = report_path.with_name("broken.html")
    copy.write_text(text.replace(old, new, 1), encoding="utf-8")
    return copy


def test_a_report_opens_without_a_problem(report_path: Path):
    facts = open_report(report_path, figures=FIGURE_NAMES)
    assert facts.problems() == []
    assert facts.console_warnings == ()
    assert [figure.name for figure in facts.figures] == list(FIGURE_NAMES)


def test_a_report_can_be_read_on_every_screen_and_on_paper(report_path: Path):
    assert layout_faults(report_path) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("chart.clientWidth < 660", "false", "at 390 px cut in figure"),
        ("</main>", "</main><p style='width: 500px'>Wide</p>", "at 390 px the page scrolls"),
        (
            "</main>",
            "</main><p class='faint' style='color: #888; background: #777'>Hardly to be read</p>",
            "faint on a dark screen: P.faint 1.3",
        ),
        (".scroll { overflow: visible; }", "table { width: 800px; }", "wider than paper: "),
        (".summary { break-after: page; }", ".summary { height: 2000px; }", "the summary takes 2."),
        ("appendix.append(table);", "line.replaceWith(table);", "are not in the appendix"),
    ],
)
def test_what_keeps_a_reader_from_reading_is_seen(
    report_path: Path, old: str, new: str, fault: str
):
    found = layout_faults(broken(report_path, old, new))
    assert any(fault in one for one in found), found


def test_a_legend_lists_only_what_is_drawn(report_path: Path):
    listed: list[list[str]] = []

    def use(page):
        entries = page.locator("#many-methods .role-legend-label text")
        listed.append(entries.all_text_contents())
        choose(page, "many-methods", column="level", value="district")
        listed.append(entries.all_text_contents())

    assert open_report(report_path, use=use).problems() == []
    state, district = listed
    assert len(state) == 8
    assert district == state[:-1]


def test_words_of_a_table_become_cards_on_a_narrow_screen(report_path: Path):
    found: list[object] = []

    def use(page):
        cell = page.locator("#verdicts td").first
        found.append(cell.evaluate("(e) => getComputedStyle(e, '::before').content"))
        found.append(
            page.locator("#verdicts .scroll").evaluate("(e) => e.scrollWidth - e.clientWidth")
        )

    open_report(report_path, width=390, use=use)
    assert found == ['"Verdict"', 0]


def test_a_dark_screen_has_dark_figures_and_paper_has_not(report_path: Path):
    colours: dict[str, list[str]] = {}
    look = """() => {
      const line = document.querySelector("#loss-by-epsilon svg.marks .mark-line path");
      const label = document.querySelector("#loss-by-epsilon svg.marks .role-axis-title text");
      return [getComputedStyle(line).stroke, getComputedStyle(label).fill,
        getComputedStyle(document.body).backgroundColor];
    }"""

    def use(page):
        for scheme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
            page.emulate_media(color_scheme=scheme, media=media)
            colours[f"{scheme} {media}"] = page.evaluate(look)

    open_report(report_path, use=use)
    assert colours["light screen"] == ["rgb(0, 114, 178)", "rgb(27, 37, 48)", "rgb(255, 255, 255)"]
    assert colours["dark screen"] == ["rgb(57, 169, 234)", "rgb(228, 233, 238)", "rgb(20, 25, 31)"]
    assert colours["dark print"] == colours["light screen"]


def test_a_control_changes_its_figure_and_no_other(report_path: Path):
    before = {}

    def use(page):
        before.update({figure.name: figure.marks for figure in figure_facts(page)})
        choose(page, "error-by-level", column="level", value="district")

    after = open_report(report_path, use=use)
    assert after.problems() == []
    changed = {figure.name for figure in after.figures if figure.marks != before[figure.name]}
    assert changed == {"error-by-level"}


def test_a_figure_can_be_saved_and_nothing_leads_to_an_editor(report_path: Path, tmp_path: Path):
    saved = {}

    def save(page):
        links = page.locator("#residuals .vega-actions a")
        assert links.all_text_contents() == ["Save as SVG", "Save as PNG"]
        page.locator("#residuals .chart summary").click()
        for link in links.all():
            with page.expect_download() as waiting:
                link.click()
            target = tmp_path / waiting.value.suggested_filename
            waiting.value.save_as(target)
            saved[target.name] = target.read_bytes()

    assert open_report(report_path, use=save).problems() == []
    assert saved["residuals.svg"].startswith(b"<svg")
    assert saved["residuals.png"].startswith(b"\x89PNG")


def test_print_opens_what_is_folded_and_puts_everything_back(report_path: Path):
    found: dict[str, object] = {}

    def show_on_paper(page):
        names = "() => [...document.querySelectorAll('main [id]')].map((e) => e.id)"
        before = page.evaluate(names)
        page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        found["folded"] = page.locator("details.folded:not([open])").count()
        found["tables"] = page.locator(".appendix :is(.table, .folded)").count()
        page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
        found["same"] = page.evaluate(names) == before

    assert open_report(report_path, use=show_on_paper).problems() == []
    assert found == {"folded": 0, "tables": 3, "same": True}


def test_a_script_error_is_a_problem(report_path: Path):
    path = broken(report_path, "</main>", "</main><script>undefinedFunction();</script>")
    problems = open_report(path).problems()
    assert any("page error: " in p and "undefinedFunction" in p for p in problems)


def test_a_console_error_is_a_problem(report_path: Path):
    path = broken(report_path, "</main>", "</main><script>console.error('spilt');</script>")
    assert open_report(path).problems() == ["console error: spilt"]


def test_an_external_request_is_a_problem(report_path: Path):
    path = broken(report_path, "</main>", '</main><img src="http://127.0.0.1:9/x.png" alt="">')
    # The page's own policy stops the request before it is made...
    assert any("Content Security Policy" in p for p in open_report(path).problems())
    # ... and without the policy the request itself is seen.
    text = path.read_text(encoding="utf-8")
    assert POLICY in text
    path.write_text(text.replace("http-equiv", "data-off", 1), encoding="utf-8")
    assert "network request: http://127.0.0.1:9/x.png" in open_report(path).problems()


def test_a_figure_that_is_gone_is_a_problem(report_path: Path):
    path = broken(report_path, 'data-figure="residuals"', "")
    assert open_report(path, figures=["residuals"]).problems() == [
        "missing figure: residuals",
        "missing figure: 1 of the 5 announced",
    ]


def test_a_figure_that_cannot_be_drawn_is_a_problem(report_path: Path):
    path = broken(report_path, 'class="spec">{', 'class="spec">{{')
    problems = open_report(path).problems()
    assert "the page is 'failed', not 'ready'" in problems
    assert any(p.startswith("console error: figure residuals") for p in problems)
    assert "figure residuals shows no marks" in problems


def test_a_figure_without_marks_is_a_problem(report_path: Path):
    # The control's column exists but no row has the value that it asks for.
    path = broken(report_path, '"value":"state"', '"value":"nowhere"')
    assert "figure error-by-level shows no marks" in open_report(path).problems()


def test_a_page_without_its_library_is_a_problem(report_path: Path):
    path = broken(report_path, "window.vegaEmbed=", "window.vegaLost=")
    assert "the page is 'failed', not 'ready'" in open_report(path).problems()


def test_without_a_browser_the_test_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(browser, "browser_path", lambda: None)
    monkeypatch.delenv(browser.REQUIRE_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no browser on the path"):
        browser.require_browser()


def test_without_a_browser_that_is_required_the_test_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(browser, "browser_path", lambda: None)
    monkeypatch.setenv(browser.REQUIRE_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match="HEADCOUNT_REQUIRE_BROWSER=1 but no browser"):
        browser.require_browser()
