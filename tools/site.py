"""What the documentation site adds to Markdown: formulas as MathML, and pages made from the code.

A Markdown extension, named in ``zensical.toml``. Formulas are written as ``$...$`` or ``$$...$$``
and turned into MathML when the site is built, so that a page needs no script to show them. A line
that is ``<!-- names -->`` becomes the reference of everything that ``import headcount`` offers, and
``<!-- commands -->`` the help of every command. The "where" list of a docstring becomes a list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

ROOMS = {
    "api": "Verbs",
    "init": "Reading files",
    "domain": "Domain",
    "schema": "Schema",
    "geography": "Geography",
    "population": "Populations",
    "tabulate": "Counts and queries",
    "mechanisms": "Mechanisms",
    "noise": "Noise",
    "privacy": "Privacy",
    "release": "Releases",
    "evaluation": "Evaluation",
    "attacks": "Attacks",
    "report": "Findings",
    "config": "Configs",
    "run": "Runs",
}
"""Headings of the reference, in the order in which data flow."""


ENTRY = re.compile(r"(\S.*?)\s{2,}(\S.*)")
"""A line of a "where" list."""


class Formula(InlineProcessor):
    """A formula in dollars."""

    def __init__(self, pattern: str, markdown: Markdown, *, display: str) -> None:
        super().__init__(pattern, markdown)
        self.display = display

    def handleMatch(self, m: re.Match[str], data: str) -> Any:  # type: ignore[override]
        """MathML, put aside so that nothing else changes it."""
        html = convert(m[1].strip(), display=self.display)
        if self.display == "block":
            html = f'<span class="formula">{html}</span>'
        return self.md.htmlStash.store(html), m.start(0), m.end(0)


class Made(Preprocessor):
    """Lines that stand for text made from the code."""

    def run(self, lines: list[str]) -> list[str]:
        """The lines, with what is made in their place."""
        made = {"<!-- names -->": names, "<!-- commands -->": commands}
        return [new for line in lines for new in (made[line]() if line in made else [line])]


class Where(Preprocessor):
    """The list below a line that is "where": a name, spaces, what it is, in indented lines."""

    def run(self, lines: list[str]) -> list[str]:
        """The lines, with a list of Markdown in the place of each such block."""
        made: list[str] = []
        rest = list(lines)
        while rest:
            made.append(line := rest.pop(0))
            if line.strip() != "where":
                continue
            indent, block = _indent(line), []
            while rest and rest[0].strip() and _indent(rest[0]) > indent:
                block.append(rest.pop(0))
            made += ["", *_as_list(block), ""] if _is_list(block) else block
        return made


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_list(block: list[str]) -> bool:
    return bool(block) and ENTRY.match(block[0].strip()) is not None


def _as_list(block: list[str]) -> Iterator[str]:
    first = _indent(block[0])
    for line in block:
        entry = ENTRY.match(line.strip()) if _indent(line) == first else None
        yield f"- `{entry[1]}`: {entry[2]}" if entry else f"    {line.strip()}"


def names() -> Iterator[str]:
    """Every public name of the package, by room, for mkdocstrings."""
    import headcount

    homes: dict[str, str] = vars(headcount)["_HOMES"]
    rooms = {name: module.split(".")[1] for name, module in homes.items()}
    for room in sorted(set(rooms.values()), key=lambda one: ([*ROOMS, one].index(one), one)):
        yield from ("", f"## {ROOMS.get(room, room.capitalize())}", "")
        for name in sorted(name for name in homes if rooms[name] == room):
            yield from (f"::: {homes[name]}.{name}", "")


def commands() -> Iterator[str]:
    """The help of every command, as the command prints it."""
    os.environ["COLUMNS"] = "100"
    from typer.main import get_command

    from headcount.cli.app import app

    yield from _commands(get_command(app), "headcount")


def _commands(command: Any, name: str, parent: Any = None) -> Iterator[str]:
    """Of the group itself the help is that of its commands."""
    context = command.make_context(name, ["--help"], parent=parent, resilient_parsing=True)
    if hasattr(command, "list_commands"):
        for one in command.list_commands(context):
            yield from _commands(command.get_command(context, one), one, context)
        return
    yield from ("", f"### {context.command_path}", "", "```text")
    yield from command.get_help(context).splitlines()
    yield from ("```", "")


class Site(Extension):
    """Formulas and made pages."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Before code in backticks is nothing, after it everything: priorities 190 and 180."""
        md.preprocessors.register(Made(md), "made", 36)
        md.preprocessors.register(Where(md), "where", 35)
        displayed = Formula(r"(?<!\\)\$\$(.+?)\$\$", md, display="block")
        inline = Formula(r"(?<![\\$\w])\$(?![\s$])([^$]+?)(?<!\s)\$(?![\w$])", md, display="inline")
        md.inlinePatterns.register(displayed, "displayed-formula", 189)
        md.inlinePatterns.register(inline, "formula", 188)


def makeExtension(**settings: Any) -> Site:
    """What Markdown calls."""
    return Site(**settings)
