"""A run that keeps its files in a place of its own: the same release, resumed, and nothing left."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.config.load import config_digest, load_config
from headcount.errors import ConfigError, HeadcountError, RunError
from headcount.privacy import Ledger, SpendState
from headcount.release.directory import RunDirectory
from headcount.release.store import write_release
from headcount.run.close import close_run
from headcount.run.protect import protect_run
from headcount.storage import Storage, storage_at
from headcount.topdown._estimate import prepare_level
from tests.run.town import (
    LEDGER,
    Stop,
    break_after_rehearsal,
    contents,
    make_ledger,
    write_config,
    write_town,
)

TOPDOWN = 'name = "topdown"\nepsilon = 1\n[mechanism.queries]\ncells = { share = 1 }\n'
CELL_KEY = 'name = "cell-key"\ntables = "auto"\nmaximum = 4\nvariance = "7/4"\n'
SEEDED = f"{LEDGER}\nseed = 3"
MAPS = Path("/proc/self/maps")


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    make_ledger(tmp_path, total="100")
    return tmp_path


AWAY = "elsewhere/work"
"""A workspace of the run's own."""


def config_of(town: Path, place: str | None, *, out: str = "out") -> Path:
    workspace = f'workspace = "{place}"' if place else ""
    return write_config(town, mechanism=TOPDOWN, run=f"{SEEDED}\n{workspace}", out=out)


def files(town: Path, place: str) -> Storage:
    return storage_at(town / place)


def tables(run: Path) -> dict[str, bytes]:
    found = contents(run / "release")
    return {name: data for name, data in found.items() if name.endswith(".parquet")}


