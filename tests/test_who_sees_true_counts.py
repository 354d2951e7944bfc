"""Which functions are given true counts: docs/architecture.md names them all, and nobody else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "headcount"
TRUE = {
    *("Counts", "_KeyedRecords", "Population", "Tabulated", "TrueTable", "Truth"),
    *("_TruthByRange", "TruthFiles", "_TruthHere"),
}
"""Types that hold true counts."""


def names_in(annotation: ast.expr | None) -> set[str]:
    """Every name of an annotation, those in quotes too."""
    found = set()
    for node in ast.walk(annotation) if annotation else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            with suppress(SyntaxError):  # a sentence, such as the help of an option
                found |= names_in(ast.parse(node.value, mode="eval").body)
        if isinstance(node, ast.Name | ast.Attribute):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def given_true_counts(source: str) -> set[str]:
    """Functions with such a parameter, and classes with such a field."""

    def inside(node: ast.AST, within: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            name = within
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{within}.{child.name}".lstrip(".")
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                own = child.args
                every = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
                if any(one and names_in(one.annotation) & TRUE for one in every):
                    yield name
            if isinstance(node, ast.ClassDef) and isinstance(child, ast.AnnAssign):
                yield from [within] if names_in(child.annotation) & TRUE else []
            yield from inside(child, name)

    return set(inside(ast.parse(source), ""))


def by_file(folder: Path) -> dict[str, set[str]]:
    found = {
        path.relative_to(folder).as_posix(): given_true_counts(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.py")
    }
    return {name: some for name, some in found.items() if some}


def section() -> str:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"## Who sees true counts\n(.*?)\n## ", text, re.DOTALL)
    return str(found)


def test_the_functions_of_topdown_that_are_given_true_counts_are_those_in_the_docs():
    rows = re.findall(r"^\| `(\w+\.py)` \| (.*?) \| .* \|$", section(), re.MULTILINE)
    written = {name: set(re.findall(r"`([\w.]+)`", some)) for name, some in rows}
    assert by_file(PACKAGE / "topdown") == written


def test_the_rooms_that_are_given_true_counts_are_those_in_the_docs():
    (sentence,) = re.findall(r"are in the rooms (.*?), and in no other", section(), re.DOTALL)
    assert {name.split("/")[0] for name in by_file(PACKAGE)} == set(
        re.findall(r"`(\w+(?:\.py)?)/?`", sentence)
    )


def test_every_type_of_true_counts_exists():
    text = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert [one for one in TRUE if not re.search(rf"^(class )?{one}\b[(:]", text, re.M)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(x: Counts): ...", {"f"}),
        ("def f(*, x: 'Mapping[str, Counts] | None' = None): ...", {"f"}),
        ("def f(x: tabulate.Counts): ...", {"f"}),
        ("def f(*x: Counts): ...", {"f"}),
        ("class A:\n    async def f(self, x: Truth): ...", {"A.f"}),
        ("class A:\n    x: list[Population]", {"A"}),
        ("def f():\n    def g(x: Counts): ...", {"f.g"}),
        ("def f(x: Annotated[str, Option(help='Truth or Counts of it.')]): ...", set()),
        ("def f(x: CountsRelease) -> Counts:\n    y: Counts = x", set()),
    ],
)
def test_a_function_that_is_given_true_counts_is_found(source, found):
    assert given_true_counts(source) == found
