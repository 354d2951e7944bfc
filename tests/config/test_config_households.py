"""People in dwellings through the config file: towns, workload S, and a user's own tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headcount.config.load import config_digest, load_config
from headcount.errors import ConfigError
from headcount.population import Population
from headcount.population.households import write_households
from headcount.population.towns import towns
from headcount.run.protect import Prepared, prepare_data
from headcount.schema import Follows
from headcount.tabulate import tabulate

REST = '[mechanism]\nname = "identity"\n[run]\nout = "out"\n'
TOWNS = '[population]\nkind = "towns"\npeople = 2000\ncounties = 2\nseed = 3\n'
FILES = """
[population]
kind = "households"
persons = "saved/persons.parquet"
dwellings = "saved/dwellings.parquet"
units = "saved/units.parquet"
key = "dwelling"
kind_column = "kind"
kinds = [
  "household", "vacant", "correctional", "juvenile", "nursing", "other_institutional", "college",
  "military", "other_noninstitutional",
]
size_column = "size"
areas = ["place"]
attributes = ["hhgq", "sex", "tenure"]
public = true
[population.geography]
columns = ["county", "tract", "block_group", "block"]
root = "state"
[[population.attribute]]
name = "sex"
levels = ["male", "female"]
[[population.attribute]]
name = "hispanic"
levels = ["not_hispanic", "hispanic"]
[[population.dwelling_attribute]]
name = "tenure"
levels = ["own", "rent", "none"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text + REST, encoding="utf-8")
    return path


def built(folder: Path, text: str) -> Population:
    return load_config(written(folder, text)).population.read()


def test_towns(tmp_path: Path) -> None:
    people = built(tmp_path, TOWNS + 'attributes = ["hhgq", "sex", "household_size"]\n')
    assert people.schema.names == ("hhgq", "sex", "household_size")
    assert people.quarters is not None
    assert people.households is not None
    state = towns(seed=3, people=2_000, counties=2)
    assert np.array_equal(people.households.persons["race"], state.persons["race"])
    assert built(tmp_path, TOWNS).schema.names == ("age", "sex", "race", "hispanic")


def test_towns_on_a_shipped_schema(tmp_path: Path) -> None:
    people = built(tmp_path, TOWNS + 'schema = "sex-age38-race7-hispanic"\n')
    assert people.schema.size == 1_064


def test_workload_s(tmp_path: Path) -> None:
    text = '[population]\nkind = "workload-s"\nhouseholds = 500\nattributes = ["race"]\n'
    people = built(tmp_path, text)
    assert people.schema.shape == (7,)
    assert people.households is not None
    assert len(people.households.block) == 500


def test_files_give_the_population_they_were_written_from(tmp_path: Path) -> None:
    write_households(towns(seed=3, people=2_000, counties=2), tmp_path / "saved")
    people = built(tmp_path, FILES)
    straight = built(tmp_path, TOWNS + 'attributes = ["hhgq", "sex", "tenure"]\n')
    assert people.schema == straight.schema
    assert people.public
    assert people.domain.read_off == ()
    assert np.array_equal(tabulate(people).dense(), tabulate(straight).dense())
    assert people.quarters is not None
    assert straight.quarters is not None
    assert np.array_equal(people.quarters.occupied, straight.quarters.occupied)
    assert people.households is not None
    assert people.households.areas[0].name == "place"


def test_where_files_lie_is_not_in_the_digest(tmp_path: Path) -> None:
    one = config_digest(load_config(written(tmp_path, FILES)))
    moved = config_digest(load_config(written(tmp_path, FILES.replace("saved/", "moved/"))))
    other = config_digest(load_config(written(tmp_path, FILES.replace('"hhgq", ', ""))))
    assert one == moved != other


