"""A report inside another page, which allows no scripts: its figures as they are printed.

A report is a file, and whoever can write it must not reach the page around it. So nothing of it is
passed on as it is: the text is written anew, tag by tag, from a list of what reports consist of,
and a report with anything else is refused. Names inside it get a prefix, so that none is a name of
the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from typing import NoReturn

from headcount.errors import InputError

_TEXT = """
a aside blockquote br caption code dd details div dl dt em figcaption figure h2 h3 hr li ol p pre
section span strong summary table tbody td th thead tr ul
"""
_DRAWING = """
circle clippath defs ellipse g line lineargradient path polygon polyline rect stop svg text tspan
"""
TEXT, DRAWING = frozenset(_TEXT.split()), frozenset(_DRAWING.split())
"""Tags that reports have, and those of their drawings, as a browser spells them in HTML."""

VOID = frozenset(("br", "hr"))

_PLAIN = """
class role tabindex scope colspan start data-label data-figure
aria-label aria-hidden aria-roledescription
cx cy d display dominant-baseline fill-opacity font-family font-size font-style font-weight
gradientunits height offset opacity pointer-events points r rx ry stop-color stop-opacity
stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity
stroke-width text-anchor transform viewbox width x x1 x2 y y1 y2
"""
PLAIN = frozenset(_PLAIN.split())
"""Attributes whose values a browser neither follows nor runs."""

LEFT_OUT = frozenset(("xmlns", "xmlns:xlink", "version"))
NAMES = frozenset(("id", "aria-describedby", "aria-labelledby"))
PAINTS = frozenset(("fill", "stroke", "clip-path"))
DATA_OF_FIGURE = [("type", "application/json"), ("class", "spec")]

_NAME = re.compile(r"[\w.-]+")
_PAINT = re.compile(r"#?\w+|rgba?\([\d., %]+\)")
_PAINT_OF_NAME = re.compile(r"url\(#([\w.-]+)\)")

_Attributes = Sequence[tuple[str, str | None]]
Read = Callable[[str], str]
"""The text of a file of the report by its name: "report.html", "figures/memo.svg"."""


@dataclass(frozen=True)
class ReportSection:
    """A part of a report: its name and title as text, and all of it as HTML."""

    name: str
    title: str
    body: str


def report_inside(read: Read, *, source: str) -> tuple[ReportSection, ...]:
    """The sections of a written report without its scripts, data and appendix.

    where
        source   what the report is called in an error
    """
    _, begun, rest = read("report.html").partition("<main>")
    text, ended, _ = rest.partition('<section class="appendix"')
    if not (begun and ended):
        raise _refused(source, "no text of a report")

    def draw(figure: str) -> str:
        drawing = _Copy(source, DRAWING, prefix=f"report-{figure}-")
        return "".join(drawing.copied(read(f"figures/{figure}.svg")))

    copy = _Copy(source, TEXT, prefix="report-", draw=draw)
    copy.copied(text)
    return tuple(copy.sections)


def _refused(source: str, found: str) -> InputError:
    return InputError(source, found=found, expected="a report as headcount writes it")


class _Copy(HTMLParser):
    """Writes anew what is on the list, and refuses the rest."""

    def __init__(
        self,
        source: str,
        tags: frozenset[str],
        *,
        prefix: str,
        draw: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(convert_charrefs=True)
        self._source, self._tags, self._prefix, self._draw = source, tags, prefix, draw
        self._open: list[str] = []
        self._written: list[str] = []
        self._unseen = ""
        self._figure = self._name = ""
        self._title: list[str] = []
        self.sections: list[ReportSection] = []

    def copied(self, text: str) -> list[str]:
        """Take all of a text; what was written of it since the last section."""
        self.feed(text)
        self.close()
        if self._open or self._unseen:
            self._refuse(f"<{self._unseen or self._open[-1]}> without an end")
        return self._written

    def _refuse(self, found: str) -> NoReturn:
        raise _refused(self._source, found)

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        """A tag that holds others, or none at all where HTML says so."""
        if self._unseen:
            return
        # What stands in a figure for those with and without scripts: its drawing takes their place.
        if self._open[-1:] == ["figure"] and (
            tag == "noscript" or (tag == "script" and list(attrs) == DATA_OF_FIGURE)
        ):
            self._unseen = tag
            return
        self._write(tag, attrs)
        if tag in VOID:
            return
        if tag == "section" and not self._open:
            self._name = dict(attrs).get("id") or ""
        if tag == "figure":
            self._figure = dict(attrs).get("id") or ""
        self._open.append(tag)
        if self._draw and self._figure and list(attrs) == [("class", "chart")]:
            self._written.append(self._draw(self._figure))
            self._figure = ""

    def handle_startendtag(self, tag: str, attrs: _Attributes) -> None:
        """A tag that holds nothing: of drawings, or one that never does."""
        if self._unseen:
            return
        self._write(tag, attrs)
        if tag not in VOID:
            if self._tags is TEXT:
                self._refuse(f"<{tag}/>")
            self._written.append(f"</{tag}>")

    def _write(self, tag: str, attrs: _Attributes) -> None:
        if tag not in self._tags:
            self._refuse(f"the tag <{tag}>")
        said = "".join(
            f' {name}="{escape(value)}"' for name, value in self._allowed(tag, attrs).items()
        )
        self._written.append(f"<{tag}{said}>")

    def _allowed(self, tag: str, attrs: _Attributes) -> dict[str, str]:
        """The attributes that are passed on; the first of two with one name, as browsers do."""
        kept: dict[str, str] = {}
        for name, value in attrs:
            if name not in LEFT_OUT and name not in kept:
                kept[name] = self._value(tag, name, value or "")
        return kept

    def _value(self, tag: str, name: str, value: str) -> str:
        if name in PLAIN and "url(" not in value.lower():
            return value
        if name in NAMES and all(map(_NAME.fullmatch, value.split())):
            return " ".join(f"{self._prefix}{one}" for one in value.split())
        if name in PAINTS:
            if found := _PAINT_OF_NAME.fullmatch(value):
                return f"url(#{self._prefix}{found[1]})"
            if _PAINT.fullmatch(value):
                return value
        if (tag, name) == ("a", "href"):
            if value.startswith("#") and _NAME.fullmatch(value[1:]):
                return f"#{self._prefix}{value[1:]}"
            if value.startswith("https://"):
                return value
        raise _refused(self._source, f"the attribute {name} of <{tag}>, {value[:80]!r}")

    def handle_endtag(self, tag: str) -> None:
        """The end of the tag that was begun last."""
        if self._unseen:
            self._unseen = "" if tag == self._unseen else self._unseen
            return
        if self._open[-1:] != [tag]:
            self._refuse(f"</{tag}> without a beginning")
        self._open.pop()
        self._written.append(f"</{tag}>")
        if tag == "section" and not self._open:
            title = " ".join("".join(self._title).split())
            self.sections.append(
                ReportSection(f"{self._prefix}{self._name}", title, "".join(self._written))
            )
            self._written, self._title = [], []

    def handle_data(self, data: str) -> None:
        """Text, in which nothing is a tag any more."""
        if not self._unseen:
            self._written.append(escape(data))
            if self._open == ["section", "h2"]:
                self._title.append(data)

    def handle_comment(self, data: str) -> None:
        """None is in the text of a report."""
        self._refuse("a comment")

    def handle_decl(self, decl: str) -> None:
        """None is in the text of a report."""
        self._refuse("a declaration")

    def handle_pi(self, data: str) -> None:
        """None is in the text of a report."""
        self._refuse("an instruction")

    def unknown_decl(self, data: str) -> None:
        """None is in the text of a report."""
        self._refuse("a declaration")
