"""Every sentence that a user can see, for reading from top to bottom: ``make sentences``.

Help, errors, warnings, log lines, guarantees and report texts, with file and line. What is
worked out when the program runs stands in braces.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src" / "headcount", ROOT / "papers" / "src" / "headcount_papers")
TEMPLATES = (".md", ".j2")
SHORTEST = 12
"""Shorter texts are keys and names."""
FEWEST_WORDS = 6
"""Of a text that reaches a reader by other ways: explanations, reasons, captions of studies."""
LOGGED = {"debug", "info", "warning", "error"}
SPOKEN = {"found", "expected", "help", "title", "caption", "subtitle", "note", "words", "label"}
"""Arguments that reach a reader, whoever is called."""
SPEAKERS = {"Guarantee", "Prose", "Subheading", "Callout", "KeyNumber", "Section", "Column"}
"""What is called with sentences for a release or a report."""


def sentences(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, kind and text of each sentence in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    listed = list(_of_known_kinds(tree, commands=path.parent.name == "cli"))
    yield from listed
    yield from _others(tree, known=" ".join(text for _, _, text in listed))


def _of_known_kinds(tree: ast.Module, *, commands: bool) -> Iterator[tuple[int, str, str]]:
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    if commands:
        yield from _of_commands(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node in raised:
            yield from _of_error(node)
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _others(tree: ast.Module, *, known: str) -> Iterator[tuple[int, str, str]]:
    """Whatever else has so many words, docstrings apart."""
    nodes = list(ast.walk(tree))
    apart = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            apart |= {id(part) for part in ast.walk(node) if part is not node}
    for node in nodes:
        if id(node) in apart or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        text = _text(node)
        if len(text.split()) >= FEWEST_WORDS and text not in known:
            yield node.lineno, "text", text


def captions(path: Path) -> Iterator[str]:
    """The texts of a study's tables and figures."""
    yield from _texts_in(tomllib.loads(path.read_text(encoding="utf-8")))


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str) and len(value.split()) >= FEWEST_WORDS:
        yield " ".join(value.split())
    for part in value.values() if isinstance(value, dict) else ():
        yield from _texts_in(part)
    for part in value if isinstance(value, list) else ():
        yield from _texts_in(part)


def _of_commands(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (doc := ast.get_docstring(node)):
            yield node.lineno, "help", doc


def _of_error(call: ast.Call) -> Iterator[tuple[int, str, str]]:
    """An error as it is printed, with its place, what was found and what was expected."""
    parts = [_text(value) for value in call.args]
    parts += [f"{k.arg} {_text(k.value)}" for k in call.keywords]
    yield call.lineno, "error", ", ".join(part for part in parts if part)


def _of_call(call: ast.Call) -> Iterator[tuple[int, str, str]]:
    name = call.func
    called = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
    owner = getattr(name.value, "id", "") if isinstance(name, ast.Attribute) else ""
    spoken = [k.value for k in call.keywords if k.arg in SPOKEN]
    kind = "text"
    if called in LOGGED and owner in ("log", "_log", "logger"):
        kind, spoken = "log", call.args[:1]
    elif called in SPEAKERS or owner in SPEAKERS:
        kind, spoken = called, [*call.args, *spoken]
    for value in spoken:
        if len(text := _text(value)) >= SHORTEST and " " in text:
            yield value.lineno, kind, text


def _text(node: ast.AST) -> str:
    """A text as the reader gets it; anything else in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    if isinstance(node, ast.BinOp | ast.IfExp):
        return " | ".join(_text(part) for part in ast.iter_child_nodes(node) if _is_text(part))
    return f"{{{ast.unparse(node)}}}"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp)


def main() -> None:
    """Print them all, each once."""
    for path in sorted(path for source in SOURCES for path in source.rglob("*")):
        name = path.relative_to(ROOT)
        if path.suffix in TEMPLATES:
            sys.stdout.write(f"\n{name}\n{path.read_text(encoding='utf-8')}\n")
        if path.name == "report.toml":
            sys.stdout.write(f"\n{name}\n")
            sys.stdout.writelines(f"  caption: {text}\n" for text in captions(path))
        if path.suffix == ".py" and (found := sorted(set(sentences(path)))):
            sys.stdout.write(f"\n{name}\n")
            for line, kind, text in found:
                sys.stdout.write(f"  {line} {kind}: {' '.join(text.split())}\n")


if __name__ == "__main__":
    main()
