"""What loads when nothing is asked for: no heavy library."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

HEAVY = ("polars", "pyarrow", "numba", "scipy", "altair", "pandas")
LATER = ("altair", "vl_convert", "pandas", "pyspark", "jinja2", "rich")
"""What no run loads that draws no chart, counts on no other backend and talks to no terminal."""

COMMAND = """
import sys
sys.argv = ["headcount", {words}]
from headcount.cli.app import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 0
"""
CONFIG = """
[population]
kind = "towns"
people = 2000
[mechanism]
name = "topdown"
epsilon = 1
[run]
out = "out"
"""
SMALL = """
[population]
kind = "uniform"
people = 500
depth = 2
mean = 10
[mechanism]
name = "geometric"
epsilon = 1
[run]
out = "out"
"""


def loaded(script: str, among: tuple[str, ...], folder: Path) -> tuple[list[str], str]:
    """Which of some modules a program has loaded in the end, and what it said on standard error."""
    check = (
        f"\nimport sys; sys.stdout.write('|' + ' '.join(m for m in {among} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script + check],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return done.stdout.rpartition("|")[2].split(), done.stderr


@pytest.mark.parametrize(
    "script", ["import headcount", COMMAND.format(words="'--help'")], ids=["import", "help"]
)
def test_nothing_heavy_is_loaded(tmp_path: Path, script: str):
    assert loaded(script, HEAVY, tmp_path) == ([], "")


def test_a_look_at_a_file_loads_what_reads_it(tmp_path: Path):
    (tmp_path / "people.csv").write_text("county,sex\n1,f\n2,m\n")
    script = COMMAND.format(words="'init', 'people.csv', '--every-level'")
    assert loaded(script, HEAVY, tmp_path)[0] == ["polars"]


def test_a_look_for_places_that_are_too_small_loads_what_works_out_the_noise(tmp_path: Path):
    (tmp_path / "people.csv").write_text("county,sex\n1,f\n2,m\n")
    script = COMMAND.format(words="'init', 'people.csv'")
    assert loaded(script, HEAVY, tmp_path)[0] == ["polars", "scipy"]


def test_a_run_loads_nothing_that_only_others_need(tmp_path: Path):
    (tmp_path / "config.toml").write_text(CONFIG)
    script = COMMAND.format(words="'protect', 'config.toml'")
    assert loaded(script, LATER, tmp_path)[0] == []
    assert (tmp_path / "out/release/receipt.json").exists()


@pytest.mark.parametrize("command", ["check", "protect"])
def test_a_small_run_compiles_and_loads_no_loop(tmp_path: Path, command: str):
    (tmp_path / "config.toml").write_text(SMALL)
    script = COMMAND.format(words=f"'{command}', 'config.toml'")
    assert loaded(script, ("numba",), tmp_path)[0] == []
    assert (tmp_path / "out/release/receipt.json").exists() == (command == "protect")


def test_the_check_can_fail(tmp_path: Path):
    assert loaded("import polars", HEAVY, tmp_path)[0] == ["polars"]


def test_every_public_name_loads_on_first_use():
    import headcount

    for name in headcount.__all__:
        assert getattr(headcount, name) is not None
    assert set(headcount.__all__) <= set(dir(headcount))
    with pytest.raises(AttributeError, match="module 'headcount' has no attribute 'nothing'"):
        getattr(headcount, "nothing")  # noqa: B009


def test_a_name_that_has_moved_still_works_and_says_where_it_is():
    import headcount

    moved: dict[str, str] = vars(headcount)["_MOVED"]
    assert not set(moved) & set(headcount.__all__)
    for old, now in moved.items():
        with pytest.warns(DeprecationWarning, match=f"^headcount.{old} is now {re.escape(now)}$"):
            found = getattr(headcount, old)
        module, _, name = now.rpartition(".")
        assert found is getattr(import_module(module), name)


def test_every_mechanism_has_its_class_at_the_top():
    import headcount
    from headcount.registry import MECHANISMS

    for name in MECHANISMS.ours:
        kind = MECHANISMS.get(name)
        assert getattr(headcount, kind.__name__) is kind
