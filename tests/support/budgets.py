"""What there is to read: modules and public names of each room, files that a journey passes.

    python -m tests.support.budgets          says what each is, beside what it may be
    python -m tests.support.budgets --lower  writes down what has fallen

``tests/budgets.toml`` has what each may be at most. Nothing raises it but a person who edits it.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
BUDGETS = ROOT / "tests" / "budgets.toml"
PACKAGES = {
    "headcount": ROOT / "src" / "headcount",
    "headcount_papers": ROOT / "papers" / "src" / "headcount_papers",
}
PEOPLE = "county,block,sex,age\n" + "".join(
    f"{c},{c}{b},{'fm'[n % 2]},{n % 3}\n" for c in "12" for b in "123" for n in range(7)
)
PLACES = "county,block\n" + "".join(f"{c},{c}{b}\n" for c in "12" for b in "123")
CONFIG = """[population]
kind = "microdata"
file = "people.csv"
units = "places.csv"
geography = {{ columns = ["county", "block"], root = "state" }}
attribute = [{{ name = "sex", levels = ["f", "m"] }}, {{ name = "age", levels = ["0", "1", "2"] }}]

[mechanism]
{mechanism}

[run]
out = "{out}"
seed = 1
"""
MECHANISMS = {
    "geometric": 'name = "geometric"\nepsilon = 1',
    "topdown": 'name = "topdown"\nepsilon = 1\npool = true',
}
JOURNEYS = {
    "protect, geometric": ["protect", "geometric-@.toml"],
    "protect, topdown": ["protect", "topdown-@.toml"],
    "evaluate": ["evaluate", "topdown-@"],
    "plan": ["plan", "topdown-real.toml"],
}
WALK = """
import json, sys, threading
from pathlib import Path
import headcount
from headcount.cli.app import main

root = str(Path(headcount.__file__).parent) + "/"
found = {}

def run(words):
    sys.argv = ["headcount", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words

for name, words in json.loads(sys.argv[1]).items():
    files = found[name] = set()

    def watch(frame, event, _):
        code = frame.f_code
        # Bodies of classes and modules run when they are loaded: no part of the way.
        if event == "call" and code.co_flags & 1 and code.co_name[0] != "<":
            if code.co_filename.startswith(root):
                files.add(code.co_filename[len(root):])

    run([word.replace("@", "warm") for word in words])
    threading.setprofile(watch)
    sys.setprofile(watch)
    run([word.replace("@", "real") for word in words])
    sys.setprofile(None)
    threading.setprofile(None)
Path("walked.json").write_text(json.dumps({name: sorted(one) for name, one in found.items()}))
"""


def rooms(source: Path) -> dict[str, dict[str, int]]:
    """Modules and public names of each room; files beside the rooms are one."""
    found: dict[str, dict[str, int]] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        room = found.setdefault(
            parts[0] if len(parts) > 1 else "files", {"modules": 0, "public": 0}
        )
        room["modules"] += 1
        room["public"] += sum(
            isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        )
    return found


def journeys() -> dict[str, list[str]]:
    """The files of headcount that each command passes, loading and compiling apart."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "people.csv").write_text(PEOPLE, encoding="utf-8")
        (home / "places.csv").write_text(PLACES, encoding="utf-8")
        for name, mechanism in MECHANISMS.items():
            for word in ("warm", "real"):
                text = CONFIG.format(mechanism=mechanism, out=f"{name}-{word}")
                (home / f"{name}-{word}.toml").write_text(text, encoding="utf-8")
        program = [sys.executable, "-P", "-c", WALK, json.dumps(JOURNEYS)]
        subprocess.run(program, cwd=home, check=True, capture_output=True)
        walked: dict[str, list[str]] = json.loads((home / "walked.json").read_text("utf-8"))
    return walked


def counted() -> dict[str, dict[str, int]]:
    """Everything that has a budget, by table of the file."""
    found = {
        f"{package}.{room}": numbers
        for package, source in PACKAGES.items()
        for room, numbers in rooms(source).items()
    }
    return {"journeys": {name: len(files) for name, files in journeys().items()}} | found


def budgets() -> dict[str, dict[str, int]]:
    """What each may be at most."""
    return tomllib.loads(BUDGETS.read_text(encoding="utf-8"))


def over(found: dict[str, dict[str, int]], most: dict[str, dict[str, int]]) -> list[str]:
    """What is more than it may be, or has no budget."""
    return [
        f"{table}: {name}: found {number}, expected at most {most.get(table, {}).get(name, 0)}"
        for table, numbers in found.items()
        for name, number in numbers.items()
        if number > most.get(table, {}).get(name, 0)
    ]


def main() -> None:
    """Say what there is, or write down what has fallen."""
    found, most = counted(), budgets()
    lower = "--lower" in sys.argv[1:]
    lines = ["# What there is to read, at most: see tests/support/budgets.py.\n"]
    for table, numbers in found.items():
        lines.append(f'\n["{table}"]\n')
        for name, number in numbers.items():
            may = most.get(table, {}).get(name, number)
            sys.stdout.write(f"{table}: {name}: {number} of {may}\n")
            lines.append(f'"{name}" = {min(number, may)}\n')
    if lower:
        BUDGETS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
