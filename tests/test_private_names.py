"""What is private to a room stays in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "headcount"
PAPERS = ROOT / "papers" / "src" / "headcount_papers"


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
    assert trespasses(PAPERS) == []
    assert trespasses(ROOT / "benchmarks") == []


def test_a_private_import_across_rooms_is_found(tmp_path: Path) -> None:
    for room in ("noise", "run"):
        (tmp_path / room).mkdir()
    (tmp_path / "noise" / "own.py").write_text("from headcount.noise import _keys\n")
    (tmp_path / "run" / "far.py").write_text(
        "import headcount.noise._keys\n"
        "from headcount.noise._keys import read\n"
        "from headcount.noise.source import _split\n"
        "from headcount.noise import RunKey\n"
        "from headcount._version import __version__\n"
    )
    assert trespasses(tmp_path) == [
        "run/far.py:1: headcount.noise._keys",
        "run/far.py:2: headcount.noise._keys.read",
        "run/far.py:3: headcount.noise.source._split",
    ]
