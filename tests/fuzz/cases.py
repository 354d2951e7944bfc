"""One case: sound input, damaged by a seed, given to headcount's commands; and the verdict."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, Literal
from unittest.mock import patch

import polars as pl
from typer.main import get_command

from headcount.cli import app as cli
from headcount.release.store import check_files
from tests.fuzz import base, mutate, named, tally

Kind = Literal["config", "csv", "parquet", "ledger", "directory", "named"]
KINDS: tuple[Kind, ...] = ("config", "csv", "parquet", "ledger", "directory", "named")
FAULTS = ("traceback", "hang", "partial output", "wrong tally", "check and protect differ")
CPU_SECONDS = 30.0

DATA = (base.MICRODATA, base.READ_OFF, base.MESSY, base.COUNTS, base.HOUSEHOLDS)


@dataclass(frozen=True)
class Verdict:
    """How a case ended: released or refused, or a fault with what was seen."""

    number: int
    kind: Kind
    end: str
    fault: str = ""
    seen: str = ""


class Fault(Exception):
    """Something that must never happen."""

    def __init__(self, what: str, seen: str) -> None:
        super().__init__(what)
        self.what, self.seen = what, seen


class Hang(BaseException):
    """The processor time of a case is used up."""


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


def judge(number: int, *, seed: int, folder: Path, seconds: float = CPU_SECONDS) -> Verdict:
    """Make the case of that number in an empty folder, run it, and say how it ended."""
    random = Random(f"headcount {seed} {number}")
    kind = KINDS[number % len(KINDS)]
    for path in base.CORPUS.iterdir():
        shutil.copy(path, folder)
    runs = {"config": _config, "csv": _csv, "parquet": _parquet, "ledger": _ledger, "named": _named}
    try:
        with _limited(seconds):
            end = runs.get(kind, _directory)(folder, random)
    except Fault as fault:
        return Verdict(number, kind, "fault", fault.what, fault.seen)
    except Hang:
        return Verdict(number, kind, "fault", "hang", f"more than {seconds:g} s of processor time")
    return Verdict(number, kind, end)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def headcount(*arguments: str | Path) -> Answer:
    """Run a command in this process; anything but an answer is a fault."""
    logging.getLogger().addHandler(_QUIET)  # else the first command's handler would stay
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            patch.object(sys, "argv", ["headcount", *map(str, arguments)]),
            patch.object(cli, "app", _COMMAND),
        ):
            cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except (Exception, pl.exceptions.PanicException):
        raise Fault("traceback", traceback.format_exc()) from None
    answer = Answer(code, out.getvalue(), err.getvalue())
    errors = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    if code not in (0, 2, 3) or (code and len(errors) != 1):
        raise Fault("traceback", f"exit code {code} and said {answer.err!r}")
    return answer


_QUIET = logging.NullHandler()
_COMMAND = get_command(cli.app)  # once: to build it takes longer than a case


# --- configs and tables ----------------------------------------------------------------------


def _config(folder: Path, random: Random) -> str:
    population, mechanism = random.choice(base.CONFIGS)
    config = base.tree(population, mechanism, seed=3, workspace="elsewhere")
    for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
        mutate.change_tree(config, random)
    text = base.toml_text(config)
    path = folder / "config.toml"
    data = mutate.change_text(text, random) if random.random() < 0.15 else text.encode()
    path.write_bytes(data)
    sound = config.get("population") == population and data == text.encode()
    return _protected(folder, config if sound else {})


def _csv(folder: Path, random: Random) -> str:
    config = base.tree(random.choice(DATA), base.IDENTITY)
    for name in random.sample(files := _files(config), min(len(files), random.choice((1, 1, 2)))):
        mutate.change_csv(folder / name, random)
    return _run_tables(folder, config)


def _parquet(folder: Path, random: Random) -> str:
    config = base.tree(random.choice(DATA), base.IDENTITY)
    key = random.choice([key for key in ("file", "persons", "dwellings") if key in _tables(config)])
    made = mutate.to_parquet(folder / config["population"][key], random)
    config["population"][key] = made.name
    return _run_tables(folder, config)


def _run_tables(folder: Path, config: base.Tree) -> str:
    (folder / "config.toml").write_text(base.toml_text(config))
    return _protected(folder, config)


def _tables(config: base.Tree) -> base.Tree:
    keys = ("file", "persons", "dwellings", "units")
    return {key: config["population"][key] for key in keys if key in config["population"]}


def _files(config: base.Tree) -> list[str]:
    return list(_tables(config).values())


def _protected(folder: Path, config: base.Tree) -> str:
    """Check, then protect: both refuse or both pass, and an identity release is the tally."""
    checked = headcount("check", folder / "config.toml")
    made = headcount("protect", folder / "config.toml")
    if bool(checked.code) != bool(made.code):
        seen = f"check {checked.code} {checked.err!r}, protect {made.code} {made.err!r}"
        raise Fault("check and protect differ", seen)
    outs = [path.parent.parent for path in folder.rglob("internal/lock")]
    if made.code:
        left = [path for out in outs for path in out.rglob("*") if _is_output(path)]
        if left:
            raise Fault("partial output", f"{left} after {made.err!r}")
        return "refused"
    for out in outs:
        check_files(out / "release")
        if left := [path for path in out.rglob("*") if path.name.endswith((".tmp", ".key"))]:
            raise Fault("partial output", f"{left} after a release")
    if config.get("mechanism") == base.IDENTITY and outs:
        _compare(config["population"], folder, outs[0] / "release")
    return "released"


def _is_output(path: Path) -> bool:
    return path.is_file() and path.name not in ("lock", "refused.txt")


def _compare(population: base.Tree, folder: Path, release: Path) -> None:
    try:
        wanted = tally.expected(population, folder)
    except tally.Unreadable:
        return  # the second reader cannot read it, so there is nothing to compare with
    except Exception as error:
        raise Fault("wrong tally", f"released, but plainly read: {error!r}") from None
    found = tally.released(release)
    if found != wanted:
        seen = f"too many {dict(found - wanted)}, too few {dict(wanted - found)}"
        raise Fault("wrong tally", seen)


# --- ledgers ---------------------------------------------------------------------------------

SPEND = {"ledger": "ledger.db", "dataset": "town"}
GEOMETRIC = base.MECHANISMS[1]


def _ledger(folder: Path, random: Random) -> str:
    _copy("ledger", folder)
    path = folder / "ledger.db"
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        if path.is_file():
            mutate.change_ledger(path, random)
    shown = headcount("ledger", "show", path)
    told = headcount("ledger", "history", path, "--dataset", "town")
    if not shown.code:
        _compare_ledger(path, shown.out)
    before = _rows(path)
    made = headcount("protect", folder / "third.toml")
    if made.code:
        if (folder / "third" / "release").exists():
            raise Fault("partial output", f"a release after {made.err!r}")
        return "refused"
    if shown.code or told.code:
        raise Fault("wrong tally", f"a spend on a ledger that is refused: {shown.err}{told.err}")
    if _rows(path) != before + 1:
        raise Fault("wrong tally", f"{before} spends became {_rows(path)}")
    return "released"


def _rows(path: Path) -> int:
    try:
        return tally.spent(path)[1]
    except tally.Unreadable:
        return -1


def _compare_ledger(path: Path, said: str) -> None:
    found = re.search(r"spent (~?[\d./e+-]+)", said)
    if found is None:  # the dataset's row is gone, and nothing is said of it
        return
    try:
        wanted, _ = tally.spent(path)
    except tally.Unreadable as error:
        raise Fault("wrong tally", f"shown, but plainly read: {error}") from None
    if not found[1].startswith("~") and Fraction(found[1]) != wanted:
        raise Fault("wrong tally", f"spent {found[1]} shown, {wanted} in the rows")


# --- run directories -------------------------------------------------------------------------

RUNS: dict[str, tuple[base.Tree, dict[str, Any]]] = {
    "identity": (base.IDENTITY, {}),
    "geometric": (GEOMETRIC, {"seed": 5, **SPEND}),
    "topdown": (base.TOPDOWN, {"seed": 6}),
    "averaged": (base.MECHANISMS[3], {}),
    "swapping": (base.SWAPPING, {"seed": 7}),
}


def _directory(folder: Path, random: Random) -> str:
    name = random.choice(list(RUNS))
    unfinished = random.random() < 0.6 and name != "identity"
    whole = _copy(f"{name} unfinished" if unfinished else name, folder)
    if random.random() < 0.95:
        mutate.change_folder(folder / "out", random)
    made = headcount("protect", folder / "config.toml")
    if not made.code:
        check_files(folder / "out" / "release")
        if (folder / "out" / "internal" / "run.key").exists():
            raise Fault("partial output", "a key after a release")
        if name != "averaged":  # the same seed gives the same release
            _compare_releases(folder / "out" / "release", whole)
    if random.random() < 0.2:
        headcount("evaluate", folder / "out")
    return "refused" if made.code else "released"


def _compare_releases(found: Path, wanted: Path) -> None:
    for path in sorted(wanted.glob("*.parquet")):
        if not pl.read_parquet(found / path.name).equals(pl.read_parquet(path)):
            raise Fault("wrong tally", f"{path.name} differs from that of an undamaged run")


# --- every other file that a key or an option names ---------------------------------------------


def _named(folder: Path, random: Random) -> str:
    number = random.randrange(len(named.SCENES))
    scene = named.SCENES[number]
    _copy(f"scene {number}", folder)
    if random.random() < 0.95:
        named.damage(folder / random.choice(scene.damaged.split(", ")), random)
    codes = []
    with contextlib.chdir(folder):
        for command, made in scene.commands.items():
            answer = headcount(*command.split())
            codes.append(bool(answer.code))
            if answer.code and made and (left := _left(Path(made))):
                raise Fault("partial output", f"{left} after {command}: {answer.err!r}")
    if scene.commands == named.PROTECT and codes[0] != codes[1]:
        raise Fault("check and protect differ", f"check {codes[0]}, protect {codes[1]}")
    return "refused" if any(codes) else "released"


def _left(made: Path) -> list[Path]:
    return [path for path in (made, *made.rglob("*")) if _is_output(path)]


# --- a stock of sound ledgers and runs -------------------------------------------------------


class _Stop(Exception):
    """Stands for a crash."""


def make_stock() -> None:
    """Make every sound ledger and run, once: what is compiled for them is no part of a case."""
    for number, scene in enumerate(named.SCENES):
        folder = _stock() / f"scene {number}"
        folder.mkdir(parents=True)
        for path in base.CORPUS.iterdir():
            shutil.copy(path, folder)
        scene.make(folder)
        with contextlib.chdir(folder):
            for command in scene.before:
                _sound(headcount(*command.split()))
    for name in ("ledger", *RUNS, *(f"{one} unfinished" for one in RUNS if one != "identity")):
        folder = _stock() / name
        folder.mkdir(parents=True)
        for path in base.CORPUS.iterdir():
            shutil.copy(path, folder)
        _make(name, folder)


def _copy(name: str, folder: Path) -> Path:
    """A sound ledger or run into the folder; return where its whole release is kept."""
    shutil.copytree(_stock() / name, folder, dirs_exist_ok=True)
    return _stock() / name.removesuffix(" unfinished") / "out" / "release"


def _make(name: str, folder: Path) -> None:
    if name == "ledger":
        _declare(folder)
        for number in ("first", "second", "third"):
            config = base.tree(base.MICRODATA, GEOMETRIC, **SPEND)
            config["run"]["out"] = number
            (folder / f"{number}.toml").write_text(base.toml_text(config))
            if number != "third":
                _sound(headcount("protect", folder / f"{number}.toml"))
        return
    mechanism, run = RUNS[name.removesuffix(" unfinished")]
    if "ledger" in run:
        _declare(folder)
    people = base.HOUSEHOLDS if mechanism is base.SWAPPING else base.MICRODATA
    (folder / "config.toml").write_text(base.toml_text(base.tree(people, mechanism, **run)))
    if not name.endswith(" unfinished"):
        _sound(headcount("protect", folder / "config.toml"))
        return
    with (
        patch("headcount.run.protect.make_release", side_effect=_Stop),
        contextlib.suppress(Fault),
    ):
        headcount("protect", folder / "config.toml")
    assert (folder / "out" / "internal" / "run.key").is_file()


def _declare(folder: Path) -> None:
    _sound(headcount("ledger", "init", folder / "ledger.db", "--dataset", "town", "--epsilon", "9"))


def _sound(answer: Answer) -> None:
    assert answer.code == 0, answer.err


def _stock() -> Path:
    return Path(os.environ["HEADCOUNT_FUZZ_STOCK"])
