"""A report inside another page, which allows no scripts: its figures as they are printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headcount.errors import InputError

_FIGURE = re.compile(
    r'(<figure id="([\w-]+)"[^>]*>\s*)<div class="chart"></div>\s*<noscript>.*?</noscript>(.*?)'
    r'<script type="application/json" class="spec">.*?</script>',
    re.S,
)
_SECTION = re.compile(r'<section id="([\w-]+)"[^>]*>\s*<h2>(.*?)</h2>', re.S)


@dataclass(frozen=True)
class ReportInside:
    """The text of a report in HTML, and its sections by id and title, in HTML too."""

    body: str
    contents: tuple[tuple[str, str], ...]


def report_inside(path: Path) -> ReportInside:
    """The text of a written report without its scripts, data and appendix."""
    page = path.read_text(encoding="utf-8")
    main = page[page.index("<main>") + len("<main>") : page.index('<section class="appendix"')]

    def drawn(found: re.Match[str]) -> str:
        file = path.parent / "figures" / f"{found[2]}.svg"
        svg = file.read_text(encoding="utf-8") if file.is_file() else ""
        # Names inside drawings are the same in each: clip paths must not be mixed up.
        svg = re.sub(r'(id="|url\(#)(?=[\w-]*clip|gradient)', rf"\g<1>{found[2]}-", svg)
        return f'{found[1]}<div class="chart">{svg}</div>{found[3]}'

    body = _FIGURE.sub(drawn, main)
    if "<script" in body:
        raise InputError(str(path), found="a report with a script in its text", expected="none")
    return ReportInside(body, tuple(_SECTION.findall(body)))
