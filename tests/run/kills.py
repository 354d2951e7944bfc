"""Kill -9 at random moments, over five mechanisms: one entry, the same release, no key left.

python -m tests.run.kills 300 --seed 1

And comparisons of two files, ended by SIGTERM or SIGKILL at random moments: nothing confidential is
outside their own folders, the same command goes on, and its tables are the same.

python -m tests.run.kills 40 --seed 1 --comparisons
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic

from headcount.processes import environment, python_command
from tests.run.test_crash import TOPDOWN, Driver, begun, faults, unpaid
from tests.run.town import MICRODATA, write_config, write_town

TOWNS = 'kind = "towns"\npeople = 1500\nattributes = ["race", "hispanic", "age"]'
CASES: dict[str, dict[str, str]] = {
    "geometric": {"mechanism": 'name = "geometric"\nepsilon = 0.5'},
    "topdown": {"mechanism": TOPDOWN},
    "averaged": {"mechanism": 'name = "averaged"\nepsilon = 0.5'},
    "swapping": {"population": TOWNS, "mechanism": 'name = "swapping"\nrate = "1/10"'},
    "suppression": {
        "population": TOWNS,
        "mechanism": 'name = "suppression"\ntables = ["P1", "P2"]\nlowest = "tract"',
    },
}


def kill_runs(drive: Driver, kills: int, *, seed: int) -> Counter[str]:
    """Kill as many runs, resume each, and compare; any fault is an AssertionError."""
    generator, done, names = random.Random(seed), Counter[str](), tuple(CASES)
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            home = Path(folder) / name
            home.mkdir()
            start = begun(drive, home, look=False, **{"population": MICRODATA, **CASES[name]})
            for kill in range(number, kills, len(names)):
                copy = start.copy(home / f"kill-{kill}")
                line = generator.randrange(1, start.lines + 1)
                ended = drive(copy, line=line)["ended"]
                assert ended == "killed", (name, line, ended)
                assert unpaid(copy) == [], (name, line)
                while generator.random() < 0.3:  # some are killed again and again
                    drive(copy, line=generator.randrange(1, start.lines + 1))
                ended = drive(copy)["ended"]
                assert ended == "finished", (name, line, ended)
                assert faults(copy, start.whole) == [], (name, line)
                shutil.rmtree(copy)
                done[name] += 1
    return done


COMPARED = ["--methods", "person-swapping,suppression,cell-key", "--replicates", "1"]
ONE_LEVEL = MICRODATA.replace('["county", "tract"]', '["tract"]').replace(
    'units = "tracts.csv"', ""
)
FILES = {"two levels": MICRODATA, "one level": ONE_LEVEL}


@dataclass(frozen=True)
class Compared:
    """A folder with a file to compare methods on, and one for temporary files beside it."""

    home: Path
    temporary: Path

    @classmethod
    def of(cls, folder: Path, population: str) -> Compared:
        made = cls(folder / "home", folder / "tmp")
        for one in (folder, made.home, made.temporary):
            one.mkdir()
        write_town(made.home)
        write_config(made.home, population=population)
        return made

    def start(self) -> subprocess.Popen[str]:
        """``headcount compare`` as a shell starts it."""
        return subprocess.Popen(
            python_command("headcount", "compare", "config.toml", "--epsilon", "1", *COMPARED),
            cwd=self.home,
            env={**environment(), "TMPDIR": str(self.temporary)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def outside(self) -> list[str]:
        """Files that are neither the input nor in a folder of the comparison."""
        own = self.home / "comparisons"
        given = {self.home / name for name in ("people.csv", "tracts.csv", "config.toml")}
        found = [path for place in (self.home, self.temporary) for path in place.rglob("*")]
        kept = (own, own / "config", own / "config.cache")
        return [
            str(path.relative_to(self.home.parent))
            for path in found
            if path not in given and path not in kept and not set(kept[1:]) & {*path.parents}
        ]

    def left(self) -> list[str]:
        """Folders in which the curator's files of a case were, and all that others may read."""
        kept = self.home / "comparisons" / "config.cache"
        found = [path.name for path in kept.glob("handed-*")]
        strangers = [p for p in kept.rglob("*") if p.stat().st_mode & 0o077]
        return found + [f"{path.name} is open to others" for path in strangers]

    def finish(self) -> None:
        """The same command, to its end."""
        with self.start() as process:
            _, said = process.communicate()
        assert process.returncode == 0, said

    def refuse_difference(self, whole: Compared) -> None:
        """A comparison that is done has the tables of one that was never killed, and no more."""
        assert self.outside() == self.left() == [], (self.outside(), self.left())
        assert self.tables() == whole.tables()

    def tables(self) -> dict[str, bytes]:
        """What was found."""
        folder = self.home / "comparisons" / "config" / "internal" / "tables"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def kill_comparisons(kills: int, *, seed: int, say: Callable[[str], object]) -> Counter[str]:
    """Kill comparisons of each file, go on with the same command, and kill that again.

    One that is done before it is killed is compared with an undisturbed one, and another is begun.
    Any fault is an AssertionError.
    """
    generator, done = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for name, population in FILES.items():
            whole = Compared.of(Path(folder) / f"{name}-whole", population)
            began = monotonic()
            whole.finish()
            lasts = monotonic() - began
            numbers = count()
            one = Compared.of(Path(folder) / f"{name}-{next(numbers)}", population)
            killed = 0
            while killed < kills // len(FILES):
                how = generator.choice([signal.SIGTERM, signal.SIGKILL])
                with one.start() as process:
                    try:
                        process.wait(generator.uniform(0, lasts))
                    except subprocess.TimeoutExpired:
                        process.send_signal(how)
                    _, said = process.communicate()
                if process.returncode == 0:  # it was done before
                    one.refuse_difference(whole)
                    one = Compared.of(Path(folder) / f"{name}-{next(numbers)}", population)
                    continue
                at = f"{name}, {how.name}, ended with {process.returncode}"
                # Before headcount itself has begun, Python ends as by any signal.
                assert process.returncode in (-how, 128 + how), (at, said)
                assert one.outside() == [], (at, one.outside())
                left = one.left()
                assert how is signal.SIGKILL or left == [], (at, left)
                say(f"{at}: left in its own cache: {', '.join(left) or 'nothing'}\n")
                done[f"{name}, {how.name}"] += 1
                killed += 1
            one.finish()
            one.refuse_difference(whole)
            say("".join(f"  {line}\n" for line in listing(one)))
    return done


