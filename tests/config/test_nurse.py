"""nurse_nva_0 by config: in the population's table or beside the preset."""

from __future__ import annotations

from pathlib import Path

import pytest

from headcount.config.load import config_digest, load_config
from headcount.errors import ConfigError, InputError
from headcount.run.protect import prepare_run
from headcount.schema import load_schema
from headcount.topdown.mechanism import TopDown
from headcount.topdown.settings import NURSE_NVA_0

PRESET = 'name = "topdown"\npreset = "e2e-2018"\nepsilon = 1\n'


def config(folder: Path, *, population: str, mechanism: str = PRESET) -> Path:
    path = folder / "config.toml"
    path.write_text(f'[population]\n{population}\n[mechanism]\n{mechanism}\n[run]\nout = "out"\n')
    return path


def home(folder: Path, *, age: int) -> str:
    unit, person = list("H" + "." * 158), list("P" + "." * 272)
    places = {7: "00000001", 53: "01", 55: "0010", 93: "1", 94: "4", 124: "0007"}
    for line, fields in (
        (unit, places),
        (person, {7: "00000001", 73: f"{age:03d}", 84: "1", 88: "0"}),
    ):
        for start, text in fields.items():
            line[start : start + len(text)] = text
    (folder / "one.dat").write_text("".join(unit) + "\n" + "".join(person) + "\n")
    return 'kind = "ipums1940"\nfile = "one.dat"\n'


FLAG = "nurse_nva_0 = true\n"


@pytest.mark.parametrize("kind", ["us1940", "ipums1940"])
@pytest.mark.parametrize("said", ["population", "mechanism"])
def test_either_table_may_ask_for_it(tmp_path: Path, kind: str, said: str):
    population = home(tmp_path, age=70)
    if kind == "us1940":
        population = 'kind = "us1940"\nstates = ["DE"]\n'
    tables = {"population": population, "mechanism": PRESET}
    plain = load_config(config(tmp_path, **tables))
    tables[said] += FLAG
    loaded = load_config(config(tmp_path, **tables))
    people = loaded.population.read()
    assert people.schema == load_schema("e2e-2018-nurse")
    assert people.schema.possible[people.cell].all()
    assert plain.population.read().schema == load_schema("e2e-2018")
    assert config_digest(loaded) != config_digest(plain)
    (mechanism,) = loaded.mechanism
    assert isinstance(mechanism, TopDown)
    asked = mechanism.structural_zeros
    assert asked == ((NURSE_NVA_0,) if said == "mechanism" else ())
    prepare_run(loaded)


def test_a_record_that_contradicts_it_is_named(tmp_path: Path):
    loaded = load_config(
        config(tmp_path, population=home(tmp_path, age=7), mechanism=PRESET + FLAG)
    )
    with pytest.raises(InputError, match=r"one\.dat: line 2, AGE: found under 18"):
        prepare_run(loaded)


def test_other_schemas_must_have_it_themselves(tmp_path: Path):
    codes = "code," + ",".join(load_schema("e2e-2018").cell_names)
    (tmp_path / "counts.csv").write_text(f"{codes}\n01,{','.join(['0'] * 192)}\n")
    rows = "code," + ",".join(load_schema("e2e-2018").attribute("hhgq").levels)
    (tmp_path / "quarters.csv").write_text(f"{rows}\n01,0,0,0,0,0,0,0,0\n")
    counts = (
        'kind = "counts"\nfile = "counts.csv"\nschema = "SCHEMA"\n'
        'geography = { column = "code", prefixes = { state = 1, leaf = 2 } }\n'
        'quarters = { file = "quarters.csv", attribute = "hhgq" }\n'
    )
    text = counts.replace("SCHEMA", "e2e-2018")
    with pytest.raises(ConfigError, match="expected a schema in which that is a structural zero"):
        prepare_run(load_config(config(tmp_path, population=text, mechanism=PRESET + FLAG)))
    text = counts.replace("SCHEMA", "e2e-2018-nurse")
    prepare_run(load_config(config(tmp_path, population=text, mechanism=PRESET + FLAG)))
