"""``headcount studio`` as a command: it says where it is, opens a file of one's own, and stops."""

from __future__ import annotations

import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest
from typer.testing import CliRunner

from headcount.cli.app import app
from headcount.cli.studio import opened
from headcount.errors import RunError
from headcount.processes import environment
from headcount.studio.app import Studio
from headcount.studio.folder import Folder
from headcount.studio.jobs import Jobs
from headcount.studio.serve import HOST, Server
from tests.run.town import write_config, write_town


def test_the_command_serves_until_it_is_idle(tmp_path: Path):
    command = [sys.executable, "-m", "headcount", "studio", str(tmp_path), "--no-browser"]
    said = subprocess.run(
        [*command, "--idle", "0.02"], capture_output=True, text=True, check=True, timeout=600
    )
    assert re.search(rf"headcount studio: http://{HOST}:\d+/open\?token=\S+", said.stdout)
    assert said.stdout.endswith("the studio has stopped\n")
    assert said.stderr == ""


BUSY = """
import sys
from headcount.studio import app

class Busy(app.Studio):
    def __post_init__(self):
        super().__post_init__()
        self.jobs.start("compare", ["compare", "config.toml", "--replicates", "400"])
        print(self.jobs.find("compare").process.pid, flush=True)

app.Studio = Busy
sys.argv = ["headcount", "studio", sys.argv[1], "--no-browser"]
from headcount.cli.app import main
main()
"""


def is_at_work(pid: int) -> bool:
    """Whether a process is there, and not only waits to be taken note of."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="looks at /proc")
@pytest.mark.usefixtures("signals_as_usual")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "SIGKILL"])
def test_a_studio_that_is_ended_takes_its_jobs_with_it(tmp_path: Path, how: str):
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    write_town(home)
    write_config(home)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", BUSY, str(home)],
        env={**environment(), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as studio:
        assert studio.stdout is not None
        job = int(studio.stdout.readline())
        studio.stdout.readline()  # it says where it is, and so is at work
        while not (home / "comparisons").is_dir():
            assert is_at_work(job)
            sleep(0.05)
        studio.send_signal(signal.Signals[how])
        _, said = studio.communicate(timeout=300)
    while is_at_work(job):  # which a studio that was killed does not wait for
        assert how == "SIGKILL", "the studio has not waited for its job"
        sleep(0.05)
    if how == "SIGKILL":
        assert {path.suffix for path in temporary.rglob("*.*")} <= {".progress"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tempfile.tempdir", str(temporary))
            Jobs(home).close()  # the next one
    else:
        assert studio.returncode == 128 + signal.Signals[how]
        assert said.splitlines()[-1] == "stopped: nothing was left half written"
    assert list(temporary.iterdir()) == []


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
