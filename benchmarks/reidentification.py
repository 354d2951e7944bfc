"""Who of everyone on workload S is re-identified, how fast, and how does guessing do?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

import polars as pl

from benchmarks.figures import Reading, timed
from headcount.attacks.records import Features, Records, records_of
from headcount.attacks.reidentification import KnownPeople, Putative, reidentify
from headcount.evaluation.reidentified import (
    ALL,
    MODAL,
    PROPORTIONAL,
    RECORDS,
    agreement,
    commercial_attacker,
    perfect_attacker,
    reidentified,
    true_records,
)
from headcount.geography import Geography
from headcount.mechanisms import protect
from headcount.mechanisms.swapping.mechanism import HouseholdSwapping
from headcount.noise import KeyedNoise, RunKey
from headcount.population.from_households import to_population
from headcount.tabulate import Tabulated
from headcount_papers.workload_s import workload_s

SCHEMA_ATTRIBUTES = ("sex", "age", "race", "hispanic")
SEED = 1

QUICK = {"households": 20_000, "replicates": 2}


def measure(households: int = 1_000_000, replicates: int = 10) -> list[Reading]:
    """Match and score everyone; then the same against records after swapping (LO and HI).

    The reconstruction is taken as perfect, so that swapping alone makes the difference.
    """
    people = to_population(workload_s(households=households), SCHEMA_ATTRIBUTES)
    tree = people.geography
    truth = true_records(people, Features.of(people.schema))
    attackers = [perfect_attacker(truth), commercial_attacker(truth, geography=tree, seed=SEED)]
    next(reidentify(attackers[0], truth, orders=1))  # compiles
    readings = [_matching(attackers[0], truth, orders) for orders in (1, replicates)]
    data = Tabulated.of(people)
    blocks = tree.size(tree.leaf)
    for method in ("none", "lo", "hi"):
        records = truth
        if method != "none":
            mechanism = HouseholdSwapping.from_preset(method)
            noise = KeyedNoise(RunKey.from_seed(SEED), mechanism.name, bytes(32), bytes(32))
            released = protect(data, mechanism, noise).table(tree.leaf)
            records = records_of(released, truth.features)
        same = agreement(records, truth, blocks=blocks).row(0, named=True)  # all blocks
        readings.append(
            Reading(
                f"{method}: binned agreement",
                100 * same["binned"] / same["people"],
                "%",
                f"exact {100 * same['exact'] / same['people']:.1f} %",
            )
        )
        for known in attackers:
            readings += _scored(method, records, known, truth, tree, replicates)
    return readings


def _matching(known: KnownPeople, records: Records, orders: int) -> Reading:
    matches: Iterator[Putative]

    def work() -> int:
        return sum(int(one.matched.sum()) for one in islice(matches, orders))

    matches = reidentify(known, records, orders=orders)
    found, _, cpu = timed(work)
    return Reading(
        f"matching, {orders} order{'s' if orders > 1 else ''} of ties",
        cpu,
        "CPU s",
        f"{len(known):,} people, {len(records):,} records, {found // orders:,} matched",
    )


def _scored(
    method: str, records: Records, known: KnownPeople, truth: Records, tree: Geography, orders: int
) -> list[Reading]:
    work = partial(reidentified, records, known, truth, geography=tree, orders=orders)
    table, _, cpu = timed(work)
    readings = [Reading(f"{method}, {known.name}: matched and scored {orders} times", cpu, "CPU s")]
    for universe in (ALL, "nonmodal unique"):
        row = _row(table, universe, RECORDS)
        beside = ", ".join(
            f"{by} {100 * _row(table, universe, by)['precision']:.1f} %"
            for by in (MODAL, PROPORTIONAL)
        )
        readings.append(
            Reading(
                f"{method}, {known.name}, {universe}: precision",
                100 * row["precision"],
                "%",
                f"{100 * row['precision_low']:.2f} to {100 * row['precision_high']:.2f}; {beside}",
            )
        )
    return readings


def _row(table: pl.DataFrame, universe: str, by: str) -> dict[str, float]:
    return table.filter(universe=universe, by=by).row(0, named=True)
