"""estimate, from files to files: the release of the run whose measurements they are, at no cost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.errors import ConfigError, InputError, RunError
from headcount.privacy import Ledger, UnitOfPrivacy
from headcount.release.store import read_release
from headcount.run.close import close_run
from headcount.run.estimate import check_estimate, estimate_run
from headcount.run.evaluate import _open_run
from headcount.run.protect import protect_run
from headcount.topdown import descend
from headcount.topdown._estimate import prepare_level
from tests.run.test_topdown_protect import ALL, TOWN, WHOLE, tables
from tests.run.town import UNITS, Stop, contents, make_ledger, people, write_config, write_town

CONFIG = '[measurements]\nfolder = "out/release/measurements"\n[run]\nout = "again"\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town, its release with measurements, and no data any more."""
    town = tmp_path_factory.mktemp("town")
    write_town(town)
    lived_in = {(tract, sex) for _, tract, sex, _ in people()}
    rows = [f"{c},{t},{int((t, 'f') in lived_in)},{int((t, 'm') in lived_in)}" for c, t in UNITS]
    (town / "quarters.csv").write_text("\n".join(["county,tract,f,m", *rows]) + "\n")
    make_ledger(town, total="100", unit=UnitOfPrivacy.CHANGE_ONE)
    protect_run(write_config(town, population=TOWN, mechanism=WHOLE, run=ALL))
    for data in town.glob("*.csv"):
        data.unlink()
    return town


@pytest.fixture
def town(made: Path, tmp_path: Path) -> Path:
    """The same in a folder of the test's own."""
    (tmp_path / "out/release").mkdir(parents=True)
    (tmp_path / "out/release/measurements").symlink_to(made / "out/release/measurements")
    return tmp_path


def config(town: Path, text: str = CONFIG) -> Path:
    path = town / "again.toml"
    path.write_text(text)
    return path


def test_the_release_is_the_same_to_the_byte_when_the_data_are_gone(made: Path, town: Path):
    spent = Ledger.open(made / "ledger.db").history("town")
    ledger = (made / "ledger.db").read_bytes()
    again = estimate_run(config(town))
    first = {name: data for name, data in tables(made / "out/release").items() if "/" not in name}
    assert tables(again / "release") == first
    assert set(first) == {"whole.parquet", "county.parquet", "tract.parquet"}
    domains = [
        json.loads((run / "release/manifest.json").read_text())["domain"]
        for run in (made / "out", again)
    ]
    assert domains[0] == domains[1]
    assert Ledger.open(made / "ledger.db").history("town") == spent
    assert (made / "ledger.db").read_bytes() == ledger


def test_the_receipt_says_what_it_was_made_from_and_that_nothing_was_spent(made: Path, town: Path):
    again = estimate_run(config(town))
    receipt = json.loads((again / "release/receipt.json").read_text())
    before = json.loads((made / "out/release/receipt.json").read_text())
    assert receipt["ledger"].startswith("nothing was spent")
    assert (receipt["key_kind"], receipt["noise_backend"]) == ("none", "none")
    assert len(receipt["made_from"]["measurements"]) == 64
    assert receipt["guarantee"]["losses"] == before["guarantee"]["losses"]
    assert receipt["guarantee"]["released_exactly"] == before["guarantee"]["released_exactly"]
    assert any(
        "nothing new is spent; the loss is theirs" in s for s in receipt["guarantee"]["sentences"]
    )
    assert sorted(contents(again / "internal")) == ["config.json", "lock", "run.json"]
    release = read_release(again / "release")
    assert release.guarantee.made_from == "published measurements and constraints"


