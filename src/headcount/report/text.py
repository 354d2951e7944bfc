"""A report as plain text: for mails, terminals and readers of screens. Figures are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from textwrap import fill, indent, wrap

from headcount.report.model import (
    CONFIDENTIAL_BANNER,
    LIMITS_TITLE,
    Block,
    Callout,
    Figure,
    KeyNumbers,
    Prose,
    Report,
    Subheading,
    Table,
)

WIDTH = 80
NARROW = 16
"""Letters of the head of a column."""
_MARKS = re.compile(r"\*\*|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)|`")
_ITEM = re.compile(r"(?m)^- ")


def render_text(report: Report) -> str:
    """The whole report, but for its figures and how it was made."""
    parts = [_underlined(report.title, "="), _wrapped(report.subtitle)]
    if report.confidential:
        parts.insert(0, f"CONFIDENTIAL: {CONFIDENTIAL_BANNER}.")
    parts += _texts(report.summary)
    for section in report.sections:
        parts += [_underlined(section.title, "-"), *_texts(section.blocks)]
    parts += [_underlined(LIMITS_TITLE, "-"), *_texts(report.limits)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _underlined(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}"


def _texts(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Prose):
            yield _prose(block.text)
        elif isinstance(block, Subheading):
            yield block.text.upper()
        elif isinstance(block, Callout):
            said = "" if block.kind == "key finding" else f"{block.kind.upper()}: "
            yield indent(_prose(said + block.text, WIDTH - 4), "  | ", lambda _: True)
        elif isinstance(block, KeyNumbers):
            yield "\n".join(
                _wrapped(f"{one.value} {one.unit}".rstrip() + f": {one.label}", after="    ")
                for one in block.numbers
            )
        elif isinstance(block, Table):
            yield _table(block)
        else:
            assert isinstance(block, Figure)


def _prose(text: str, width: int = WIDTH) -> str:
    """Paragraphs and lists, without the marks of Markdown."""
    found = []
    for paragraph in _MARKS.sub("", text).split("\n\n"):
        items = [one for one in _ITEM.split(paragraph) if one]
        if _ITEM.match(paragraph):
            found.append("\n".join(_wrapped(one, width, before="- ", after="  ") for one in items))
        else:
            found.append(_wrapped(paragraph, width))
    return "\n\n".join(found)


def _wrapped(text: str, width: int = WIDTH, *, before: str = "", after: str = "") -> str:
    plain = " ".join(text.split())
    return fill(
        plain,
        width,
        initial_indent=before,
        subsequent_indent=after,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(table: Table) -> str:
    """Caption, columns under their heads, rows by their group, notes; numbers to the right."""
    heads = [
        wrap(f"{one.label} ({one.unit})" if one.unit else one.label, NARROW) or [""]
        for one in table.columns
    ]
    rows = [
        [column.show(value) for column, value in zip(table.columns, row, strict=True)]
        for row in table.rows
    ]
    lines = list(zip_longest(*heads, fillvalue=""))
    wide = [max(map(len, column)) for column in zip(*lines, *rows, strict=True)]

    def drawn(line: Sequence[str]) -> str:
        cells = zip(line, wide, table.columns, strict=True)
        return "  ".join(
            text.rjust(width) if column.numeric else text.ljust(width)
            for text, width, column in cells
        ).rstrip()

    found = [*map(drawn, lines), drawn(["-" * width for width in wide])]
    for number, row in enumerate(rows):
        group = table.groups[number] if table.groups else ""
        if group and group != (table.groups[number - 1] if number else ""):
            found.append(f"{group}:")
        found.append(drawn(row))
    notes = [_prose(table.notes)] if table.notes else []
    return "\n\n".join([_prose(table.caption), "\n".join(found), *notes])
