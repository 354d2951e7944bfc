"""A report as one HTML file that needs nothing else: no network, no fonts, no other files."""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from headcount.errors import InputError, RunError
from headcount.files import make_folder, open_own, user_cache, write_bytes_atomic, write_text_atomic
from headcount.report.model import CONFIDENTIAL_BANNER, LIMITS_TITLE, Figure, Report, Table
from headcount.report.specs import chart_spec, save_figure, vegalite_version
from headcount.report.theme import DARK, HEAT

if TYPE_CHECKING:
    from jinja2 import Environment
    from markdown_it import MarkdownIt

log = logging.getLogger(__name__)

_SNIPPET = "window.vegaEmbed=vegaEmbed;"
_EMPTY_LINK = re.compile(r'<a href="#([^"]+)"></a>')
_INNER_LINK = re.compile(r'<a [^>]*href="#([^"]+)"')
_IDENTIFIER = re.compile(r'\sid="([^"]+)"')


def write_report(report: Report, path: Path) -> None:
    """Write ``report`` to ``path``, whole or not at all."""
    path = Path(path)
    text = _render_html(report)
    make_folder(path.parent)
    write_text_atomic(path, text)
    log.info("wrote report %s (%.1f MB)", path, len(text) / 1e6)


def save_figures(report: Report, directory: Path) -> None:
    """Write every figure of the report as ``directory/NAME.svg`` and ``.png``."""
    for figure in report.figures():
        save_figure(
            figure.spec, Path(directory) / figure.name, alt_text=figure.alt, title=figure.lead
        )


def _render_html(report: Report) -> str:
    """The complete page. Links to a figure or table that does not exist are an error."""
    labels = _labels(report)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            labels=labels,
            limits_title=LIMITS_TITLE,
            banner=CONFIDENTIAL_BANNER,
            specs={figure.name: _safe_json(figure) for figure in report.figures()},
            library=_library() if report.figures() else "",
            dark=DARK | HEAT,
            heat=HEAT,
        )
    )
    page = _EMPTY_LINK.sub(lambda m: f'<a href="#{m[1]}">{labels.get(m[1], m[1])}</a>', page)
    _require_links(page)
    return page


def _labels(report: Report) -> dict[str, str]:
    """Number figures and tables in reading order: name -> "Figure 1"."""
    labels: dict[str, str] = {}
    counts = {"Figure": 0, "Table": 0}
    for block in report.blocks():
        if isinstance(block, Figure | Table):
            kind = type(block).__name__
            counts[kind] += 1
            labels[block.name] = f"{kind} {counts[kind]}"
    return labels


def _safe_json(figure: Figure) -> str:
    """A specification as JSON that can stand inside a script element whatever its text says."""
    spec = chart_spec(figure.spec, alt_text=figure.alt)
    try:
        text = json.dumps(spec, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise InputError(
            f"report figure {figure.name!r}",
            place="chart",
            found="a value that is not a finite number",
            expected="finite numbers or nulls",
        ) from error
    for unsafe in "<>&\u2028\u2029":
        text = text.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return text


def _require_links(page: str) -> None:
    identifiers = set(_IDENTIFIER.findall(page))
    for target in _INNER_LINK.findall(page):
        if target not in identifiers:
            raise InputError(
                "report",
                place=f"link to '#{target}'",
                found="no such figure, table or section",
                expected="the name of one that is in the report",
            )


@cache
def _library() -> str:
    """Vega, Vega-Lite and vega-embed in one script, the version that altair writes for.

    To put it together takes longer than most reports. So it is kept, under its digest.
    """
    import vl_convert

    made_by = f"{vegalite_version()}-{version('vl-convert-python')}"
    kept = user_cache() / f"vega-{made_by}.js"
    with suppress(OSError, RunError), os.fdopen(open_own(kept), "rb") as file:
        digest, _, script = file.read().partition(b"\n")
        if digest == _digest(script):
            return script.decode()
    script = vl_convert.javascript_bundle(_SNIPPET, vl_version=vegalite_version()).encode()
    with suppress(OSError):  # where nothing can be kept, only time is lost
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes_atomic(kept, _digest(script) + b"\n" + script)
    return script.decode()


def _digest(script: bytes) -> bytes:
    return sha256(_SNIPPET.encode() + script).hexdigest().encode()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("headcount.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _render_block
    environment.filters["line"] = _render_line
    environment.filters["slug"] = _slug
    environment.tests["block"] = lambda block, kind: type(block).__name__ == kind
    return environment


def _slug(title: str) -> str:
    return "section-" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


# The small, safe Markdown of prose and captions.


def _render_block(text: str) -> str:
    """Paragraphs, lists, quotes, emphasis, code and links as HTML; all else is escaped."""
    return str(_parser().render(text))


def _render_line(text: str) -> str:
    """One line, with emphasis, code and links only: no paragraph around it."""
    return str(_parser().renderInline(text))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # No raw HTML; no images, which could be fetched; no headings, whose order the report keeps.
    # Links to javascript: and the like are refused by the parser itself.
    parser = MarkdownIt("commonmark", {"html": False, "typographer": True})
    parser.enable(["replacements", "smartquotes"])
    parser.disable(["image", "heading", "lheading", "reference"])
    return parser
