"""Does a run that is killed, or finds the disk full, resume to the same release, spent once?

A made-up nation of 2020 is protected by ``headcount protect``, in processes of its own that are
killed (signal 9, with all that they started) at random moments, from the first to the last, and
then run again. What is compared are the digests of the released tables.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Reading
from benchmarks.nation_files import write_nation
from headcount.engines import HANDED
from headcount.engines.spark import lacking
from headcount.errors import HeadcountError
from headcount.privacy import Ledger, SpendState, UnitOfPrivacy, ZCDPLoss
from headcount.processes import environment, python_command
from headcount.release.directory import RunDirectory
from headcount.release.store import check_files, read_release

DATASET, TOTAL = "nation", Fraction(10)
SEED = 16
QUICK = {"kills": 4, "share": 0.001, "on_spark": 1}


@dataclass
class Undisturbed:
    """A run that nothing disturbed.

    where
        tables    digests of its tables
        begun     seconds until it wrote something
        seconds   seconds until its end
        inside    the most bytes that it had in ``internal/``
    """

    tables: Mapping[str, str]
    begun: float
    seconds: float
    inside: int


@dataclass
class Noticed:
    """What was found after kills: how far runs had come, and what was wrong."""

    stages: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def measure(*, kills: int = 50, share: float = 0.01, on_spark: int = 10) -> list[Reading]:
    """Kill as many runs on this machine's threads, some on Spark, and fill a small disk.

    where
        kills      of runs on this machine's threads
        on_spark   of runs on Spark, ``local[2]``; none where Java or PySpark is missing
    """
    with TemporaryDirectory() as made:
        folder = Path(made)
        write_nation(folder, share, ledger="ledger.db", dataset=DATASET)
        _undisturbed(_begin(folder, "first"))  # which compiles: moments to kill are of later ones
        whole = _undisturbed(_begin(folder, "whole"))
        readings = [Reading("a run that is not disturbed", whole.seconds, "s wall")]
        readings += _killed(folder, whole, kills=kills, engine="local")
        if on_spark and (missing := lacking()):
            readings.append(Reading("kills on Spark", 0, "runs", f"no {' and no '.join(missing)}"))
        elif on_spark:
            readings += _killed(folder, whole, kills=on_spark, engine="spark")
        return [*readings, *_filled(folder, whole)]


def _begin(folder: Path, name: str) -> Path:
    """A folder with the nation and a ledger of its own: data are bound to one ledger."""
    home = folder / name
    home.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            shutil.copy(file, home)
    ledger = Ledger.create(home / "ledger.db")
    ledger.declare(DATASET, total=ZCDPLoss(rho=TOTAL, unit=UnitOfPrivacy.CHANGE_ONE))
    return home


def start(home: Path, *, engine: str = "local") -> subprocess.Popen[bytes]:
    """``headcount protect`` in a session of its own: all that it starts is killed with it."""
    command = python_command("headcount", "protect", "config.toml", "--engine", engine)
    spark = {"PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"}
    return subprocess.Popen(
        command,
        cwd=home,
        env=environment() | spark,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _finish(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate()
    if process.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"a run that nobody killed ended with {process.returncode}: {last}")


def _undisturbed(home: Path, *, engine: str = "local") -> Undisturbed:
    begin, begun, most = time.perf_counter(), 0.0, 0
    process = start(home, engine=engine)
    while process.poll() is None:
        inside = _bytes(home / "out" / "internal")
        begun = begun or (time.perf_counter() - begin if inside else 0.0)
        most = max(most, inside)
        time.sleep(0.02)
    seconds = time.perf_counter() - begin
    _finish(process)
    return Undisturbed(_tables(home), begun, seconds, most)


def _bytes(folder: Path) -> int:
    """How much there is below a folder that may change meanwhile."""
    found = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # it went while we looked
                found += Path(top, name).stat().st_size
    return found


def _tables(home: Path) -> Mapping[str, str]:
    """Digests of the tables of a finished release; its receipt has times and numbers of its own."""
    manifest = check_files(home / "out" / "release")
    return {name: digest for name, digest in manifest["files"].items() if ".parquet" in name}


def _killed(folder: Path, whole: Undisturbed, *, kills: int, engine: str) -> list[Reading]:
    """Kill runs one after the other; each is resumed on the same engine.

    One in five at any moment, the others after they have begun to write.
    """
    chance, found = random.Random(SEED), Noticed()
    if engine == "spark":
        own = _undisturbed(_begin(folder, "whole-spark"), engine=engine)
        found.faults["releases that differ"] += own.tables != whole.tables
        whole = own
    for number in range(kills):
        home = _begin(folder, f"{engine}-{number}")
        process = start(home, engine=engine)
        if number % 5 == 4:
            time.sleep(chance.uniform(0, whole.seconds))
        else:
            while process.poll() is None and not (home / "out" / "internal").exists():
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.95 * (whole.seconds - whole.begun)))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        found.stages[_stage(home, found)] += 1
        begin = time.perf_counter()
        _finish(start(home, engine=engine))
        found.seconds += time.perf_counter() - begin
        _compare(home, whole, found)
        shutil.rmtree(home)
    return _described(found, whole, kills=kills, engine=engine)


def _stage(home: Path, found: Noticed) -> str:
    """How far a killed run had come. One without a manifest must not be read as a release."""
    directory = RunDirectory(home / "out")
    spends = Ledger.open(home / "ledger.db").history(DATASET)
    if directory.is_complete:
        return "complete"
    try:
        read_release(directory.release)
    except (HeadcountError, OSError):
        pass
    else:
        found.faults["unfinished releases that could be read"] += 1
    if not spends:
        return "nothing spent"
    if directory.written():
        return "some tables written"
    parts = list((home / "out" / "internal").rglob("levels/**/*.arrow"))
    return "some levels estimated" if parts else "spent, nothing estimated"


def _compare(home: Path, whole: Undisturbed, found: Noticed) -> None:
    found.faults["releases that differ"] += _tables(home) != whole.tables
    states = [spend.state for spend in Ledger.open(home / "ledger.db").history(DATASET)]
    found.faults["ledgers without exactly one finished spend"] += states != [SpendState.COMPLETE]
    inside = {path.name for path in (home / "out" / "internal").iterdir()}
    left = inside & {"run.key", "levels", "workspaces.json"}
    left |= {name for name in inside if name.endswith(".tmp") or name.startswith(HANDED)}
    found.faults["keys or parts left behind"] += bool(left)


def _described(found: Noticed, whole: Undisturbed, *, kills: int, engine: str) -> list[Reading]:
    stages = ", ".join(f"{stage} {many}" for stage, many in found.stages.most_common())
    ratio = found.seconds / kills / whole.seconds
    kinds = ["unfinished releases that could be read", *found.faults]
    return [
        Reading(f"{engine}: runs killed and resumed", kills, "runs", stages),
        *(
            Reading(f"  {kind}", found.faults[kind], f"of {kills}", at_most=0)
            for kind in dict.fromkeys(kinds)
        ),
        Reading("  a resumed run, of one that is not disturbed", ratio, "of its wall time"),
    ]


SMALL_DISK = """
set -e
mkdir -m 700 out out/internal
mount -t tmpfs -o size={size},mode=0700 tmpfs out/internal
{run} 2> first.txt && echo 0 > first.rc || echo $? > first.rc
mount -o remount,size=4g out/internal
{run} 2> second.txt && echo 0 > second.rc || echo $? > second.rc
"""


def _filled(folder: Path, whole: Undisturbed) -> list[Reading]:
    """A disk for ``internal/`` with half the room that the run needs, then with enough.

    The disk is a tmpfs in a namespace of its own, which Linux lets any user make where user
    namespaces are allowed; elsewhere the reading says that this was not tried.
    """
    home = _begin(folder, "full")
    run = " ".join(python_command("headcount", "protect", "config.toml"))
    script = SMALL_DISK.format(size=max(whole.inside // 2, 1 << 14), run=run)
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    what = "disk full in a run"
    try:
        made = subprocess.run(command, cwd=home, env=environment(), capture_output=True, text=True)
    except FileNotFoundError:
        return [Reading(what, 0, "runs", "not tried: there is no unshare")]
    if not (home / "first.rc").exists():
        return [Reading(what, 0, "runs", f"not tried: {made.stderr.strip()}")]
    codes = [int((home / name).read_text()) for name in ("first.rc", "second.rc")]
    said = (home / "first.txt").read_text("utf-8").strip().splitlines()[-1:]
    differs = codes[1] != 0 or _tables(home) != whole.tables
    return [
        Reading(what, 1, "runs", f"exit code {codes[0]}: {' '.join(said)}"),
        Reading("  without an error that says so", codes[0] != 3, "of 1", at_most=0),
        Reading("  that did not resume", codes[1] != 0, "of 1", at_most=0),
        Reading("  releases that differ", differs, "of 1", at_most=0),
    ]
