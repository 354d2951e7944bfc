"""Which tests take long: they are dealt out first, and ``make test-fast`` leaves them out.

    make test PYTEST_ARGS="--numprocesses 2 --dist loadfile --junitxml=build/junit.xml"
    python -m tests.slow build/junit.xml

writes ``tests/slow.txt`` anew, files of the longest first. A line is a test function, with all its
parameters, or a whole file, where what is slow is prepared once for all of its tests.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_suffix(".txt")
OF_ALL = 1 / 3_000
"""A function is slow from this share of the time of all tests: 0.3 s of 15 minutes."""
OF_FILE = 1 / 900
"""A file that shares what it prepares is slow as a whole from this share."""
SHARED = re.compile(r'scope="(module|session)"')


def listed() -> list[str]:
    """Slow functions and files, those of the longest files first."""
    return LIST.read_text(encoding="utf-8").split()


def slow_tests(junit: str) -> list[str]:
    """The list for the times of a whole run."""
    files: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for case in ET.fromstring(junit).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        files[file][case.attrib["name"].split("[")[0]] += float(case.attrib["time"])
    took = {file: sum(functions.values()) for file, functions in files.items()}
    total = sum(took.values())
    found: list[str] = []
    for file in sorted(files, key=took.__getitem__, reverse=True):
        text = (ROOT / file).read_text(encoding="utf-8")
        if took[file] > OF_FILE * total and SHARED.search(text):
            found.append(file)
        else:
            found += [f"{file}::{name}" for name, t in files[file].items() if t > OF_ALL * total]
    return found


if __name__ == "__main__":
    LIST.write_text("\n".join(slow_tests(Path(sys.argv[1]).read_text("utf-8"))) + "\n", "utf-8")
