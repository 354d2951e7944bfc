"""Links and strangers' files planted in a run directory are neither followed nor used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headcount.config.load import load_config
from headcount.errors import RunError
from headcount.release.directory import RunDirectory
from headcount.run.protect import prepare_run, protect_run
from tests.run.town import contents, write_config, write_town


@pytest.fixture
def town(tmp_path: Path) -> Path:
    write_town(tmp_path)
    return tmp_path


def refused(town: Path) -> str:
    """What both commands say."""
    config = write_config(town)
    said = []
    for command in (protect_run, lambda path: prepare_run(load_config(path))):
        with pytest.raises(RunError) as caught:
            command(config)
        said.append(str(caught.value))
    assert said[0] == said[1]
    return said[0]


@pytest.mark.parametrize("name", ["lock", "run.key", "refused.txt", ".x.0123.tmp"])
def test_a_victim_behind_a_link_stays_as_it_was(town: Path, name: str):
    """The attacks: the lock was truncated, and random bytes were written through the key."""
    victim = town / "victim"
    victim.write_text("precious")
    (town / "out/internal").mkdir(parents=True)
    (town / "out/internal" / name).symlink_to(victim)
    assert "found a link, expected plain files and folders of your own" in refused(town)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["internal", "release", "internal/noise", "internal/levels"])
def test_nothing_is_written_into_a_folder_behind_a_link(town: Path, name: str):
    """The attack: the folder of an attacker's received the key."""
    theirs = town / "theirs"
    theirs.mkdir()
    (town / "out" / name).parent.mkdir(parents=True)
    (town / "out" / name).symlink_to(theirs)
    assert "found a link, expected plain files and folders of your own" in refused(town)
    assert contents(theirs) == {}


def test_a_run_directory_that_is_a_link_is_refused(town: Path):
    (town / "theirs").mkdir()
    (town / "out").symlink_to(town / "theirs")
    assert "out: found a link, expected" in refused(town)
    assert contents(town / "theirs") == {}


def test_a_link_planted_after_the_first_look_is_not_followed(town: Path):
    """The opening itself does not follow, whatever was looked at before."""
    directory, victim = RunDirectory(town / "out"), town / "victim"
    victim.write_text("precious")
    with directory.held():
        (directory.internal / "lock").unlink()
        directory.key.symlink_to(victim)
        (directory.internal / "run.json").symlink_to(victim)
        with pytest.raises(RunError, match="found a link, expected a file of this run"):
            directory.facts()
        with pytest.raises(RunError, match="found a link, expected a file of this run"):
            directory.finish()
    assert victim.read_text() == "precious"


def test_a_key_with_a_second_name_is_not_overwritten(town: Path):
    victim = town / "victim"
    victim.write_text("precious")
    (town / "out/internal").mkdir(parents=True)
    os.link(victim, town / "out/internal/run.key")
    with pytest.raises(RunError, match="found a file with a second name \\(hard link\\) elsewhere"):
        protect_run(write_config(town))
    assert victim.read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "internal", "internal/run.json", "internal/run.key"])
def test_what_belongs_to_another_user_is_refused(town: Path, name: str):
    """A key that somebody else has put there is a key that somebody else knows."""
    given = town / "out" / name
    (town / "out/internal").mkdir(parents=True)
    if not given.exists():
        given.write_text("{}")
    os.chown(given, 12345, 12345)
    assert "found something that belongs to another user, expected" in refused(town)


def test_a_pipe_is_refused_and_not_waited_for(town: Path):
    (town / "out/internal").mkdir(parents=True)
    os.mkfifo(town / "out/internal/run.json")
    assert "found no plain file, expected" in refused(town)


@pytest.mark.parametrize("folder", [".", "out"])
def test_a_folder_that_all_can_write_is_refused_unless_sticky(town: Path, folder: str):
    (town / "out").mkdir()
    where = town / folder
    where.chmod(0o777)
    assert (
        "found a folder that anyone can write to (mode 0777), expected one of your own"
        in refused(town)
    )
    where.chmod(0o1777)
    protect_run(write_config(town))


def test_a_folder_that_a_group_can_write_is_warned_about(
    town: Path, caplog: pytest.LogCaptureFixture
):
    town.chmod(0o775)
    protect_run(write_config(town))
    assert f"{town}: its group can write there (mode 0775)" in caplog.text


def test_no_umask_opens_a_run_to_others(town: Path):
    before = os.umask(0)
    try:
        out = protect_run(write_config(town, out="deep/er/out"))
    finally:
        os.umask(before)
    modes = {name: (out / name).stat().st_mode & 0o777 for name in ("", "internal", "..")}
    assert modes == {"": 0o755, "internal": 0o700, "..": 0o755}
