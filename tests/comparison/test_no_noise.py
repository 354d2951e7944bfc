"""Methods in which chance decides anything can be left out: by a key of a run, by an option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from headcount.comparison.settings import Settings
from headcount.config.load import config_digest, config_to_json, read_config
from headcount.errors import ConfigError
from headcount.population.towns import Towns
from headcount.run.compare import compare_run

CONFIG = """
[population]
kind = "towns"
people = 1000
counties = 1
attributes = ["sex", "hispanic"]

[run]
out = "run"
noise = "forbidden"
"""
CASES = """
[[case]]
name = "areas"
[[case.mechanism]]
name = "coarsening"
ladder = [50]
tables = { origin = { by = ["hispanic"], at = 50 } }

[[case]]
name = "changed"
[[case.mechanism]]
name = "cell-key"
tables = { origin = ["hispanic"] }
"""


def config(*mechanism: dict[str, Any], noise: str = "forbidden") -> Any:
    return read_config(
        {
            "population": {"kind": "towns"},
            "mechanism": list(mechanism),
            "run": {"out": "run", "noise": noise},
        },
        source="x.toml",
    )


GEOMETRIC = {"name": "geometric", "epsilon": 1}
SUPPRESSION = {"name": "suppression"}


def test_a_run_without_noise_refuses_what_is_left_to_chance():
    with pytest.raises(ConfigError) as error:
        config(GEOMETRIC)
    assert str(error.value) == (
        "x.toml: run.noise: found 'forbidden', and chance decides in geometric, expected methods "
        "that leave nothing to chance, such as coarsening, suppression or rounding with "
        'how = "nearest"'
    )
    with pytest.raises(ConfigError, match="chance decides in sampling and geometric"):
        config({"name": "sampling", "fraction": "1/2"}, GEOMETRIC)
    assert config(SUPPRESSION).run.noise == "forbidden"


def test_the_key_moves_no_seeded_release():
    """Where it is not set the settings of a run are what they were."""
    plain = {"population": {"kind": "towns"}, "mechanism": [GEOMETRIC], "run": {"out": "run"}}
    without = read_config(plain, source="x.toml")
    assert config_digest(config(GEOMETRIC, noise="allowed")) == config_digest(without)
    assert '"noise": "allowed"' in config_to_json(without)  # as every key of a run that is kept


def test_a_comparison_leaves_them_out_with_the_reason():
    people = Towns(people=1_000, counties=1, attributes=("sex", "hispanic")).read()
    methods = ["geometric", "suppression", "rounding"]
    found = hc.compare(people, methods=methods, epsilon=[1], preset="demo", no_noise=True)
    made = found.tables["cases"]["method"].unique().to_list()
    assert sorted(made) == ["identity", "suppression"]
    why = dict(found.tables["left_out"].iter_rows())
    assert (
        why["geometric noise, epsilon 1"]
        == "chance decides in geometric, and noise is forbidden here"
    )
    assert any(name.startswith("rounding") for name in why)


def test_the_run_of_a_config_forbids_it_to_its_comparison(tmp_path: Path):
    file = tmp_path / "c.toml"
    file.write_text(CONFIG + CASES)
    done = compare_run(file, Settings(preset="demo"), out=tmp_path / "out")
    folder = done.internal.parent
    left_out = (folder / "tables" / "left_out.csv").read_text()
    assert 'changed,"chance decides in cell-key, and noise is forbidden here"' in left_out
    cases = (folder / "tables" / "cases.csv").read_text()
    assert "areas" in cases
    assert "changed" not in cases
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["settings"]["no_noise"] is True
    estimated = (folder / "tables" / "estimated.csv").read_text()
    assert "areas,published totals of each block" in estimated
    assert "areas" in (folder / "tables" / "errors.csv").read_text()


def test_the_option_is_a_part_of_the_recipe():
    assert Settings(no_noise=True).command("c.toml", out="o") == (
        "headcount compare c.toml --out o --preset quick --seed 0 --no-noise"
    )
    assert "no_noise" not in Settings().identity()
