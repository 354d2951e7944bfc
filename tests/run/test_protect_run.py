"""protect, from files to files: what is published, what is kept, what is refused."""

from __future__ import annotations

import json
import logging
import re
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headcount.config.load import load_config
from headcount.domain import Domain
from headcount.errors import InputError, RunError
from headcount.mechanisms import Chain, ChainDesign, Geometric, Identity, protect
from headcount.noise import KeyedNoise, RunKey
from headcount.privacy import Ledger
from headcount.release.directory import RunDirectory
from headcount.release.store import read_receipt, read_release
from headcount.run._beforehand import make_release
from headcount.run.evaluate import _open_run, evaluate_run
from headcount.run.protect import prepare_data, prepare_run, protect_run
from headcount_papers.raked import Raked
from tests.run.town import (
    AGES,
    LEDGER,
    MICRODATA,
    SEXES,
    UNITS,
    contents,
    interrupted,
    make_ledger,
    people,
    write_config,
    write_town,
)

IDENTITY = 'name = "identity"'
SEED = "seed = 7"


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def wide_counts() -> dict[str, list[object]]:
    """The town as a wide table, counted by hand."""
    table: dict[str, list[object]] = {"county": [], "tract": []}
    for county, tract in UNITS:
        table["county"].append(county)
        table["tract"].append(tract)
        for sex in SEXES:
            for age in AGES:
                if (sex, age) != ("m", "old"):
                    number = people().count((county, tract, sex, age))
                    table.setdefault(f"{sex}_{age}", []).append(number)
    return table


SCHEMA = """
[[attribute]]
name = "sex"
levels = ["f", "m"]
[[attribute]]
name = "age"
levels = ["minor", "adult", "old"]
[[structural_zero]]
sex = ["m"]
age = ["old"]
"""


@pytest.mark.parametrize("kind", ["microdata", "counts.csv", "counts.parquet"])
def test_the_same_town_from_any_kind_of_file(kind: str, town: Path):
    population = MICRODATA
    if kind != "microdata":
        frame = pl.DataFrame(wide_counts())
        frame.write_csv(town / "counts.csv")
        frame.write_parquet(town / "counts.parquet")
        (town / "schema.toml").write_text(SCHEMA)
        population = (
            f'kind = "counts"\nfile = "{kind}"\nschema = "schema.toml"\nunits = "tracts.csv"\n'
            'geography = { columns = ["county", "tract"] }'
        )
    out = protect_run(write_config(town, population=population, mechanism=IDENTITY))
    table = pl.read_parquet(out / "release" / "tract.parquet")
    assert table.to_dict(as_series=False) == wide_counts()


def test_a_release_is_the_mechanism_and_nothing_else(town: Path):
    config = write_config(town, mechanism='name = "raked"\nepsilon = "3/2"', run=SEED)
    out = protect_run(config)
    loaded = load_config(config)
    planned = prepare_data(loaded)
    facts = RunDirectory(out).require_facts()
    noise = KeyedNoise(
        RunKey.from_seed(7),
        "raked",
        planned.data.digest,
        bytes.fromhex(facts.config_digest),
    )
    expected = protect(planned.data, Raked(epsilon=Fraction(3, 2)), noise)
    found = read_release(out / "release")
    assert list(found.as_counts().tables) == ["whole", "county", "tract"]
    for level, table in expected.as_counts().tables.items():
        np.testing.assert_array_equal(found.as_counts().tables[level], table)
    for field in ("schema", "mechanism", "guarantee", "key_kind", "backend", "notes"):
        assert getattr(found, field) == getattr(expected, field)


@pytest.mark.parametrize("name", ["geometric", "raked", "averaged"])
def test_the_uniform_population(name: str, tmp_path: Path):
    population = 'kind = "uniform"\npeople = 3000\ndepth = 2\nmean = 20'
    config = write_config(
        tmp_path, population=population, mechanism=f'name = "{name}"\nepsilon = 1'
    )
    out = protect_run(config)
    release, planned = _open_run(out)
    assert planned.public
    # 12 children a unit: codes that do not sort as they count.
    assert [units.tolist() for units in release.geography.units] == [
        units.tolist() for units in planned.counts.geography.units
    ]
    assert np.abs(release.at("level_2") - planned.counts.dense()).max() < 100


