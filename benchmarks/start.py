"""How long does a person wait before anything happens: import and --help?"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from statistics import median

from benchmarks.figures import Reading, timed

COMMANDS = {
    "python alone": [sys.executable, "-P", "-c", "pass"],
    "import headcount": [sys.executable, "-P", "-c", "import headcount"],
    "headcount --help": [sys.executable, "-P", "-m", "headcount", "--help"],
}

QUICK = {"repeats": 3}


def measure(*, repeats: int = 7) -> list[Reading]:
    """Median wall seconds of each command over several fresh processes."""
    readings = []
    for name, command in COMMANDS.items():
        run = partial(subprocess.run, command, check=True, capture_output=True)
        seconds = [timed(run)[1] for _ in range(repeats)]
        note = f"median of {repeats} processes"
        readings.append(Reading(name, median(seconds), "s", note))
    return readings
