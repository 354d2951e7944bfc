"""One name, one meaning; and what is private to a room stays in it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "headcount"
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

ALLOWED = {
    "Settings": "each study package has its own, named alike on purpose: they extend StudySettings",
    "MechanismName": "each study has a list of its own",
}
"""Names that several classes may have, and why."""


def public_types(source: Path) -> dict[str, list[str]]:
    """Where each name of a public class, or of a type that is given a name, is defined."""
    found = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            for name in _types(node):
                if not name.startswith("_"):
                    found[name].append(path.relative_to(source).as_posix())
    return found


def _types(node: ast.stmt) -> Iterator[str]:
    """Classes, and names written as classes are: one letter stands for any type."""
    if isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            name = target.id if isinstance(target, ast.Name) else ""
            if name[:1].isupper() and not name.isupper():
                yield name


def shared(source: Path) -> dict[str, list[str]]:
    return {name: places for name, places in public_types(source).items() if len(places) > 1}


def test_no_two_public_types_share_a_name() -> None:
    found = shared(SOURCE)
    assert {name: places for name, places in found.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "an exception that nothing needs any more"


def test_a_shared_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Plan:\n    pass\nRow = tuple[int, ...]\nT = 1\n")
    (tmp_path / "two.py").write_text(
        "class Plan:\n    pass\nclass _Plan:\n    pass\nRow: object = dict[str, int]\nT = 2\n"
    )
    files = ["one.py", "two.py"]
    assert shared(tmp_path) == {"Plan": files, "Row": files}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the full name of everything that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def trespasses(source: Path) -> list[str]:
    """Imports of a private module, or of a private name, of another room."""
    found = []
    for path in sorted(source.rglob("*.py")):
        own = path.relative_to(source).parts[0]
        for line, name in imported(path):
            package, *parts = name.split(".")
            private = [part for part in parts if part[:1] == "_" and part[:2] != "__"]
            if package == "headcount" and private and parts[0] not in (own, "_version"):
                found.append(f"{path.relative_to(source).as_posix()}:{line}: {name}")
    return found


def test_no_module_imports_what_is_private_to_another_room() -> None:
    assert trespasses(SOURCE) == []
    assert trespasses(BENCHMARKS) == []


def test_a_private_import_across_rooms_is_found(tmp_path: Path) -> None:
    for room in ("noise", "run"):
        (tmp_path / room).mkdir()
    (tmp_path / "noise" / "own.py").write_text("from headcount.noise import _keys\n")
    (tmp_path / "run" / "far.py").write_text(
        "import headcount.noise._keys\n"
        "from headcount.noise._keys import read\n"
        "from headcount.noise.words import _split\n"
        "from headcount.noise import RunKey\n"
        "from headcount._version import __version__\n"
    )
    assert trespasses(tmp_path) == [
        "run/far.py:1: headcount.noise._keys",
        "run/far.py:2: headcount.noise._keys.read",
        "run/far.py:3: headcount.noise.words._split",
    ]
