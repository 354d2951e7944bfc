"""How long does a person wait before anything happens: import and --help?"""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from time import perf_counter

from headcount.bench.figures import Reading

COMMANDS = {
    "python alone": [sys.executable, "-c", "pass"],
    "import headcount": [sys.executable, "-c", "import headcount"],
    "headcount --help": [sys.executable, "-m", "headcount", "--help"],
}


def measure(*, repeats: int = 7) -> list[Reading]:
    """Median wall seconds of each command over several fresh processes."""
    readings = []
    for name, command in COMMANDS.items():
        seconds = []
        for _ in range(repeats):
            start = perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(perf_counter() - start)
        note = f"median of {repeats} processes"
        readings.append(Reading(name, median(seconds), "s", note))
    return readings
