"""Several files of one population, in whatever order they are named."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random

import polars as pl
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.load import load_config
from headcount.errors import InputError
from headcount.init.beside import related
from headcount.tabulate import tabulate


def homes(folder: Path) -> tuple[Path, Path, pl.DataFrame]:
    random = Random(3)
    dwellings = [
        {
            "hhid": f"H{k:03}",
            "county": f"{k % 12 // 4:03}",
            "tract": f"{k % 12:05}",
            "tenure": "own",
        }
        for k in range(120)
    ]
    persons = [
        {"hhid": one["hhid"], "sex": random.choice("fm")}
        for one in dwellings
        for _ in range(random.choice((0, 1, 2, 3)))
    ]
    files = folder / "persons.csv", folder / "households.csv"
    pl.DataFrame(persons).write_csv(files[0], separator=";")
    pl.DataFrame(dwellings).write_csv(files[1])
    both = pl.DataFrame(persons).join(pl.DataFrame(dwellings), on="hhid")
    return (*files, both)


def zones(folder: Path) -> tuple[Path, Path]:
    counts = [
        {"zone": f"Z{z:02}", "sex": s, "n": 3 * z + (s == "m")} for z in range(30) for s in "fm"
    ]
    places = [{"code": f"Z{z:02}", "region": f"R{z // 10}"} for z in range(30)]
    pl.DataFrame(counts).write_csv(folder / "counts.csv")
    pl.DataFrame(places).write_csv(folder / "zones.csv", separator="\t")
    return folder / "counts.csv", folder / "zones.csv"


def made(*files: Path) -> tuple[dict[str, object], Path]:
    config = files[0].with_name("c.toml")
    answer = CliRunner().invoke(app, ["init", *map(str, files), "--yes", "--out", str(config)])
    assert not answer.exit_code, answer.output
    return tomllib.loads(config.read_text())["population"], config


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_people_with_households(tmp_path: Path, order: tuple[int, int]) -> None:
    *files, truth = homes(tmp_path)
    said, config = made(*(files[n] for n in order))
    assert (said["persons"], said["dwellings"]) == ("persons.csv", "households.csv")
    assert (said["kind"], said["key"]) == ("households", "hhid")
    people = load_config(config).population.read()
    assert tabulate(people).dense().sum() == truth.height
    assert people.geography.levels == ("whole", "county", "tract")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_counts_with_a_table_of_places(tmp_path: Path, order: tuple[int, int]) -> None:
    files = zones(tmp_path)
    said, config = made(*(files[n] for n in order))
    beside = {"file": "zones.csv", "key": "zone", "other_key": "code"}
    assert said["format"] == {"beside": [beside]}
    assert said["geography"] == {"columns": ["region", "zone"]}
    people = load_config(config).population.read()
    assert tabulate(people).dense().sum() == sum(6 * z + 1 for z in range(30))


def test_tables_that_do_not_belong_together(tmp_path: Path) -> None:
    persons, households, _ = homes(tmp_path)
    counts, _ = zones(tmp_path)
    with pytest.raises(InputError, match="key: found no table of people to which the others belon"):
        related([persons, households, counts])
    twice = pl.read_csv(households, infer_schema=False)
    pl.concat([twice, twice.head(1)]).write_csv(households)  # a key that stands twice is none
    with pytest.raises(InputError, match="key: found no table of people"):
        related([persons, households])


def test_several_keys_are_asked_about(tmp_path: Path) -> None:
    rows = [{"a": f"{k}", "b": f"{k}", "x": "y"} for k in range(40)]
    people = [{"a": f"{k % 40}", "b": f"{7 * k % 40}"} for k in range(90)]
    files = tmp_path / "people.csv", tmp_path / "other.csv"
    pl.DataFrame(people).write_csv(files[0])
    pl.DataFrame(rows).write_csv(files[1])
    with pytest.raises(InputError, match=r"other.csv: key: found several columns that may be it: "):
        related(files)
    assert related(files, key="b").form.beside[0].key == "b"


def test_small_numbers_are_contained_in_a_numbering_by_chance(tmp_path: Path) -> None:
    files = tmp_path / "people.csv", tmp_path / "other.csv"
    pl.DataFrame({"age": [k % 30 for k in range(99)]}).write_csv(files[0])
    pl.DataFrame({"row": range(1000), "x": range(5, 1005)}).write_csv(files[1])
    with pytest.raises(InputError, match="found no table of people"):
        related(files)


def test_a_codebook_belongs_to_one_table(tmp_path: Path) -> None:
    persons, households, _ = homes(tmp_path)
    book = tmp_path / "layout.xml"
    fields = '<var name="a"><location StartPos="1" EndPos="3"/></var>'
    book.write_text(f"<codeBook><dataDscr>{fields}</dataDscr></codeBook>")
    with pytest.raises(InputError, match=r"layout.xml: found a codebook among several files"):
        related([persons, households, book])
    with pytest.raises(InputError, match="found a codebook without data"):
        related([book])
    assert related([book, persons]).form.layout == book
