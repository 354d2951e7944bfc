"""protect with cell keys and rounding refuses bad input before anything is written."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from headcount.cli.app import main

POPULATION = """[population]
kind = "microdata"
file = "people.csv"
units = "tracts.csv"
[population.geography]
columns = ["county", "tract"]
[[population.attribute]]
name = "sex"
levels = ["f", "m"]
[[population.attribute]]
name = "age"
levels = ["young", "old"]
"""
LONG = POPULATION.replace('"people.csv"', '"long.csv"\ncount = "n"')
WIDE = """[population]
kind = "counts"
file = "wide.csv"
schema = "schema.toml"
[population.geography]
columns = ["county", "tract"]
"""
CELL_KEY = 'name = "cell-key"\ntables = { t = ["sex"] }\n'
ROUNDING = 'name = "rounding"\ntables = { t = ["sex"] }\n'
SAMPLE = 'name = "sampling"\nfraction = "1/2"\n'
SWAP = 'name = "swapping"\nrate = "1/2"\n'

Protect = Callable[..., tuple[int, str]]


@pytest.fixture
def protect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Protect:
    monkeypatch.setattr(logging.getLogger("headcount"), "setLevel", lambda _level: None)
    monkeypatch.chdir(tmp_path)
    tracts = ["a1", "a2", "b1", "b2"]
    people = [f"{t[0]},{t},{s},{a}" for t, s, a in product(tracts, "fm", ("young", "old"))]
    Path("people.csv").write_text("\n".join(["county,tract,sex,age", *people * 3]) + "\n")
    units = [f"{tract[0]},{tract}" for tract in tracts]
    Path("tracts.csv").write_text("\n".join(["county,tract", *units]) + "\n")

    def run(*steps: str, population: str = POPULATION, out: str = "run") -> tuple[int, str]:
        chain = "".join(f"[[mechanism]]\n{step}\n" for step in steps)
        Path("config.toml").write_text(f'{population}{chain}[run]\nout = "{out}"\n')
        monkeypatch.setattr(sys, "argv", ["headcount", "protect", "config.toml"])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else -1), said.err

    return run


def refused(protect: Protect, message: str, *steps: str, **how: str) -> None:
    """The command ends with the message, and there is no new file or folder."""
    before = {path.name for path in Path().iterdir()} | {"config.toml"}
    code, said = protect(*steps, **how)
    assert code == 2
    assert message in " ".join(said.split())
    assert {path.name for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("maximum = 0", "mechanism.maximum: found 0, expected 1 or more"),
        ("maximum = -1", "mechanism.maximum: found -1, expected 1 or more"),
        ("maximum = 101", "mechanism.maximum: found 101, expected 1 to 100"),
        ("variance = 0", "mechanism.variance: found 0, expected a number above 0"),
        ("variance = -1", "mechanism.variance: found -1, expected a number above 0"),
        (
            "maximum = 2\nvariance = 5",
            "mechanism.variance: found 5, expected at most 4: no change of at most 2 has a larger",
        ),
        (
            "blocked = 2",
            "mechanism.variance: found 1, expected at least 2: a count of 1 becomes 0, or 3 ",
        ),
        ("blocked = -1", "mechanism.blocked: found -1, expected 0 or more"),
        ("blocked = 3", "mechanism.blocked: found 3, expected 0 to 2, less than the largest"),
        ("below = -1", "mechanism.below: found -1, expected 0 or more"),
    ],
)
def test_settings_of_cell_keys_out_of_range(protect, settings, message):
    refused(protect, f"config.toml: {message}", CELL_KEY + settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("base = 1", "mechanism.base: found 1, expected 2 or more"),
        ("base = 0", "mechanism.base: found 0, expected 2 or more"),
        ("below = -1", "mechanism.below: found -1, expected 0 or more"),
        ("areas = -5", "mechanism.areas: found -5, expected 0 or more"),
        ('how = "small-counts"\nlargest = 0', "mechanism.largest: found 0, expected 1 or more"),
    ],
)
def test_settings_of_rounding_out_of_range(protect, settings, message):
    refused(protect, f"config.toml: {message}", ROUNDING + settings)


ONS = "pcv,ckey,pvalue\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "i,j,p\n0,0,1\n1,0,0.50\n1,1,0.40\n",
            "table.csv: rows with i = 1: found probabilities that sum to 0.90, expected 1",
        ),
        (
            "i,j,p\n0,0,1\n1,0,0.5\n1,1,0.4\n",
            "rows with i = 1: found probabilities that sum to 0.9, expected 1, give or take 0.01",
        ),
        ("i,j,p\n0,0,1\n2,1,0.5\n2,3,0.5\n", "table.csv: i: found no line for i = 1, expected ea"),
        (
            ONS + "".join(f"{n},{k},0\n" for n in (1, 3) for k in range(4)),
            "table.csv: pcv: found no line for pcv = 2, expected each count from 1 on",
        ),
        (
            ONS + "1,0,0\n1,2,0\n",
            "rows with pcv = 1: found no line for ckey = 1, expected each key",
        ),
        (ONS + "1,0,0\n1,1,0\n1,2,0\n", "table.csv: ckey: found 3 keys, expected a power of two"),
        ("i,j,p\n0,0,1\n", "table.csv: i: found no line for i = 1, expected counts above 0 too"),
        (
            ONS + f"1,0,{10**30}\n1,1,0\n",
            f"table.csv: line 2, pvalue: found {10**30}, expected at most",
        ),
        ("\udcff\udcfe,j", "table.csv: found a file that is no text in UTF-8, expected a table"),
        (ONS + "1,0,-2\n", "table.csv: line 2, pvalue: found -2, expected -1 or more: no count be"),
    ],
)
def test_a_perturbation_table_that_is_none(protect, text, message):
    Path("table.csv").write_bytes(text.encode(errors="surrogateescape"))
    refused(protect, message, CELL_KEY + 'ptable = { file = "table.csv" }')


@pytest.mark.parametrize("last", [CELL_KEY, ROUNDING])
@pytest.mark.parametrize("count", ["-2", "2.5"])
def test_counts_that_are_negative_or_fractions(protect, last, count):
    expected = f"found '{count}', expected a whole number, 0 or more"
    Path("long.csv").write_text(f"county,tract,sex,age,n\na,a1,f,old,{count}\n")
    refused(protect, f"long.csv: column 'n', line 2: {expected}", last, population=LONG)
    Path("schema.toml").write_text('[[attribute]]\nname = "sex"\nlevels = ["f", "m"]\n')
    Path("wide.csv").write_text(f"county,tract,f,m\na,a1,3,{count}\na,a2,3,4\n")
    refused(protect, f"wide.csv: column 'm', line 2: {expected}", last, population=WIDE)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((CELL_KEY, SAMPLE), "cell-key: found a method that changes tables before the last step"),
        ((ROUNDING, SWAP), "rounding: found a method that changes tables before the last step"),
        ((CELL_KEY, ROUNDING), "cell-key: found a method that changes tables before the last"),
        (
            (SAMPLE, CELL_KEY),
            "mechanism: found a sample (sampling), whose people stand for 2 each, expected everyb",
        ),
        (
            (SAMPLE, ROUNDING + 'how = "controlled"'),
            "found a sample (sampling), whose people stand for 2 each, expected how to be",
        ),
        (
            (SAMPLE, SWAP, CELL_KEY),
            "swapping: found a step that needs households after 'sampling', which does not keep",
        ),
        ((SWAP, CELL_KEY), "swapping: found a population without households, expected persons in"),
    ],
)
def test_chains_in_an_impossible_order(protect, steps, message):
    refused(protect, message, *steps)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ('{ t = ["income"] }', "tables.t: found 'income', expected one of 'sex', 'age'"),
        ('["P1"]', "table P1: found P1: the schema has no attribute 'race', expected a population"),
    ],
)
@pytest.mark.parametrize("name", ["cell-key", "rounding"])
def test_tables_by_what_leaf_cells_do_not_span(protect, name, tables, message):
    refused(protect, f"{name}: {message}", f'name = "{name}"\ntables = {tables}')


@pytest.mark.parametrize("last", [CELL_KEY, ROUNDING + 'how = "fixed"\n'])
def test_keys_of_another_population_and_keys_that_others_can_read(protect, last):
    last += 'keys = "record.keys"\n'
    assert protect(last, out="first")[0] == 0
    keys = Path("record.keys")
    before = keys.read_bytes()
    people = Path("people.csv").read_text()
    Path("people.csv").write_text(people + "a,a1,f,old\n")
    refused(protect, "record.keys: found keys of other data, expected keys made for the very", last)
    Path("people.csv").write_text(people)
    keys.chmod(0o644)
    if sys.platform != "win32":
        refused(protect, "record.keys: found mode 0644, expected 0600: whoever reads", last)
    assert keys.read_bytes() == before


@pytest.mark.parametrize("name", ["person_id", "record_keys"])
def test_ids_or_keys_that_cannot_be_used(protect, name):
    people = Path("people.csv").read_text().splitlines()
    rows = [people[0] + ",pin", *(f"{row},{n % 7 - 1}" for n, row in enumerate(people[1:]))]
    Path("people.csv").write_text("\n".join(rows) + "\n")
    found = {
        "person_id": "found 41 rows with an id that an earlier row has, expected each person once",
        "record_keys": "found 7 rows with a number out of this range, expected a record key in",
    }[name]
    beside = POPULATION.replace('file = "people.csv"', f'file = "people.csv"\n{name} = "pin"')
    refused(protect, f"people.csv: column 'pin': {found}", CELL_KEY, population=beside)
    counts = WIDE.replace('"counts"', f'"counts"\n{name} = "pin"')
    message = f"config.toml: population.{name}: found it for a table of counts, expected one row"
    refused(protect, message, CELL_KEY, population=counts)
