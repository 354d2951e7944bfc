"""headcount without what only Unix has: as much of other systems as a Linux machine can show."""

from __future__ import annotations

import ast
import ctypes
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import headcount.files
import headcount.processes
from headcount.errors import ConfigError, RunError
from headcount.files import open_own, stranger
from headcount.processes import machine_memory, memory_limit, peak_memory
from headcount.release.directory import RunDirectory
from headcount.run.protect import protect_run
from tests.run.town import contents, write_config, write_town
from tests.systems.windows import MODULES, NAMES

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "headcount").rglob("*.py"))
MECHANISMS = {
    "geometric": 'name = "geometric"\nepsilon = "1/2"',
    "topdown": 'name = "topdown"\nepsilon = 1\n[mechanism.queries]\ncells = { share = 1 }',
}
STRICT = 'warnings.filterwarnings("error", category=EncodingWarning, module="headcount")\n'


def run_as_windows(program: str, *arguments: str, check: bool = True) -> str:
    """What a program says in a Python without the Unix parts; relying on a locale is an error."""
    start = "from tests.systems.windows import become_windows; become_windows()\n"
    done = subprocess.run(
        [
            *(sys.executable, "-X", "warn_default_encoding", "-W", "ignore::EncodingWarning"),
            *("-c", start + "import warnings\n" + STRICT + program, *arguments),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_imitation_lacks_what_windows_lacks():
    program = """
import os
def refused(statement, **names):
    try:
        exec(statement, names)
    except Exception as error:
        print(type(error).__name__)
refused("import fcntl")
refused("os.geteuid()", os=os)
refused("open(os.__file__)", os=os, __name__="headcount.made_up")
refused("open(os.__file__, encoding='utf-8')", os=os, __name__="headcount.made_up")
import tempfile
with tempfile.TemporaryDirectory() as folder:
    for name in ("old", "new"):
        open(os.path.join(folder, name), "w", encoding="utf-8").close()
    os.chdir(folder)
    with open("old", encoding="utf-8"):
        refused("os.replace('new', 'old')", os=os)
        refused("os.unlink('old')", os=os)
    refused("os.replace('new', 'old')", os=os)
    os.chdir("/")
"""
    assert run_as_windows(program).split() == [
        *("ModuleNotFoundError", "AttributeError", "EncodingWarning"),
        *("PermissionError", "PermissionError"),
    ]


def test_every_module_imports_without_the_modules_of_unix():
    program = """
import pkgutil, importlib, headcount
names = [m.name for m in pkgutil.walk_packages(headcount.__path__, "headcount.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names), "modules")
"""
    assert int(run_as_windows(program).split(" modules")[0].split()[-1]) > 300


def test_a_run_without_unix_is_the_run_with_it(tmp_path: Path):
    """Begun, broken off, resumed, scored: in folders whose modes, as on Windows, say nothing."""
    for system in ("unix", "windows"):
        (tmp_path / system).mkdir()
        write_town(tmp_path / system)
        for name, mechanism in MECHANISMS.items():
            write_config(
                tmp_path / system,
                mechanism=mechanism,
                run="seed = 1\n",
                out=name,
                name=f"{name}.toml",
            )
    for name in MECHANISMS:
        protect_run(tmp_path / "unix" / f"{name}.toml")
    said = run_as_windows(AS_WINDOWS, str(tmp_path / "windows"), *MECHANISMS)
    assert said.count("2 kept out") == len(MECHANISMS)
    unchecked = said.count("who may read it is not checked on this system")
    assert unchecked == len(MECHANISMS) + 1  # each run, and the ledger
    for name in MECHANISMS:
        assert tables(tmp_path / "unix" / name) == tables(tmp_path / "windows" / name)
        assert (tmp_path / "windows" / name / "internal/evaluation").is_dir()
        assert not (tmp_path / "windows" / name / "internal/run.key").exists()


def tables(out: Path) -> dict[str, bytes]:
    """The released tables, of which there are some."""
    found = {n: c for n, c in contents(out / "release").items() if n.endswith(".parquet")}
    assert found
    return found


AS_WINDOWS = """
import logging, sys
from fractions import Fraction
from pathlib import Path
logging.basicConfig(format="%(message)s")
from headcount.errors import RunError
from headcount.privacy import Ledger, PureLoss, UnitOfPrivacy
from headcount.release.directory import RunDirectory
from headcount.run import protect
from headcount.run.evaluate import evaluate_run
from headcount import compiled
compiled.LOADING = 0  # loops are loaded, as in large runs
folder = Path(sys.argv[1])
assert folder.stat().st_mode & 0o777 == 0o755
ledger = Ledger.create(folder / "ledger.db")
ledger.declare("town", total=PureLoss(epsilon=Fraction(2), unit=UnitOfPrivacy.CHANGE_ONE))
Ledger.open(folder / "ledger.db")
real = protect.make_release
def stop(*_a, **_n):
    raise KeyboardInterrupt
for name in sys.argv[2:]:
    config = folder / f"{name}.toml"
    protect.make_release = stop
    try:
        protect.protect_run(config)
    except KeyboardInterrupt:
        protect.make_release = real
    run = RunDirectory(folder / name)
    assert run.key.stat().st_mode & 0o777 == 0o666
    kept_out = 0
    with run.held():
        for _ in range(2):
            try:
                protect.protect_run(config)
            except RunError as error:
                kept_out += "another process is at work" in str(error)
    print(kept_out, "kept out")
    protect.protect_run(config)
    evaluate_run(folder / name)
"""


def unix_only(source: str) -> list[str]:
    """Modules and names that Windows does not have, as a source uses them."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [one.name for one in names if one.name in MODULES]
            case ast.ImportFrom(module=str() as module, names=names):
                found += [module] if module in MODULES else []
                found += [f"os.{one.name}" for one in names if module == "os" and one.name in NAMES]
            case ast.Attribute(value=ast.Name(id="os"), attr=name):
                found += [f"os.{name}"] if name in (*NAMES, "name") else []
            case ast.Constant(value="fork" | "forkserver" as method):
                found.append(method)
            case _:
                pass
    return found


def test_only_two_modules_use_what_unix_has():
    assert unix_only("import fcntl\nfrom os import fork\nos.geteuid()\nctx('fork')") == [
        *("fcntl", "os.fork", "os.geteuid", "fork")
    ]
    users = {path.name for path in SOURCES if unix_only(path.read_text("utf-8"))}
    assert users == {"files.py", "processes.py"}


def protect_elsewhere(config: Path) -> None:
    protect_run(config)


def test_a_run_in_a_spawned_process_is_the_run_here(tmp_path: Path):
    write_town(tmp_path)
    here = protect_run(write_config(tmp_path, run="seed = 1\n"))
    config = write_config(tmp_path, run="seed = 1\n", out="there", name="there.toml")
    process = multiprocessing.get_context("spawn").Process(target=protect_elsewhere, args=(config,))
    process.start()
    process.join(600)
    assert process.exitcode == 0
    assert tables(here) == tables(tmp_path / "there")


def test_a_run_whose_process_was_killed_is_free_at_once(tmp_path: Path):
    directory = RunDirectory(tmp_path / "run")
    program = """
import sys, time
from pathlib import Path
from headcount.release.directory import RunDirectory
with RunDirectory(Path(sys.argv[1])).held():
    print("held", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory.path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="another process is at work"), directory.held():
            pytest.fail("two processes hold one run")
        other.kill()
        other.wait()
    with directory.held():
        assert (directory.internal / "lock").exists()


# --- links, where the system cannot refuse to follow them ---------------------------------------


def test_a_link_is_found_where_opening_would_follow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, "O_NOFOLLOW")
    monkeypatch.setattr(headcount.files, "_SAFELY", 0)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "key").symlink_to(tmp_path / "victim")
    with pytest.raises(RunError, match="key: found a link, expected a file of this run"):
        open_own(tmp_path / "key", os.O_RDWR)
    os.close(open_own(tmp_path / "victim"))


