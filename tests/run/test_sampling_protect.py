"""protect with a sample: its people are published, they are the counts, and nothing is promised."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.errors import ConfigError, InputError
from headcount.geography import regular
from headcount.release._tidy import write_sample
from headcount.release.directory import RunDirectory
from headcount.release.store import read_receipt, read_release
from headcount.run.protect import protect_run
from headcount.schema import Attribute, Schema
from tests.run.town import MICRODATA, people, write_config, write_town

THIRD = 'name = "sampling"\nfraction = "1/3"'
PUBLISH = 'publish = ["microdata"]'


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def sample_of(out: Path) -> pl.DataFrame:
    return pl.read_parquet(out / "release" / "microdata" / "sample.parquet")


def test_the_people_drawn_are_published_with_their_weight(town: Path):
    out = protect_run(write_config(town, mechanism=THIRD, run=PUBLISH))
    sample = sample_of(out)
    assert sample.columns == ["county", "tract", "sex", "age", "weight"]
    assert sample.height == 20  # a third of 60
    assert set(sample["weight"]) == {3.0}
    everybody = Counter(people())
    drawn = Counter(sample.select("county", "tract", "sex", "age").iter_rows())
    assert drawn <= everybody  # each is a person of the file, none twice
    assert len(drawn) > 5


def test_its_counts_are_those_of_the_release(town: Path):
    out = protect_run(write_config(town, mechanism=THIRD, run=PUBLISH))
    release, sample = read_release(out / "release"), sample_of(out)
    counted = np.zeros((5, 6))
    units = release.geography.units[-1].tolist()
    for _, tract, sex, age, weight in sample.iter_rows():
        levels = release.schema.attribute("sex").levels, release.schema.attribute("age").levels
        counted[units.index(tract), 3 * levels[0].index(sex) + levels[1].index(age)] += weight
    assert np.allclose(release.at("tract"), counted)


def test_the_release_promises_nothing_and_names_the_file(town: Path):
    out = protect_run(write_config(town, mechanism=THIRD, run=PUBLISH))
    receipt = read_receipt(out / "release")
    assert "sampled person's record is published as it is" in str(receipt["guarantee"])
    assert "microdata/sample.parquet" in (out / "release" / "manifest.json").read_text()
    assert RunDirectory(out).is_complete
    before = sample_of(out)
    protect_run(write_config(town, mechanism=THIRD, run=PUBLISH))  # the same command again
    assert sample_of(out).equals(before)


def test_a_sample_is_counts_alone_unless_asked(town: Path):
    out = protect_run(write_config(town, mechanism=THIRD))
    assert not (out / "release" / "microdata").exists()


@pytest.mark.parametrize(
    ("mechanism", "publish", "found"),
    [
        (THIRD, '["mdf"]', r"'mdf' with 'sampling', expected some of \['microdata'\]"),
        (THIRD, '["microdata", "measurements"]', "'measurements' with 'sampling', expected"),
        (
            'name = "geometric"\nepsilon = 1',
            '["microdata"]',
            "with 'geometric', expected nothing besides the counts;",
        ),
    ],
)
def test_other_things_to_publish_are_refused(town: Path, mechanism, publish, found):
    config = write_config(town, mechanism=mechanism, run=f"publish = {publish}")
    with pytest.raises(ConfigError, match=f"run.publish: found .*{found}"):
        protect_run(config)


def test_an_attribute_named_weight_is_refused_before_anything_is_written(town: Path):
    population = MICRODATA.replace('name = "age"', 'name = "weight", column = "age"')
    population = population.replace("age = [", "weight = [")
    config = write_config(town, population=population, mechanism=THIRD, run=PUBLISH)
    with pytest.raises(InputError, match="column 'weight': found two columns of that name"):
        protect_run(config)
    assert not (town / "out").exists()


def test_a_sample_of_nobody_and_a_schema_without_attributes(tmp_path: Path):
    from scipy.sparse import csr_array

    tree = regular(children=2, depth=1)
    where = {"fraction": Fraction(1, 2), "geography": tree}
    (path,) = write_sample(
        csr_array(np.zeros((2, 2))),
        schema=Schema((Attribute("sex", ("f", "m")),)),
        folder=tmp_path / "none",
        **where,  # type: ignore[arg-type]
    )
    assert pl.read_parquet(path).height == 0
    (path,) = write_sample(
        csr_array(np.array([[4.0], [2.0]])),
        schema=Schema(),
        folder=tmp_path / "plain",
        **where,  # type: ignore[arg-type]
    )
    assert pl.read_parquet(path)["weight"].to_list() == [2.0] * 3
