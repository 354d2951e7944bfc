"""The scripts in ``examples/`` run cell by cell, as in a notebook, and show what they say."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headcount.errors import InputError
from headcount.report.model import Figure

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def run(name: str) -> tuple[dict[str, Any], list[Any]]:
    """All cells of a script: the names that they leave, and what each of them shows."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown: list[Any] = []
    path = EXAMPLES / f"{name}.py"
    for cell in path.read_text(encoding="utf-8").split("# %%"):
        body = ast.parse("" if cell.lstrip().startswith("[markdown]") else cell).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), str(path), "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(path), "eval"), names)
            shown += [] if value is None else [value]
    return names, shown


def html_of(value: Any) -> str:
    """What a notebook would show."""
    return value._repr_svg_() if isinstance(value, Figure) else str(value._repr_html_())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_four_examples() -> None:
    assert NAMES == ["attack_a_release", "choose_epsilon", "four_methods", "own_frame"]


def test_a_frame_becomes_a_release_and_a_file(folder: Path) -> None:
    names, shown = run("own_frame")
    assert [type(one).__name__ for one in shown] == [
        *("Population", "CountsRelease", "Figure", "DataFrame", "Evaluation", "Figure")
    ]
    assert all(html_of(one).startswith(("<div", "<svg")) for one in shown)
    written = pl.read_csv(folder / "protected.csv", schema_overrides={"tract": pl.String})
    assert written["n"].to_list() == names["protected"]["n"].to_list()
    assert written.height == 24 * 3 * 2
    assert names["release"].key_kind == "os"
    added = names["release"].to_polars("whole", tidy=True)["n"].sum()
    assert added == written["n"].sum()  # levels add up


def test_four_methods_are_compared_in_one_table_and_two_pages(folder: Path) -> None:
    names, _ = run("four_methods")
    memo = names["memo"]
    assert memo["case"].to_list()[1:] == ["geometric", "topdown", "a tenth", "swapping"]
    assert memo["case"][0] == "no protection"
    found = names["found"]
    assert "no protection" in found._repr_html_()
    assert "do not publish" not in found._repr_html_()  # the towns are public
    assert found.plot()._repr_svg_().startswith("<svg")
    known = found.plot().name
    assert found.plot(known).name == known
    with pytest.raises(InputError, match=f"plot: found '{known}x', .*did you mean '{known}'"):
        found.plot(f"{known}x")
    assert (folder / "comparison.html").stat().st_size > 100_000
    assert (folder / "to-publish.html").is_file()


def test_an_attack_on_true_counts_finds_more_people_than_one_on_protected_ones(
    folder: Path,
) -> None:
    names, shown = run("attack_a_release")
    right = dict(names["claims"].select("release", "right").iter_rows())
    assert right["as they are"] > right["a tenth"]
    assert right["as they are"] > right["topdown"]
    assert all(html_of(one).startswith(("<div", "<svg")) for one in shown)


def test_epsilon_is_chosen_without_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, _ = run("choose_epsilon")
    # A third of epsilon for the level, a fifth of that for the total, moved by 2 when a record
    # changes: noise of rate epsilon / 30, of which 19 in 20 are within 45 at epsilon 2.
    assert names["enough"] == 2
    assert "from epsilon 2 on" in capsys.readouterr().out
