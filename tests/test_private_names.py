"""What is private to a room stays in it, and nobody asks what kind of method one is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from headcount.registry import MECHANISMS

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


def left_over(source: Path) -> list[str]:
    """Private functions and classes of a module that nothing in their room names."""
    found = []
    texts = {path: path.read_text() for path in sorted(source.rglob("*.py"))}
    for path, text in texts.items():
        around = " ".join(texts[one] for one in texts if one.parent == path.parent)
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list:
                named = re.findall(rf"\b{node.name}\b", around)
                if node.name[:1] == "_" != node.name[1:2] and len(named) == 1:
                    found.append(f"{path.relative_to(source).as_posix()}: {node.name}")
    return found


def test_nothing_private_is_left_over() -> None:
    for source in (SOURCE, PAPERS, ROOT / "benchmarks", ROOT / "tests"):
        assert left_over(source) == []


def test_what_is_left_over_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def _one(): ...\n\n\ndef _two(): ...\n\n\nclass _Three: ...\n")
    (tmp_path / "b.py").write_text("from a import _two\n")
    assert left_over(tmp_path) == ["a.py: _one", "a.py: _Three"]


def asked_kinds(source: Path, kinds: set[str], *, besides: Sequence[str]) -> list[str]:
    """Where code asks whether an object is of one of these classes."""
    found = []
    for path in sorted(source.rglob("*.py")):
        where = path.relative_to(source).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked = node.args[1]
            elif isinstance(node, ast.MatchClass):
                asked = node.cls
            else:
                continue
            names = {one.id for one in ast.walk(asked) if isinstance(one, ast.Name)}
            if not where.startswith(tuple(besides)):
                found += [f"{where}:{asked.lineno}: {name}" for name in sorted(names & kinds)]
    return found


def classes_in(folder: Path) -> set[str]:
    """The public classes that the modules of a folder define."""
    bodies = (ast.parse(path.read_text()).body for path in folder.rglob("*.py"))
    return {one.name for body in bodies for one in body if isinstance(one, ast.ClassDef)}


def test_nobody_asks_outside_its_folder_whether_a_method_is_topdown() -> None:
    topdown = {"TopDown", "TopDownDesign", "TopDownSettings"}
    assert topdown <= classes_in(SOURCE / "topdown")
    assert asked_kinds(SOURCE, topdown, besides=("topdown/",)) == []
    assert asked_kinds(SOURCE, topdown, besides=()) != []


def test_nobody_asks_outside_mechanisms_what_kind_of_method_it_is() -> None:
    names = {name for name in MECHANISMS.names() if name != "topdown"}
    methods = {MECHANISMS.get(name, source="test", place="name").__name__ for name in names}
    assert len(methods) == len(names) > 5
    assert asked_kinds(SOURCE, methods, besides=("mechanisms/",)) == []
