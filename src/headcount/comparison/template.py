"""A study's report from one template: ``report.md`` for the text, ``report.toml`` for the rest.

The template is Markdown with Jinja expressions. ``# ...`` is the report's title and the paragraph
under it the subtitle; ``## Summary`` and ``## Limits`` have to be there, other ``##`` are sections
and ``###`` subheadings. ``> [!NOTE]``, ``[!WARNING]`` and ``[!KEY FINDING]`` begin a callout.
``{{ figure("name") }}``, ``{{ table("name") }}`` and ``{{ number(...) }}`` on lines of their own
are figures, tables and big numbers. The template sees the findings' ``settings`` and ``tables``,
``cell`` for one value of a table, the study's ``words``, and ``facts``: those of the findings and
what the function ``facts`` of the study's module ``report`` adds. ``FILTERS`` of that module are
its own filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

import polars as pl

from headcount.comparison.study import Findings, Study
from headcount.report.model import (
    Block,
    Callout,
    KeyNumber,
    KeyNumbers,
    Prose,
    Provenance,
    Report,
    Section,
    Subheading,
)

if TYPE_CHECKING:
    from jinja2 import Environment

_CALLOUT = re.compile(r"> ?\[!(NOTE|WARNING|KEY FINDING)\]")
_MARK = "\ue000"  # a private character: no text of ours or of a user's begins a line with it
_NUMBER = "\ue001"
_SOFT_BREAK = re.compile(r"(?<!\n)\n(?!\n|\s*[-*] |\s*\d+\. |\s*> |\|) *")


def write_text(
    study: Study, findings: Findings, *, provenance: Provenance, template: str = "report.md"
) -> Report:
    """Fill in a template of the study and take it apart into the report's blocks."""
    page = _Page(study, findings)
    text = page.render((resources.files(study.package) / template).read_text(encoding="utf-8"))
    head, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, subtitle = head.strip().removeprefix("# ").partition("\n")
    sections = {}
    for part in parts:
        heading, _, body = part.partition("\n")
        sections[heading.strip()] = tuple(page.blocks(body))
    return Report(
        title=title.strip(),
        subtitle=joined(subtitle),
        summary=sections.pop("Summary", ()),
        limits=sections.pop("Limits", ()),
        sections=tuple(Section(title=name, blocks=blocks) for name, blocks in sections.items()),
        provenance=provenance,
        confidential=findings.confidential,
    )


def joined(text: str) -> str:
    """Lines of a paragraph or of a list's item joined, so that a sentence is one string."""
    return _SOFT_BREAK.sub(" ", text).strip()


class _Page:
    """One report while it is made: Jinja's names, and the blocks that its marks stand for."""

    def __init__(self, study: Study, findings: Findings) -> None:
        module = import_module(f"{study.package}.report")
        if hasattr(module, "facts"):
            findings = replace(findings, facts={**findings.facts, **module.facts(findings)})
        self.findings, self.filters = findings, {**FILTERS, **getattr(module, "FILTERS", {})}
        self.drawn: set[str] = set()
        self.words = study.words(findings)
        self.exhibits = study.exhibits()(
            package=study.package,
            findings=findings,
            render=lambda text: joined(self.render(text)),
            drawn=self.drawn,
        )

    def render(self, text: str) -> str:
        return self._jinja.from_string(text).render()

    @cached_property
    def _jinja(self) -> Environment:
        from jinja2 import Environment, StrictUndefined

        found = self.findings
        jinja = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        jinja.filters.update(self.filters)
        jinja.globals.update(
            settings=found.settings,
            facts=found.facts,
            tables=found.tables,
            figure=self._figure,
            table=lambda name: f"{_MARK}table {name}",
            number=lambda value, label, unit="": f"{_MARK}{_NUMBER.join((value, label, unit))}",
            cell=lambda table, column, /, **where: cell(found.tables[table], column, **where),
            **self.words,
        )
        return jinja

    def _figure(self, name: str) -> str:
        self.drawn.add(name)
        return f"{_MARK}figure {name}"

    def blocks(self, text: str) -> Iterator[Block]:
        """Take a section's text apart."""
        numbers: list[KeyNumber] = []
        for chunk in _chunks(text):
            if _NUMBER in chunk:
                value, label, unit = chunk.removeprefix(_MARK).split(_NUMBER)
                numbers.append(KeyNumber(value=value, label=label, unit=unit))
                continue
            if numbers:
                yield KeyNumbers(tuple(numbers))
                numbers = []
            yield self._block(chunk)
        if numbers:
            yield KeyNumbers(tuple(numbers))

    def _block(self, chunk: str) -> Block:
        if chunk.startswith(_MARK):
            kind, _, name = chunk.removeprefix(_MARK).partition(" ")
            return self.exhibits.figure(name) if kind == "figure" else self.exhibits.table(name)
        if chunk.startswith("### "):
            return Subheading(chunk.removeprefix("### ").strip())
        if callout := _CALLOUT.match(chunk):
            said = "\n".join(line.removeprefix(">").strip() for line in chunk.splitlines()[1:])
            return Callout(callout[1].lower(), joined(said))  # type: ignore[arg-type]
        return Prose(joined(chunk))


def _chunks(text: str) -> Iterator[str]:
    """Pieces of text that are one block each: neighbouring paragraphs are one."""
    prose: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.strip("\n")
        alone = lines.startswith((_MARK, "### ")) or _CALLOUT.match(lines)
        if alone and prose:
            yield "\n\n".join(prose)
            prose = []
        if lines.startswith(_MARK):
            yield from (line.strip() for line in lines.splitlines())
        elif alone:
            yield lines
        elif lines.strip():
            prose.append(lines)
    if prose:
        yield "\n\n".join(prose)


def cell(frame: pl.DataFrame, column: str, /, **where: Any) -> Any:
    """The value of the one row that fits; None if there is no such row, or several."""
    rows = frame.filter(**where)
    return rows[column][0] if rows.height == 1 else None


def shown(value: Any, form: str = "") -> str:
    """A number in a Python format, with a true minus."""
    return format(value, form).replace("-", "\N{MINUS SIGN}")


def percent(share: float, digits: int = 3) -> str:
    """A share in percent: "50 %"."""
    return f"{100 * share:.{digits}g} %"


def listed(items: list[str], word: str = "and") -> str:
    """Items as English: "a", "a and b", "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def plural(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 county", "3 counties"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "shown": shown,
    "percent": percent,
    "listed": listed,
    "plural": plural,
}
