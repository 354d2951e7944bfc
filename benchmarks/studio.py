"""How long does somebody wait for the studio: its first page, and the plan when the dial moves?

The studio is started as by hand, on a folder with a table of counts as large as that of the
precincts of the United States: made up, or the file itself with ``--dir``. Pages are asked for as a
browser asks, without the time that a browser needs to show them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from urllib.parse import urlencode, urlsplit

import numpy as np
import polars as pl

from benchmarks.figures import Reading
from headcount.errors import RunError
from headcount.init import Told, draft, write_draft

FILE = "us_precincts_2020.parquet"
PRECINCTS, COUNTIES, STATES = 171_782, 3_049, 49
GROUPS = ("hisp", "white", "black", "aian", "asian", "nhpi", "other", "two")
QUICK = {"share": 0.05, "replicates": 5}
FIRST_PAGE, MOVED_DIAL = 2.0, 0.5
"""Limits in seconds."""


def measure(
    directory: Path | None = None, *, share: float = 1.0, replicates: int = 20
) -> list[Reading]:
    """Seconds of the first page of a fresh process, of the first plan, and of moves of the dial."""
    with TemporaryDirectory(prefix="headcount-bench-") as made:
        folder = Path(made)
        if directory is None:
            precincts(share).write_parquet(folder / FILE)
        else:
            shutil.copy(directory / FILE, folder / FILE)
        # Nothing adds its groups up, so that somebody must say that nobody is in two of them.
        write_draft(draft(folder / FILE, told=Told(kind="wide")), folder / "precincts.toml")
        begun = perf_counter()
        with started(folder) as studio:
            studio.get("/")
            first = perf_counter() - begun
            plan = studio.seconds("/plan", config="precincts.toml")
            asked = {"config": "precincts.toml", "moved": "dial"}
            moves = [
                studio.seconds("/plan/preview", dial=str(20 + 80 * one // replicates), **asked)
                for one in range(replicates)
            ]
    rows = f"{round(PRECINCTS * share):,} precincts" if directory is None else FILE
    return [
        Reading("first page, from the start of the command", first, "s", rows, at_most=FIRST_PAGE),
        Reading("plan, when it is first opened", plan, "s", "the list of places is read"),
        Reading("dial moved: median", median(moves), "s", f"of {replicates}", at_most=MOVED_DIAL),
        Reading("dial moved: longest", max(moves), "s", at_most=MOVED_DIAL),
    ]


def precincts(share: float) -> pl.DataFrame:
    """A made-up table like that of the precincts of 2020."""
    number = round(PRECINCTS * share)
    county = np.sort(np.random.default_rng(2020).integers(0, COUNTIES, number))
    codes = [f"{one * STATES // COUNTIES:02}{one:04}" for one in county.tolist()]
    counts = np.random.default_rng(94).poisson(100, (number, 2 * len(GROUPS)))
    names = [f"{group}_{age}" for group in GROUPS for age in ("minor", "adult")]
    places = {
        "unit": [f"{code}-{row}" for row, code in enumerate(codes)],
        "state": [code[:2] for code in codes],
        "county": codes,
    }
    return pl.DataFrame(places | {name: counts[:, at] for at, name in enumerate(names)})


@dataclass(frozen=True)
class Asking:
    """Somebody with the cookie of a studio, at its secret place."""

    host: str
    place: str
    cookie: str

    def get(self, path: str, **query: str) -> str:
        """A page."""
        asked = f"?{urlencode(query)}" if query else ""
        text, _ = _asked(self.host, f"{self.place}{path}{asked}", {"Cookie": self.cookie})
        return text

    def seconds(self, path: str, **query: str) -> float:
        """How long a page takes."""
        begun = perf_counter()
        self.get(path, **query)
        return perf_counter() - begun


@contextmanager
def started(folder: Path) -> Iterator[Asking]:
    """A studio in a process of its own, entered by the address that it prints."""
    command = [sys.executable, "-uP", "-m", "headcount", "studio", str(folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if not (found := re.search(r"http://\S+", said)):
                raise RunError(f"headcount studio: found {said!r}, expected its address")
            address = urlsplit(found[0])
            entered, headers = _asked(address.netloc, f"{address.path}?{address.query}", {})
            place = re.search(r'href="(/[^/"]+)/"', entered)
            if place is None:
                raise RunError("headcount studio: found no way in, expected a link")
            yield Asking(address.netloc, place[1], headers["set-cookie"].partition(";")[0])
        finally:
            process.terminate()


def _asked(host: str, target: str, more: dict[str, str]) -> tuple[str, dict[str, str]]:
    connection = HTTPConnection(host, timeout=120)
    try:
        connection.request("GET", target, headers=more)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200 or 'role="alert"' in text:
            raise RunError(f"headcount studio: found status {answer.status}, expected a page")
        return text, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()