def test_a_run_that_broke_off_is_resumed_and_a_finished_one_is_checked(
    made: Path, town: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(name, **named):
        if name == "tract":
            raise Stop
        return prepare_level(name, **named)

    with monkeypatch.context() as patch:
        patch.setattr(descend, "prepare_level", stop)
        with pytest.raises(Stop):
            estimate_run(config(town))
    assert len(list((town / "again/internal/levels/run-0").iterdir())) == 2
    again = estimate_run(config(town))
    first = (made / "out/release/tract.parquet").read_bytes()
    assert (again / "release/tract.parquet").read_bytes() == first
    made_at = (again / "release/manifest.json").stat().st_mtime_ns
    assert estimate_run(config(town)) == again
    assert (again / "release/manifest.json").stat().st_mtime_ns == made_at
    (again / "release/tract.parquet").write_bytes(b"")
    with pytest.raises(RunError, match=r"tract.parquet"):
        estimate_run(config(town))


def test_files_that_are_refused_leave_no_run_behind(town: Path):
    text = CONFIG.replace("out/release/measurements", "out/release")
    with pytest.raises(InputError, match="found no folder of a level"):
        estimate_run(config(town, text))
    assert not (town / "again").exists()


def test_measurements_that_are_not_as_their_release_lists_them_are_refused(
    made: Path, tmp_path: Path
):
    """One number more or less is still a sound file: the manifest beside it tells."""
    shutil.copytree(made / "out/release", tmp_path / "out/release")
    part = tmp_path / "out/release/measurements/tract.parquet/DPQuery/part-00000.parquet"
    table = pq.read_table(part)
    pq.write_table(table.slice(0, table.num_rows - 1), part)
    with pytest.raises(RunError, match=r"part-00000.parquet"):
        estimate_run(config(tmp_path))
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[run]\nout = "again"\n',
            r"measurements: found nothing, expected a table \[measurements\]",
        ),
        (CONFIG + "seed = 3\n", r"run.seed: found an unknown key"),
        (CONFIG + '[population]\nkind = "uniform"\n', "population: found an unknown key"),
        (
            CONFIG + '[mechanism]\nname = "geometric"\nepsilon = 1\n',
            "mechanism.name: found 'geometric', expected 'topdown', alone",
        ),
    ],
)
def test_a_config_that_says_something_else_is_refused(town: Path, text: str, said: str):
    with pytest.raises(ConfigError, match=said):
        estimate_run(config(town, text))


def test_a_run_without_data_is_not_evaluated_or_closed(town: Path):
    again = estimate_run(config(town))
    with pytest.raises(RunError, match="found a run made from published measurements"):
        _open_run(again)
    with pytest.raises(RunError, match="found a finished release"):
        close_run(again, why="no reason")


def test_the_command_says_where_the_release_is_and_what_it_promises(town: Path):
    told = CliRunner().invoke(app, ["estimate", str(config(town)), "--quiet"])
    assert told.exit_code == 0
    assert told.output.strip() == f"release: {town / 'again/release'}"
    told = CliRunner().invoke(app, ["estimate", str(config(town)), "--json"])
    assert "nothing new is spent" in " ".join(json.loads(told.output)["in_words"])


def test_a_check_looks_at_the_measurements_and_writes_nothing(town: Path):
    told = CliRunner().invoke(app, ["check", str(config(town))])
    assert told.exit_code == 0, told.output
    assert "all right: nothing was estimated, written or spent" in told.output
    assert "Made from published measurements and constraints alone" in told.output
    told = CliRunner().invoke(app, ["check", str(config(town)), "--json"])
    plain = json.loads(told.output)
    estimated = json.loads((estimate_run(config(town)) / "release/receipt.json").read_text("utf-8"))
    assert plain["guarantee"] == estimated["guarantee"]
    assert plain["geography"] == estimated["geography"]
    assert [(one["level"], one["query"]) for one in plain["answers"]] == [
        (one["level"], one["query"]) for one in estimated["measurements"]
    ]


def test_a_check_refuses_what_an_estimate_refuses(town: Path):
    text = CONFIG.replace("out/release/measurements", "out/release")
    with pytest.raises(InputError, match="found no folder of a level"):
        check_estimate(config(town, text))
    with pytest.raises(ConfigError, match=r"run.seed: found an unknown key"):
        check_estimate(config(town, CONFIG + "seed = 3\n"))
    assert {path.name for path in town.iterdir()} == {"out", "again.toml"}
