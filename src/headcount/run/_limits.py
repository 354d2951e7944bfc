"""What a run needs of the machine, known before any loss is recorded.

An estimate from above of the tables that are held whole; the rest is small beside them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from headcount.errors import ConfigError
from headcount.mechanisms import Chain, Measured
from headcount.memory import gib, memory_limit
from headcount.noise.keyed import served_by
from headcount.release.layout import FileLayout
from headcount.tabulate import Counts

COST = {"table": 2e-8, "slow": 3e-3}
"""Seconds for one draw, as measured on one core of an ordinary machine."""
DAY = 86_400
MOST_SECONDS = 7 * DAY
"""Nobody waits for more, and a run that is given up has spent its loss."""


def refuse_too_large(mechanism: Chain, counts: Counts, *, out: Path, layout: FileLayout) -> None:
    """Refuse tables beyond this machine's memory, and files beyond its disk."""
    schema, geography = counts.schema, counts.geography
    free = shutil.disk_usage(_existing(out)).free
    if (text := layout.least_bytes(schema, geography)) > free:
        raise ConfigError(
            "run",
            place="format",
            found=f"text files that take {gib(text)} or more",
            expected=f"at most the {gib(free)} that are free beside {out}; or Parquet alone",
        )
    tables = mechanism.table_bytes(schema, geography)
    if tables > (most := memory_limit()):
        raise ConfigError(
            mechanism.name,
            place="memory",
            found=f"tables that need up to {gib(tables)} at once",
            expected=f"at most the {gib(most)} of this machine; fewer cells or units, or another "
            f"mechanism (tables of topdown are sparse)",
        )
    pooling = mechanism.pooling(schema, geography)
    if pooling is not None and pooling.bytes > free:
        raise ConfigError(
            mechanism.name,
            place="pool",
            found=f"{gib(pooling.bytes)} of pooled answers ({pooling.words})",
            expected=f"at most the {gib(free)} that are free beside {out}; or pool_from a higher "
            "level",
        )
    plan = mechanism.plan(schema, geography)
    if (seconds := draw_seconds(plan)) > MOST_SECONDS:
        raise ConfigError(
            mechanism.name,
            place="noise",
            found=f"draws that take about {seconds / DAY:,.0f} days (laws of a very large scale "
            "are drawn one by one)",
            expected=f"at most {MOST_SECONDS // DAY} days: fewer draws, or a larger loss",
        )


def draw_seconds(plan: Sequence[Measured]) -> float:
    """Roughly how long the draws of a plan take on one core."""
    return sum(one.entries * one.draws * COST[served_by(one.law)] for one in plan)


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.absolute().parents) if one.exists())
