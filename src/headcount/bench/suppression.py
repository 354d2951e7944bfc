"""How much does complementary suppression withhold, how fast, and does the audit see holes?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from headcount.bench.figures import Reading, timed
from headcount.bench.suppression_workloads import (
    Table,
    census_tables,
    folder_tables,
    small_table,
)
from headcount.evaluate.withheld import audit_withheld
from headcount.mechanisms.suppression.complementary import Pattern, complement
from headcount.mechanisms.suppression.exact import cheapest_pattern

EFFORTS = (0, 1, 2)
LARGE = 50_000  # cells from which one effort is run and a sample audited
SAMPLE = 200
SMALL_TABLES = 100


def measure(directory: Path | None = None) -> list[Reading]:
    """Patterns of census-like tables with their audit, and small tables beside the optimum.

    Counts of 1 or 2 are primary, zeros and the grand total are never withheld, all margins are
    published. Tables are the project's own or, with a directory, those in it.
    """
    tables = census_tables() if directory is None else folder_tables(directory)
    readings: list[Reading] = []
    seconds: list[tuple[int, float]] = []
    for table in tables:
        small = table.additive.size < LARGE
        for effort in EFFORTS if small else EFFORTS[:1]:
            found, cpu = _one(table, effort)
            readings += found
            if effort == 0:
                seconds.append((table.additive.size, cpu))
    return [*readings, *_growth(seconds), *_beside_optimum(SMALL_TABLES), *_holes(SMALL_TABLES)]


def _protect(table: Table, effort: int) -> Pattern:
    return complement(
        table.additive, table.values, table.primary, publish=table.publish, effort=effort
    )  # fmt: skip


def _one(table: Table, effort: int) -> tuple[list[Reading], float]:
    pattern, wall, cpu = timed(lambda: _protect(table, effort))
    sample = SAMPLE if table.additive.size >= LARGE else None
    audit, _, spent = timed(
        lambda: audit_withheld(
            table.additive, table.values, withheld=pattern.withheld, primary=pattern.primary,
            sample=sample,
        )
    )  # fmt: skip
    people = int(table.values[pattern.withheld].sum())
    name = f"{table.name}, effort {effort}"
    return [
        Reading(
            what=f"{name}: withheld",
            value=float(pattern.withheld.sum()),
            unit="cells",
            note=f"of {table.additive.size:,}; {pattern.primary.sum():,} primary, "
            f"{len(pattern.failed)} not protected, {people:,} people in them",
        ),
        Reading(what="  time", value=cpu, unit="s CPU", note=f"{wall:,.1f} s wall, one thread"),
        Reading(
            what="  audit: primary narrower than 3, secondary exact",
            value=float(len(audit.narrow_primary) + len(audit.exact_secondary)),
            unit="cells",
            note=f"{audit}; {spent:.1f} s CPU" + (", a sample" if sample else ""),
        ),
    ], cpu


def _growth(seconds: list[tuple[int, float]]) -> list[Reading]:
    (few, quick), (many, slow) = min(seconds), max(seconds)
    if many < 2 * few:
        return []
    power = np.log(slow / quick) / np.log(many / few)
    return [
        Reading(
            what=f"growth from {few:,} to {many:,} cells",
            value=float(power),
            unit="power of cells",
            note=f"effort 0, {quick:.1f} to {slow:.1f} s CPU; 1 is proportional",
        )
    ]


def _beside_optimum(number: int) -> list[Reading]:
    """Price of the secondary cells over the least one, where both leave the same cells failed."""
    above, more, seconds, exact_seconds = [], [], 0.0, 0.0
    for seed in range(number):
        table = small_table(seed)
        ours, _, cpu = timed(lambda table=table: _protect(table, 1))  # type: ignore[misc]
        best, _, long = timed(
            lambda table=table: cheapest_pattern(  # type: ignore[misc]
                table.additive, table.values, table.primary, publish=table.publish
            )
        )
        seconds, exact_seconds = seconds + cpu, exact_seconds + long
        above.append(ours.cost / best.cost - 1 if best.cost else float(ours.cost > 0))
        more.append(int(ours.withheld.sum()) - int(best.withheld.sum()))
    worst = int(np.argmax(above))
    return [
        Reading(
            what=f"{number} small tables: price above the optimum, mean",
            value=100 * float(np.mean(above)),
            unit="%",
            note=f"default effort {seconds:.1f} s, optimum {exact_seconds:.1f} s CPU in all",
        ),
        Reading(
            what="  worst",
            value=100 * above[worst],
            unit="%",
            note=f"{more[worst]:+d} cells there; at most {max(more):+d} cells in any table",
        ),
    ]


def _holes(number: int) -> list[Reading]:
    """Publish one secondary cell of a pattern: does the audit see it?"""
    rng = np.random.default_rng(1)
    made = seen = 0
    for seed in range(number):
        table = small_table(seed)
        pattern = _protect(table, 1)
        secondary = np.flatnonzero(pattern.secondary)
        if not len(secondary):
            continue
        leaky = pattern.withheld.copy()
        leaky[rng.choice(secondary)] = False
        made += 1
        seen += not audit_withheld(
            table.additive, table.values, withheld=leaky, primary=pattern.primary
        ).clean
    return [
        Reading(
            what="holes made on purpose that the audit finds",
            value=100 * seen / made,
            unit="%",
            note=f"{seen} of {made} patterns with one secondary cell published",
        )
    ]
