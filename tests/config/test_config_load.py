"""A bad config names file, key, found and expected; it never touches data and writes nothing."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest

from headcount.config.load import (
    config_digest,
    config_to_json,
    load_config,
    load_population,
    read_config,
)
from headcount.errors import ConfigError, InputError
from headcount.run.protect import protect_run
from headcount.typed import shaping
from headcount_papers.averaged import Averaged

GOOD = """
[population]
kind = "microdata"
file = "people.csv"
[population.geography]
columns = ["county", "tract"]
[[population.attribute]]
name = "age"
levels = ["minor", "adult"]
[mechanism]
name = "geometric"
epsilon = 0.1
[run]
out = "out"
"""
UNIFORM = '[population]\nkind = "uniform"\n[mechanism]\nname = "identity"\n[run]\nout = "out"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def changed(old: str, new: str, *, text: str = GOOD) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def sub(key: str, line: str) -> str:
    """The good config with the line of a key replaced."""
    text, times = re.subn(rf"(?m)^{key} = .*$", lambda _: line, GOOD)
    assert times == 1
    return text


BAD = {
    "unknown table": (GOOD + "[extra]\n", "extra", "unknown key", "'population', 'mechanism'"),
    "unknown key": (sub("out", 'outt = "x"\nout = "y"'), "run.outt", "unknown key", "'ledger'"),
    "unknown key of a kind": (
        sub("kind", 'kind = "microdata"\nfiel = "x"'),
        "population.fiel",
        "unknown key",
        "'structural_zero'",
    ),
    "unknown key in a mechanism": (
        sub("epsilon", "epsilon = 1\nparts = 2"),
        "mechanism.parts",
        "unknown key",
        "one of 'unit', 'count_housemates', 'largest_household', 'epsilon'",
    ),
    "unknown key in a list": (
        changed("levels =", "level ="),
        "population.attribute 1.level",
        "unknown key",
        "'levels'",
    ),
    "unknown key in the geography": (
        changed("columns =", "column_names ="),
        "population.geography",
        "keys ['column_names']",
        "exactly one of the keys 'columns' or 'column'",
    ),
    "schema_ is no key": (
        changed('kind = "microdata"', 'kind = "counts"\nschema_ = "x"\nschema = "x"').replace(
            '[[population.attribute]]\nname = "age"\nlevels = ["minor", "adult"]\n', ""
        ),
        "population.schema_",
        "unknown key",
        "'schema'",
    ),
    "missing key": (sub("epsilon", ""), "mechanism.epsilon", "nothing", "a value"),
    "missing table": (GOOD.replace('[run]\nout = "out"\n', ""), "run", "nothing", "a value"),
    "missing kind": (sub("kind", ""), "population.kind", "nothing", "'uniform'"),
    "unknown kind": (sub("kind", 'kind = "x"'), "population.kind", "'x'", "'microdata'"),
    "no mechanism name": (
        changed('name = "geometric"', ""),
        "mechanism.name",
        "nothing",
        "'averaged'",
    ),
    "unknown mechanism": (
        changed('"geometric"', '"laplace"'),
        "mechanism.name",
        "'laplace'",
        "'raked'",
    ),
    "not a table": ("run = 3\n" + GOOD.replace('[run]\nout = "out"\n', ""), "run", "3", "a table"),
    "population not a table": ('population = "x"\n', "population", "'x'", "a table"),
    "number for a text": (sub("file", "file = 3"), "population.file", "3", "a path in quotes"),
    "text for a flag": (
        sub("kind", 'kind = "microdata"\npublic = "yes"'),
        "population.public",
        "'yes'",
        "true or false",
    ),
    "number for a flag": (
        sub("kind", 'kind = "microdata"\npublic = 1'),
        "population.public",
        "1",
        "true or false",
    ),
    "flag for a number": (
        sub("out", 'out = "o"\nseed = true'),
        "run.seed",
        "True",
        "a whole number",
    ),
    "negative seed": (
        sub("out", 'out = "o"\nseed = -1'),
        "run.seed",
        "-1",
        "0 or more",
    ),
    "number in a list of texts": (
        changed('["county", "tract"]', '["county", 3]'),
        "population.geography.columns 2",
        "3",
        "text in quotes",
    ),
    "epsilon 0": (sub("epsilon", "epsilon = 0"), "mechanism.epsilon", "0", "above 0"),
    "epsilon 0.0": (sub("epsilon", "epsilon = 0.0"), "mechanism.epsilon", "0.0", "above 0"),
    "epsilon negative": (sub("epsilon", "epsilon = -0.5"), "mechanism.epsilon", "-0.5", "above 0"),
    "epsilon a word": (sub("epsilon", 'epsilon = "abc"'), "mechanism.epsilon", "'abc'", "above 0"),
    "epsilon nan": (sub("epsilon", "epsilon = nan"), "mechanism.epsilon", "NaN", "finite"),
    "epsilon inf": (sub("epsilon", "epsilon = inf"), "mechanism.epsilon", "Infinity", "finite"),
    "epsilon true": (sub("epsilon", "epsilon = true"), "mechanism.epsilon", "True", "a number"),
    "epsilon 1/0": (sub("epsilon", 'epsilon = "1/0"'), "mechanism.epsilon", "'1/0'", "finite"),
    "both geography ways": (
        changed("columns =", 'column = "code"\nprefixes = { county = 2 }\ncolumns ='),
        "population.geography",
        "keys ['column', 'columns', 'prefixes']",
        "exactly one of the keys 'columns' or 'column'",
    ),
    "no geography way": (
        changed('columns = ["county", "tract"]', ""),
        "population.geography",
        "keys []",
        "exactly one of the keys 'columns' or 'column'",
    ),
    "prefixes without a column": (
        changed("columns =", "prefixes = { county = 2 }\ncolumns ="),
        "population.geography.prefixes",
        "unknown key",
        "one of 'columns', 'root', 'local_codes'",
    ),
    "local codes of prefixes": (
        changed(
            'columns = ["county", "tract"]',
            'column = "code"\nprefixes = { county = 2 }\nlocal_codes = true',
        ),
        "population.geography.local_codes",
        "unknown key",
        "one of 'column', 'prefixes', 'root', 'longer'",
    ),
    "longer codes of columns": (
        changed('columns = ["county", "tract"]', 'columns = ["county", "tract"]\nlonger = "cut"'),
        "population.geography.longer",
        "unknown key",
        "one of 'columns', 'root', 'local_codes'",
    ),
    "real levels beside levels": (
        changed('levels = ["minor", "adult"]', 'levels = ["NA"]\nreal_levels = ["NA"]'),
        "population.attribute 1",
        "levels and real_levels",
        "only where levels are read from",
    ),
    "unknown way with totals": (
        sub("kind", 'kind = "microdata"\ntotals = "ignore"'),
        "population.totals",
        "'ignore'",
        "'refuse', 'drop' or 'keep'",
    ),
    "prefixes that shrink": (
        changed('columns = ["county", "tract"]', 'column = "code"\nprefixes = { a = 3, b = 2 }'),
        "population.geography.prefixes",
        "",
        "lengths that grow",
    ),
    "a level twice": (
        changed('["county", "tract"]', '["county", "county"]'),
        "population.geography",
        "level 'county' twice",
        "distinct",
    ),
    "a level named like the root": (
        changed('["county", "tract"]', '["whole", "tract"]'),
        "population.geography",
        "level 'whole' twice",
        "root",
    ),
    "an attribute twice": (
        GOOD.replace("[mechanism]", '[[population.attribute]]\nname = "age"\n[mechanism]'),
        "population",
        "attribute 'age' twice",
        "distinct",
    ),
    "a level of an attribute twice": (
        changed('["minor", "adult"]', '["minor", "minor"]'),
        "population: attribute 'age'",
        "level 'minor' twice",
        "distinct",
    ),
    "a structural zero of no attribute": (
        GOOD.replace("[mechanism]", '[[population.structural_zero]]\nsex = ["f"]\n[mechanism]'),
        "population",
        "attribute 'sex'",
        "one of 'age'",
    ),
    "more in a leaf than there are": (
        changed('"uniform"', '"uniform"\npeople = 10\nmean = 11', text=UNIFORM),
        "population.mean",
        "11",
        "from 1 to 10",
    ),
    "ledger without dataset": (
        sub("out", 'out = "o"\nledger = "l.db"'),
        "run",
        "a ledger without a dataset",
        "ledger and dataset together",
    ),
    "dataset without ledger": (
        sub("out", 'out = "o"\ndataset = "town"'),
        "run",
        "a dataset without a ledger",
        "ledger and dataset together",
    ),
    # A name that is also a kind of mechanism or population stays in the place.
    "a prefix level named like a kind": (
        changed('columns = ["county", "tract"]', 'column = "code"\nprefixes = { counts = "x" }'),
        "population.geography.prefixes.counts",
        "'x'",
        "a whole number",
    ),
    "a structural zero named like a mechanism": (
        GOOD.replace("[mechanism]", "[[population.structural_zero]]\nraked = 3\n[mechanism]"),
        "population.structural_zero 1.raked",
        "3",
        "a list",
    ),
    "a choice without a reason": (
        GOOD + '\n[choice]\ncase = "a"\n',
        "choice.reason",
        "nothing",
        "a value",
    ),
    "a choice with an empty reason": (
        GOOD + '\n[choice]\ncase = "a"\nreason = " "\n',
        "choice.reason",
        "no text",
        "some words",
    ),
    "not TOML": ("[population\n", "", "text that is not TOML", "TOML"),
    "a key twice": (
        sub("epsilon", "epsilon = 1\nepsilon = 2"),
        "",
        "text that is not TOML",
        "TOML",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_config_says_where_what_and_what_instead(case: str, tmp_path: Path):
    text, place, found, expected = BAD[case]
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        protect_run(path)  # the data file does not exist: an error about it would come too late
    error = caught.value
    assert error.source == str(path)
    assert error.place == place
    assert found in error.found
    assert expected in error.expected
    assert str(error).startswith(f"{path}: {place}")
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]


def test_a_choice_is_a_note_that_changes_no_digest(tmp_path: Path):
    before = load_config(write(tmp_path, GOOD))
    noted = load_config(write(tmp_path, GOOD + '\n[choice]\ncase = "a"\nreason = "b"\n'))
    assert noted.choice is not None
    assert (noted.choice.case, noted.choice.reason) == ("a", "b")
    assert config_digest(noted) == config_digest(before)


def test_a_config_is_read_only_if_it_has_the_digest_that_was_confirmed(tmp_path: Path):
    path = write(tmp_path, GOOD)
    digest = sha256(path.read_bytes()).hexdigest()
    assert load_config(path, only_if=digest.upper()) == load_config(path)
    path.write_text(GOOD + "# more\n")
    with pytest.raises(ConfigError, match="found another text than the one that was confirmed"):
        protect_run(path, only_if=digest)
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]


def test_the_good_config_gets_as_far_as_the_data(tmp_path: Path):
    with pytest.raises(InputError, match=r"people\.csv: found no such file") as caught:
        protect_run(write(tmp_path, GOOD))
    assert not isinstance(caught.value, ConfigError)
    assert [p.name for p in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("name", "found"), [(".", "a directory"), ("missing.toml", "no such file")]
)
def test_a_config_that_is_no_file(name: str, found: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=f"found {found}, expected a TOML config"):
        load_config(tmp_path / name)


def test_a_config_that_is_no_text(tmp_path: Path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="found text that is not TOML"):
        load_config(path)


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("0.1", Fraction(1, 10)),
        ("0.30000000000000000001", Fraction(30000000000000000001, 10**20)),
        ("1e-3", Fraction(1, 1000)),
        ("2", Fraction(2)),
        ('"1/8"', Fraction(1, 8)),
        ('"0.25"', Fraction(1, 4)),
    ],
)
def test_numbers_are_what_was_typed(written: str, exact: Fraction, tmp_path: Path):
    text = changed('"identity"', f'"averaged"\nepsilon = {written}\nparts = 3', text=UNIFORM)
    config = load_config(write(tmp_path, text))
    assert config.mechanism == (Averaged(epsilon=exact, parts=3),)


def test_paths_are_relative_to_the_config_and_work_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, sub("out", 'out = "runs/a"\nledger = "../l.db"\ndataset = "town"'))
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("config.toml"))
    assert config.run.out == tmp_path / "runs/a"
    assert config.run.ledger == tmp_path / "../l.db"
    assert getattr(config.population, "file") == tmp_path / "people.csv"  # noqa: B009


def test_the_kept_copy_is_the_same_config(tmp_path: Path):
    extra = '[[population.structural_zero]]\nage = ["minor"]\n[mechanism]\n'
    config = load_config(write(tmp_path, GOOD.replace("[mechanism]\n", extra)))
    assert read_config(json.loads(config_to_json(config)), source="kept") == config


def test_the_digest_covers_what_shapes_the_release_and_not_where_files_lie(tmp_path: Path):
    def digest(text: str) -> bytes:
        return config_digest(load_config(write(tmp_path, text)))

    same = [
        sub("out", 'out = "elsewhere"'),
        sub("file", 'file = "copy.csv"'),
        sub("epsilon", 'epsilon = "1/10"'),
        GOOD + "new_content = true\n",
    ]
    other = [
        sub("epsilon", "epsilon = 0.2"),
        changed('"geometric"', '"raked"'),
        changed('["minor", "adult"]', '["adult", "minor"]'),
        changed('["county", "tract"]', '["tract"]'),
        GOOD + "seed = 1\n",
        GOOD + "seed = 2\n",
    ]
    assert {digest(text) for text in same} == {digest(GOOD)}
    assert len({digest(text) for text in [GOOD, *other]}) == len(other) + 1


def test_the_digest_names_the_unit_even_where_it_is_the_default(tmp_path: Path):
    """Should the default ever change, a run of today is no run of that day."""
    config = load_config(write(tmp_path, GOOD))
    (mechanism,) = config.mechanism
    assert shaping(mechanism) == {"epsilon": "1/10", "unit": "change-one"}
    said = load_config(write(tmp_path, sub("epsilon", 'epsilon = 0.1\nunit = "change-one"')))
    assert config_digest(config) == config_digest(said)
    added = load_config(write(tmp_path, sub("epsilon", 'epsilon = 0.1\nunit = "add-remove"')))
    assert config_digest(added) != config_digest(config)


def test_the_digest_does_not_depend_on_where_a_schema_lies(tmp_path: Path):
    text = (
        '[population]\nkind = "counts"\nfile = "c.csv"\nschema = "own.toml"\n'
        'geography = { columns = ["tract"] }\n[mechanism]\nname = "identity"\n[run]\nout = "o"\n'
    )
    digests = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        config = load_config(write(tmp_path / name, text))
        assert getattr(config.population, "schema") == str(tmp_path / name / "own.toml")  # noqa: B009
        digests.add(config_digest(config))
    assert len(digests) == 1


def test_a_population_alone_needs_no_other_table(tmp_path: Path):
    people = GOOD.partition("[mechanism]")[0]
    alone = load_population(write(tmp_path, people))
    assert alone == load_config(write(tmp_path, GOOD)).population
    assert load_population(write(tmp_path, people + "[anything]\n")) == alone
    with pytest.raises(ConfigError, match=r"config.toml: population: found nothing, expected a va"):
        load_population(write(tmp_path, "[run]\n"))
