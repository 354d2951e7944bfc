"""A report inside a page: all of its text and figures, and nothing that a page obeys."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest

from headcount.errors import InputError
from headcount.report.html import _render_html
from headcount.report.inside import report_inside
from headcount.report.specs import svg_of
from tests.report.sample import sample_report

PAGE = '<html><main>{0}<section class="appendix"></section></main><script>1</script></html>'
FIGURE = (
    '<section id="s"><h2>S</h2><figure id="f"><div class="chart"></div><noscript><p>x</p>'
    '</noscript><figcaption>y</figcaption><script type="application/json" class="spec">'
    "{}</script></figure></section>"
)


def reader(text: str, drawing: str = "") -> Callable[[str], str]:
    return {"report.html": PAGE.format(text), "figures/f.svg": drawing}.__getitem__


def words(page: str) -> list[str]:
    """The words of a page, without what only programs read."""
    for tag in ("script", "noscript", "svg"):
        page = re.sub(rf"<{tag}[ >].*?</{tag}>", "", page, flags=re.S)
    return unescape(re.sub(r"<[^>]*>", " ", page)).split()


def test_all_of_a_report_is_shown_with_its_figures_and_its_names_are_its_own():
    report = sample_report(confidential=True)
    files = {"report.html": _render_html(report)}
    for one in report.figures():
        files[f"figures/{one.name}.svg"] = svg_of(one.chart, alt_text=one.alt)
    sections = report_inside(files.__getitem__, source="r")
    body = "".join(one.body for one in sections)
    text = files["report.html"].partition("<main>")[2].partition('<section class="appendix"')[0]
    assert words(body) == words(text)
    assert body.count("<svg ") == len(report.figures())
    ids = re.findall(r' id="([^"]*)"', body)
    assert len(set(ids)) == len(ids)
    assert all(one.startswith("report-") for one in ids)
    used = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', body)
    assert {a or b for a, b in used} <= set(ids)
    assert [one.title for one in sections][:1] == ["Summary"]
    assert {one.name for one in sections} <= set(ids)
    assert not re.search(r"<script|<noscript|style=|\son\w+=|hx-", body)


HOSTILE = [
    "<script>1</script>",
    '<script type="application/json" class="spec">1</script>',
    "<form action='https://evil.example'></form>",
    "<button>Spend</button>",
    "<input name='token'>",
    "<iframe src='https://evil.example'></iframe>",
    "<meta http-equiv='refresh' content='0;url=https://evil.example'>",
    "<base href='https://evil.example'>",
    "<link rel='stylesheet' href='https://evil.example'>",
    "<object data='x'></object>",
    "<embed src='x'>",
    "<img src=x onerror=alert(1)>",
    "<style>p {}</style>",
    "<template><p></p></template>",
    "<math></math>",
    "<svg></svg>",
    "<p onclick='alert(1)'>x</p>",
    "<p ONCLICK='alert(1)'>x</p>",
    "<p style='color: red'>x</p>",
    "<p hx-get='/stop'>x</p>",
    "<p data-hx-post='/stop'>x</p>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href=' jAvaScript:alert(1)'>x</a>",
    "<a href='&#106;avascript:alert(1)'>x</a>",
    "<a href='data:text/html,x'>x</a>",
    "<a href='//evil.example'>x</a>",
    "<a href='/stop'>x</a>",
    "<a href='#x' target='_top'>x</a>",
    "<p id='a\"b'>x</p>",
    "<p/>",
    "<!-- x --><p>x</p>",
    "<!DOCTYPE html>",
    "<?php x ?>",
    "<![CDATA[x]]>",
    "<div>",
    "</div>",
    "<p><span></p></span>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_report_with_anything_that_reports_do_not_have_is_refused(text: str):
    with pytest.raises(InputError, match="expected a report as headcount writes it"):
        report_inside(reader(f'<section id="s">{text}</section>'), source="r")


@pytest.mark.parametrize(
    "drawing",
    [
        "<svg onload='alert(1)'></svg>",
        "<svg><script>1</script></svg>",
        "<svg><style>*{}</style></svg>",
        "<svg><foreignObject><p>x</p></foreignObject></svg>",
        "<svg><image href='https://evil.example/x.png'/></svg>",
        "<svg><use href='https://evil.example/x.svg#a'/></svg>",
        "<svg><a href='javascript:alert(1)'><text>x</text></a></svg>",
        "<svg><animate attributeName='href'/></svg>",
        "<svg><rect fill='url(https://evil.example)'/></svg>",
        "<svg><rect fill='rgb(0,0,0) url(https://evil.example)'/></svg>",
        "<svg><rect font-family='URL(https://evil.example)'/></svg>",
        "<svg><title>x</title></svg>",
        "<svg><p>x</p></svg>",
        "<svg>",
        "</div><form></form><div>",
    ],
)
def test_a_drawing_with_anything_that_drawings_do_not_have_is_refused(drawing: str):
    with pytest.raises(InputError, match="expected a report as headcount writes it"):
        report_inside(reader(FIGURE, drawing), source="r")


def test_signs_stay_text_and_drawings_have_names_of_their_own():
    drawing = '<svg><defs><clipPath id="clip0"></clipPath></defs><g clip-path="url(#clip0)"/></svg>'
    text = f'<section id="t"><h2>A &lt;b&gt; &amp; c</h2><p>1 < 2 &lt;i&gt;</p></section>{FIGURE}'
    first, second = report_inside(reader(text, drawing), source="r")
    assert (first.name, first.title) == ("report-t", "A <b> & c")
    assert first.body.endswith("<p>1 &lt; 2 &lt;i&gt;</p></section>")
    assert '<clippath id="report-f-clip0">' in second.body
    assert '<g clip-path="url(#report-f-clip0)"></g>' in second.body
    assert "<p>x</p>" not in second.body


def test_a_page_that_is_no_report_is_refused():
    with pytest.raises(InputError, match="found no text of a report"):
        report_inside({"report.html": "<p>x</p>"}.__getitem__, source="r")
