"""What the documentation shows: fenced blocks, commands, and keys in tables."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PAGES = tuple(sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]))

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}: a block of {self.language or 'plain text'}"

    @property
    def toml(self) -> dict[str, Any]:
        """The block as TOML."""
        return tomllib.loads(self.text)


@cache
def blocks() -> tuple[Block, ...]:
    """Every fenced block of every page."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCED.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page.name, line, match[1], match[2]))
    return tuple(found)


@cache
def commands() -> tuple[tuple[str, list[str]], ...]:
    """Every command of an indented block: where it stands, and its words without `headcount`."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            if line.startswith("    headcount "):
                words = shlex.split(line, comments=True)
                found.append((f"{page.name}: {' '.join(words)}", words[1:]))
    return tuple(found)


def table(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, cell by cell."""
    text = (ROOT / page).read_text(encoding="utf-8")
    below = text.split(f"\n{heading}\n", 1)
    if len(below) < 2:
        raise AssertionError(f"{page}: found no heading {heading!r}, expected the one tested here")
    rows = re.search(r"(?:^\|.*\|\n)+", below[1], re.MULTILINE)
    assert rows, f"{page}: found no table below {heading!r}"
    cells = [line.strip("|").split(" | ") for line in rows[0].splitlines()]
    return [[cell.strip() for cell in row] for row in cells[2:]]


def keys_of(cell: str) -> list[str]:
    """The keys that a cell of a table names in backticks."""
    return [
        name.strip("[]").removeprefix("mechanism.")
        for name in re.findall(r"`(\[*[a-z][\w.]*\]*)`", cell)
    ]


def dump(value: object) -> str:
    """A value as TOML, tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {dump(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dump, value)) + "]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


def config_text(config: dict[str, Any]) -> str:
    """A whole config as TOML."""
    return "".join(f"{name} = {dump(part)}\n" for name, part in config.items())


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two tables as one: tables joined, lists of tables one after the other, else the second."""
    out = dict(first)
    for key, value in second.items():
        old = out.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            out[key] = merged(old, value)
        elif isinstance(old, list) and old and isinstance(old[0], dict):
            out[key] = [*old, *value]
        else:
            out[key] = value
    return out
