"""``headcount studio`` as a command: it says where it is, opens a file of one's own, and stops."""

from __future__ import annotations

import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.errors import RunError
from headcount.run.browser import opened
from headcount.run.folder import Folder
from headcount.studio.app import Studio
from headcount.studio.serve import HOST, Server


def test_the_command_serves_until_it_is_idle(tmp_path: Path):
    command = [sys.executable, "-m", "headcount", "studio", str(tmp_path), "--no-browser"]
    said = subprocess.run(
        [*command, "--idle", "0.02"], capture_output=True, text=True, check=True, timeout=600
    )
    assert re.search(rf"headcount studio: http://{HOST}:\d+/open\?token=\S+", said.stdout)
    assert said.stdout.endswith("the studio has stopped\n")
    assert said.stderr == ""


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path):
    result = CliRunner().invoke(app, ["studio", str(tmp_path / "none"), "--no-browser"])
    assert "found no folder, expected a folder to work in" in str(result.exception)


def test_without_its_libraries_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in [one for one in sys.modules if one.startswith("headcount.studio")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    result = CliRunner().invoke(app, ["studio", str(tmp_path), "--no-browser"])
    assert isinstance(result.exception, RunError)
    assert "pip install 'headcount[studio]'" in str(result.exception)


def test_the_browser_is_led_by_a_file_that_only_its_owner_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", asked.append)
    monkeypatch.setenv("HOME", str(tmp_path))
    address = f"http://{HOST}:1/open?token=secret"
    with opened(address, title="headcount studio") as found:
        assert not found
        (page,) = asked
        assert page.startswith("file://")
        assert "secret" not in page
        path = Path(page.removeprefix("file://"))
        assert address in path.read_text()
        # A browser in a snap sees files of the home folder, if no folder on the way is hidden.
        assert path.parents[1] == tmp_path
        assert not path.parent.name.startswith(".")
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


def test_a_port_that_is_taken_is_an_error(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        studio = Studio(Folder.at(tmp_path))
        with pytest.raises(OSError, match="in use"):
            Server.of(studio, port=port, entered=print)