def test_local_codes_and_prefixes_read_back(town: Path):
    rows = ["county,tract,code", "a,1,a1", "a,2,a2", "b,1,b1", "b,1,b1"]
    (town / "codes.csv").write_text("\n".join(rows) + "\n")
    local = 'kind = "microdata"\nfile = "codes.csv"\n[population.geography]\n'
    ways = {
        "local": 'columns = ["county", "tract"]\nlocal_codes = true\nroot = "nation"',
        "prefix": 'column = "code"\nprefixes = { county = 1, tract = 2 }\nroot = "nation"',
    }
    codes = {"local": ["a/1", "a/2", "b/1"], "prefix": ["a1", "a2", "b1"]}
    for name, way in ways.items():
        config = write_config(town, population=local + way, mechanism=IDENTITY, out=name)
        release = read_release(protect_run(config) / "release")
        assert release.geography.levels == ("nation", "county", "tract")
        assert release.geography.units[-1].tolist() == codes[name]
        assert release.at("tract").tolist() == [[1], [1], [2]]
        assert release.at("nation").tolist() == [[4]]


def test_the_receipt_is_complete_and_exact(town: Path):
    ledger = make_ledger(town)
    run = LEDGER
    out = protect_run(write_config(town, mechanism='name = "raked"\nepsilon = 0.7', run=run))
    receipt = read_receipt(out / "release")
    assert [
        (m["level"], m["query"], m["share"], m["rate"], m["draws"]) for m in receipt["measurements"]
    ] == [(level, "cells", "1/3", "7/60", 1) for level in ("whole", "county", "tract")]
    # A changed record leaves no level alone here: it may change its cell within the whole.
    for one in receipt["measurements"]:
        assert one["epsilon add-remove"] == "7/60"
        assert one["epsilon change-one"] == "7/30"
        ratio = np.exp(-7 / 60)
        assert one["variance"] == pytest.approx(2 * ratio / (1 - ratio) ** 2, rel=1e-12)
        assert one["noise"] == "two-sided geometric"
    assert sum(Fraction(m["share"]) for m in receipt["measurements"]) == 1
    losses = [
        {"currency": "epsilon", "amount": "7/10", "unit": "change-one"},
        {"currency": "epsilon", "amount": "7/20", "unit": "add-remove"},
    ]
    assert receipt["guarantee"]["losses"] == losses
    assert receipt["guarantee"]["released_exactly"] == []
    assert (receipt["key_kind"], receipt["noise_backend"]) == ("os", "table")
    assert receipt["noise_served_by"] == {
        f"{level}/cells": "table" for level in ("whole", "county", "tract")
    }
    facts = RunDirectory(out).require_facts()
    assert receipt["config_digest"] == facts.config_digest
    assert receipt["data_digest"] == ledger.public_digest(facts.data_digest, run_id=facts.run_id)
    assert receipt["run_id"] == facts.run_id
    assert {"headcount", "python", "numpy", "cryptography"} <= set(receipt["versions"])
    assert receipt["notes"].keys() == {"raked_from_a_zero_sum"}


def test_a_release_without_a_ledger_says_that_nobody_adds_up(town: Path):
    receipt = read_receipt(protect_run(write_config(town)) / "release")
    assert receipt["data_digest"] is None
    assert receipt["ledger"].startswith("no ledger was named: the losses")