BAD = {
    "few people": (TOWNS.replace("2000", "9"), "population.people: found 9", "1,000 or more"),
    "many counties": (
        TOWNS.replace("counties = 2", "counties = 21"),
        "population.counties: found 21",
        "at most 20 for the people",
    ),
    "unknown attribute": (
        TOWNS + 'attributes = ["income"]\n',
        "found attribute 'income'",
        "one of 'age', 'hhgq', 'hispanic'",
    ),
    "not in the file": (
        FILES.replace('"hhgq", "sex"', '"age"'),
        "found attribute 'age'",
        "one of 'hhgq', 'hispanic', 'sex', 'tenure'",
    ),
    "attribute twice": (
        TOWNS + 'attributes = ["age", "age"]\n',
        "found attribute 'age' twice",
        "distinct attributes",
    ),
    "attributes and schema": (
        TOWNS + 'attributes = ["age"]\nschema = "total"\n',
        "found attributes and schema",
        "one or the other",
    ),
    "of persons and of dwellings": (
        FILES.replace('name = "tenure"', 'name = "sex"').replace(', "tenure"]', "]"),
        "found attribute 'sex' twice",
        "distinct attributes",
    ),
    "two definitions of one attribute": (
        FILES.replace('name = "hispanic"', 'name = "sex"'),
        "found attribute 'sex' twice",
        "distinct attributes",
    ),
    "kind twice": (
        FILES.replace('"juvenile"', '"college"'),
        "found kind 'college' twice",
        "distinct kinds",
    ),
    "area twice": (
        FILES.replace('["place"]', '["place", "place"]'),
        "found area 'place' twice",
        "distinct areas",
    ),
    "no key": (FILES.replace('key = "dwelling"', ""), "population.key: found nothing", "a value"),
    "unknown key of a dwelling attribute": (
        FILES + 'lvels = ["a"]\n',
        "population.dwelling_attribute 1.lvels: found an unknown key",
        "one of 'name', 'column', 'levels'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_before_data_is_read(tmp_path: Path, case: str) -> None:
    text, found, expected = BAD[case]
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text))
    assert found in str(caught.value)
    assert expected in str(caught.value)


def protected(folder: Path, text: str, mechanism: str) -> Prepared:
    path = folder / "config.toml"
    path.write_text(f'{text}[mechanism]\n{mechanism}\n[run]\nout = "out"\n', encoding="utf-8")
    return prepare_data(load_config(path))


SIZED = 'attributes = ["sex", "household_size"]\n'
GEOMETRIC = 'name = "geometric"\nepsilon = 1\n'
TOPDOWN = 'name = "topdown"\nepsilon = 1\nqueries.cells.share = 1\n'
WAYS_OUT = (
    "mechanism.count_housemates = true",
    'mechanism.unit = "household-change-one" with mechanism.largest_household',
)


@pytest.mark.parametrize("mechanism", [GEOMETRIC, TOPDOWN])
def test_check_refuses_household_sizes_and_its_ways_out_work(mechanism: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="attribute 'household_size': found an attribute") as no:
        protected(tmp_path, TOWNS + SIZED, mechanism)
    assert all(way in str(no.value) for way in WAYS_OUT)
    counted = protected(tmp_path, TOWNS + SIZED, mechanism + "count_housemates = true\n")
    assert "housemates are counted" in " ".join(counted.guarantee.sentences())
    assert counted.people_cut == 0
    household = 'unit = "household-change-one"\nlargest_household = 2\n'
    cut = protected(tmp_path, TOWNS + SIZED, mechanism + household)
    assert "the first 2 in the file where there are more" in " ".join(cut.guarantee.sentences())
    assert cut.people_cut == counted.counts.totals().sum() - cut.counts.totals().sum() > 0


@pytest.mark.parametrize("mechanism", ['name = "identity"', 'name = "sampling"\nfraction = 0.5'])
def test_methods_without_a_loss_keep_household_sizes(mechanism: str, tmp_path: Path):
    assert not protected(tmp_path, TOWNS + SIZED, mechanism).guarantee.exists


