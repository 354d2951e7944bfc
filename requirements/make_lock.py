"""Turn pip's installation report into the lock file: one exact version per line.

Run by ``make lock``. The lock is used as a constraints file, so one file serves every extra and
each install takes from it only what it needs. It carries no hashes: pip reports the hash of the
one wheel that fits this machine, and such a lock would refuse every other platform and Python.
"""

import json
import re
import sys
from pathlib import Path

HEADER = """\
# Exact versions of everything headcount may install, all extras together. Made by `make lock`;
# do not edit. Used as a constraints file: pip install -c requirements/lock.txt '.[dev]'
"""


def main(report: Path) -> None:
    """Write the lock to standard output, sorted by normalised project name."""
    resolved = json.loads(report.read_text())["install"]
    pins = {
        re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): item["metadata"]["version"]
        for item in resolved
    }
    pins.pop("headcount", None)
    sys.stdout.write(HEADER + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
