"""One name, one meaning: no two public classes of the package share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "headcount"

ALLOWED = {
    "Settings": "each study package has its own, named alike on purpose: they extend StudySettings",
}
"""Names that several classes may have, and why."""


def public_classes(source: Path) -> dict[str, list[str]]:
    """Where each name of a public class is defined."""
    found = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(source).as_posix())
    return found


def shared(source: Path) -> dict[str, list[str]]:
    return {name: places for name, places in public_classes(source).items() if len(places) > 1}


def test_no_two_public_classes_share_a_name() -> None:
    found = shared(SOURCE)
    assert {name: places for name, places in found.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "an exception that nothing needs any more"


def test_a_shared_name_is_found(tmp_path: Path) -> None:
    for file, name in (("one.py", "Plan"), ("two.py", "Plan"), ("two.py", "_Plan")):
        with (tmp_path / file).open("a") as out:
            out.write(f"class {name}:\n    pass\n")
    assert shared(tmp_path) == {"Plan": ["one.py", "two.py"]}