def test_a_junction_counts_as_a_link():
    info = SimpleNamespace(st_mode=0o040777, st_uid=0, st_reparse_tag=0xA0000003)
    assert stranger(info) == "a link"  # type: ignore[arg-type]


# --- memory -------------------------------------------------------------------------------------


class Kernel:
    """``GlobalMemoryStatusEx`` of a machine with 8 GiB, or of one that does not answer."""

    def __init__(self, *, answers: bool = True) -> None:
        self.answers, self.kernel32 = answers, self

    def GlobalMemoryStatusEx(self, status) -> int:
        words = status._obj
        assert words[0] & 0xFFFFFFFF == ctypes.sizeof(words) == 64
        words[1] = 8 << 30
        return int(self.answers)


def test_windows_is_asked_for_its_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(headcount.processes, "_CGROUPS", ())
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(ctypes, "windll", Kernel(), raising=False)
    assert machine_memory() == memory_limit() == 8 << 30
    assert peak_memory() is None


def test_a_system_that_does_not_say_its_memory_asks_for_the_setting(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(headcount.processes, "_CGROUPS", ())
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(ctypes, "windll", Kernel(answers=False), raising=False)
    with pytest.raises(ConfigError, match="does not say how much memory it has"):
        memory_limit()
    monkeypatch.setenv("HEADCOUNT_MEMORY", "3")
    assert memory_limit() == 3 << 30


def test_the_peak_is_in_bytes_on_linux_and_macos(monkeypatch: pytest.MonkeyPatch):
    here = peak_memory()
    monkeypatch.setattr(sys, "platform", "darwin")
    there = peak_memory()
    assert here is not None
    assert there is not None
    assert here >= there << 10


# --- terminals ----------------------------------------------------------------------------------


def test_a_terminal_without_greek_letters_gets_question_marks(tmp_path: Path):
    write_town(tmp_path)
    config = write_config(tmp_path, run="seed = 1\n")
    (tmp_path / "κόσμος.toml").write_bytes(config.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "headcount", "check", str(tmp_path / "κόσμος.toml")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode("cp1252")
    gone = subprocess.run(
        [sys.executable, "-m", "headcount", "check", str(tmp_path / "ε.toml")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
    )
    assert gone.returncode == 2
    assert b"?.toml: found no such file" in gone.stderr
