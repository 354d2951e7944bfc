"""What do ``init`` and ``check`` of a large file take, beside reading and counting it by polars?"""

from __future__ import annotations

import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import polars as pl

from benchmarks.figures import Reading, apart, peak_gib
from headcount.errors import ConfigError

SEED, PEOPLE, BLOCKS = 7, 3_000_000, 60_000
MOST_TIMES, MOST_GIB = 3, 1
"""Limits for all people: CPU in times that of polars, and memory of a command."""

SHEETS, MOST_SECONDS = 200, 120
"""Tables of a folder, and the CPU seconds that looking at all of them may take."""

QUICK = {"share": 0.01}


def measure(*, share: float = 1) -> list[Reading]:
    """Made-up people in blocks, one row each and nearly all different; then a folder of tables.

    Polars reads all columns as text and counts how often each row is there. Each is a process of
    its own; CPU seconds are those of its threads and imports too.
    """
    if not 0.001 <= share <= 1:
        raise ConfigError(
            "benchmarks reading",
            place="--share",
            found=str(share),
            expected="the part of 3 million people to make, 0.001 to 1",
        )
    with TemporaryDirectory() as folder:
        path, config = Path(folder) / "people.csv", Path(folder) / "people.toml"
        people = apart(write_people, path, share)
        size = path.stat().st_size / 2**20
        plain, most = apart(count_plainly, path)
        took = {
            "init": apart(run_commands, [["init", str(path), "--yes", "--out", str(config)]]),
            "check": apart(run_commands, [["check", str(config)]]),
        }
        tables = apart(write_tables, Path(folder), max(round(SHEETS * share), 2))
        each = [["init", one, "--yes", "--out", f"{one}.toml"] for one in tables]
        seconds, _ = apart(run_commands, each)
    whole = share == 1
    found = [Reading("polars", plain, "s CPU", f"{people:,} rows, {size:,.0f} MiB, {most:.2f} GiB")]
    for name, (cpu, peak) in took.items():
        found += [
            Reading(name, cpu, "s CPU"),
            Reading("  of polars", cpu / plain, "times", at_most=MOST_TIMES if whole else None),
            Reading("  peak memory", peak, "GiB", at_most=MOST_GIB if whole else None),
        ]
    note = f"{len(tables)} tables, one after the other"
    return [*found, Reading("init of a folder", seconds, "s CPU", note, at_most=MOST_SECONDS)]


def write_people(path: Path, share: float) -> int:
    """Write people with a number of their own and an income; return how many."""
    dice, rows = np.random.default_rng(SEED), round(PEOPLE * share)
    block = np.sort(dice.integers(0, max(round(BLOCKS * share), 2), rows))
    code = 440010000001000 + block // 60 * 10_000 + block % 60  # state, county, tract, block

    def one_of(*names: str) -> pl.Series:
        return pl.Series(names).gather(dice.integers(0, len(names), rows))

    frame = {
        "record": pl.Series(range(rows)).cast(pl.String).str.zfill(9),
        "geoid": pl.Series(code).cast(pl.String),
        "age": dice.integers(0, 100, rows),
        "sex": one_of("male", "female"),
        "race": one_of("white", "black", "asian", "native", "islander", "other"),
        "hispanic": one_of("yes", "no"),
        "income": dice.integers(0, 150_000, rows),
    }
    pl.DataFrame(frame).write_csv(path)
    return rows


def write_tables(folder: Path, tables: int) -> list[str]:
    """Write counts of men, women and all in 20 counties, by three ages, many times."""
    dice, found = np.random.default_rng(SEED), []
    for number in range(tables):
        lines = ["county,age,sex,people"]
        for place in range(20):
            for age in ("0-17", "18-64", "65+"):
                men, women = (int(one) for one in dice.integers(100, 10_000, 2))
                counts = {"male": men, "female": women, "total": men + women}
                lines += [f"{number:03}{place:02},{age},{sex},{n}" for sex, n in counts.items()]
        path = folder / f"area_{number:03}.csv"
        path.write_text("\n".join(lines) + "\n")
        found.append(str(path))
    return found


def count_plainly(path: Path) -> tuple[float, float]:
    """CPU seconds and peak GiB of polars."""
    counted = pl.read_csv(path, infer_schema=False).group_by(pl.all()).len()
    assert counted["len"].sum() > 0
    return process_time(), peak_gib()


def run_commands(commands: list[list[str]]) -> tuple[float, float]:
    """CPU seconds and peak GiB of this process and some commands in it."""
    from headcount.cli.app import app

    for one in commands:
        with redirect_stdout(StringIO()):
            app(one, standalone_mode=False)
    return sum(os.times()[:4]), peak_gib()
