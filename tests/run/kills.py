"""Kill -9 at random moments, over five mechanisms: one entry, the same release, no key left.

python -m tests.run.kills 300 --seed 1
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.run.test_crash import OPENDP, TOPDOWN, Driver, begun, faults, unpaid
from tests.run.town import MICRODATA

TOWNS = 'kind = "towns"\npeople = 1500\nattributes = ["race", "hispanic", "age"]'
CASES: dict[str, dict[str, str]] = {
    "geometric": {"mechanism": 'name = "geometric"\nepsilon = 0.5'},
    "topdown": {"mechanism": TOPDOWN},
    # Before OpenDP has drawn everything a resumed run draws the rest anew: compared from there on.
    "averaged": {
        "mechanism": 'name = "averaged"\nepsilon = 0.5',
        "run": OPENDP,
        "at": "write_release",
    },
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
            start = begun(drive, home, **{"population": MICRODATA, **CASES[name]})
            for kill in range(number, kills, len(names)):
                copy = start.copy(f"kill-{kill}")
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


def main() -> None:
    """Kill many runs and print how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    drive = Driver()
    done = kill_runs(drive, chosen.kills, seed=chosen.seed)
    drive.close()
    for name, number in done.items():
        sys.stdout.write(f"{name:12} {number} resumed: one entry, same release, no key\n")
    sys.stdout.write(f"{sum(done.values())} kills, 0 faults\n")


if __name__ == "__main__":
    main()