def test_the_publishable_half_holds_no_digest_of_the_truth_and_no_path(town: Path):
    make_ledger(town)
    out = protect_run(write_config(town, run=LEDGER))
    directory = RunDirectory(out)
    published = b"".join(contents(directory.release).values())
    digest = directory.require_facts().data_digest
    counts = prepare_data(load_config(town / "config.toml")).counts
    truths = {
        "the digest of the data": digest.encode(),
        "the digest of the data, raw": bytes.fromhex(digest),
        "the digest of the file": sha256((town / "people.csv").read_bytes()).hexdigest().encode(),
        "the digest of the table": sha256(counts.dense().tobytes()).hexdigest().encode(),
        "where it was made": str(town).encode(),
        "the name of the file": b"people.csv",
    }
    assert [what for what, text in truths.items() if text in published] == []
    assert digest.encode() in b"".join(contents(directory.internal).values())  # the search works
    # All that looks like a digest is of the config, of the places of the tables, of a published
    # file, or keyed.
    receipt = read_receipt(directory.release)
    manifest = json.loads((directory.release / "manifest.json").read_text())
    explained = {
        manifest["sha256"],
        receipt["config_digest"],
        read_release(directory.release).geography.digest,
        receipt["data_digest"].removeprefix("hmac-sha256:"),
        *manifest["files"].values(),
    }
    found = set(re.findall(rb"[0-9a-f]{64}", published))
    assert found == {digest.encode() for digest in explained}
    assert sorted(p.name for p in directory.release.iterdir()) == sorted(
        ["manifest.json", *manifest["files"]]
    )


