"""A report opens in a real browser, and the check that says so fires on broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from headcount.report.html import write_report
from tests.report import browser
from tests.report.browser import choose, figure_facts, open_report
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


@pytest.mark.parametrize("width", [390, 768])
def test_a_narrow_screen_does_not_scroll_sideways(report_path: Path, width: int):
    facts = open_report(report_path, width=width)
    assert facts.problems() == []
    assert facts.overflow == 0
    assert all(figure.width <= width for figure in facts.figures)


_CUT_LEGENDS = """() => [...document.querySelectorAll("svg.marks")].flatMap((svg) => {
  const right = svg.getBoundingClientRect().right;
  return [...svg.querySelectorAll(".role-legend-label text")]
    .filter((text) => text.getBoundingClientRect().right > right + 1)
    .map((text) => text.textContent);
})"""


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_legend_is_cut(report_path: Path, width: int):
    cut: list[str] = []

    def use(page):
        cut.extend(page.evaluate(_CUT_LEGENDS))

    open_report(report_path, width=width, use=use)
    assert cut == []
    if width == 390:  # the check can fail
        open_report(broken(report_path, "chart.clientWidth < 660", "false"), width=390, use=use)
        assert cut != []


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
    assert found == ['"Holds"', 0]


_CONTRAST = """() => {
  const light = (colour) => {
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    if (!/rgba\\(.*, 0\\)/.test(colour) && colour !== "transparent") return colour;
    return behind(element.parentElement);
  };
  const worst = {};
  for (const element of document.querySelectorAll("body *")) {
    const words = [...element.childNodes].filter((node) => node.nodeType === 3);
    if (!words.some((node) => node.textContent.trim()) || !element.checkVisibility()) continue;
    if (element.closest("script, style, svg, noscript")) continue;
    const [one, two] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (ratio < 4.5) worst[element.tagName + "." + element.className] = ratio;
  }
  return worst;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_on_a_light_and_on_a_dark_screen(report_path: Path, scheme: str):
    found: dict[str, float] = {}

    def use(page):
        page.emulate_media(color_scheme=scheme)
        found.update(page.evaluate(_CONTRAST))

    assert open_report(report_path, use=use).problems() == []
    assert found == {}
    faint = "</main><p class='faint' style='color: #888; background: #777'>Hardly to be read</p>"
    open_report(broken(report_path, "</main>", faint), use=use)
    assert list(found) == ["P.faint"]


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


def test_print_opens_what_is_folded_and_loses_nothing(report_path: Path):
    widths = []

    def show_on_paper(page):
        page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details.folded:not([open])").count() == 0
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 660, "height": 900})  # A4 within its margins
        widths.extend(
            page.evaluate(
                "() => [...document.querySelectorAll('svg.marks, table')]"
                ".map((e) => e.getBoundingClientRect().right)"
            )
        )

    facts = open_report(report_path, use=show_on_paper)
    assert facts.problems() == []
    assert len(widths) == len(FIGURE_NAMES) + 3
    assert max(widths) <= 660


def test_print_begins_with_a_summary_of_two_pages_and_ends_with_the_tables(report_path: Path):
    found: dict[str, object] = {}

    def show_on_paper(page):
        names = "() => [...document.querySelectorAll('main [id]')].map((e) => e.id)"
        before = page.evaluate(names)
        page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 660, "height": 971})  # A4 within its margins
        found["pages"] = page.locator("#summary").evaluate(
            "(e) => e.getBoundingClientRect().bottom / 971"
        )
        found["tables"] = page.locator(".appendix :is(.table, .folded)").count()
        found["left"] = page.locator("main > section:not(.appendix) table").count()
        page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
        found["same"] = page.evaluate(names) == before

    open_report(report_path, use=show_on_paper)
    assert float(str(found["pages"])) <= 2
    assert (found["tables"], found["left"], found["same"]) == (3, 0, True)


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
