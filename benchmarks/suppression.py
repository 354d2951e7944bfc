"""How much does complementary suppression withhold, how fast, and is every small count safe?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import numpy as np

from benchmarks.figures import Reading, timed
from benchmarks.suppression_workloads import census_tables, folder_tables
from headcount.arrays import Flags
from headcount.evaluation.suppressed import (
    WITNESSES,
    WitnessAudit,
    audit_release,
    check_witnesses,
)
from headcount.mechanisms import Context, protect
from headcount.mechanisms.suppression.complementary import Pattern, complement
from headcount.mechanisms.suppression.mechanism import Suppression
from headcount.population.from_households import to_population
from headcount.population.towns import towns
from headcount.schema import load_schema
from headcount.tabulate import Tabulated
from tests.support.additive_tables import AdditiveTable, random_table, small_table
from tests.support.suppression_exact import cheapest_pattern
from tests.support.suppression_oracle import unprotected
from tests.support.withheld_audit import Attacker, audit_withheld

EFFORTS = (0, 1, 2)
LARGE = 50_000  # cells from which one effort is run and a sample attacked
SAMPLE = 200
SMALL_TABLES = 100
RANDOM_TABLES = 150
PEOPLE = 40_000
PUBLISHED = (
    (("P1", "P2", "P3", "P4"), "tract", 1),
    (("P12",), "tract", 1),
    (("P1", "P2", "P3", "P4"), "block", 0),
    (("P12",), "block", 0),
)
"""Published tables, the lowest level and the effort."""
QUICK = {"largest": 10_000, "people": 4_000, "tables": 3}


def measure(
    directory: Path | None = None,
    *,
    largest: int | None = None,
    people: int | None = None,
    tables: int | None = None,
) -> list[Reading]:
    """Patterns of census-like tables with their audits, and small tables beside the optimum.

    Counts of 1 or 2 are primary, zeros and the grand total of these tables are never withheld,
    all margins are published. Tables are the project's own or, with a directory, those in it;
    then published tables of a made-up state, of which every total may be withheld.

    where
        largest   the most cells of a census-like table; larger ones are left out
        people    of the made-up state
        tables    how many small and how many random ones
    """
    given = census_tables() if directory is None else folder_tables(directory)
    readings: list[Reading] = []
    seconds: list[tuple[int, float]] = []
    for table in given:
        if largest is not None and table.additive.size > largest:
            continue
        small = table.additive.size < LARGE
        for effort in EFFORTS if small else EFFORTS[:1]:
            found, cpu = _one(table, effort)
            readings += found
            if effort == 0:
                seconds.append((table.additive.size, cpu))
    return [
        *readings,
        *_growth(seconds),
        *_published(people or PEOPLE),
        *_random(tables or RANDOM_TABLES),
        *_beside_optimum(tables or SMALL_TABLES),
        *_holes(tables or SMALL_TABLES),
    ]


def _protect(table: AdditiveTable, effort: int) -> Pattern:
    return complement(
        table.additive, table.values, table.primary, publish=table.publish, effort=effort
    )


def _witnessed(table: AdditiveTable, pattern: Pattern, withheld: Flags) -> WitnessAudit:
    return check_witnesses(
        table.additive,
        table.values,
        withheld=withheld,
        primary=pattern.primary,
        witnesses=pattern.witnesses,
    )


def _one(table: AdditiveTable, effort: int) -> tuple[list[Reading], float]:
    pattern, wall, cpu = timed(lambda: _protect(table, effort))
    shown, _, checking = timed(lambda: _witnessed(table, pattern, pattern.withheld))
    sample = SAMPLE if table.additive.size >= LARGE else None
    attack, _, spent = timed(
        lambda: audit_withheld(
            table.additive,
            table.values,
            withheld=pattern.withheld,
            primary=pattern.primary,
            sample=sample,
        )
    )
    people = int(table.values[pattern.withheld].sum())
    name = f"{table.name}, effort {effort}"
    return [
        Reading(
            f"{name}: withheld",
            float(pattern.withheld.sum()),
            "cells",
            f"of {table.additive.size:,}; {pattern.primary.sum():,} primary, "
            f"{len(pattern.failed)} not protected, {people:,} people in them",
        ),
        Reading("  time", cpu, "s CPU", f"{wall:,.1f} s wall, one thread"),
        Reading(
            "  small counts without witnesses",
            float(len(shown.unprotected) + len(shown.wrong) + len(shown.idle)),
            "cells",
            f"{shown}; {checking:.1f} s CPU",
        ),
        Reading(
            "  attack: primary narrower than 3, secondary exact",
            float(len(attack.narrow_primary) + len(attack.exact_secondary)),
            "cells",
            f"{attack}; {spent:.1f} s CPU" + (", a sample" if sample else ""),
        ),
    ], cpu


def _published(people: int) -> list[Reading]:
    """Tables as ``headcount protect`` makes them, of ``towns``."""
    schema = load_schema("sex-age38-race7-hispanic")
    data = Tabulated.of(to_population(towns(seed=7, people=people, counties=5), schema=schema))
    return [
        one for names, lowest, effort in PUBLISHED for one in _tables(data, names, lowest, effort)
    ]


def _tables(data: Tabulated, names: tuple[str, ...], lowest: str, effort: int) -> list[Reading]:
    mechanism = Suppression(
        rule="complementary", tables=names, lowest=lowest, effort=effort, audit=SAMPLE
    )
    readings = []
    with TemporaryDirectory() as folder:
        file, context = Path(folder) / WITNESSES, Context(curator=Path(folder))
        release, _, cpu = timed(lambda: protect(data, mechanism, context=context))
        for one in audit_release(data.counts, release, witnesses=file):
            assert one.witnessed is not None  # the complementary rule has witnesses
            readings += [
                Reading(
                    f"{', '.join(one.tables)} by {lowest}, effort {effort}: withheld",
                    float(one.hidden),
                    "cells",
                    f"of {one.cells:,}; {one.primary:,} primary; all in {cpu:.1f} s CPU",
                ),
                Reading(
                    "  small counts without witnesses",
                    float(len(one.witnessed.unprotected)),
                    "cells",
                    f"{one}",
                ),
            ]
    return readings


def _random(number: int) -> list[Reading]:
    """Random tables against an integer program that knows nothing of how they were protected."""
    bare = small = withheld = tops = 0
    for seed in range(number):
        table, member = random_table(seed)
        pattern = complement(table.additive, table.values, table.primary)
        bare += len(unprotected(member, table.values, pattern.withheld, table.primary))
        small += int(table.primary.sum())
        withheld += int(pattern.withheld.sum())
        tops += bool(pattern.withheld[0])
    return [
        Reading(
            f"{number} random tables: small counts unprotected by an integer program",
            float(bare),
            "cells",
            f"of {small:,}; {withheld:,} withheld, the grand total in {tops} tables",
        )
    ]


def _growth(seconds: list[tuple[int, float]]) -> list[Reading]:
    (few, quick), (many, slow) = min(seconds), max(seconds)
    if many < 2 * few:
        return []
    power = np.log(slow / quick) / np.log(many / few)
    return [
        Reading(
            f"growth from {few:,} to {many:,} cells",
            float(power),
            "power of cells",
            f"effort 0, {quick:.1f} to {slow:.1f} s CPU; 1 is proportional",
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
            f"{number} small tables: price above the optimum, mean",
            100 * float(np.mean(above)),
            "%",
            f"default effort {seconds:.1f} s, optimum {exact_seconds:.1f} s CPU in all",
        ),
        Reading(
            "  worst",
            100 * above[worst],
            "%",
            f"{more[worst]:+d} cells there; at most {max(more):+d} cells in any table",
        ),
    ]


def _holes(number: int) -> list[Reading]:
    """Publish one secondary cell of a pattern: do the witnesses that are left say so?"""
    rng = np.random.default_rng(1)
    made = seen = attacked = naive = 0
    for seed in range(number):
        table = small_table(seed)
        pattern = _protect(table, 1)
        secondary = np.flatnonzero(pattern.secondary)
        if not len(secondary):
            continue
        leaky = pattern.withheld.copy()
        leaky[rng.choice(secondary)] = False
        made += 1
        seen += not _witnessed(table, pattern, leaky).clean
        by_rules, by_naive = (
            audit_withheld(
                table.additive, table.values, withheld=leaky, primary=pattern.primary, attacker=who
            ).clean
            for who in get_args(Attacker)
        )
        attacked, naive = attacked + (not by_rules), naive + (not by_naive)
    return [
        Reading(
            "holes made on purpose that the audit finds",
            100 * seen / made,
            "%",
            f"{seen} of {made} patterns with one secondary cell published; linear programs "
            f"find {attacked}, those of a naive attacker, for whom a withheld cell may be 0, "
            f"{naive}",
        )
    ]