def test_the_key_is_closed_while_the_run_works_and_gone_after(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: dict[str, int] = {}
    keys = []

    def spying(*arguments, **named):
        internal = town / "out" / "internal"
        seen["internal"] = internal.stat().st_mode & 0o777
        seen["key"] = (internal / "run.key").stat().st_mode & 0o777
        keys.append((internal / "run.key").read_bytes().split()[-1])
        return make_release(*arguments, **named)

    monkeypatch.setattr("headcount.run.protect.make_release", spying)
    out = protect_run(write_config(town))
    assert (seen["internal"], seen["key"]) == (0o700, 0o600)
    (key,) = keys
    assert len(key) == 64
    everything = contents(out)
    assert "internal/run.key" not in everything
    assert not [name for name, content in everything.items() if key in content]


def test_the_same_command_again_finds_it_complete(town: Path, caplog: pytest.LogCaptureFixture):
    config = write_config(town)
    out = protect_run(config)
    before = contents(out)
    caplog.set_level(logging.INFO)
    assert protect_run(config) == out
    assert "the release is complete; nothing was drawn or spent again" in caplog.text
    assert contents(out) == before


def test_a_damaged_release_is_not_called_complete(town: Path):
    config = write_config(town)
    path = protect_run(config) / "release" / "tract.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RunError, match=r"tract\.parquet: found a missing or changed file"):
        protect_run(config)


def test_another_config_in_the_same_place_is_refused(town: Path):
    out = protect_run(write_config(town))
    before = contents(out)
    other = write_config(town, mechanism='name = "geometric"\nepsilon = 5', name="other.toml")
    with pytest.raises(RunError, match="made with a different config"):
        protect_run(other)
    assert contents(out) == before


def test_an_unfinished_run_of_an_older_version_is_refused_not_resumed(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its epsilon was for another unit of privacy, whatever digest stands there."""
    make_ledger(town)
    config = write_config(town, run=LEDGER)
    interrupted(config, monkeypatch, at="write_release")
    facts = town / "out/internal/run.json"
    now = json.loads(facts.read_text())
    assert now.pop("meaning") == 2
    old = {name: now[name] for name in ("run_id", "config_digest", "data_digest", "key_kind")}
    facts.write_text(json.dumps(old, indent=2) + "\n")  # as version 0.1.0 wrote it
    before = contents(town / "out")
    message = "unfinished and begun by another version of headcount, in which the same settings"
    with pytest.raises(RunError, match=message):
        protect_run(config)
    with pytest.raises(RunError, match=message):
        prepare_run(load_config(config))
    assert contents(town / "out") == before


def test_a_finished_run_of_an_older_version_is_left_alone_and_says_so(town: Path):
    out = protect_run(write_config(town))
    facts = out / "internal/run.json"
    old = {**json.loads(facts.read_text()), "config_digest": "00" * 32}
    del old["meaning"]
    facts.write_text(json.dumps(old))  # its digest did not name a unit
    before = contents(out)
    with pytest.raises(RunError, match="a different config or by another version of headcount"):
        protect_run(write_config(town))
    with pytest.raises(RunError, match="a different config or by another version of headcount"):
        _open_run(out)
    assert contents(out) == before


def test_other_data_is_refused_when_resuming(town: Path, monkeypatch: pytest.MonkeyPatch):
    make_ledger(town)
    config = write_config(town, run=LEDGER)
    interrupted(config, monkeypatch, at="write_release")
    before = contents(town / "out")
    write_town(town, rows=people(seed=1))
    with pytest.raises(RunError, match="begun on other data, expected the same data"):
        protect_run(config)
    assert contents(town / "out") == before
    write_town(town)
    protect_run(config)


def test_another_order_of_the_same_people_is_the_same_data(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    config = write_config(town)
    interrupted(config, monkeypatch, at="write_release")
    write_town(town, rows=people()[::-1])
    assert (protect_run(config) / "release" / "manifest.json").is_file()


@pytest.mark.parametrize("stranger", ["out/notes.txt", "out/internal/notes.txt"])
def test_a_folder_withforeign_files_is_refused_before_data_is_read(stranger: str, town: Path):
    (town / stranger).parent.mkdir(parents=True)
    (town / stranger).write_text("mine")
    (town / "people.csv").unlink()
    with pytest.raises(
        RunError, match="is not part of a headcount run, expected a new or empty directory"
    ):
        protect_run(write_config(town))
    assert list(contents(town / "out")) == [stranger.removeprefix("out/")]


BAD_DATA = {
    "missing column": ("county,tract,age\na,a1,minor\n", "column 'sex'", "no such column"),
    "unknown level": ("county,tract,sex,age\na,a1,f,baby\n", "line 2", "level 'baby'"),
    "unknown unit": ("county,tract,sex,age\na,zz,f,old\n", "line 2", "unit 'zz'"),
    "other parent": ("county,tract,sex,age\na,b1,f,old\n", "line 2", "other parents"),
    "structural zero": ("county,tract,sex,age\na,a1,m,old\n", "line 2", "a structural zero"),
    "empty file": ("", "", "an empty file"),
    "no rows": ("county,tract,sex,age\n", "", "no rows"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_named_and_nothing_is_written_or_spent(case: str, town: Path):
    text, place, found = BAD_DATA[case]
    (town / "people.csv").write_text(text)
    ledger = make_ledger(town)
    with pytest.raises(InputError) as caught:
        protect_run(write_config(town, run=LEDGER))
    assert str(caught.value).startswith(str(town / "people.csv"))
    assert place in caught.value.place
    assert found in caught.value.found
    assert not (town / "out").exists()
    assert ledger.history("town") == ()


def test_names_that_cannot_be_published_are_refused_before_anything_is_spent(town: Path):
    ledger = make_ledger(town)
    population = MICRODATA.replace('["county", "tract"]', '["county", "tract"], root = "f_old"')
    with pytest.raises(InputError, match="column 'f_old': found a geography level and a cell"):
        protect_run(write_config(town, population=population, run=LEDGER))
    assert not (town / "out").exists()
    assert ledger.history("town") == ()


def test_a_public_list_of_units_keeps_who_lives_where_out_of_the_support(
    town: Path, caplog: pytest.LogCaptureFixture
):
    listed = protect_run(write_config(town, out="listed"))
    assert caplog.text == ""
    receipt = read_receipt(listed / "release")
    assert receipt["guarantee"]["released_exactly"] == []
    assert pl.read_parquet(listed / "release/tract.parquet")["tract"].to_list() == [
        tract for _, tract in UNITS
    ]


def test_what_is_read_off_the_data_is_listed_and_warned_of(
    town: Path, caplog: pytest.LogCaptureFixture
):
    make_ledger(town)
    population = MICRODATA.replace('units = "tracts.csv"', "").replace(
        'levels = ["minor", "adult", "old"]', 'column = "age"'
    )
    out = protect_run(write_config(town, population=population, run=LEDGER))
    exact = ["which units exist", "which levels of 'age' exist"]
    receipt = read_receipt(out / "release")
    assert receipt["guarantee"]["released_exactly"] == exact
    for what in exact:
        assert f"Released without noise: {what}." in receipt["guarantee"]["sentences"]
    warned = f"read from the data and published without noise: {exact[0]}; {exact[1]}"
    assert caplog.text.count(warned) == 1
    caplog.clear()
    evaluate_run(out)
    assert "read from the data" not in caplog.text
    assert Ledger.open(town / "ledger.db").balance("town").invariants == tuple(exact)
    # The empty tract is missing: this is what the warning is about.
    assert pl.read_parquet(out / "release/tract.parquet")["tract"].to_list() == [
        tract for _, tract in UNITS[:-1]
    ]


def test_evaluate_needs_a_finished_run_and_the_same_data(town: Path):
    with pytest.raises(RunError, match="found no finished run, expected one made by headcount"):
        evaluate_run(town / "out")
    out = protect_run(write_config(town))
    write_town(town, rows=people(seed=1))
    with pytest.raises(RunError, match="found data that the release was not made from"):
        evaluate_run(out)


def test_evaluate_works_from_any_folder(town: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(town)
    write_config(town, mechanism=IDENTITY)
    protect_run(Path("config.toml"))
    elsewhere = town / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    done = evaluate_run(Path("../out"))
    assert done.evaluation["error"].table["max_absolute"].max() == 0
    assert done.report.is_file()
    assert not done.public
    assert {p.parent.name for p in (town / "out" / "internal").rglob("errors.csv")} == {
        "evaluation"
    }


def test_plan_reads_and_promises_but_writes_nothing(town: Path):
    planned = prepare_data(load_config(write_config(town)))
    assert planned.mechanism == Chain.of(Geometric(epsilon=Fraction(1, 2)))
    assert planned.loss is None
    assert planned.guarantee.exists
    assert not (town / "out").exists()
    config = load_config(write_config(town, mechanism=IDENTITY))
    assert prepare_data(config).mechanism == Chain.of(Identity())


def test_evaluate_needs_the_config_of_the_run(town: Path):
    kept = protect_run(write_config(town)) / "internal" / "config.json"
    text = kept.read_text()
    kept.write_text(text.replace('"public": false', '"public": true'))  # to lose the banner
    with pytest.raises(
        RunError, match="found a run made with a different config, expected it unchang"
    ):
        evaluate_run(town / "out")
    kept.write_text(text[:-5])
    with pytest.raises(RunError, match=r"config\.json: found a damaged file, expected the run's"):
        evaluate_run(town / "out")


def test_a_folder_may_move_while_its_run_is_unfinished(
    town: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    pl.DataFrame(wide_counts()).write_csv(town / "counts.csv")
    (town / "schema.toml").write_text(SCHEMA)
    population = (
        'kind = "counts"\nfile = "counts.csv"\nschema = "schema.toml"\n'
        'geography = { columns = ["county", "tract"] }'
    )
    interrupted(write_config(town, population=population), monkeypatch, at="write_release")
    facts = RunDirectory(town / "out").require_facts()
    moved = tmp_path.with_name("moved")
    town.rename(moved)
    # Another schema is other data, wherever it lies.
    (moved / "schema.toml").write_text(SCHEMA.replace('["f", "m"]', '["m", "f"]'))
    with pytest.raises(RunError, match="begun on other data"):
        protect_run(moved / "config.toml")
    (moved / "schema.toml").write_text(SCHEMA)
    protect_run(moved / "config.toml")
    assert read_receipt(moved / "out/release")["run_id"] == facts.run_id


def test_a_run_makes_the_design_of_its_mechanism_once(town: Path, monkeypatch: pytest.MonkeyPatch):
    """And that of its rehearsal, which is of nobody in a few places."""
    asked = []
    bound = Chain.on

    def counting(chain: Chain, domain: Domain) -> ChainDesign:
        asked.append(domain)
        return bound(chain, domain)

    monkeypatch.setattr(Chain, "on", counting)
    protect_run(write_config(town))
    assert len(asked) == len(set(map(id, asked))) == 2
