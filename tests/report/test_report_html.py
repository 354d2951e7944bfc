"""The page: safe, in order, complete, and without anything from elsewhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import altair as alt
import polars as pl
import pytest

from headcount.errors import InputError
from headcount.report import html
from headcount.report.html import (
    _render_block,
    _render_html,
    _render_line,
    save_figures,
    write_report,
)
from headcount.report.model import (
    CONFIDENTIAL_BANNER,
    LIMITS_TITLE,
    Figure,
    Prose,
    Section,
    gather_provenance,
)
from tests.report.sample import FIGURE_NAMES, sample_report

EVIL = "</script><script>alert(1)</script><!-- & \u2028 <img src=x onerror=alert(2)>"
VOID = {"meta", "br", "img", "link", "hr"}


class Outline(HTMLParser):
    """Element names with their attributes and text, and a check that elements nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)

    def named(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


@pytest.fixture(scope="module")
def page() -> str:
    return _render_html(sample_report())


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    return Outline(page)


def evil_report():
    chart = alt.Chart(pl.DataFrame({"a": [EVIL], "b": [1]})).mark_bar().encode(x="a:N", y="b:Q")
    figure = Figure(name="evil", caption=EVIL, alt=EVIL, chart=chart)
    section = Section(title=EVIL, blocks=(figure, Prose(EVIL)))
    return replace(
        sample_report(), title=EVIL, subtitle=EVIL, sections=(section,), summary=(Prose("x"),)
    )


def test_text_cannot_become_markup():
    page = _render_html(evil_report())
    assert "alert(1)</script>" not in page
    outline = Outline(page)
    assert outline.named("img") == []
    specs = [text for text in outline.scripts if text.startswith('{"')]
    assert json.loads(specs[0])["description"] == EVIL


def test_nothing_is_fetched_from_elsewhere(outline: Outline):
    assert outline.named("link", "img", "iframe", "object") == []
    assert [a for a in outline.named("script") if "src" in a] == []
    policy = outline.named("meta")[2]["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")


def test_the_library_is_there_once(page: str):
    assert page.count("window.vegaEmbed=") == 1


def test_the_library_is_put_together_once_and_again_where_what_was_kept_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made: list[str] = []

    def bundle(snippet: str, vl_version: str) -> str:
        made.append(vl_version)
        return "one\r\n two \u2028"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("vl_convert.javascript_bundle", bundle)
    library = html._library.__wrapped__
    assert {library(), library()} == {"one\r\n two \u2028"}
    assert len(made) == 1
    (kept,) = (tmp_path / "headcount").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert library() == "one\r\n two \u2028"
    assert len(made) == 2
    kept.unlink()
    kept.symlink_to(tmp_path / "elsewhere")
    assert library() == "one\r\n two \u2028"
    assert not kept.is_symlink()
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")  # nothing can be kept
    assert library() == "one\r\n two \u2028"


def test_headings_are_in_order(outline: Outline):
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_identifiers_are_unique_and_contents_complete(outline: Outline):
    ids = [a["id"] for _, a in outline.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a["href"] for a in outline.named("a")]
    assert {"#summary", "#limits", "#provenance", "#section-what-we-did"} <= set(links)


def test_table_headers_have_a_scope(outline: Outline):
    assert {a.get("scope") for a in outline.named("th")} == {"col", "row", "rowgroup"}


def test_figures_and_tables_are_numbered_and_linked(page: str):
    assert '<a href="#loss-curves">Figure 2</a>' in page
    assert "Table 2." in page


def test_a_link_to_nothing_is_an_error():
    report = replace(sample_report(), summary=(Prose("See [](#nowhere)."),))
    with pytest.raises(InputError, match="link to '#nowhere': found no such figure"):
        _render_html(report)


def test_limits_recipe_and_seeds_are_always_there(page: str):
    for text in (LIMITS_TITLE, "headcount study flaxman-2019", "12345", "numpy 2.3.1"):
        assert text in page


def test_a_report_without_seeds_says_why():
    report = sample_report()
    page = _render_html(replace(report, provenance=replace(report.provenance, seeds=())))
    assert "none: the noise came from the operating system" in page


def test_only_a_confidential_report_has_the_banner(page: str):
    assert CONFIDENTIAL_BANNER not in page
    marked = _render_html(sample_report(confidential=True))
    # Once on the page, once in the margin of every printed sheet.
    assert marked.count(CONFIDENTIAL_BANNER) == 2


def test_values_that_are_not_numbers_do_not_reach_the_page():
    spec = {
        "data": {"values": [{"a": float("inf")}]},
        "mark": "point",
        "encoding": {"x": {"field": "a", "type": "quantitative"}},
    }
    figure = Figure(name="f", caption="c", alt="a", chart=alt.Chart.from_dict(spec))
    with pytest.raises(InputError, match="figure 'f': chart: found a value that is not a finite"):
        _render_html(
            replace(
                sample_report(),
                sections=(Section(title="S", blocks=(figure,)),),
                summary=(Prose("x"),),
            )
        )


def test_the_report_and_its_figures_are_written(tmp_path: Path):
    report = sample_report()
    write_report(report, tmp_path / "new" / "report.html")
    save_figures(report, tmp_path / "new" / "figures")
    written = {path.name for path in (tmp_path / "new").rglob("*") if path.is_file()}
    figures = {f"{name}.{suffix}" for name in FIGURE_NAMES for suffix in ("svg", "png")}
    assert written == {"report.html"} | figures


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a *b* **c** `d`", "<p>a <em>b</em> <strong>c</strong> <code>d</code></p>\n"),
        ("# not a heading", "<p># not a heading</p>\n"),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>\n"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
    ],
)
def test_markdown_is_small_and_safe(text: str, html: str):
    assert _render_block(text) == html


def test_markdown_never_fetches_an_image():
    assert "<img" not in _render_block("![x](http://example.org/x.png)")
    assert _render_line("*a*") == "<em>a</em>"


def test_provenance_is_gathered_from_the_machine():
    gathered = gather_provenance(recipe="headcount demo", seeds=[1, 2], packages=["numpy", "nil"])
    assert gathered.seeds == (1, 2)
    versions = dict(gathered.versions)
    assert versions["nil"] == "not installed"
    assert re.match(r"\d+\.\d+", versions["numpy"])
    assert "cores" in gathered.machine
