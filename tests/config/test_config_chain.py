"""Several steps in a config, and configs that other versions kept."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from headcount.config.load import config_digest, config_to_json, load_config, read_config
from headcount.errors import ConfigError, RunError
from headcount.mechanisms import Geometric, Sampling
from headcount.release.directory import RunDirectory
from headcount.run.protect import kept_config

HEAD = '[population]\nkind = "towns"\npeople = 2000\n[run]\nout = "out"\n'
SAMPLE = '[[mechanism]]\nname = "sampling"\nfraction = 0.5\n'
NOISE = '[[mechanism]]\nname = "geometric"\nepsilon = 1\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_steps_stand_in_their_order_and_come_back_from_the_kept_copy(tmp_path: Path):
    config = load_config(written(tmp_path, HEAD + SAMPLE + NOISE))
    assert config.mechanism == (Sampling(fraction=Fraction(1, 2)), Geometric(epsilon=Fraction(1)))
    assert read_config(json.loads(config_to_json(config)), source="kept") == config


def test_one_table_and_a_list_of_one_are_the_same(tmp_path: Path):
    listed = load_config(written(tmp_path, HEAD + NOISE))
    plain = load_config(written(tmp_path, HEAD + NOISE.replace("[[mechanism]]", "[mechanism]")))
    assert config_digest(listed) == config_digest(plain)
    both = load_config(written(tmp_path, HEAD + SAMPLE + NOISE))
    assert config_digest(both) != config_digest(plain)


def test_metrics_and_attacks_are_checked_and_no_part_of_the_digest(tmp_path: Path):
    more = '[[metric]]\nname = "error"\ncells = "truth"\n[[attack]]\nname = "linkage"\n'
    config = load_config(written(tmp_path, HEAD + NOISE + more))
    assert [one.name for one in config.metric] == ["error"]
    assert [one.name for one in config.attack] == ["linkage"]
    assert config_digest(config) == config_digest(load_config(written(tmp_path, HEAD + NOISE)))
    wrong = more.replace("cells", "cell")
    with pytest.raises(ConfigError, match=r"metric\.cell: found an unknown key, expected one of"):
        load_config(written(tmp_path, HEAD + NOISE + wrong))
    with pytest.raises(ConfigError, match=r"attack\.name: found 'linkag', .*mean 'linkage'"):
        load_config(written(tmp_path, HEAD + NOISE + more.replace("linkage", "linkag")))


BAD = {
    "order": (NOISE + SAMPLE, "mechanism: geometric: found a method that changes tables before"),
    "second": (SAMPLE + NOISE.replace("= 1", "= 0"), "mechanism 2.epsilon: found 0, expected"),
    "name": (
        SAMPLE + '[[mechanism]]\nname = "x"\n',
        "mechanism 2.name: found 'x', expected one of",
    ),
    "no table": ("mechanism = [3]\n", "mechanism: found 3, expected a table"),
    "none": ("mechanism = []\n", "mechanism: found none, expected one or more"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_wrong_step_is_named(what: str, tmp_path: Path):
    steps, says = BAD[what]
    text = steps + HEAD if steps.startswith("mechanism") else HEAD + steps
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}: {says}")


def test_a_config_that_an_older_version_kept_says_that_it_cannot_be_read(tmp_path: Path):
    directory = RunDirectory(tmp_path)
    directory.internal.mkdir()
    places = {"columns": ["a"], "local_codes": False, "column": "", "prefixes": {}}
    population = {"kind": "microdata", "file": "x.csv", "geography": places}
    old = {"population": population, "mechanism": {"name": "identity"}, "run": {"out": "o"}}
    (directory.internal / "config.json").write_text(json.dumps(old))
    with pytest.raises(RunError) as caught:
        kept_config(directory)
    assert "config.json: population.geography: found keys" in str(caught.value)
    assert "a run that an older version made is read by that version" in str(caught.value)
