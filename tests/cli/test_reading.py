"""``headcount check`` says what it read: on standard output, and nowhere else."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headcount.cli.app import main
from headcount.cli.show import CONFIDENTIAL
from headcount.config.load import load_config
from headcount.domain import Domain
from headcount.geography import regular
from headcount.population import Population
from headcount.population.households import write_households
from headcount.population.population import ReadSummary
from headcount.population.towns import towns
from headcount.schema import Attribute, Schema
from headcount.tabulate import tabulate
from headcount.tabulate.counts import summarize

Check = Callable[..., str]

MESSY = """block,place,age,sex
0101,North,7,f
0101,North,NA,m
0102,South,44,f
0201,South,90,f
TOTAL,,,
"""


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    monkeypatch.setattr(logging.getLogger("headcount"), "setLevel", lambda _level: None)

    def run(folder: Path, population: str, *options: str, verb: str = "check") -> str:
        config = folder / "config.toml"
        rest = '[mechanism]\nname = "identity"\n[run]\nout = "out"\n'
        config.write_text(f"[population]\n{population}\n{rest}", encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["headcount", verb, str(config), *options])
        with pytest.raises(SystemExit, match="0"):
            main()
        said = capsys.readouterr()
        assert CONFIDENTIAL not in said.err
        assert "with people" not in said.err
        return said.out

    return run


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


MICRODATA = """
kind = "microdata"
file = "people.csv"
totals = "drop"
geography = { column = "block", prefixes = { county = 2, tract = 3 }, longer = "cut" }
attribute = [{ name = "age", real_levels = ["NA"] }, { name = "sex", levels = ["f", "m", "x"] }]
"""


def test_a_messy_file_is_told_in_numbers(tmp_path: Path, check: Check) -> None:
    (tmp_path / "people.csv").write_text(MESSY, encoding="utf-8")
    said = check(tmp_path, MICRODATA)
    told = lines(said)
    assert said.startswith(CONFIDENTIAL + "\n")
    assert ["4", "people.csv"] in told
    assert ["1", "rows", "of", "totals", "left", "out"] in told
    assert ["4", "people"] in told
    assert ["whole", "1", "1", "4"] in told
    assert ["county", "2", "2", "2"] in told
    assert ["tract", "2", "2", "2"] in told
    assert ["age", "4", "4", "0", "44,", "7,", "90,", "NA"] in told
    assert ["sex", "3", "0", "1", "f,", "m,", "x"] in told
    assert " codes in 'block' are cut to the first 3 of 4 characters\n" in said
    assert said.endswith("all right: nothing was drawn, written or spent\n")


def test_public_data_carry_no_warning(tmp_path: Path, check: Check) -> None:
    (tmp_path / "people.csv").write_text(MESSY, encoding="utf-8")
    said = check(tmp_path, MICRODATA + "public = true\n")
    assert said.startswith("what was read\n")
    assert ["4", "people"] in lines(said)
    assert CONFIDENTIAL not in said


def test_quiet_omits_it(tmp_path: Path, check: Check) -> None:
    (tmp_path / "people.csv").write_text(MESSY, encoding="utf-8")
    said = check(tmp_path, MICRODATA, "--quiet")
    assert said.startswith("population: ")
    assert "people.csv" not in said
    assert "left out" not in said


def test_it_is_in_no_log_and_in_no_file(
    tmp_path: Path, check: Check, caplog: pytest.LogCaptureFixture
) -> None:
    rows = MESSY.splitlines()
    people = "\n".join([rows[0], *rows[1:5] * 977]) + "\n"  # 3,908 of them
    (tmp_path / "people.csv").write_text(people, encoding="utf-8")
    before = set(tmp_path.rglob("*"))
    with caplog.at_level(logging.DEBUG):
        assert "3,908" in check(tmp_path, MICRODATA)
        assert set(tmp_path.rglob("*")) - before == {tmp_path / "config.toml"}
        assert "3,908" not in check(tmp_path, MICRODATA, verb="protect")
    assert "3,908" not in caplog.text
    assert "3908" not in caplog.text
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            held = path.read_bytes()
            assert b"3908" not in held, path
            assert b"3,908" not in held, path


def test_a_narrow_terminal_shows_every_number(
    tmp_path: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (tmp_path / "people.csv").write_text(MESSY, encoding="utf-8")
    read, _, _ = check(tmp_path, MICRODATA).partition("population: ")
    assert max(map(len, read.splitlines())) <= 40
    assert ["age", "4", "4", "0"] in lines(read)
    assert " age: 44, 7, 90, NA\n" in read
    assert ["county", "2", "2", "2"] in lines(read)


def test_long_lists_of_levels_are_cut(tmp_path: Path, check: Check) -> None:
    rows = "".join(f"01,{age}\n" for age in range(100))
    (tmp_path / "people.csv").write_text("tract,age\n" + rows + "01,-\n", encoding="utf-8")
    attribute = 'attribute = [{ name = "age", real_levels = ["-"] }]\n'
    said = check(
        tmp_path,
        'kind = "microdata"\nfile = "people.csv"\ngeography = { columns = ["tract"] }\n'
        + attribute,
    )
    assert ["age", "101", "101", "0", "-,", "0,", "1,", "10,", "11,", "…,", "98,", "99"] in (
        lines(said)
    )


def test_a_level_of_blanks_is_quoted(tmp_path: Path, check: Check) -> None:
    (tmp_path / "people.csv").write_text("tract,sex\n01,1\n01,2\n", encoding="utf-8")
    said = check(
        tmp_path,
        'kind = "microdata"\nfile = "people.csv"\ngeography = { columns = ["tract"] }\n'
        'attribute = [{ name = "sex", values = { "1" = "  ", "2" = "m" } }]\n',
    )
    assert "'  ', m" in said


def test_blanks_in_a_file_are_no_level(
    tmp_path: Path, check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "people.csv").write_text("tract,sex\n01,f\n01,  \n", encoding="utf-8")
    with pytest.raises(AssertionError):  # not the exit code 0
        check(
            tmp_path,
            'kind = "microdata"\nfile = "people.csv"\ngeography = { columns = ["tract"] }\n'
            'attribute = [{ name = "sex", real_levels = ["  "] }]\n',
        )
    assert "column 'sex', line 3: found nothing, expected a value" in capsys.readouterr().err


def test_a_level_cannot_steer_the_terminal(tmp_path: Path, check: Check) -> None:
    rows = "tract,sex\n01,\x1b[31m\n01,[bold]f[/bold]\n"
    (tmp_path / "people.csv").write_text(rows, encoding="utf-8")
    said = check(
        tmp_path,
        'kind = "microdata"\nfile = "people.csv"\ngeography = { columns = ["tract"] }\n'
        'attribute = [{ name = "sex" }]\n',
    )
    assert "\x1b" not in said
    assert r"'\x1b[31m', [bold]f[/bold]" in said


COUNTS = """
kind = "counts"
file = "counts.csv"
schema = "schema.toml"
geography = { columns = ["tract"] }
"""


def test_counts(tmp_path: Path, check: Check) -> None:
    (tmp_path / "counts.csv").write_text("tract,f,m\n1,2,3\n2,0,0\n3,0,1200\n", encoding="utf-8")
    (tmp_path / "schema.toml").write_text('[[attribute]]\nname = "sex"\nlevels = ["f", "m"]\n')
    told = lines(check(tmp_path, COUNTS))
    assert ["3", "counts.csv"] in told
    assert ["0", "rows", "left", "out"] in told
    assert ["1,205", "people"] in told
    assert ["tract", "3", "2", "402"] in told
    assert ["sex", "2", "0", "0", "f,", "m"] in told


HOUSEHOLDS = """
kind = "households"
persons = "saved/persons.parquet"
dwellings = "saved/dwellings.parquet"
key = "dwelling"
geography = { columns = ["county", "tract", "block_group", "block"] }
attribute = [{ name = "sex" }]
kind_column = "kind"
kinds = [
  "household", "vacant", "correctional", "juvenile", "nursing", "other_institutional", "college",
  "military", "other_noninstitutional",
]
"""

GENERATED = {
    "uniform": 'kind = "uniform"\npeople = 5000\n',
    "us1940": 'kind = "us1940"\nstates = ["NV"]\nscale = "1/4"\n',
    "towns": 'kind = "towns"\npeople = 2000\ncounties = 2\nattributes = ["sex"]\n',
    "workload-s": 'kind = "workload-s"\nhouseholds = 500\nattributes = ["race"]\n',
}


def test_households(tmp_path: Path, check: Check) -> None:
    state = towns(seed=3, people=2_000, counties=2)
    write_households(state, tmp_path / "saved")
    told = lines(check(tmp_path, HOUSEHOLDS))
    persons = int(state.first[-1])
    assert [f"{persons:,}", "persons.parquet"] in told
    assert [f"{len(state.block):,}", "dwellings.parquet"] in told
    assert [f"{persons:,}", "people"] in told
    assert ["sex", "2", "2", "0", "female,", "male"] in told


@pytest.mark.parametrize("kind", GENERATED)
def test_generated_kinds(kind: str, tmp_path: Path, check: Check) -> None:
    said = check(tmp_path, GENERATED[kind])
    people = tabulate(load_config(tmp_path / "config.toml").population.read())
    assert ["-", "generated,", "no", "file", "was", "read"] in lines(said)
    assert [f"{people.totals().sum():,}", "people"] in lines(said)
    assert said.startswith("what was read\n")  # nobody's data


def test_the_summary_by_brute_force() -> None:
    rng = np.random.default_rng(8)
    schema = Schema((Attribute("sex", ("f", "m")), Attribute("age", ("young", "old", "none"))))
    tree = regular(children=3, depth=2)
    unit = rng.integers(0, 7, 40).astype(np.int32)
    cell = rng.choice([0, 1, 3, 4], 40).astype(np.int32)  # nobody has no age
    read_off = ("which levels of 'age' exist",)
    people = Population("p", Domain(schema, tree, read_off=read_off), unit, cell)
    reading = ReadSummary(rows=(("p", 40),))
    found = summarize(tabulate(people), reading)
    assert (found.people, found.reading) == (40, reading)
    for level in found.levels:
        lives = {int(tree.ancestors(level.name)[one]) for one in unit}
        assert (level.units, level.inhabited) == (tree.size(level.name), len(lives))
        assert level.mean == 40 / level.units
    assert [(one.name, one.new, one.empty) for one in found.attributes] == [
        ("sex", 0, 0),
        ("age", 3, 1),
    ]
