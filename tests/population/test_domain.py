"""Cells and places are known before anybody is looked at, and are those of the people read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.errors import ConfigError, InputError
from headcount.geography import Geography
from headcount.geography.geography import CodeColumns
from headcount.population._base import Source
from headcount.population.columns import AttributeColumn
from headcount.population.h1_2020 import H12020
from headcount.population.households import HouseholdTables
from headcount.population.redistricting_2020 import Redistricting2020
from headcount_papers.ipums1940 import Ipums1940
from tests.docs import files
from tests.papers.test_ipums1940 import Person, Record, Unit
from tests.papers.test_ipums1940 import write as write_extract
from tests.topdown.presets_2020 import tables


def same_places(one: Geography | None, other: Geography | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.digest == other.digest and same_places(one.spine, other.spine)


def known_before(source: Source, *hidden: Path) -> bool:
    """Whether what a guarantee needs is that of the people, and found while files are hidden."""
    people = source.read()
    contents = {path: path.read_bytes() for path in hidden}
    for path in hidden:
        path.unlink()
    found = source.domain()
    for path, content in contents.items():
        path.write_bytes(content)
    for fact in ("schema", "read_off", "one_person", "counted"):
        assert getattr(found, fact) == getattr(people.domain, fact)
    return same_places(found.geography, people.geography)


@pytest.fixture
def census(tmp_path: Path) -> Path:
    """The files of 2020."""
    for name, table in zip(("blocks", "units", "persons"), tables(), strict=True):
        table.write_parquet(tmp_path / f"{name}.parquet")
    return tmp_path


@pytest.mark.parametrize("with_units", [True, False])
def test_the_domain_of_persons_of_2020_needs_no_person(census: Path, with_units: bool):
    units = census / "units.parquet" if with_units else None
    source = Redistricting2020(
        persons=census / "persons.parquet", blocks=census / "blocks.parquet", units=units
    )
    assert known_before(source, census / "persons.parquet")
    assert source.places_from == units


def test_the_domain_of_housing_units_does_not_say_which_are_occupied(census: Path):
    units = census / "units.parquet"
    source = H12020(units=units, blocks=census / "blocks.parquet")
    assert known_before(source)
    found = source.domain()
    pl.read_parquet(units).drop("occupied").write_parquet(units)
    again = source.domain()
    assert (again.schema, again.geography.digest) == (found.schema, found.geography.digest)
    assert source.places_from == units


def households(folder: Path, **more: object) -> HouseholdTables:
    settings: dict[str, object] = {
        "persons": folder / "persons.parquet",
        "dwellings": folder / "dwellings.parquet",
        "units": folder / "blocks.csv",
        "key": "serial",
        "geography": CodeColumns(columns=("county", "tract", "block")),
        "kind_column": "type",
        "kinds": ("household", "vacant", "nursing", "college"),
        "attribute": (
            AttributeColumn(name="age", levels=("0-17", "18+")),
            AttributeColumn(name="sex", levels=("f", "m")),
        ),
        "dwelling_attribute": (AttributeColumn(name="tenure", levels=("own", "rent", "none")),),
    }
    return HouseholdTables(**{**settings, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("chosen", [(), ("sex", "hhgq", "tenure")])
def test_the_domain_of_households_needs_neither_persons_nor_dwellings(
    tmp_path: Path, chosen: tuple[str, ...]
):
    files.dwellings(tmp_path)
    source = households(tmp_path, attributes=chosen)
    assert known_before(source, tmp_path / "persons.parquet", tmp_path / "dwellings.parquet")
    assert source.places_from is None


def test_what_only_people_tell_of_households_is_refused(tmp_path: Path):
    files.dwellings(tmp_path)
    with pytest.raises(ConfigError, match=r"units: found no list, expected units = \"FILE\""):
        households(tmp_path, units=None).domain()
    with pytest.raises(ConfigError, match=r"attribute 'age': found no levels, expected levels"):
        households(tmp_path, attribute=(AttributeColumn(name="age"),)).domain()
    with pytest.raises(ConfigError, match=r"dwelling_attribute 'tenure': found no levels"):
        households(tmp_path, dwelling_attribute=(AttributeColumn(name="tenure"),)).domain()


def test_the_domain_of_an_extract_is_read_from_the_places_of_its_units(tmp_path: Path):
    records: list[Record] = [
        Unit(serial=1),
        Person(serial=1),
        Unit(serial=2, district="0003", gq=0),
        Unit(serial=3, state="02", county="0030"),
        Person(serial=3, age=7),
    ]
    source = Ipums1940(file=write_extract(tmp_path / "extract.dat", records))
    assert known_before(source)
    assert source.places_from == source.file
    write_extract(source.file, [Unit(serial=1, gq="x"), Person(serial=1, age="old", race="?")])
    assert np.array_equal(source.domain().geography.units[-1], ["0100100007"])
    write_extract(source.file, [Unit(serial=1, county="?")])
    with pytest.raises(InputError, match=r"line 1, COUNTY: found '\?...', expected"):
        source.domain()
    write_extract(source.file, [Person(serial=1)])
    with pytest.raises(InputError, match=r"found no records, expected at least one unit"):
        source.domain()


def test_a_plan_of_housing_units_says_where_its_places_are_from(census: Path):
    config = census / "units.toml"
    config.write_text(
        '[population]\nkind = "h1-2020"\nunits = "units.parquet"\nblocks = "blocks.parquet"\n'
        '[mechanism]\nname = "topdown"\npreset = "h1-2020-us"\n[run]\nout = "run"\n',
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["plan", str(config)])
    said = " ".join(done.stdout.split())
    assert done.exit_code == 0
    assert "how far off counts will be, in housing units" in said
    assert f"read from {census / 'units.parquet'}, but nothing of who is there" in said
    assert not (census / "run").exists()
