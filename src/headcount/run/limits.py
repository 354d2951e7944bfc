"""What a run will take of the machine, known before any loss is recorded.

An estimate from above of the tables that are held whole; the rest is small beside them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from headcount.errors import ConfigError
from headcount.mechanisms import Averaged, Geometric, Identity, Mechanism, Raked
from headcount.mechanisms._measured import Measured
from headcount.mechanisms.histogram import Histogram
from headcount.mechanisms.topdown.mechanism import TopDown
from headcount.mechanisms.topdown.settings import TopDownSettings
from headcount.memory import gib, memory_limit
from headcount.noise.keyed import served_by
from headcount.tabulate import CELLS, Counts

SCALAR = 8
"""Bytes of a count, and of a draw."""
COPIES = 8
"""Whole tables held at once, at most: truth, noise, answers, a copy by column, two of the file."""
COST = {"table": 2e-8, "slow": 3e-3, "opendp": 3e-5}
"""Seconds for one draw, as measured on one core of an ordinary machine."""
DAY = 86_400
MOST_SECONDS = 7 * DAY
"""Nobody waits for more, and a run that is given up has spent its loss."""


def refuse_too_large(mechanism: Mechanism, counts: Counts, *, backend: str, out: Path) -> None:
    """Refuse tables beyond this machine's memory, and recorded noise beyond its disk."""
    tables = table_bytes(mechanism, counts, backend=backend)
    if tables > (most := memory_limit()):
        raise ConfigError(
            mechanism.name, place="memory",
            found=f"tables that need up to {gib(tables)} at once",
            expected=f"at most the {gib(most)} of this machine; fewer cells or units, or another "
            f"mechanism (tables of topdown are sparse)",
        )  # fmt: skip
    plan = mechanism.plan(counts.schema, counts.geography)
    if (seconds := draw_seconds(plan, backend=backend)) > MOST_SECONDS:
        raise ConfigError(
            mechanism.name, place="noise",
            found=f"draws that take about {seconds / DAY:,.0f} days (laws of a very large scale "
            "are drawn one by one)",
            expected=f"at most {MOST_SECONDS // DAY} days: fewer draws, or a larger loss",
        )  # fmt: skip
    if backend != "opendp":
        return
    noise, free = recorded_bytes(mechanism, counts), shutil.disk_usage(_existing(out)).free
    if noise > free:
        raise ConfigError(
            mechanism.name, place="run.noise",
            found=f"{gib(noise)} of noise to record before use, as 'opendp' needs",
            expected=f"at most the {gib(free)} that are free beside {out}, or 'table'",
        )  # fmt: skip


def draw_seconds(plan: Sequence[Measured], *, backend: str) -> float:
    """Roughly how long the draws of a plan take on one core."""
    return sum(
        one.entries * one.draws * COST[backend if backend == "opendp" else served_by(one.law)]
        for one in plan
    )


def table_bytes(mechanism: Mechanism, counts: Counts, *, backend: str) -> int:
    """Bytes of the tables that a mechanism holds whole."""
    geography, cells = counts.geography, counts.schema.size
    if isinstance(mechanism, Raked):
        units = sum(geography.size(level) for level in geography.levels)
        return units * cells * SCALAR * COPIES
    if isinstance(mechanism, Identity | Geometric | Averaged | Histogram):
        return geography.size(geography.leaf) * cells * SCALAR * COPIES
    if isinstance(mechanism, TopDown):
        # Marginals are dense; cells are drawn where they are asked for, unless they are recorded.
        whole = _topdown_streams(mechanism, counts, cells=backend == "opendp")
        return max(whole, default=0) * SCALAR * COPIES
    return 0


def recorded_bytes(mechanism: Mechanism, counts: Counts) -> int:
    """Bytes of all draws of a run together."""
    if isinstance(mechanism, TopDown):
        return sum(_topdown_streams(mechanism, counts, cells=True)) * SCALAR
    plan = mechanism.plan(counts.schema, counts.geography)
    sizes = {level: counts.geography.size(level) for level in counts.geography.levels}
    return sum(sizes[one.level] * counts.schema.size * one.draws * SCALAR for one in plan)


def _topdown_streams(settings: TopDownSettings, counts: Counts, *, cells: bool) -> Iterable[int]:
    """Scalars in each stream of TopDown."""
    schema, geography = counts.schema, counts.geography
    for level, query in settings.allocation(geography).measured:
        if query != CELLS:
            yield geography.size(level) * settings.query(query).size(schema)
        elif cells:
            yield geography.size(level) * schema.size


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.absolute().parents) if one.exists())
