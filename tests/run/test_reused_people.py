"""protect with ids of persons and key files: later tables start from the stored people."""

from __future__ import annotations

import json
import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.config.load import config_digest, load_config
from headcount.errors import ConfigError, PrivacyError, RunError
from headcount.mechanisms import ReusedRun
from headcount.population.households import write_households
from headcount.population.towns import towns
from headcount.release.store import read_release
from headcount.run.evaluate import evaluate_run
from headcount.run.protect import protect_run
from tests.run.town import Stop, break_after_rehearsal, contents

SWAP = 'name = "targeted-swapping"\nrate = "1/5"\nrisk_variables = ["race"]\nsimilar = [["size"]]\n'
POPULATION = """[population]
kind = "households"
persons = "{folder}/persons.parquet"
dwellings = "{folder}/dwellings.parquet"
units = "{folder}/units.parquet"
key = "dwelling"
kind_column = "kind"
kinds = [{kinds}]
{ids}
[population.geography]
columns = ["county", "tract", "block_group", "block"]
[[population.attribute]]
name = "sex"
[[population.attribute]]
name = "race"
"""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A state in files, with an id for every person: the population of a config."""
    folder = tmp_path_factory.mktemp("state") / "files"
    households = towns(seed=5, people=1_200, counties=2)
    write_households(households, folder)
    persons = pl.read_parquet(folder / "persons.parquet")
    ids = pl.Series([f"PIN{n * 7919 % 1000003:07}" for n in range(persons.height)])
    persons.with_columns(pin=ids).write_parquet(folder / "persons.parquet")
    kinds = ", ".join(f'"{kind}"' for kind in households.kinds)
    return POPULATION.format(folder=folder, kinds=kinds, ids="{ids}")


def made(
    folder: Path,
    state: str,
    *,
    out: str,
    ids: str = "",
    steps: str = SWAP,
    tables: str = 'sex = ["sex"]',
    last: str = 'name = "cell-key"\nmaximum = 4\n',
    more: str = "",
) -> Path:
    config = folder / f"{out}.toml"
    swap = f"[[mechanism]]\n{steps}" if steps else ""
    keys = f'keys = "{folder / "record.keys"}"'
    last = f"[[mechanism]]\n{last}tables = {{ {tables} }}\n{keys}\n"
    run = f'[run]\nout = "{folder / out}"\n{more}'
    config.write_text(state.format(ids=ids) + swap + last + run)
    return protect_run(config)


def tables(run: Path) -> dict[tuple[str, str], list[list[int]]]:
    found = read_release(run / "release").as_tables().published
    return {(one.name, one.level): one.value.tolist() for one in found}


@pytest.mark.parametrize("ids", ["", 'person_id = "pin"'])
def test_later_tables_start_from_the_people_that_the_first_run_stored(tmp_path, state, ids):
    first = made(tmp_path, state, out="first", ids=ids, tables='sex = ["sex"], race = ["race"]')
    stored = first / "internal" / "changed-people.npz"
    assert stored.stat().st_mode & 0o777 == 0o600
    with pytest.raises(
        PrivacyError, match=r"second swap is refused: to make more tables of the fir"
    ):
        made(tmp_path, state, out="second", ids=ids)
    assert not (tmp_path / "second").exists()
    reuse = f'reuse = {{ run = "{first}" }}\n'
    later = made(
        tmp_path,
        state,
        out="later",
        ids=ids,
        more=reuse,
        tables='again = ["race"], both = ["sex", "race"]',
    )
    old, new = tables(first), tables(later)
    for level in ("whole", "county", "tract", "block_group", "block"):
        assert new["again", level] == old["race", level]
        both, sex = np.array(new["both", level]), np.array(old["sex", level])
        assert (both[:, 0] == sex[:, 0]).all()  # the total of the same people
    assert not (later / "internal" / "provenance.parquet").exists()
    config = load_config(tmp_path / "later.toml")
    other = replace(config, run=replace(config.run, reuse=ReusedRun(run=first, sha256="other")))
    assert config_digest(config) != config_digest(other)
    assert config_digest(config, secret=False) == config_digest(other, secret=False)
    receipt = json.loads((later / "release" / "receipt.json").read_text())
    assert "TargetedSwapping" in receipt["mechanism"]
    finding = evaluate_run(later).evaluation["table-changes"]
    assert "Records were changed before the tables were made" in finding.explain()


def test_what_does_not_fit_the_stored_people_is_refused_before_anything_is_written(tmp_path, state):
    first = made(tmp_path, state, out="first")
    reuse = f'reuse = {{ run = "{first}" }}\n'
    other = SWAP.replace("1/5", "1/10")
    for how, message in (
        ({"steps": other}, r"run.reuse: found people made by other steps, with the same"),
        ({"ids": 'person_id = "pin"'}, r"run.reuse: found people made by other ids or record keys"),
        ({"steps": ""}, r"run.reuse: found it with 'cell-key', which changes no records"),
        (
            {"ids": '[population.exclude]\nrace = ["2"]'},
            r"found people made by other people, places",
        ),
    ):
        with pytest.raises((ConfigError, PrivacyError), match=message):
            made(tmp_path, state, out="no", more=reuse, **how)
        assert not (tmp_path / "no").exists()
    with pytest.raises(ConfigError, match=r"run.reuse: found no changed-people.npz in .*nowhere"):
        made(tmp_path, state, out="no", more='reuse = { run = "nowhere" }\n')
    stored = first / "internal" / "changed-people.npz"
    stored.write_bytes(stored.read_bytes()[:200])
    with pytest.raises(
        RunError, match=r"changed-people.npz: found a damaged file, expected people"
    ):
        made(tmp_path, state, out="no", more=reuse)
    assert not (tmp_path / "no").exists()


def test_stored_people_whose_ids_are_others_by_now_are_refused(tmp_path, state):
    ids = 'person_id = "pin"'
    first = made(tmp_path, state, out="first", ids=ids)
    moved = tmp_path / "files"
    shutil.copytree(state.split('persons = "')[1].split("/persons")[0], moved)
    persons = pl.read_parquet(moved / "persons.parquet")
    persons.with_columns(pl.col("pin").reverse()).write_parquet(moved / "persons.parquet")
    other = re.sub(r'"[^"]*/(\w+)\.parquet"', rf'"{moved}/\1.parquet"', state)
    reuse = f'reuse = {{ run = "{first}" }}\n'
    with pytest.raises(PrivacyError, match=r"run.reuse: found people made by other people, places"):
        made(tmp_path, other, out="no", ids=ids, more=reuse)
    assert not (tmp_path / "no").exists()


def test_an_unfinished_chain_is_taken_up_although_its_key_file_is_there(
    tmp_path, state, monkeypatch
):
    def crash(*_all: object, **_more: object) -> None:
        raise Stop

    with monkeypatch.context() as broken:
        break_after_rehearsal(broken, "headcount.run._beforehand.write_release", crash)
        with pytest.raises(Stop):
            made(tmp_path, state, out="first")
    keys = (tmp_path / "record.keys").read_bytes()
    people = (tmp_path / "first" / "internal" / "changed-people.npz").read_bytes()
    first = made(tmp_path, state, out="first")
    assert tables(first)
    assert (tmp_path / "record.keys").read_bytes() == keys
    assert (first / "internal" / "changed-people.npz").read_bytes() == people


def test_ids_are_in_no_file_of_the_release_and_in_no_line_of_the_log(tmp_path, state, caplog):
    with caplog.at_level(logging.DEBUG):
        run = made(tmp_path, state, out="run", ids='person_id = "pin"')
        evaluate_run(run)
    assert "PIN0" not in caplog.text
    for data in (*contents(run / "release").values(), *contents(run / "internal").values()):
        assert b"PIN0" not in data
        assert b"PIN9" not in data
    receipt = (run / "release" / "receipt.json").read_text()
    assert '"pin"' not in receipt
    assert "kept in a file for later tables" in receipt
