"""``lowest``: smaller places are read, and neither protected nor published."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from headcount.config.load import load_config, load_people
from headcount.domain import Domain
from headcount.errors import ConfigError, InputError
from headcount.geography.geography import regular
from headcount.population import Population
from headcount.population.population import Quarters
from headcount.population.towns import Towns
from headcount.release.store import read_release
from headcount.run.how_far_off import how_far_off
from headcount.run.protect import prepare_run
from headcount.run.public_facts import of_older_people
from headcount.schema import Attribute, Schema
from headcount.tabulate import Tabulated
from tests.cli.test_cli import Headcount, headcount

__all__ = ["headcount"]

SEX = Schema((Attribute("sex", ("f", "m")),))
TREE = regular(children=3, depth=3)


def people() -> Population:
    """Somebody in two of three leaves."""
    leaf = np.array([k for k in range(27) if k % 3], dtype=np.int32)
    quarters = Quarters(TREE, "sex", np.arange(54).reshape(27, 2), np.arange(27))
    return Population(
        "made", Domain(SEX, TREE), leaf, leaf % 2, count=leaf.astype(np.int64), quarters=quarters
    )


def people_file(folder: Path) -> Path:
    """4,000 people in 4 districts of 300 blocks each."""
    chance = np.random.default_rng(5)
    block = chance.integers(0, 1_200, 4_000)
    sexes = chance.choice(["f", "m"], 4_000)
    rows = [f"{b // 300 + 1},{b:04},{s}" for b, s in zip(block, sexes, strict=True)]
    file = folder / "people.csv"
    file.write_text("\n".join(["district,block,sex", *rows]) + "\n", encoding="utf-8")
    return file


def test_people_and_quarters_are_those_of_larger_places() -> None:
    whole = people()
    above = whole.down_to("level_2")
    assert above.geography.levels == ("whole", "level_1", "level_2")
    before, after = Tabulated.of(whole).counts, Tabulated.of(above).counts
    assert np.array_equal(after.dense(), before.at("level_2").dense())
    assert whole.quarters is not None
    assert above.quarters is not None
    assert np.array_equal(
        above.quarters.occupied, whole.quarters.occupied.reshape(9, 3, 2).sum(axis=1)
    )
    assert np.array_equal(above.quarters.vacant, whole.quarters.vacant.reshape(9, 3).sum(axis=1))
    assert above.reading.smaller == (("level_3", 27, 18),)
    assert whole.down_to("level_3") is whole
    assert whole.down_to("") is whole
    with pytest.raises(ConfigError, match="run: lowest: found 'tract', expected"):
        whole.down_to("tract")


def test_who_lives_together_stays() -> None:
    whole = Towns(people=2_000, seed=1, attributes=("sex",)).read()
    above = whole.down_to("block_group")
    assert whole.households is not None
    assert above.households is not None
    assert np.array_equal(above.households.first, whole.households.first)
    tree = whole.geography
    assert np.array_equal(
        above.households.block, tree.ancestors("block_group")[whole.households.block]
    )
    assert above.households.areas == ()


def test_places_with_a_spine_have_all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = regular(children=2, depth=2)
    object.__setattr__(tree, "spine", regular(children=4, depth=1))
    with pytest.raises(InputError, match="found 'level_1' and a spine, expected all levels"):
        tree.down_to("level_1")


def test_an_older_census_may_have_smaller_places() -> None:
    older = people()
    facts = of_older_people(older, older.down_to("level_1").domain)
    assert facts.people[0].geography.leaf == "level_1"


def test_init_leaves_places_unpublished_whose_totals_cannot_be_had(
    tmp_path: Path, headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all commands agree on what is published, while what was read is shown whole."""
    people_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    said = headcount("init", "people.csv", "--yes")
    assert said.code == 0, said.err
    assert "places: 'block' not published: at epsilon 1 the total of such a place" in said.out
    config = tmp_path / "people.toml"
    written = tomllib.loads(config.read_text())
    assert written["run"]["lowest"] == "district"
    assert written["population"]["geography"]["columns"] == ["district", "block"]
    read = json.loads(headcount("check", "people.toml", "--json").out)["read"]
    assert [one["name"] for one in read["levels"]] == ["whole", "district", "block"]
    blocks = read["levels"][-1]
    assert blocks["units"] == blocks["inhabited"] > 1_000
    assert load_people(config).geography.levels == ("whole", "district")
    prepared = prepare_run(load_config(config))
    far = how_far_off(prepared.design, own=prepared.truth)
    assert {row.level for row in far.rows} == {"whole", "district"}
    said = headcount("protect", "people.toml")
    assert said.code == 0, said.err
    assert read_release(tmp_path / "runs/people/release").geography.levels == ("whole", "district")
    said = headcount("evaluate", "runs/people", "--metrics", "error", "--attacks", "none")
    assert said.code == 0, said.err
    planned = headcount("plan", "people.toml", "--json").out
    assert '"level": "district"' in planned
    assert '"level": "block"' not in planned
    said = headcount("init", "people.csv", "--yes", "--every-level", "--overwrite")
    assert said.code == 0, said.err
    assert "lowest" not in tomllib.loads(config.read_text())["run"]
    said = headcount("init", "people.csv", "--yes", "--places", "district,block", "--overwrite")
    assert "places: 'block' may be too small: at epsilon 1" in said.out
    assert "lowest" not in tomllib.loads(config.read_text())["run"]
    said = headcount("init", "people.csv", "--yes", "--epsilon", "100", "--overwrite")
    assert "block' " not in said.out.split("places:")[-1]


def test_a_level_that_is_not_there_is_refused_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[population]\nkind = "uniform"\npeople = 100\ndepth = 2\nmean = 5\n'
        '[mechanism]\nname = "geometric"\nepsilon = 1\nunit = "add-remove"\n'
        '[run]\nout = "run"\nlowest = "tract"\n'
    )
    with pytest.raises(ConfigError, match="run: lowest: found 'tract', expected"):
        prepare_run(load_config(tmp_path / "c.toml"))