def listing(one: Compared) -> list[str]:
    """Every file and folder with its mode, figures and tables as how many there are."""
    top = one.home.parent
    lines = []
    for path in sorted(top.rglob("*")):
        if path.parent.name in ("tables", "figures"):
            continue
        inside = sum(1 for _ in path.iterdir()) if path.is_dir() else 0
        mode = stat.S_IMODE(path.stat().st_mode)
        lines.append(
            f"{mode:04o} {path.relative_to(top)}{f'/ ({inside})' if path.is_dir() else ''}"
        )
    return lines


def main() -> None:
    """Kill many runs and print how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--comparisons", action="store_true")
    chosen = parser.parse_args()
    if chosen.comparisons:
        found = kill_comparisons(chosen.kills, seed=chosen.seed, say=sys.stdout.write)
        for how, number in sorted(found.items()):
            sys.stdout.write(f"{how}: {number} resumed: same tables, nothing outside\n")
        sys.stdout.write(f"{sum(found.values())} kills, 0 faults\n")
        return
    drive = Driver()
    done = kill_runs(drive, chosen.kills, seed=chosen.seed)
    drive.close()
    for name, number in done.items():
        sys.stdout.write(f"{name:12} {number} resumed: one entry, same release, no key\n")
    sys.stdout.write(f"{sum(done.values())} kills, 0 faults\n")


if __name__ == "__main__":
    main()
