"""Every example of the documentation runs to the end: check, protect, evaluate."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headcount.cli.app import app, main
from headcount.topdown.mechanism import TopDown
from tests.docs import files
from tests.docs.examples import Example, examples, find
from tests.docs.pages import Block, blocks, commands, config_text, keys_of, table
from tests.topdown.measurements.census import as_the_bureau_has_it, published

EXAMPLES = {example.name: example for example in examples()}
NOT_CONFIGS = {
    "python": "test_the_python_of_a_page_runs; that of the README, tests/test_readme.py",
    "r": "test_the_r_of_a_page_is_run_by_make_r",
}
"""Languages of blocks that are run elsewhere."""

LONG = {"study", "demo", "compare"}
"""Commands of minutes: their words are checked here, their work by the tests of their own."""

Headcount = Callable[..., str]


@pytest.fixture
def headcount(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Headcount:
    monkeypatch.setattr(logging.getLogger("headcount"), "setLevel", lambda _level: None)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["headcount", *arguments])
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        said = capsys.readouterr()
        assert code == 0, f"headcount {' '.join(arguments)}:\n{said.out}{said.err}"
        return said.out

    return run


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_the_example_is_checked_protected_and_evaluated(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headcount: Headcount
):
    monkeypatch.chdir(tmp_path)
    if example.data is not None:
        example.data(tmp_path)
    text = config_text(example.config())
    if len(example.shows) == 1 and not example.more:
        (block,) = example.blocks()
        text = block.text.replace(block.toml["run"]["out"], f"runs/{example.name}")
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    assert "all right" in headcount("check", "config.toml")
    headcount("protect", "config.toml")
    run = tmp_path / "runs" / example.name
    assert (run / "release" / "manifest.json").is_file()
    assert "report: " in headcount("evaluate", f"runs/{example.name}")
    made = {path.name for path in (run / "internal" / "evaluation").iterdir()}
    assert "report.html" in made
    assert {"errors.csv", "withheld.csv", "table-changes.csv"} & made


def test_the_examples_from_measurements_are_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headcount: Headcount
):
    """Ours, of a run that another page's example made; and the Bureau's, of a made-up census."""
    monkeypatch.chdir(tmp_path)
    example = EXAMPLES["topdown-recoded"]
    (tmp_path / "config.toml").write_text(
        config_text(example.config()).replace(f"runs/{example.name}", "runs/first")
    )
    headcount("protect", "config.toml")
    preset = TopDown.from_preset(
        find("measurements.md", 'folder = "nmf"').toml["mechanism"]["preset"]
    )
    published(tmp_path / "ours", mechanism=preset)
    as_the_bureau_has_it(tmp_path / "ours", tmp_path / "nmf", levels=("us", "state", "county"))
    for text, out in (('folder = "runs/first', "again"), ('folder = "nmf"', "counties")):
        (tmp_path / "again.toml").write_text(find("measurements.md", text).text)
        assert "nothing new is spent" in headcount("estimate", "again.toml")
        assert (tmp_path / f"runs/{out}/release/manifest.json").is_file()
    for level in ("state", "county"):
        first, again = (
            tmp_path / f"runs/{run}/release/{level}.parquet" for run in ("first", "again")
        )
        assert first.read_bytes() == again.read_bytes()


PYTHON = sorted({one.page for one in blocks() if one.language == "python"} - {"README.md"})


@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its blocks one after the other, as in a notebook, beside files of people."""
    monkeypatch.chdir(tmp_path)
    files.people(tmp_path)
    files.census_2020(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks():
        if block.page == page and block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)


def test_the_r_of_a_page_is_run_by_make_r():
    package = Path(__file__).parents[2] / "r/headcount"
    files = [*package.glob("vignettes/*.Rmd"), *package.glob("tests/testthat/*.R")]
    run = "\n".join(one.read_text(encoding="utf-8") for one in files)
    lines = [
        line.strip() for one in blocks() if one.language == "r" for line in one.text.splitlines()
    ]
    assert len(lines) >= 15
    assert [line for line in lines if line not in run] == []


def unrun(pages: Sequence[Block], shown: Sequence[Block]) -> str:
    """Which blocks of the pages nobody runs, in words; nothing if all are."""
    left = [one for one in pages if one not in shown and one.language not in NOT_CONFIGS]
    if not left:
        return ""
    return "\n".join(
        [
            "no example runs these; say in tests/docs/examples.py how they become a config:",
            *map(str, left),
        ]
    )


def test_every_block_of_the_pages_is_run():
    shown = [block for example in EXAMPLES.values() for block in example.blocks()]
    columns = find("config.md", "county,sex,grown")  # an example writes a table with these
    from_files = [find("measurements.md", text) for text in ('folder = "runs', 'folder = "nmf')]
    assert unrun(blocks(), [*shown, columns, *from_files]) == ""
    assert sum(block.language == "toml" for block in blocks()) >= 10  # the pages were found