def test_an_attribute_of_dwellings_must_say_what_it_follows(tmp_path: Path):
    write_households(towns(seed=3, people=2_000, counties=2), tmp_path / "saved")
    with pytest.raises(ConfigError, match="attribute 'tenure': found no statement of whether"):
        protected(tmp_path, FILES, GEOMETRIC)
    said = protected(tmp_path, FILES + 'follows = "dwelling"\n', GEOMETRIC)
    assert said.guarantee.exists
    with pytest.raises(ConfigError, match="'tenure': found an attribute that follows from who"):
        protected(tmp_path, FILES + 'follows = "members"\n', GEOMETRIC)
    people = built(tmp_path, FILES + 'follows = "dwelling"\n')
    assert config_digest(said.config) != config_digest(load_config(written(tmp_path, FILES)))
    assert people.schema.attribute("tenure").follows is Follows.DWELLING


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FILES + 'follows = "person"\n', "attribute 'tenure' with follows = 'person'"),
        (
            FILES + 'column = "size"\nfollows = "dwelling"\n',
            "'tenure', judging by its name the number of",
        ),
        (
            FILES.replace('name = "tenure"', 'name = "hhsize"').replace(', "tenure"]', "]")
            + 'follows = "dwelling"\n',
            "attribute 'hhsize', judging by its name the number of people in the household",
        ),
        (
            FILES.replace('name = "hispanic"', 'name = "hhsize"\nfollows = "person"'),
            "attribute 'hhsize', judging by its name the number of people in the household",
        ),
        (
            FILES.replace('name = "hispanic"', 'name = "hispanic"\nfollows = "size"'),
            "attribute 'hispanic' with follows = 'size'",
        ),
    ],
)
def test_a_size_under_another_flag_is_refused(text: str, found: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=found):
        load_config(written(tmp_path, text))


ROWS = """
[population]
kind = "microdata"
file = "people.csv"
[population.geography]
columns = ["tract"]
[[population.attribute]]
name = "{name}"
column = "hh"
levels = ["1", "2+"]
"""


def test_one_row_is_the_unit_of_microdata_and_columns_like_sizes_are_flagged(tmp_path: Path):
    (tmp_path / "people.csv").write_text("tract,hh\na,1\na,2+\nb,2+\n")
    plain = protected(tmp_path, ROWS.format(name="home"), GEOMETRIC)
    assert "one person is one row of the file" in " ".join(plain.guarantee.sentences())
    dropped = ROWS.format(name="home").replace(
        "[population.geo", 'totals = "drop"\n[population.geo'
    )
    assert dropped != ROWS.format(name="home")
    left = " ".join(protected(tmp_path, dropped, GEOMETRIC).guarantee.sentences())
    assert "one row of the file; rows of totals are left out, and are nobody's." in left
    size = ROWS.format(name="household_size")
    with pytest.raises(
        ConfigError, match="'household_size': found no statement of whether it"
    ) as no:
        protected(tmp_path, size, GEOMETRIC)
    assert 'follows = "person" (the unit of privacy is one row)' in str(no.value)
    said = protected(tmp_path, size + 'follows = "person"\n', GEOMETRIC)
    assert said.guarantee.losses == plain.guarantee.losses
    with pytest.raises(ConfigError, match="with follows = 'size', expected 'person' for an attri"):
        protected(tmp_path, size + 'follows = "size"\n', GEOMETRIC)
    assert not protected(tmp_path, size, 'name = "identity"').guarantee.exists


def test_columns_like_sizes_are_flagged_in_tables_of_counts(tmp_path: Path):
    (tmp_path / "own.toml").write_text('[[attribute]]\nname = "hhsize"\nlevels = ["1", "2+"]\n')
    (tmp_path / "counts.csv").write_text("tract,1,2+\na,3,4\nb,0,2\n")
    text = """
[population]
kind = "counts"
file = "counts.csv"
schema = "own.toml"
[population.geography]
columns = ["tract"]
"""
    with pytest.raises(ConfigError, match="'hhsize': found no statement of whether it changes"):
        protected(tmp_path, text, GEOMETRIC)
    with (tmp_path / "own.toml").open("a") as schema:
        schema.write('follows = "person"\n')
    said = protected(tmp_path, text, GEOMETRIC)
    assert "one person is one count in one cell" in " ".join(said.guarantee.sentences())
    assert "nobody's" not in " ".join(said.guarantee.sentences())
    dropped = text.replace("[population.geo", 'totals = "drop"\n[population.geo')
    (tmp_path / "counts.csv").write_text("tract,1,2+\na,3,4\nb,0,2\nTotal,3,6\n")
    left = protected(tmp_path, dropped, GEOMETRIC)
    assert left.counts.totals().sum() == 9
    assert (
        "The unit of privacy: one person is one count in one cell of one row of the table; rows "
        "of totals are left out, and are nobody's."
    ) in left.guarantee.sentences()