def break_off(config: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that stops before its last level; its id."""

    def stop(name, **named):
        if name == "tract":
            raise Stop
        return prepare_level(name, **named)

    with monkeypatch.context() as patch:
        break_after_rehearsal(patch, "headcount.topdown.descend.prepare_level", stop)
        with pytest.raises(Stop):
            protect_run(config)
    return RunDirectory(config.parent / "out").require_facts().run_id


def test_a_broken_run_is_taken_up_from_its_workspace_and_nothing_stays_there(
    town: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    expected = tables(protect_run(config_of(town, None, out="here")))
    run_id = break_off(config := config_of(town, AWAY), monkeypatch)
    whole, county = "run-0/whole/0-1.arrow", "run-0/county/0-2.arrow"
    work = files(town, AWAY).below(run_id)
    assert {whole, county} <= set(work.names())
    assert not (town / "out/internal/levels").exists()
    work.put(county, work.read(county).to_pybytes()[:-20])
    assert tables(protect_run(config)) == expected
    assert f"{work.folder}/{county} cannot be used" in caplog.text
    assert whole not in caplog.text  # which was sound, and taken
    assert files(town, AWAY).names() == []
    assert not (town / "out/internal/workspaces.json").exists()
    history = Ledger.open(town / "ledger.db").history("town")
    assert [spend.state for spend in history] == [SpendState.COMPLETE] * 2


@pytest.mark.skipif(not MAPS.exists(), reason="the system does not tell what is mapped")
def test_what_was_mapped_of_a_workspace_is_let_go_before_its_folder_goes(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a network disk a file that is mapped stays, under another name, and so does its folder."""
    mapped: dict[str, bool] = {}

    def looking(name, function):
        def look(*given, **named):
            mapped[name] = f"{town}/away/" in MAPS.read_text()
            return function(*given, **named)

        return look

    look = looking("written", write_release)
    break_after_rehearsal(monkeypatch, "headcount.run._beforehand.write_release", look)
    monkeypatch.setattr(RunDirectory, "finish", looking("gone", RunDirectory.finish))
    protect_run(config_of(town, "away"))
    assert mapped == {"written": True, "gone": False}


def test_a_run_may_move_to_another_workspace_and_both_are_emptied(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    expected = tables(protect_run(config_of(town, None, out="here")))
    break_off(config_of(town, "first"), monkeypatch)
    assert files(town, "first").names()
    assert tables(protect_run(config_of(town, AWAY))) == expected
    assert files(town, "first").names() == files(town, AWAY).names() == []


def test_the_workspace_is_no_part_of_a_runs_identity(town: Path):
    digests = [config_digest(load_config(config_of(town, one))) for one in (None, "a", AWAY)]
    assert len(set(digests)) == 1


def test_a_run_that_is_closed_leaves_nothing_in_its_workspace(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    run_id = break_off(config_of(town, AWAY), monkeypatch)
    files(town, AWAY).put("of another run", b"x")
    close_run(town / "out", why="a test")
    assert files(town, AWAY).below(run_id).names() == []
    assert files(town, AWAY).names() == ["of another run"]
    files(town, AWAY).remove()


def test_files_that_cannot_be_removed_are_named_and_go_the_next_time(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    config, storage = config_of(town, AWAY), files(town, AWAY)

    def refuse(self: Storage) -> None:
        raise RunError(f"{self.folder}: found files that cannot be removed")

    with monkeypatch.context() as patch:
        # Only in the end: what the levels read goes while the run works.
        patch.setattr(
            Storage,
            "remove",
            lambda self: refuse(self) if self.folder.name == run_of(town) else None,
        )
        with pytest.raises(RunError, match="found files that cannot be removed") as e:
            protect_run(config)
    assert "files of the run are left in folder" in str(e.value)
    directory = RunDirectory(town / "out")
    assert directory.is_complete
    assert not directory.key.exists()
    assert storage.names()
    protect_run(config)
    assert storage.names() == []


def run_of(town: Path) -> str:
    return RunDirectory(town / "out").require_facts().run_id


@pytest.mark.parametrize(
    ("place", "how"),
    [("out", "the same as"), ("out/release/files", "in"), (".", "above"), ("out/../out/x", "in")],
)
def test_a_workspace_that_is_not_apart_from_the_run_is_refused(town: Path, place: str, how: str):
    with pytest.raises(
        ConfigError, match=f"run.workspace: found .*, {how} the run's directory .*/out"
    ):
        protect_run(config_of(town, place))
    assert not (town / "out").exists()


def test_a_link_into_the_release_is_no_way_round(town: Path):
    (town / "link").symlink_to(town / "out")
    with pytest.raises(ConfigError, match="true counts are never beside a release"):
        protect_run(config_of(town, "link/release/x"))


@pytest.mark.parametrize("copied", [False, True], ids=["of a run", "a copy"])
@pytest.mark.parametrize("key", ["run.workspace", "run.out", "mechanism.keys"])
def test_nothing_confidential_may_be_in_the_release_of_another_run(
    town: Path, copied: bool, key: str
):
    published = protect_run(config_of(town, None, out="first")) / "release"
    if copied:
        published = published.rename(town / "site")
    inside = f"{published.relative_to(town)}/x/y"
    config = config_of(town, inside if key == "run.workspace" else None)
    if key == "run.out":
        config = config_of(town, None, out=inside)
    if key == "mechanism.keys":
        config = write_config(town, mechanism=f'{CELL_KEY}keys = "{inside}"\n', run=SEEDED)
    before = contents(town)
    with pytest.raises(
        ConfigError, match=f"{key}: found .*/y, in the release .*{published.name}, expected a place"
    ):
        protect_run(config)
    assert contents(town) == before


def test_a_refused_run_leaves_no_workspace_and_the_rest_of_a_workspace_is_not_looked_at(
    town: Path, monkeypatch: pytest.MonkeyPatch
):
    """A link of somebody else's in a shared workspace is none of ours."""
    with pytest.raises(RunError, match="found a file, expected a folder for the run's workspace"):
        protect_run(config_of(town, "people.csv"))
    (town / "config.toml").write_text(
        config_of(town, "elsewhere/work").read_text().replace("people.csv", "nobody.csv")
    )
    with pytest.raises(HeadcountError, match=r"nobody\.csv"):
        protect_run(town / "config.toml")
    assert not (town / "elsewhere").exists()
    (town / "shared").mkdir()
    (town / "shared/link").symlink_to(town / "people.csv")
    run_id = break_off(config := config_of(town, "shared"), monkeypatch)
    assert stat.S_IMODE((town / "shared" / run_id).stat().st_mode) == 0o700
    protect_run(config)
    assert [path.name for path in (town / "shared").iterdir()] == ["link"]


def test_a_file_is_no_workspace(town: Path):
    with pytest.raises(RunError, match=r"people\.csv: found a file, expected a folder for the run"):
        protect_run(config_of(town, "people.csv"))


def test_a_workspace_that_anyone_can_write_to_is_refused(town: Path):
    (town / "open").mkdir()
    (town / "open").chmod(0o777)
    with pytest.raises(RunError, match="open: found a folder that anyone can write to"):
        protect_run(config_of(town, "open"))


def test_an_address_is_refused_by_its_key(town: Path):
    done = CliRunner().invoke(app, ["check", str(config_of(town, "s3://me:secret@town/a"))])
    assert isinstance(done.exception, ConfigError)
    assert "run.workspace: found an address, expected a folder" in str(done.exception)
    assert "secret" not in str(done.exception)