def test_a_block_that_nobody_runs_is_named():
    new = Block("config.md", 7, "toml", "[population]\n")
    assert "config.md, line 7: a block of toml" in unrun([*blocks(), new], blocks())
    with pytest.raises(AssertionError, match="found 0 blocks with 'no such text', expected one"):
        find("config.md", "no such text")


def used_keys(part: str, name: str, of: str) -> set[str]:
    """Keys of a part of the configs above that have a name or kind."""
    found: set[str] = set()
    for example in EXAMPLES.values():
        settings: dict[str, Any] | list[dict[str, Any]] = example.config()[part]
        for one in settings if isinstance(settings, list) else [settings]:
            if one.get(of) == name:
                found |= set(one)
    return found


def test_every_key_of_the_tables_is_used_by_an_example():
    odd = [row[1] for row in table("docs/config.md", "### What looks like something else")]
    shown = {key for cell in odd for key in re.findall(r"`(\w+) = ", cell)}
    text = "".join(config_text(example.config()) for example in EXAMPLES.values())
    missing = {key for key in shown if f'"{key}" = ' not in text}
    assert len(shown) >= 4
    assert not missing, f"docs/config.md shows keys of files that no example uses: {missing}"
    for row in table("docs/config.md", "## `[mechanism]`"):
        (name,) = (one.strip("`") for one in row[:1])
        used = used_keys("mechanism", name, "name")
        missing = set(keys_of(row[1])) - used - {"topdown.md"}
        assert used, f"docs/config.md shows the mechanism {name!r}, which no example runs"
        assert not missing, f"docs/config.md shows keys of {name!r} that no example uses: {missing}"
    shown = {key for row in table("docs/config.md", "### `topdown`") for key in keys_of(row[0])}
    missing = shown - used_keys("mechanism", "topdown", "name")
    assert len(shown) > 8
    assert not missing, f"docs/config.md shows keys of topdown that no example uses: {missing}"


def test_every_key_of_run_is_used_by_an_example():
    shown = {key for row in table("docs/config.md", "## `[run]`") for key in keys_of(row[0])}
    used = {key for example in EXAMPLES.values() for key in example.config()["run"]}
    with_ledger = {"ledger", "dataset", "new_content"}  # see the commands of the README
    missing = shown - used - with_ledger
    assert not missing, f"docs/config.md shows keys of [run] that no example uses: {missing}"


def test_every_kind_of_population_has_an_example():
    text = (Path(__file__).parent.parent.parent / "docs" / "config.md").read_text(encoding="utf-8")
    kinds = {line.split('"')[1] for line in text.splitlines() if line.startswith('### `kind = "')}
    assert len(kinds) >= 8
    assert kinds <= {example.config()["population"]["kind"] for example in EXAMPLES.values()}


def test_the_commands_of_the_readme_run_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headcount: Headcount
):
    """With a ledger that has the dataset, and a config with every key of [run] that needs one."""
    monkeypatch.chdir(tmp_path)
    files.people(tmp_path)
    headcount("ledger", "init", "my.sqlite", "--dataset", "town", "--epsilon", "2")
    config = EXAMPLES["microdata"].config()
    config["mechanism"] = {"name": "topdown", "epsilon": 1}
    config["run"] = {
        "out": "runs/first",
        "ledger": "my.sqlite",
        "dataset": "town",
        "new_content": True,
    }
    (tmp_path / "config.toml").write_text(config_text(config), encoding="utf-8")
    mine = [words for where, words in commands() if where.startswith("README.md")]
    run = [words for words in mine if words[0] not in LONG]
    assert [words[0] for words in run] == [
        "init",
        "check",
        "plan",
        "protect",
        "errors",
        "evaluate",
        "explain",
        "attack",
        "ledger",
    ]
    said = {words[0]: headcount(*words) for words in run}
    assert "town" in said["ledger"]
    assert "headcount attack reconstruct" in said["attack"]


@pytest.mark.parametrize(("where", "words"), commands(), ids=[where for where, _ in commands()])
def test_the_words_of_every_command_are_known(where: str, words: list[str]):
    """Parsed by the command line itself, options and all, without doing the work."""
    from typer.main import get_command

    command: Any = get_command(app)  # click's own types are hidden by typer
    rest = list(words)
    context = command.make_context("headcount", [*rest[:1], "--help"], resilient_parsing=True)
    while hasattr(command, "list_commands"):
        name = rest.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{where}: no command {name!r}"
        command = found
    if "--help" not in rest:
        command.make_context(command.name, rest, parent=context)
