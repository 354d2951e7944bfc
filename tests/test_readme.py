"""The README's examples run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headcount.cli.app import EXAMPLES, MOVED, RENAMED, app
from tests.docs.pages import PAGES
from tests.init.strangers import semicolons

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
INSTALLED = "headcount/.venv/bin/headcount"
COMMANDS = set(get_command(app).commands)  # type: ignore[attr-defined]


def test_every_command_is_named_here_and_in_the_help():
    text = README.read_text(encoding="utf-8")
    typed = set(re.findall(r"^    headcount ([\w-]+)", text, re.MULTILINE))
    assert COMMANDS - typed <= set(re.findall(r"`(?:headcount )?([\w-]+)`", text))
    assert set(re.findall(r"^  headcount ([\w-]+)", EXAMPLES, re.MULTILINE)) == COMMANDS


def test_the_help_says_what_every_command_does_in_a_whole_sentence():
    said = CliRunner().invoke(app, ["--help"]).output.split("\nCommands:\n")[1]
    assert {line.split()[0] for line in said.splitlines()} == COMMANDS
    assert [line for line in said.splitlines() if not line.endswith((".", "?"))] == []
    assert "..." not in said


def with_option(option: str) -> set[str]:
    """Commands that take an option, groups by their own name where all of theirs do."""
    found = set()
    root: Any = get_command(app)  # click's own types are hidden by typer
    for name, command in root.commands.items():
        inside = command
        if hasattr(command, "list_commands"):
            context = command.make_context(name, ["--help"], resilient_parsing=True)
            inside = {
                one: command.get_command(context, one) for one in command.list_commands(context)
            }
        parts = inside if isinstance(inside, dict) else {"": inside}
        have = {
            one
            for one, part in parts.items()
            if any(option in parameter.opts for parameter in part.params)
        }
        found |= {name} if have == set(parts) else {f"{name} {one}" for one in have}
    return found


def test_options_that_commands_share_are_listed_with_their_commands():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^- `(--\w+)`(?: or `-q`)? \((.*?)\)", text, re.M | re.DOTALL))
    said = {option: set(re.findall(r"`([\w ]+)`", names)) for option, names in listed.items()}
    assert said["--json"] == with_option("--json")
    assert said["--quiet"] | {"check"} == with_option("--quiet")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    gone = {*MOVED, *RENAMED} if page.name == "CHANGELOG.md" else set()
    assert set(re.findall(r"[`(]headcount ([a-z][\w-]*)", text)) <= COMMANDS | gone


def test_the_python_example_runs_and_prints_its_guarantee():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.strip().splitlines()) <= 12
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "epsilon 0.5 when one person's record changes" in done.stdout


def block(text: str, heading: str) -> list[str]:
    """The commands of one section: its indented lines, without comments."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    return [line.split("#")[0].strip() for line in re.findall(r"^    (\S.*)$", section, re.M)]


def in_a_clone(command: str) -> str:
    """A command of the README as somebody types it who stands beside the clone."""
    command = command.replace("git clone THIS-REPOSITORY", "git clone")
    return re.sub(r"^make (?!-C)", "make -C headcount ", command)


def first_pass(script: str) -> list[str]:
    """What CI runs before it brings in a browser and Spark, without options of git."""
    (part,) = re.findall(r"# --- first pass(.*?)# --- second pass", script, re.DOTALL)
    steps = re.findall(r"^step (.*)$", part, re.M)
    return [re.sub(r"git .*clone --quiet \"\$here\"", "git clone", step).strip() for step in steps]


def missing_steps(readme: str, script: str) -> list[str]:
    """Commands of the README that CI's first pass does not run."""
    commands = [*block(readme, "Two commands"), *block(readme, "Your own data")]
    assert {"make demo", "make test"} <= set(commands)
    return [one for one in commands if in_a_clone(one) not in first_pass(script)]


def test_ci_first_does_what_the_readme_tells_a_stranger_to_do() -> None:
    readme, script = README.read_text(encoding="utf-8"), (ROOT / ".ci/run").read_text()
    assert missing_steps(readme, script) == []
    assert missing_steps(readme, script.replace("headcount test\n", "headcount spark test\n")) == [
        "make test"
    ]
    bare, _, second = script.partition("# --- second pass")
    assert "HEADCOUNT_REQUIRE_SPARK=1" not in bare
    assert 'rm -f "$scratch"/bare/{chrom,google-chrome,java,' in bare
    assert "make test-needs" in second
    for command in block(readme, "Two commands"):  # and nothing is left out for strangers
        make, target = command.split()
        planned = subprocess.run([make, "-n", target], cwd=ROOT, capture_output=True, check=True)
        assert planned.stdout.strip()


def test_four_commands_and_no_edit_lead_from_a_clone_to_a_comparison(tmp_path: Path):
    text = README.read_text(encoding="utf-8")
    (section,) = re.findall(r"## Your own data\n(.*?)\n## ", text, re.DOTALL)
    commands = re.findall(r"^    (\S.*)$", section, re.MULTILINE)
    assert len(commands) <= 4
    clone, install, *ours = commands
    assert clone.startswith("git clone ")
    make, _, target = install.partition(" -C headcount ")
    planned = subprocess.run([make, "-n", "-B", target], cwd=ROOT, capture_output=True, check=True)
    assert b"--requirement requirements/lock.txt" in planned.stdout
    people = semicolons(tmp_path).path
    assert people.name == "people.csv"
    rows = people.read_bytes().splitlines(keepends=True)
    people.write_bytes(b"".join([*rows[:25], rows[-1]]))  # a few, and the row of totals
    for command in ours:
        program, *words = command.split()
        assert program == INSTALLED
        done = subprocess.run(
            [sys.executable, "-m", "headcount", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for report in ("internal", "publish"):
        page = tmp_path / "comparisons" / "people" / report / "report.html"
        assert "TopDown, epsilon 1" in page.read_text(encoding="utf-8")
